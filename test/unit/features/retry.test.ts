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
  /** The failures of the server, attempt by attempt; it responds after them. */
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
  const policy = withTool(
    retry.create(() => ({ attempts: 2 }), services),
    services,
  ).calls?.middleware
  const given = toolCall(call)
  const running = (policy?.(given.target)?.(end) ?? end)(given).then(
    (outcome) => ({ outcome, error: undefined }),
    (error: unknown) => ({ outcome: undefined, error }),
  )
  await vi.advanceTimersByTimeAsync(5000)
  return { attempts, ...(await running) }
}

describe('retry of a call that was not sent', () => {
  it('a read-only or idempotent call is retried', async () => {
    for (const classification of [{ op: 'read' }, { op: 'write', idempotent: true }] as const) {
      expect(await outcomeOf({ classification, failures: [unsent(), unsent()] })).toMatchObject({
        attempts: 3,
        outcome: { kind: 'result' },
      })
    }
  })

  it('other calls are not retried', async () => {
    expect(await outcomeOf({ classification: {}, failures: [unsent()] })).toMatchObject({
      attempts: 1,
      error: { code: 'SERVER_UNAVAILABLE' },
    })
  })

  it('a call fails after two retries, or the number configured for the tool', async () => {
    const failures = Array.from({ length: 9 }, unsent)
    expect(await outcomeOf({ failures })).toMatchObject({
      attempts: 3,
      error: { code: 'SERVER_UNAVAILABLE' },
    })
    expect(await outcomeOf({ failures, tools: { t: { retry: 1 } } })).toMatchObject({ attempts: 2 })
    expect(await outcomeOf({ failures, tools: { '*': { retry: 0 } } })).toMatchObject({ attempts: 1 })
  })

  it('an aborted call is not retried', async () => {
    const controller = new AbortController()
    controller.abort(new GatewayError('OPERATION_TIMEOUT', 'late'))
    const call = { signal: controller.signal }
    expect(await outcomeOf({ failures: [unsent()], call })).toMatchObject({ attempts: 1 })
  })

  it('a failed tool lookup counts as an attempt', async () => {
    let asked = 0
    const entry = (): Promise<never> => {
      asked++
      return Promise.reject(unsent())
    }
    expect(await outcomeOf({ failures: [unsent()], deps: { entry } })).toMatchObject({ attempts: 1 })
    expect(asked).toBe(3)
  })

  it('the tool is looked up again once its server is available', async () => {
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

describe('retry of a call that may have run', () => {
  it.each([
    new GatewayError('OUTCOME_UNKNOWN', 'broke'),
    new GatewayError('SERVER_UNAVAILABLE', 'HTTP 503', { details: { http_status: 503 } }),
    new GatewayError('OPERATION_TIMEOUT', 'late'),
    new GatewayError('UPSTREAM_ERROR', 'no'),
    new Error('a bug'),
  ])('the call is never retried: %s', async (failure) => {
    expect(
      await outcomeOf({ classification: { op: 'read', idempotent: true }, failures: [failure] }),
    ).toMatchObject({
      attempts: 1,
      error: failure,
    })
  })

  it('a call with a Retry-After is not retried', async () => {
    const paused = new GatewayError('SERVER_UNAVAILABLE', 'paused', { isUnsent: true, retryAfterSeconds: 20 })
    expect(await outcomeOf({ failures: [paused] })).toMatchObject({ attempts: 1 })
  })
})
