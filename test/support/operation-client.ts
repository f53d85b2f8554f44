import { setTimeout as pause } from 'node:timers/promises'
import { enveloped } from './client/modern-request.ts'
import { open, usual } from './client/raw.ts'
import { SseParser } from './client/sse-parser.ts'
import { until } from './condition.ts'
import type { Addresses } from './crash-run.ts'
import type { Seeded } from '../simulate/random.ts'
import { isObject, type Json, objectAt, parseExact } from './server/json.ts'

/** What a client wants of a call. */
export interface OperationPlan {
  /** Names it in the log, and in its effect. */
  readonly name: string
  readonly kind: string
  readonly server: string
  readonly tool: string
  readonly arguments: Json
  readonly key?: string
  /** The transaction it is a step of, which is ended after it. */
  readonly transaction?: string
  /** Whether the client takes tasks, and whether it cancels them. */
  readonly declaresTasks: boolean
  readonly isCancelled: boolean
}

/** One thing that a client heard or did, in the order of time. */
export interface HistoryEvent {
  readonly name: string
  /** `invoke` a request, `ok` an outcome, `fail` a refusal or an error, `info` that nothing was heard. */
  readonly type: 'invoke' | 'ok' | 'fail' | 'info'
  readonly at: number
  readonly what: string
}

/** How an operation ended for its client. */
export interface OperationEnding {
  readonly plan: OperationPlan
  /** The task that the client holds. */
  readonly taskId?: string
  readonly outcome: Outcome
  /** How many streams it opened to listen to the task, and whether one of them told the end. */
  readonly listened?: { readonly streams: number; readonly wasTold: boolean }
  readonly wrong: readonly string[]
}

/** What a client was given. `lost`: it holds no id and no outcome. */
interface Outcome {
  readonly kind: 'completed' | 'failed' | 'cancelled' | 'lost'
  /** Of a failure. */
  readonly code?: string
  readonly structured: Json
  /** All of it, for comparison. */
  readonly text: string
}

export interface Clients {
  readonly gateways: Addresses
  readonly history: HistoryEvent[]
  /** How likely it is that a client also listens to its task. */
  readonly listens?: number
}

const REVISION = '2026-07-28'
const TASKS = 'io.modelcontextprotocol/tasks'
/** How long a request may take, and how long an operation may last, in milliseconds. */
const REQUEST_TIMEOUT_MS = 20_000
const LONGEST_MS = 120_000

/** Makes a call, and follows it to its end over whichever gateway responds. */
export async function runOperation(
  plan: OperationPlan,
  clients: Clients,
  random: Seeded,
): Promise<OperationEnding> {
  const client = new Client(plan, clients, random)
  const { transaction } = plan
  if (transaction !== undefined) await client.insist('transaction/begin', { transaction_id: transaction })
  const begun = await client.begin()
  const ending = await (begun.taskId === undefined ? begun : client.follow(begun.taskId))
  if (transaction === undefined) return ending
  const method = ending.outcome.kind === 'completed' ? 'commit' : 'rollback'
  await client.insist(`transaction/${method}`, { transaction_id: transaction })
  return ending
}

/** What a task is now, once more. */
export function readAgain(
  plan: OperationPlan,
  taskId: string,
  clients: Clients,
  random: Seeded,
): Promise<OperationEnding> {
  return new Client({ ...plan, isCancelled: false }, clients, random).follow(taskId)
}

/** Makes a keyed call once more, without a task. */
export async function makeAgain(
  plan: OperationPlan,
  clients: Clients,
  random: Seeded,
): Promise<OperationEnding> {
  return new Client({ ...plan, declaresTasks: false, isCancelled: false }, clients, random).begin()
}

/** The status of a transaction once it is over. */
export async function transactionOf(plan: OperationPlan, clients: Clients, random: Seeded): Promise<string> {
  const client = new Client(plan, clients, random)
  for (const deadline = Date.now() + LONGEST_MS; ;) {
    const { status } = await client.insist('transaction/status', { transaction_id: plan.transaction })
    if (status !== 'active' && status !== 'rolling_back') return String(status)
    if (Date.now() > deadline) return `still ${String(status)}`
    await pause(200)
  }
}

