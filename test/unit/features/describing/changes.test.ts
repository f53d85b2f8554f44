import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import type { Handler, Notification } from '../../../../src/core/call.ts'
import { Payload } from '../../../../src/core/payload.ts'
import type { ServerRecords, ServerRecord, ToolDetails } from '../../../../src/core/descriptor.ts'
import { createChangeNotifier } from '../../../../src/features/describing/manifest.ts'
import { featureDeps } from '../../../support/feature-deps.ts'
import { serverRecord } from '../../../support/server-record.ts'
import { toolCall } from '../../../support/tool-call.ts'

beforeEach(() => vi.useFakeTimers())
afterEach(() => vi.useRealTimers())

const tool = (name: string, given: Partial<ToolDetails> = {}): ToolDetails => ({
  entry: {
    upstream: 'one',
    kind: 'tool',
    name,
    definition: { name },
    classification: { op: 'read', risk: 'safe', idempotent: true, evidence: [] },
  },
  alias: name,
  facts: {},
  ...given,
})
const seen = { types: [], hasCursor: false }

function bench(capabilities: ServerRecord['capabilities']) {
  let tools: readonly ToolDetails[] = [tool('a'), tool('b')]
  const subscribe: ((upstream: string) => void)[] = []
  const record = (): ServerRecord => serverRecord({ capabilities, tools })
  const records: ServerRecords = {
    names: ['one'],
    of: record,
    last: record,
    renew: () => undefined,
    onChange: (hear) => void subscribe.push(hear),
  }
  const deps = featureDeps({ servers: () => ['one'], records: () => records })
  const told: Notification[] = []
  const changes = createChangeNotifier(deps, () => true)
  const ended = Promise.withResolvers<void>()
  const server: Handler = async (call) => {
    call.emit({
      method: 'notifications/subscriptions/acknowledged',
      params: Payload.of({ notifications: {} }),
    })
    await ended.promise
    return { kind: 'result', result: Payload.of({}) }
  }
  const listening = changes.subscribe(server)(
    toolCall({
      method: 'subscriptions/listen',
      params: Payload.of({ notifications: { toolsListChanged: true } }),
      target: { method: 'subscriptions/listen', upstream: 'one' },
      emit: (note) => void told.push(note),
    }),
  )
  return {
    changes,
    told: () => told.map(({ method }) => method),
    acknowledged: () => told[0]?.params?.fields,
    set: (next: readonly ToolDetails[]) => {
      tools = next
    },
    hear: () => subscribe.forEach((hear) => hear('one')),
    end: async () => {
      ended.resolve()
      await listening
    },
  }
}

const CHANGED = 'notifications/tools/list_changed'

describe('subscribers to tool list changes', () => {
  test('the subscription is acknowledged for servers without listChanged', () => {
    expect(bench({ tools: {} }).acknowledged()).toEqual({ notifications: { toolsListChanged: true } })
  })

  test('a changed list is notified although the server sends no notification', () => {
    const { set, hear, told } = bench({ tools: {} })
    set([tool('a')])
    hear()
    expect(told().slice(1)).toEqual([CHANGED])
    hear()
    expect(told().slice(1)).toEqual([CHANGED])
  })

  test('a notification of the server is passed on once', () => {
    const { set, hear, told } = bench({ tools: { listChanged: true } })
    set([tool('a'), tool('c')])
    hear()
    expect(told().slice(1)).toEqual([])
  })

  test('a change of the observed statistics is notified', () => {
    const { set, told } = bench({ tools: { listChanged: true } })
    set([tool('a', { statistics: { ...seen, p50: 5 } }), tool('b')])
    vi.advanceTimersByTime(10_000)
    set([tool('a', { statistics: { ...seen, p50: 900 } }), tool('b')])
    vi.advanceTimersByTime(10_000)
    expect(told().slice(1)).toEqual([CHANGED])
    set([tool('a', { statistics: { ...seen, p50: 2000 } }), tool('b')])
    vi.advanceTimersByTime(10_000)
    expect(told().slice(1)).toEqual([CHANGED, CHANGED])
  })

  test('no notification precedes the acknowledgement', async () => {
    const late = bench({ tools: {} })
    const order: string[] = []
    const server: Handler = async (call) => {
      late.set([tool('z')])
      late.hear()
      call.emit({ method: 'notifications/subscriptions/acknowledged' })
      return { kind: 'result', result: Payload.of({}) }
    }
    await late.changes.subscribe(server)(
      toolCall({
        method: 'subscriptions/listen',
        params: Payload.of({ notifications: { toolsListChanged: true } }),
        target: { method: 'subscriptions/listen', upstream: 'one' },
        emit: ({ method }) => void order.push(method),
      }),
    )
    expect(order).toEqual(['notifications/subscriptions/acknowledged'])
    expect(late.told()).toHaveLength(2)
  })

  test('no timer is left after the subscription', async () => {
    const { end } = bench({ tools: {} })
    expect(vi.getTimerCount()).toBe(1)
    await end()
    expect(vi.getTimerCount()).toBe(0)
  })
})
