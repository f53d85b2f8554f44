/** What simulated clients do: keyed calls with retries, conflicting and foreign keys, transactions, and approved calls. */
import type { Client } from './client.ts'
import type { History, Operation, Reply } from './history.ts'
import { type Fields, Payload } from '../../src/core/payload.ts'
import type { OddNumbers } from './odd-numbers.ts'
import type { Seeded } from './random.ts'
import type { Front } from './simulated-gateway.ts'

/** How long a key is remembered that a client sends with a short time, in milliseconds. */
const SHORT_TTL_MS = 60_000
/** How long one is remembered otherwise: longer than a simulation lasts. */
export const LONG_TTL_MS = 86_400_000
/** How often a call is tried. */
const MAX_ATTEMPTS = 8
const TRANSACTION_TIMEOUT_SECONDS = 30

/** What all clients of a simulation share. */
export interface Field {
  readonly random: Seeded
  readonly history: History
  /** Where requests go: each to a random one. */
  readonly gateways: readonly [Front, ...Front[]]
  /** Whether the gateways have callers that confirm calls themselves. */
  readonly isFleet: boolean
  readonly servers: readonly [string, ...string[]]
  /** The numbers of operations, and amounts. */
  readonly orders: OddNumbers
  readonly amounts: OddNumbers
  /** A number that nothing else has. */
  next(): number
  isEnding(): boolean
}

/** A transaction that a client began. */
export interface BegunTransaction {
  readonly id: string
  readonly client: Client
}

const writes = ['charge_card', 'book_room', 'create_ticket', 'set_label'] as const

/** Works until the simulation ends. Returns the transactions that it began. */
export async function work(client: Client, field: Field): Promise<readonly BegunTransaction[]> {
  const { random } = field
  const begun: BegunTransaction[] = []
  while (!field.isEnding()) {
    const turn = random.next()
    if (field.isFleet && random.chance(0.15)) await confirmedCall(client, field)
    else if (turn < 0.5) await keyedCall(client, field)
    else if (turn < 0.6) await plainCall(client, field)
    else if (turn < 0.8) await approvedCall(client, field)
    else begun.push({ client, id: await transaction(client, field) })
    await client.pause(300 * random.next() ** 2)
  }
  return begun
}

async function keyedCall(client: Client, field: Field): Promise<void> {
  const { random, servers } = field
  // Callers that do not know of each other use the same keys.
  const key = random.chance(0.15) ? `shared-${random.below(100)}` : `key-${field.next()}`
  const operation = newOperation(client, field, {
    key,
    server: random.pick(servers),
    tool: random.pick(writes),
  })
  const ttl = random.chance(0.2) ? SHORT_TTL_MS : undefined
  const attempts = [tryUntilKnown(client, operation, field, ttl)]
  if (random.chance(0.3)) attempts.push(tryUntilKnown(client, operation, field, ttl))
  if (random.chance(0.1)) attempts.push(tryUntilKnown(client, sameKey(client, operation, field), field, ttl))
  await Promise.all(attempts)
  if (random.chance(0.4)) {
    await client.pause(ttl === undefined ? 5000 * random.next() : 80_000 * random.next())
    await tryUntilKnown(client, operation, field, ttl)
  }
  if (random.chance(0.2)) await attempt(client, sameKey(client, operation, field), field, { ttl })
}

/** Another call with the key of one: of another tool, or one that differs in the last digit of its order alone. */
function sameKey(client: Client, { key, server, tool, order, amount }: Operation, field: Field): Operation {
  const own = { ...(key !== undefined && { key }), server }
  if (field.random.chance(0.5))
    return newOperation(client, field, { ...own, tool: field.random.pick(writes) })
  return { ...newOperation(client, field, { ...own, tool, like: order }), amount }
}

async function plainCall(client: Client, field: Field): Promise<void> {
  const { random, servers } = field
  await attempt(
    client,
    newOperation(client, field, { server: random.pick(servers), tool: random.pick(writes) }),
    field,
  )
}

/** A call that another person approves. Made twice, it opens once for each approval. */
async function approvedCall(client: Client, field: Field): Promise<void> {
  const { random, servers } = field
  const key = random.chance(0.5) ? { key: `key-${field.next()}` } : {}
  const operation = newOperation(client, field, {
    ...key,
    server: random.pick(servers),
    tool: 'delete_customer',
  })
  const once = (): Promise<Reply> => attempt(client, operation, field)
  for (let tries = 0; tries < 4; tries++) {
    const replies = await Promise.all(random.chance(0.4) ? [once(), once()] : [once()])
    if (replies.some(({ type, code }) => type === 'ok' || code === 'CONFIRMATION_DECLINED')) break
    await client.pause(3000 * random.next())
  }
}

/** A call that its caller confirms: the answer may arrive more than once, at several gateways. */
async function confirmedCall(client: Client, field: Field): Promise<void> {
  const { random, history } = field
  const operation = newOperation(client, field, { server: random.pick(field.servers), tool: 'close_account' })
  const capabilities = { elicitation: {} }
  const { result } = await attempt(client, operation, field, { capabilities })
  const question = result?.member('requestState')
  if (typeof question !== 'string') return
  await client.pause(15_000 * random.next() ** 3)
  const isAccepted = random.chance(0.9)
  if (isAccepted) history.add({ kind: 'accepted', order: operation.order, question })
  const answer = isAccepted ? { action: 'accept', content: { confirm: true } } : { action: 'decline' }
  const more = { requestState: question, inputResponses: { confirm: answer } }
  const once = (): Promise<Reply> => attempt(client, operation, field, { capabilities, more })
  await Promise.all(random.chance(0.4) ? [once(), once()] : [once()])
  if (random.chance(0.3)) await once()
}