/** An answer to one request; undefined where none came. */
type Answer =
  | { readonly result: Json }
  | { readonly code: string; readonly isPassing: boolean; readonly text: string }

class Client {
  readonly #plan: OperationPlan
  readonly #clients: Clients
  readonly #random: Seeded
  readonly #wrong: string[] = []

  constructor(plan: OperationPlan, clients: Clients, random: Seeded) {
    this.#plan = plan
    this.#clients = clients
    this.#random = random
  }

  /** The call: a task, an outcome, or nothing where its response was lost and it has no key to make it again with. */
  async begin(): Promise<OperationEnding> {
    const { tool, key, transaction, arguments: given } = this.#plan
    const meta = {
      ...(key !== undefined && { idempotency_key: key }),
      ...(transaction !== undefined && { transaction_id: transaction, step_id: 'one' }),
    }
    const first: Json = { name: tool, arguments: given, _meta: meta }
    let params = first
    for (const deadline = Date.now() + LONGEST_MS; ;) {
      const answer = await this.#request('tools/call', params)
      const isOver = Date.now() > deadline
      if (answer && 'result' in answer) {
        const { result } = answer
        const { taskId, inputRequests, requestState } = result
        if (isObject(inputRequests)) {
          params = { ...params, inputResponses: answersTo(inputRequests), requestState }
          continue
        }
        // The answer to the question was used by an attempt that did not get further.
        if (key !== undefined && params !== first && isSpent(outcomeOf(result).code) && !isOver) {
          params = first
          continue
        }
        if (typeof taskId !== 'string') return this.#ending(outcomeOf(result))
        this.#note('ok', 'task')
        return { ...this.#ending(lost), taskId }
      }
      if (answer && key !== undefined && params !== first && isSpent(answer.code) && !isOver) {
        params = first
        continue
      }
      if (answer && (!answer.isPassing || isOver || key === undefined))
        return this.#ending(failedWith(answer))
      if (key === undefined || isOver) return this.#ending(lost)
      await this.#rest(answer?.code === 'IDEMPOTENCY_IN_PROGRESS' ? 500 : 0)
    }
  }

  /** Polls a task to its end, and answers or cancels it on the way. */
  async follow(taskId: string): Promise<OperationEnding> {
    if (!this.#random.chance(this.#clients.listens ?? 0)) return this.#poll(taskId)
    const listener = new TaskListener(taskId, (signal) => this.#open(taskId, signal))
    try {
      const ending = await this.#poll(taskId)
      await this.#mustHaveHeard(listener, ending)
      return { ...ending, listened: { streams: listener.streams, wasTold: listener.told !== undefined } }
    } finally {
      listener.close()
    }
  }

  /** A stream that accepted a task before its end has to tell of it, unless it breaks. */
  async #mustHaveHeard(listener: TaskListener, { outcome }: OperationEnding): Promise<void> {
    if (outcome.kind === 'lost') return
    const task = parsed(outcome.text)
    const { status, lastUpdatedAt } = isObject(task) ? task : {}
    const isOver = (): boolean =>
      listener.told !== undefined || !((listener.acceptedAt ?? Infinity) < Date.parse(String(lastUpdatedAt)))
    await until(isOver, 'the end of a task', LONGEST_MS).catch(() =>
      this.#wrong.push('who listens to it is not told of its end'),
    )
    if (listener.told !== undefined && listener.told !== status)
      this.#wrong.push(`who listens to it is told that it is ${listener.told}`)
  }

  #open(taskId: string, signal: AbortSignal) {
    const { server } = this.#plan
    const params = enveloped({ notifications: { taskIds: [taskId] } }, REVISION, this.#capabilities)
    const method = 'subscriptions/listen'
    const headers = { ...usual, 'mcp-protocol-version': REVISION, 'mcp-method': method }
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })
    const gateway = this.#random.pick(this.#clients.gateways)
    return open(`${gateway.url}/${server}`, { method: 'POST', headers, body, signal })
  }

