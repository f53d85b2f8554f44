// An id that is not valid for its caller: the same error, and the same work, whatever is wrong with it.
import { describe, expect, it } from 'vitest'
import type { Call } from '../../../../src/core/call.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { createSeal } from '../../../../src/core/seal.ts'
import { OperationIds, operationsOf } from '../../../../src/records/operations.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { fakeClock } from '../../../support/fake-clock.ts'
import type { Json } from '../../../support/server/json.ts'
import { toolCall } from '../../../support/tool-call.ts'
import {
  alice,
  bob,
  failureOf,
  listener,
  older,
  pendingServer,
  process,
  result,
  taking,
  taskIn,
} from './bench.ts'

const pass = fakeClock()

/** A store that counts its reads. */
class CountingStore extends MemoryStore {
  asked = 0

  override get(key: string): Promise<string | undefined> {
    this.asked++
    return super.get(key)
  }

  override scan(collection: string): Promise<ReadonlyMap<string, string>> {
    this.asked++
    return super.scan(collection)
  }
}

/** Bob's task, and ids that alice may try. */
async function field() {
  const store = new CountingStore()
  const gateway = process({ server: pendingServer().server, store })
  const outcome = gateway.make({ client: older, principal: bob }, { task: {} })
  await pass(100)
  const { id: foreign } = taskIn(await outcome)
  const elsewhere = new OperationIds(
    createSeal(() => 0),
    'b',
  )
  const ids: Readonly<Record<string, string>> = {
    foreign,
    'sealed with another key': elsewhere.mint(alice).id,
    forged: 'A'.repeat(foreign.length),
    'cut off': foreign.slice(0, 20),
    oversized: foreign.padEnd(5000, 'A'),
    empty: '',
    'not base64': '../../etc/passwd?%00',
  }
  return { store, gateway, foreign, ids }
}

type Gateway = Awaited<ReturnType<typeof field>>['gateway']
type Attempt = (gateway: Gateway, id: string) => Promise<unknown>

/** A request of alice for one id, by a method of her revision. */
function asking(method: string, client: Call['client'], params: (id: string) => Json): Attempt {
  return (gateway, id) => failureOf(gateway.ask(method, params(id), { client, principal: alice }))
}

const viaTool: Attempt = (gateway, id) => {
  const tool = gateway.instance.builtins?.tools?.find(
    ({ definition }) => definition.name === 'resume_operation',
  )
  if (!tool) throw new TypeError('there is no such tool')
  const params = Payload.of({ operation_id: id })
  return failureOf(tool.handle(toolCall({ principal: alice, client: taking, params })))
}

/** The notifications to a listener that names an id: ids that are not valid are left out. */
const listening: Attempt = async (gateway, id) => {
  const { notes, emit } = listener()
  const handle = gateway.instance.responseMiddleware?.('subscriptions/listen')?.(async (call) => {
    call.emit({
      method: 'notifications/subscriptions/acknowledged',
      params: Payload.of({ notifications: {} }),
    })
    return result('{}')
  })
  const params = Payload.of({ notifications: { taskIds: [id] } })
  await handle?.(toolCall({ principal: alice, client: taking, params, emit }))
  return notes.map(({ params: each }) => each?.value)
}

const attempts: readonly (readonly [string, Attempt])[] = [
  ['tasks/get of 2026-07-28', asking('tasks/get', taking, (taskId) => ({ taskId }))],
  ['tasks/get of 2025-11-25', asking('tasks/get', older, (taskId) => ({ taskId }))],
  ['tasks/result', asking('tasks/result', older, (taskId) => ({ taskId }))],
  ['tasks/update', asking('tasks/update', taking, (taskId) => ({ taskId, inputResponses: {} }))],
  ['tasks/cancel of 2026-07-28', asking('tasks/cancel', taking, (taskId) => ({ taskId }))],
  ['tasks/cancel of 2025-11-25', asking('tasks/cancel', older, (taskId) => ({ taskId }))],
  ['operation/resume', asking('operation/resume', taking, (id) => ({ operation_id: id }))],
  ['the tool resume_operation', viaTool],
  ['subscriptions/listen', listening],
]

describe('an id that is not valid for its caller', () => {
  it.each(attempts)(
    'is refused by %s with the same error, before anything is looked up',
    async (_name, attempt) => {
      const { store, gateway, ids } = await field()
      store.asked = 0
      const answers: unknown[] = []
      for (const id of Object.values(ids)) answers.push(await attempt(gateway, id))
      expect(store.asked).toBe(0)
      expect(new Set(answers.map((each) => JSON.stringify(each))).size).toBe(1)
      for (const id of Object.values(ids)) if (id !== '') expect(JSON.stringify(answers)).not.toContain(id)
    },
  )

  it.each(attempts)('is refused by %s like the expired id of an own task', async (_name, attempt) => {
    const { gateway, ids, store } = await field()
    const outcome = gateway.make({ client: older }, { task: {} })
    await pass(100)
    const { id } = taskIn(await outcome)
    const own = [...(await store.scan(operationsOf('alice'))).keys()]
    expect(own).toHaveLength(1)
    await Promise.all(own.map((key) => store.delete(key)))
    // Another process, which does not run it.
    const other = process({ server: pendingServer().server, store, me: 'b' })
    expect(await attempt(other, id)).toEqual(await attempt(other, ids['forged'] ?? ''))
  })
})
