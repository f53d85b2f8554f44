import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { GatewayError } from '../../../../src/core/error.ts'
import { RenewingLogin, type Token } from '../../../../src/upstream/oauth/token-endpoint.ts'
import type { HttpAnswer } from '../../../../src/upstream/transport/auth-retry.ts'

beforeEach(() => void vi.useFakeTimers({ toFake: ['Date'], now: 1_000_000 }))
afterEach(() => void vi.useRealTimers())

const refusal: HttpAnswer = {
  status: 401,
  isEventStream: false,
  isComplete: true,
  body: '',
  header: () => undefined,
}

function login(lifetime: number) {
  const asked: (string | undefined)[] = []
  const made = new RenewingLogin(async (refused): Promise<Token> => {
    asked.push(refused)
    return { value: `token-${asked.length}`, expiresAt: Date.now() + lifetime }
  })
  return { login: made, asked }
}

describe('renewal of an access token', () => {
  it('the headers are returned synchronously while the token is valid', async () => {
    const { login: own, asked } = login(600_000)
    await own.headers()
    expect(own.headers()).toEqual({ authorization: 'Bearer token-1' })
    expect(own.headers()).toBe(own.headers())
    expect(asked).toHaveLength(1)
  })

  it('the token is renewed in the background before it expires', async () => {
    const { login: own, asked } = login(600_000)
    await own.headers()
    vi.setSystemTime(1_000_000 + 541_000)
    expect(own.headers()).toEqual({ authorization: 'Bearer token-1' })
    expect(own.headers()).toEqual({ authorization: 'Bearer token-1' })
    await vi.waitFor(() => expect(own.headers()).toEqual({ authorization: 'Bearer token-2' }), 10_000)
    expect(asked).toHaveLength(2)
  })

  it('callers wait for a new token if the old one has expired', async () => {
    const { login: own } = login(10_000)
    await own.headers()
    vi.setSystemTime(1_000_000 + 10_000)
    await expect(own.headers()).resolves.toEqual({ authorization: 'Bearer token-2' })
  })

  it('a refused token is replaced once for concurrent refusals', async () => {
    const { login: own, asked } = login(600_000)
    const sent = await own.headers()
    await expect(Promise.all([own.refused(refusal, sent), own.refused(refusal, sent)])).resolves.toEqual([
      true,
      true,
    ])
    await expect(own.refused(refusal, sent)).resolves.toBe(true)
    expect(asked).toEqual([undefined, 'token-1'])
  })

  it('a 403 does not renew the token', async () => {
    const { login: own, asked } = login(600_000)
    await expect(own.refused({ ...refusal, status: 403 }, await own.headers())).resolves.toBe(false)
    expect(asked).toHaveLength(1)
  })

  it('a failed renewal is not repeated immediately', async () => {
    let asked = 0
    const own = new RenewingLogin(() => {
      asked++
      return Promise.reject(new GatewayError('SERVER_UNAVAILABLE', 'Nothing.'))
    })
    for (let call = 0; call < 3; call++) await expect(own.headers()).rejects.toThrow('Nothing.')
    expect(asked).toBe(1)
    vi.setSystemTime(1_000_000 + 2000)
    await expect(own.headers()).rejects.toThrow('Nothing.')
    expect(asked).toBe(2)
  })
})