  async #poll(taskId: string): Promise<OperationEnding> {
    let isToBeCancelled = this.#plan.isCancelled
    for (const deadline = Date.now() + LONGEST_MS; ;) {
      await this.#rest(0)
      const answer = await this.#request('tasks/get', { taskId })
      if (Date.now() > deadline) this.#wrong.push(`it never ended: ${JSON.stringify(answer)}`)
      if (!answer || ('code' in answer && answer.isPassing)) {
        if (Date.now() <= deadline) continue
        return { ...this.#ending(lost), taskId }
      }
      if ('code' in answer) {
        this.#wrong.push(`its task cannot be read: ${answer.text}`)
        return { ...this.#ending(lost), taskId }
      }
      const { status, inputRequests } = answer.result
      const ended = endOf(answer.result)
      if (ended || Date.now() > deadline) return { ...this.#ending(ended ?? lost), taskId }
      if (status === 'input_required' && isObject(inputRequests)) await this.#answer(taskId, inputRequests)
      else if (isToBeCancelled && this.#random.chance(0.5)) {
        const cancelled = await this.#request('tasks/cancel', { taskId })
        isToBeCancelled = cancelled === undefined
      }
    }
  }

  /** Makes a request until there is an answer that does not pass. */
  async insist(method: string, params: Json): Promise<Json> {
    for (const deadline = Date.now() + LONGEST_MS; ;) {
      const answer = await this.#request(method, params)
      if (answer && 'result' in answer) return answer.result
      if (answer && !answer.isPassing) return {}
      if (Date.now() > deadline) return {}
      await this.#rest(100)
    }
  }

  get #capabilities(): Json {
    const { declaresTasks } = this.#plan
    return { elicitation: {}, ...(declaresTasks && { extensions: { [TASKS]: {} } }) }
  }

  async #answer(taskId: string, inputRequests: Json): Promise<void> {
    await this.#request('tasks/update', { taskId, inputResponses: answersTo(inputRequests) })
  }

  async #rest(more: number): Promise<void> {
    await pause(60 + more + this.#random.next() * 200)
  }

  #ending(outcome: Outcome): OperationEnding {
    const type = outcome.kind === 'lost' ? 'info' : outcome.kind === 'completed' ? 'ok' : 'fail'
    this.#note(type, `${outcome.kind} ${outcome.code ?? ''}`)
    return { plan: this.#plan, outcome, wrong: this.#wrong }
  }

  #note(type: HistoryEvent['type'], what: string): void {
    this.#clients.history.push({ name: this.#plan.name, type, at: Date.now(), what })
  }

  async #request(method: string, params: Json): Promise<Answer | undefined> {
    const { server } = this.#plan
    const whole = enveloped(params, REVISION, this.#capabilities)
    const name = params['taskId'] ?? params['name']
    const headers = {
      ...usual,
      'mcp-protocol-version': REVISION,
      'mcp-method': method,
      ...(name !== undefined && { 'mcp-name': String(name) }),
    }
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: whole })
    const signal = AbortSignal.timeout(REQUEST_TIMEOUT_MS)
    const gateway = this.#random.pick(this.#clients.gateways)
    this.#note('invoke', method)
    try {
      const response = await fetch(`${gateway.url}/${server}`, { method: 'POST', headers, body, signal })
      return answerIn(await response.text())
    } catch {
      return undefined
    }
  }
}

/** The statuses that a task ends with. */
const ends: ReadonlySet<unknown> = new Set(['completed', 'failed', 'cancelled'])

/** Listens to a task until it is closed; where a stream breaks, it opens another one. */
class TaskListener {
  /** The status of the end that it was told of. */
  told: string | undefined
  streams = 0
  /** When the present stream was accepted; undefined while there is none. */
  acceptedAt: number | undefined
  readonly #closing = new AbortController()

