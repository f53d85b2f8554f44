/** What clients of older revisions do in their sessions: calls with and without keys, confirmed calls, and tasks. */
import { Payload } from '../../src/core/payload.ts'
import type { Operation, Reply } from './history.ts'
import type { SessionClient } from './session-client.ts'
import { type Field, newOperation } from './workload.ts'

/** How long a session is left alone at most: longer than its owner is believed to be alive. */
const MAX_IDLE_MS = 40_000
const TASK_TTL_MS = 600_000
const POLL_INTERVAL_MS = 3000
/** After which time without faults each request of a session succeeds, in milliseconds, and how many are made then. */
const QUIET_MS = 18_000
const FINAL_PINGS = 6
const MAX_POLLS = 40

const writes = ['charge_card', 'book_room', 'create_ticket', 'set_label'] as const

/** Works in one session after another until the simulation ends. At its end, the session is usable, or it is gone. */
export async function workInSessions(client: SessionClient, field: Field): Promise<void> {
  const { random } = field
  await client.pause(500 + 3000 * random.next())
  while (!field.isEnding()) {
    if (client.session === undefined && !(await client.open())) {
      await client.pause(2000 * random.next())
      continue
    }
    if (random.chance(0.4)) void client.listen()
    for (let calls = 3 + random.below(10); calls > 0 && !field.isEnding(); calls--) {
      if (client.session === undefined) break
      await act(client, field)
      await client.pause(400 * random.next() ** 2)
    }
    client.hangUp()
    if (random.chance(0.3)) await client.end()
    else if (random.chance(0.5)) await idle(client, field)
  }
  client.hangUp()
  await client.probe()
  // Then each gateway knows where the session is, or finds it out.
  await client.pause(QUIET_MS)
  for (let pings = 0; pings < FINAL_PINGS; pings++) {
    await client.probe()
    await client.pause(500)
  }
}

/** Leaves the session alone for a while. */
async function idle(client: SessionClient, field: Field): Promise<void> {
  for (let left = MAX_IDLE_MS * field.random.next(); left > 0 && !field.isEnding(); left -= 1000)
    await client.pause(1000)
}

async function act(client: SessionClient, field: Field): Promise<void> {
  const turn = field.random.next()
  if (turn < 0.3) await keyedCall(client, field)
  else if (turn < 0.6) await plainCalls(client, field)
  else if (turn < 0.75) await confirmedCall(client, field)
  else if (turn < 0.85) await taskCall(client, field)
  else await client.probe()
}

/** The same call with the same key, until its end is known. */
async function keyedCall(client: SessionClient, field: Field): Promise<void> {
  const { random } = field
  const tool = random.pick(writes)
  const operation = newOperation(client, field, { key: `key-${field.next()}`, server: client.server, tool })
  for (let tries = 0; tries < 6 && client.session !== undefined; tries++) {
    const { type, code } = await attempt(client, operation, field)
    if (type !== 'info' || code === 'OUTCOME_UNKNOWN') break
    await client.probe()
  }
  if (random.chance(0.3)) await attempt(client, operation, field)
}

/** A call without a key is made once; several at the same time may reach several gateways. */
async function plainCalls(client: SessionClient, field: Field): Promise<void> {
  const { random } = field
  const calls = Array.from({ length: 1 + random.below(3) }, () => {
    const operation = newOperation(client, field, { server: client.server, tool: random.pick(writes) })
    return attempt(client, operation, field)
  })
  if ((await Promise.all(calls)).some(({ type }) => type === 'info')) await client.probe()
}

/** A call about which the gateway asks on the stream of its response. */
async function confirmedCall(client: SessionClient, field: Field): Promise<void> {
  const { random, history } = field
  const operation = newOperation(client, field, { server: client.server, tool: 'close_account' })
  const onQuestion = (question: string): boolean => {
    const isAccepted = random.chance(0.9)
    if (isAccepted) history.add({ kind: 'accepted', order: operation.order, question })
    return isAccepted
  }
  const { type } = await attempt(client, operation, field, { onQuestion })
  if (type === 'info') await client.probe()
}

/** A call that goes on as a task, which the client follows to its end. */
async function taskCall(client: SessionClient, field: Field): Promise<void> {
  const { random, history } = field
  const tool = random.pick(writes)
  const operation = newOperation(client, field, { server: client.server, tool })
  const begun = await attempt(client, operation, field, { task: { ttl: TASK_TTL_MS } })
  const task = begun.result?.at('task')?.member('taskId')
  if (typeof task !== 'string') return
  history.add({ kind: 'task', task, did: 'accepted' })
  const params = Payload.of({ taskId: task })
  for (let polls = 0; polls < MAX_POLLS; polls++) {
    await client.pause(POLL_INTERVAL_MS * random.next())
    if (client.session === undefined) await client.open()
    const { result, type, code } = await client.request({ method: 'tasks/get', params, patience: 10_000 })
    const status = result?.member('status')
    if (status === 'completed' || status === 'failed' || status === 'cancelled')
      return history.add({ kind: 'task', task, did: 'ended' })
    if (type === 'fail' && code !== 'SESSION_REQUIRED' && code !== 'SESSION_NOT_FOUND')
      return history.add({ kind: 'task', task, did: 'missing' })
  }
}

interface CallDetails {
  readonly task?: { readonly ttl: number }
  onQuestion?(question: string): boolean
}

async function attempt(
  client: SessionClient,
  operation: Operation,
  field: Field,
  { task, onQuestion }: CallDetails = {},
): Promise<Reply> {
  const { random, history } = field
  const { order, amount, principal, tool, key } = operation
  const { session } = client
  const number = field.next()
  history.add({ kind: 'invoke', attempt: number, operation, gateway: 'balancer' })
  if (session !== undefined) history.add({ kind: 'within', session, attempt: number, order })
  const given = { order: Payload.text(order), amount: Payload.text(amount) }
  const reply = await client.request({
    method: 'tools/call',
    params: Payload.of({ name: tool, ...(task && { task }) }).with({
      arguments: Payload.of({ owner: principal }).with(given),
      _meta: key === undefined ? {} : { idempotency_key: key },
    }),
    patience: 3000 + 22_000 * random.next() ** 2,
    requestId: attemptId(number),
    ...(onQuestion && { onQuestion }),
  })
  // What is not a result yet says nothing about the outcome.
  const said: Reply = reply.result?.at('task') ? { type: 'info', code: 'TASK' } : reply
  history.add({ kind: 'reply', attempt: number, operation, ...said })
  return reply
}

const ATTEMPT = 'attempt-'

/** The id of the request of an attempt. */
function attemptId(number: number): string {
  return `${ATTEMPT}${number}`
}

/** The attempt of a request with such an id. */
export function attemptOf(requestId: unknown): number | undefined {
  return typeof requestId === 'string' && requestId.startsWith(ATTEMPT)
    ? Number(requestId.slice(ATTEMPT.length))
    : undefined
}
