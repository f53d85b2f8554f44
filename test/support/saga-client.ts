import { setTimeout as pause } from 'node:timers/promises'
import { usual } from './client/raw.ts'
import type { Addresses } from './crash-run.ts'
import { modern } from './fronts.ts'
import type { SagaPlan, PlannedStep } from './saga-plan.ts'
import type { Seeded } from '../simulate/random.ts'
import { isObject, type Json, objectAt } from './server/json.ts'

/** What the client of a transaction was told. */
export interface SagaEnding {
  readonly plan: SagaPlan
  /** How many steps it asked for. */
  readonly asked: number
  /** The steps of which it was told that they were done. */
  readonly done: readonly string[]
  /** The status it was told at the end, where it was told one. */
  readonly told?: string
  /** What should not have happened. */
  readonly wrong: readonly string[]
}

/** How long a request may take, and how long something is tried, in milliseconds. */
const PATIENCE = 15_000
const LONGEST = 90_000
/** How often a step is tried that fails for another reason than that something is away. */
const MAX_TRIES = 5
/** After how long transactions nobody ends are rolled back, in seconds. */
const ABANDONED = 2

/** Does what is planned, at whatever gateway answers. */
export async function runSaga(plan: SagaPlan, gateways: Addresses, random: Seeded): Promise<SagaEnding> {
  const { id: transaction_id, steps, isStubborn } = plan
  const wrong: string[] = []
  const done: string[] = []
  const ask: Ask = (method, params) => insist({ method, params, gateways, random })
  const isAbandoned = plan.end === 'abandon'
  const timeout = isAbandoned ? { timeout_seconds: ABANDONED } : {}
  const begun = await ask('transaction/begin', { transaction_id, ...timeout })
  if (begun.code !== undefined && (begun.code !== 'TRANSACTION_CONFLICT' || begun.tries === 1))
    wrong.push(`begin: ${begun.text}`)
  let hasFailed = false
  let asked = 0
  for (const step of isAbandoned ? steps.slice(0, 1 + random.below(steps.length)) : steps) {
    asked++
    const answer = await ask('tools/call', stepParams(plan, step))
    if (answer.code === undefined) done.push(step.id)
    else hasFailed = true
    if (hasFailed && !isStubborn) break
  }
  if (isAbandoned) return { plan, asked, done, wrong }
  const method = plan.end === 'rollback' || (hasFailed && !isStubborn) ? 'rollback' : 'commit'
  const ended = await ask(`transaction/${method}`, { transaction_id })
  const status = ended.result['status']
  if (typeof status !== 'string') wrong.push(`${method}: ${ended.text}`)
  return { plan, asked, done, wrong, ...(typeof status === 'string' && { told: status }) }
}

/** How a transaction stands, as any gateway tells. */
export async function statusOf(plan: SagaPlan, gateways: Addresses, random: Seeded): Promise<Json> {
  const params = { transaction_id: plan.id }
  return (await insist({ method: 'transaction/status', params, gateways, random })).result
}

function stepParams({ id }: SagaPlan, step: PlannedStep): Json {
  const meta = { transaction_id: id, step_id: step.id, idempotency_key: `${id}-${step.id}` }
  return { name: step.tool, arguments: step.arguments, _meta: meta }
}

interface Answer {
  readonly result: Json
  /** Of the error, where it is one. */
  readonly code?: string
  readonly text: string
  readonly tries: number
}

type Ask = (method: string, params: Json) => Promise<Answer>

interface Request {
  readonly method: string
  readonly params: Json
  readonly gateways: Addresses
  readonly random: Seeded
}

/** Asks until there is an answer that does not pass. What is away is waited for. */
async function insist({ method, params, gateways, random }: Request): Promise<Answer> {
  const deadline = Date.now() + LONGEST
  for (let tries = 1; ; tries++) {
    const answer = await post(random.pick(gateways).url, method, params)
    // What a step does may take too long each time.
    const isWaitedFor = answer?.code === 'SERVER_UNAVAILABLE' || method !== 'tools/call'
    if (answer && (!answer.isPassing || (tries >= MAX_TRIES && !isWaitedFor))) return { ...answer, tries }
    if (Date.now() > deadline) return { result: {}, code: 'NEVER', text: 'it was never answered', tries }
    await pause(20 + random.next() * 100)
  }
}

/** Asks once, without a session; nothing where there is no answer. */
async function post(
  url: string,
  method: string,
  params: Json,
): Promise<(Omit<Answer, 'tries'> & { readonly isPassing: boolean }) | undefined> {
  const { message, headers } = modern(method, params)
  const request = { method: 'POST', headers: { ...usual, ...headers }, body: JSON.stringify(message) }
  try {
    const response = await fetch(url, { ...request, signal: AbortSignal.timeout(PATIENCE) })
    const text = await response.text()
    const parsed: unknown = JSON.parse(text)
    const answer = isObject(parsed) ? parsed : {}
    const result = objectAt(answer, 'result')
    const told = objectAt(objectAt(result, '_meta'), 'dev.gatehouse/error')
    const error = result['isError'] === true ? told : objectAt(objectAt(answer, 'error'), 'data')
    const isFailed = result['isError'] === true || isObject(answer['error'])
    const code = isFailed ? { code: String(error['code']) } : {}
    return { result, text, ...code, isPassing: isFailed && error['category'] === 'transient' }
  } catch {
    return undefined
  }
}