  constructor(taskId: string, listen: (signal: AbortSignal) => ReturnType<typeof open>) {
    void this.#run(taskId, listen)
  }

  close(): void {
    this.#closing.abort()
  }

  async #run(taskId: string, listen: (signal: AbortSignal) => ReturnType<typeof open>): Promise<void> {
    const { signal } = this.#closing
    while (!signal.aborted) {
      try {
        for await (const { data } of (await listen(signal)).events()) this.#take(taskId, parsed(data ?? ''))
      } catch {
        // The gateway is gone, or it is closed.
      }
      this.acceptedAt = undefined
      await pause(100)
    }
  }

  #take(taskId: string, message: unknown): void {
    const { method, params } = isObject(message) ? message : {}
    const given = isObject(params) ? params : {}
    if (method === 'notifications/subscriptions/acknowledged') {
      this.streams++
      const { taskIds } = objectAt(given, 'notifications')
      this.acceptedAt = Array.isArray(taskIds) && taskIds.includes(taskId) ? Date.now() : undefined
    }
    if (method === 'notifications/tasks' && ends.has(given['status'])) this.told ??= String(given['status'])
  }
}

function answersTo(inputRequests: Json): Json {
  const keys = Object.keys(inputRequests)
  return Object.fromEntries(keys.map((key) => [key, { action: 'accept', content: { confirm: true } }]))
}

const lost: Outcome = { kind: 'lost', structured: {}, text: '' }

function failedWith({ code, text }: { readonly code: string; readonly text: string }): Outcome {
  return { kind: 'failed', code, structured: {}, text }
}

function parsed(text: string): unknown {
  try {
    return parseExact(text)
  } catch {
    return undefined
  }
}

/** Whether an answer to a question counts no more, so that the question has to be asked again. */
function isSpent(code: string | undefined): boolean {
  return code === 'CONFIRMATION_TOKEN_INVALID' || code === 'STATE_INVALID' || code === 'STATE_EXPIRED'
}

/** The last message of a response, which may be an event stream. A stream that broke off has none. */
function answerIn(text: string): Answer | undefined {
  const isStream = !text.startsWith('{')
  const last = isStream
    ? new SseParser().push(text).findLast(({ data }) => data !== undefined && data !== '')
    : undefined
  const message = parsed(last?.data ?? text)
  if (!isObject(message)) return undefined
  const { result, error } = message
  if (isObject(error)) {
    const data = objectAt(error, 'data')
    const isPassing = data['category'] === 'transient' || data['category'] === 'rate_limited'
    return { code: String(data['code']), isPassing, text: JSON.stringify(error) }
  }
  if (!isObject(result)) return undefined
  const failure = result['isError'] === true ? objectAt(objectAt(result, '_meta'), 'dev.gatehouse/error') : {}
  const isPassing = failure['category'] === 'transient' || failure['category'] === 'rate_limited'
  if (isPassing) return { code: String(failure['code']), isPassing, text: JSON.stringify(result) }
  return { result }
}

/** What a task ended with; undefined while it goes on. */
function endOf(task: Json): Outcome | undefined {
  const { status } = task
  if (status === 'completed') return { ...outcomeOf(objectAt(task, 'result')), text: JSON.stringify(task) }
  if (status === 'cancelled') return { kind: 'cancelled', structured: {}, text: JSON.stringify(task) }
  if (status !== 'failed') return undefined
  const code = String(objectAt(objectAt(task, 'error'), 'data')['code'])
  return { kind: 'failed', code, structured: {}, text: JSON.stringify(task) }
}

function outcomeOf(result: Json): Outcome {
  const text = JSON.stringify(result)
  if (result['isError'] === true) {
    const { code } = objectAt(objectAt(result, '_meta'), 'dev.gatehouse/error')
    return { kind: 'failed', code: String(code), structured: {}, text }
  }
  return { kind: 'completed', structured: objectAt(result, 'structuredContent'), text }
}
