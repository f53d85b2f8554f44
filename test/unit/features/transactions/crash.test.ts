import fc from 'fast-check'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { CrashingStore } from '../../../support/crashing-store.ts'
import { Place, SagaGateway } from '../../../support/saga-world.ts'
import type { Json } from '../../../support/server/json.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

interface Step {
  readonly tool: 'put' | 'change' | 'remove' | 'get'
  readonly key: string
  readonly server: 'one' | 'two'
}

interface Plan {
  readonly steps: readonly Step[]
  readonly end: 'commit' | 'rollback' | 'nothing'
}

const step = fc.record({
  tool: fc.constantFrom('put', 'change', 'remove', 'get'),
  key: fc.constantFrom('a', 'b', 'c'),
  server: fc.constantFrom('one', 'two'),
}) satisfies fc.Arbitrary<Step>

const plan = fc.record({
  steps: fc.array(step, { minLength: 1, maxLength: 4 }),
  end: fc.constantFrom('commit', 'rollback', 'nothing'),
}) satisfies fc.Arbitrary<Plan>

const t = { transaction_id: 't' }

function places(): { one: Place; two: Place } {
  const [one, two] = [new Place(), new Place()]
  one.things.set('a', 'first').set('b', 'second')
  two.things.set('a', 'third')
  return { one, two }
}

function worldOf({ one, two }: { one: Place; two: Place }): string[] {
  return [...one.things]
    .map(([key, value]) => `one ${key}=${value}`)
    .concat([...two.things].map(([key, value]) => `two ${key}=${value}`))
    .toSorted()
}

/** Advances the clock until a promise is settled. */
async function passing<Value>(promise: Promise<Value>): Promise<Value> {
  let isOver = false
  const over = promise.finally(() => (isOver = true))
  over.catch(() => undefined)
  for (let waited = 0; !isOver && waited < 200; waited++)
    await vi.advanceTimersByTimeAsync(waited < 10 ? 1 : 500)
  if (!isOver) throw new Error('it does not end')
  return over
}

/** Runs the plan in a process that crashes at the n-th write, and continues in another process. */
async function survived(given: Plan, at: number, isDone: boolean) {
  const disk = new MemoryStore(() => Date.now())
  const store = new CrashingStore(disk, at, isDone)
  const there = places()
  const before = worldOf(there)
  const undone = new Map<string, number>()
  const keys = new Map<string, string>()
  const acknowledged: Step[] = []
  const count: ConstructorParameters<typeof SagaGateway>[0] = {
    places: there,
    seen: ({ internal, meta, requestId }) => {
      const { 'dev.gatehouse/idempotency_key': key } = meta
      if (internal && typeof key === 'string') keys.set(requestId, key)
    },
    next: (call, run) => {
      const name = keys.get(call.requestId)
      if (name !== undefined) undone.set(name, (undone.get(name) ?? 0) + 1)
      return run(call)
    },
  }
  const first = new SagaGateway({ ...count, store })
  let end: Json | undefined
  const run = async (): Promise<void> => {
    await first.start()
    await first.begin('t', { timeout_seconds: 5 })
    for (const [index, each] of given.steps.entries()) {
      const answer = await first.step(
        't',
        each.tool,
        { key: each.key, value: `new ${index}` },
        { server: each.server, id: `step-${index + 1}` },
      )
      if (answer['thrown'] === undefined && answer['isError'] !== true) acknowledged.push(each)
    }
    if (given.end !== 'nothing') end = await first.ask(given.end, t)
  }
  await passing(run().catch(() => undefined))
  const isCrashed = store.isDown
  await passing(first.die())
  const atEnd = worldOf(there)
  const second = new SagaGateway({ ...count, store: disk })
  await passing(second.start())
  await vi.advanceTimersByTimeAsync(12_000)
  const status = await passing(second.ask('status', t))
  await passing(second.die())
  return { isCrashed, status, end, before, atEnd, after: worldOf(there), undone, acknowledged }
}

it('a transaction ends legally after a crash at any point, undoes nothing twice and reports exactly what remains', async () => {
  await fc.assert(
    fc.asyncProperty(plan, async (given) => {
      for (let at = 1, isCrashed = true; isCrashed; at++) {
        for (const isDone of [false, true]) {
          const found = await survived(given, at, isDone)
          isCrashed = found.isCrashed
          judge(given, found)
        }
      }
    }),
    { numRuns: 6 },
  )
}, 60_000)

function judge({ steps, end }: Plan, found: Awaited<ReturnType<typeof survived>>): void {
  const { status, before, after, atEnd, undone } = found
  for (const [, times] of undone) expect(times).toBe(1)
  if (status['thrown'] !== undefined) {
    // The transaction never began.
    expect(status).toMatchObject({ thrown: { code: 'RESOURCE_NOT_FOUND' } })
    expect(after).toEqual(before)
    return
  }
  expect(['committed', 'rolled_back', 'partially_rolled_back']).toContain(status['status'])
  if (found.end?.['status'] !== undefined) expect(status['status']).toBe(found.end['status'])
  if (!found.isCrashed && end === 'commit') expect(status['status']).toBe('committed')
  if (status['status'] === 'committed') expect(after).toEqual(atEnd)
  if (status['status'] === 'rolled_back') expect(after).toEqual(before)
  if (status['status'] === 'partially_rolled_back') {
    expect(status['needs_attention']).toBe(true)
    const told = status['steps_compensated'] as { step_id: string; error?: object }[]
    const left = new Set(
      told.filter((each) => each.error !== undefined).map((each) => touched(steps, status, each.step_id)),
    )
    const rest = (world: readonly string[]): string[] =>
      world.filter((line) => ![...left].some((name) => line.startsWith(`${name}=`)))
    expect(left.size).toBeGreaterThan(0)
    expect(rest(after)).toEqual(rest(before))
  }
}

/** The item that a step affected. */
function touched(steps: readonly Step[], status: Json, id: string): string {
  const { server, key } = steps[Number(id.replace('step-', '')) - 1] ?? { server: '', key: '' }
  const known = (status['steps'] as { step_id: string; server_id: string }[]).find(
    (each) => each.step_id === id,
  )
  expect(known?.server_id).toBe(server)
  return `${server} ${key}`
}
