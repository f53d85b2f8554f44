import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { GatewayError } from '../../../../src/core/error.ts'
import type { Principal } from '../../../../src/core/principal.ts'
import { tokenLifetime, Ticker } from '../../../../src/downstream/http/edge.ts'
import { edge } from '../../../support/edge.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

/** A stream of a caller who is asked again after a reload; `onOver` is called when it ends. */
function stream(principal: Principal = { id: 'token:agent' }) {
  const onOver = vi.fn<() => void>()
  const ticker = new Ticker()
  onTestFinished(() => ticker.close())
  const caller = { present: (): Principal | Promise<Principal> => principal }
  const presentCaller = (): Principal | Promise<Principal> => caller.present()
  const lifetime = tokenLifetime({ principal, presentCaller, edge: { ...edge, ticker } }, onOver)
  return { caller, onOver, lifetime, principal }
}

const refused = (code: 'AUTHENTICATION_REQUIRED' | 'SERVER_UNAVAILABLE') => {
  const failed = Promise.reject(new GatewayError(code, 'No.'))
  failed.catch(() => undefined)
  return () => failed
}

describe('an open stream', () => {
  it('stays open while its caller is known, also with other scopes', async () => {
    const { caller, onOver } = stream()
    await vi.advanceTimersByTimeAsync(3_600_000)
    caller.present = () => ({ id: 'token:agent', scopes: new Set(['a']) })
    await vi.advanceTimersByTimeAsync(3_600_000)
    expect(onOver).not.toHaveBeenCalled()
  })

  it('ends a little after its caller was removed, so that its features can say why', async () => {
    const { caller, onOver } = stream()
    await vi.advanceTimersByTimeAsync(10_000)
    caller.present = refused('AUTHENTICATION_REQUIRED')
    await vi.advanceTimersByTimeAsync(2000)
    expect(onOver).not.toHaveBeenCalled()
    await vi.advanceTimersByTimeAsync(3000)
    expect(onOver).toHaveBeenCalledOnce()
  })

  it('stays open while an issuer cannot be reached, and ends once it says no', async () => {
    const { caller, onOver } = stream()
    caller.present = refused('SERVER_UNAVAILABLE')
    await vi.advanceTimersByTimeAsync(60_000)
    expect(onOver).not.toHaveBeenCalled()
    caller.present = refused('AUTHENTICATION_REQUIRED')
    await vi.advanceTimersByTimeAsync(5000)
    expect(onOver).toHaveBeenCalledOnce()
  })

  it('stays open with the credentials of a later request', async () => {
    const { caller, onOver, lifetime, principal } = stream()
    lifetime.extend({ principal })
    caller.present = refused('AUTHENTICATION_REQUIRED')
    await vi.advanceTimersByTimeAsync(60_000)
    expect(onOver).not.toHaveBeenCalled()
  })
})