async function transaction(client: Client, field: Field): Promise<string> {
  const { random } = field
  const id = `transaction-${field.next()}`
  const begun = await verb(client, field, id, 'begin')
  if (begun.type !== 'ok') return id
  const steps = 1 + random.below(3)
  for (let step = 1; step < steps; step++) await makeStep(client, field, { id, step })
  const last = makeStep(client, field, { id, step: steps })
  // Some clients end a transaction while a step is under way.
  if (random.chance(0.7)) await last
  else await client.pause(30 * random.next())
  // Some clients leave their transaction open.
  if (random.chance(0.1)) {
    await last
    return id
  }
  const end = random.pick(['commit', 'rollback'] as const)
  for (let tries = 0; tries < 4; tries++) {
    const reply = await verb(client, field, id, end)
    if (reply.type !== 'info') break
    await client.pause(2000 * random.next())
  }
  await last
  return id
}

function makeStep(
  client: Client,
  field: Field,
  { id, step }: { readonly id: string; readonly step: number },
): Promise<void> {
  const { random, servers } = field
  const tool = random.pick(['book_room', 'book_room', 'set_label'] as const)
  const operation = newOperation(client, field, { key: `${id}-${step}`, server: random.pick(servers), tool })
  return tryUntilKnown(client, { ...operation, transaction: id }, field)
}

/** The final status of a transaction, once a gateway answers. */
export async function finalStatus({ client, id }: BegunTransaction, field: Field): Promise<void> {
  for (let tries = 0; tries < 30; tries++) {
    const reply = await verb(client, field, id, 'status')
    const status = reply.result?.member('status')
    // A rollback that failed is repeated by the gateway.
    if (
      reply.code === 'RESOURCE_NOT_FOUND' ||
      (reply.type === 'ok' && status !== 'active' && status !== 'rolling_back')
    )
      return
    await client.pause(10_000)
  }
}

/** Repeats a keyed call until its end is known. */
async function tryUntilKnown(
  client: Client,
  operation: Operation,
  field: Field,
  ttl?: number,
): Promise<void> {
  for (let tries = 0; tries < MAX_ATTEMPTS; tries++) {
    const { type, code } = await attempt(client, operation, field, { ttl })
    if (type !== 'info' || code === 'OUTCOME_UNKNOWN') return
    await client.pause((code === 'IDEMPOTENCY_IN_PROGRESS' ? 8000 : 2000) * field.random.next())
  }
}

interface CallDetails {
  /** How long the key is to be remembered, in milliseconds. */
  readonly ttl?: number | undefined
  readonly capabilities?: Fields
  /** Further params. */
  readonly more?: Fields
}

async function attempt(
  client: Client,
  operation: Operation,
  field: Field,
  { ttl, capabilities, more = {} }: CallDetails = {},
): Promise<Reply> {
  const { random, history } = field
  const { order, amount, principal, tool, server, key, transaction: of } = operation
  const gateway = random.pick(field.gateways)
  const number = field.next()
  history.add({
    kind: 'invoke',
    attempt: number,
    operation,
    gateway: gateway.name,
    ...(ttl !== undefined && { ttl }),
  })
  const reply = await client.send(gateway, {
    method: 'tools/call',
    upstream: server,
    params: Payload.of({ name: tool, ...more }).with({
      arguments: Payload.of({ owner: principal }).with({
        order: Payload.text(order),
        amount: Payload.text(amount),
      }),
      _meta: {
        ...(key !== undefined && { idempotency_key: key }),
        ...(ttl !== undefined && { idempotency_ttl_seconds: ttl / 1000 }),
        ...(of !== undefined && { transaction_id: of, step_id: key }),
      },
    }),
    patience: 2000 + 28_000 * random.next(),
    hangsUp: random.chance(0.5),
    ...(capabilities && { capabilities }),
  })
  const isAsked = reply.result?.member('resultType') === 'input_required'
  const said: Reply = isAsked ? { type: 'info', code: 'INPUT_REQUIRED' } : reply
  history.add({ kind: 'reply', attempt: number, operation, ...said })
  return reply
}

async function verb(
  client: Client,
  field: Field,
  id: string,
  name: 'begin' | 'commit' | 'rollback' | 'status',
): Promise<Reply> {
  const { random, history } = field
  const { principal } = client
  const number = field.next()
  history.add({ kind: 'transaction', transaction: id, principal, verb: name, attempt: number })
  const timeout = name === 'begin' ? { timeout_seconds: TRANSACTION_TIMEOUT_SECONDS } : {}
  const reply = await client.send(random.pick(field.gateways), {
    method: `transaction/${name}`,
    params: Payload.of({ transaction_id: id, ...timeout }),
    patience: 10_000 + 50_000 * random.next(),
    hangsUp: random.chance(0.5),
  })
  history.add({ kind: 'transaction', transaction: id, principal, verb: name, attempt: number, reply })
  return reply
}

/** A new operation of a client. */
export function newOperation(
  { principal }: Pick<Client, 'principal'>,
  field: Field,
  { like, ...given }: Pick<Operation, 'server' | 'tool' | 'key'> & { readonly like?: string },
): Operation {
  const [order, amount] = [field.orders.next(like), field.amounts.next()]
  return { ...given, principal, order, amount, isIdempotent: given.tool === 'set_label' }
}
