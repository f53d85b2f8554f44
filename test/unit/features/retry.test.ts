import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { Call, Handler, Outcome } from '../../../src/core/call.ts'
import type { Descriptor } from '../../../src/core/descriptor.ts'
import { GatewayError } from '../../../src/core/error.ts'
import { Payload } from '../../../src/core/payload.ts'
import type { UpstreamSettings } from '../../../src/core/settings.ts'
import { retry } from '../../../src/features/retry.ts'
import { featureDeps, type ServiceStubs, withTool } from '../../support/feature-deps.ts'
import { toolCall } from '../../support/tool-call.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const unsent = (): GatewayError => new GatewayError('SERVER_UNAVAILABLE', 'away', { isUnsent: true })

interface Given {
  readonly classification?: Partial<Descriptor['classification']>
  /** What the server does, attempt by attempt; it answers in the end. */
  readonly failures: readonly Error[]
  readonly call?: Partial<Call>
  readonly deps?: ServiceStubs
  readonly tools?: object
}

async function outcomeOf({
  classification = { op: 'read' },
  failures,
  call,
  deps,
  tools = {},
}: Given): Promise<{
  readonly attempts: number
  readonly outcome: Outcome | undefined
  readonly error: unknown
}> {
  let attempts = 0
  const end: Handler = async () => {
    const failure = failures[attempts++]
    if (failure) throw failure
    return { kind: 'result', result: Payload.of({}) }
  }
  const entry = {
    classification: { op: 'write', risk: 'reversible', idempotent: false, evidence: [], ...classification },
  } as unknown as Descriptor
  const server = (): UpstreamSettings => ({ tools }) as unknown as UpstreamSettings
  const services = featureDeps({ entry: () => entry, server, ...deps })
  const { middleware: policy } = withTool(
    retry.create(() => ({ attempts: 2 }), services),
    services,
  )
  const given = toolCall(call)
  const running = (policy?.(given.target)?.(end) ?? end)(given).then(
    (outcome) => ({ outcome, error: undefined }),
    (error: unknown) => ({ outcome: undefined, error }),
  )
  await vi.advanceTimersByTimeAsync(5000)
  return { attempts, ...(await running) }
}

describe('a call that was not sent', () => {
  it('is made again where the tool only reads or is idempotent', async () => {
    for (const classification of [{ op: 'read' }, { op: 'write', idempotent: true }] as const) {
      expect(await outcomeOf({ classification, failures: [unsent(), unsent()] })).toMatchObject({
        attempts: 3,
        outcome: { kind: 'result' },
      })
    }
  })

  it('is not made again otherwise', async () => {
    expect(await outcomeOf({ classification: {}, failures: [unsent()] })).toMatchObject({
      attempts: 1,
      error: { code: 'SERVER_UNAVAILABLE' },
    })
  })

  it('fails after two further attempts, or as many as the tool may have', async () => {
    const failures = Array.from({ length: 9 }, unsent)
    expect(await outcomeOf({ failures })).toMatchObject({
      attempts: 3,
      error: { code: 'SERVER_UNAVAILABLE' },
    })
    expect(await outcomeOf({ failures, tools: { t: { retry: 1 } } })).toMatchObject({ attempts: 2 })
    expect(await outcomeOf({ failures, tools: { '*': { retry: 0 } } })).toMatchObject({ attempts: 1 })
  })

  it('is given up with the call', async () => {
    const controller = new AbortController()
    controller.abort(new GatewayError('OPERATION_TIMEOUT', 'late'))
    const call = { signal: controller.signal }
    expect(await outcomeOf({ failures: [unsent()], call })).toMatchObject({ attempts: 1 })
  })

  it('counts each request for the list as an attempt where that fails', async () => {
    let asked = 0
    const entry = (): Promise<never> => {
      asked++
      return Promise.reject(unsent())
    }
    expect(await outcomeOf({ failures: [unsent()], deps: { entry } })).toMatchObject({ attempts: 1 })
    expect(asked).toBe(3)
  })

  it('is made again once its server is back, and with it the list', async () => {
    const reads = { definition: { name: 't' }, classification: { op: 'read' } } as unknown as Descriptor
    let asked = 0
    const entry = async (): Promise<Descriptor> => {
      if (asked++ === 0) throw unsent()
      return reads
    }
    expect(await outcomeOf({ failures: [unsent()], deps: { entry } })).toMatchObject({
      attempts: 2,
      outcome: { kind: 'result' },
    })
  })
})

describe('a call that may have run', () => {
  it.each([
    new GatewayError('OUTCOME_UNKNOWN', 'broke'),
    new GatewayError('SERVER_UNAVAILABLE', 'HTTP 503', { details: { http_status: 503 } }),
    new GatewayError('OPERATION_TIMEOUT', 'late'),
    new GatewayError('UPSTREAM_ERROR', 'no'),
    new Error('a bug'),
  ])('is never made again: %s', async (failure) => {
    expect(
      await outcomeOf({ classification: { op: 'read', idempotent: true }, failures: [failure] }),
    ).toMatchObject({
      attempts: 1,
      error: failure,
    })
  })

  it('is not made again where it was said when to come back', async () => {
    const paused = new GatewayError('SERVER_UNAVAILABLE', 'paused', { isUnsent: true, retryAfterSeconds: 20 })
    expect(await outcomeOf({ failures: [paused] })).toMatchObject({ attempts: 1 })
  })
})
