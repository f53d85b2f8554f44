/**
 * Calls a tool that may change something, each time as the only step of a transaction that is rolled back. Invariant:
 * no call is made unless its undo is certain beforehand, and after a rollback that failed no further one is made.
 */
import { randomUUID } from 'node:crypto'
import type { Handler } from '../../core/call.ts'
import type { Descriptor } from '../../core/descriptor.ts'
import { asGatewayError } from '../../core/error.ts'
import { isObject, readJson, isSame } from '../../core/json/json.ts'
import { type Fields, Payload } from '../../core/payload.ts'
import { ownCall } from '../../protocol/lift.ts'
import { TRANSACTION_ID } from '../../protocol/meta-keys.ts'
import type { TransportInterceptor } from '../../upstream/transport/transport.ts'
import { type Case, type CaseKind, casesOf } from './cases.ts'
import { type Example, judgeExamples, shown } from './examples.ts'
import { type WireAnswer, answerOf, type CheckContext } from './session.ts'
import { answerIn, judgeAll, judgeCase, paramsOf, type Tried } from './tool-test.ts'
import { outsideOf, type Sandbox } from '../prove/sandbox.ts'
import { trialsOf } from '../prove/trials.ts'

/** A gateway with transactions, in front of the server. */
export interface UndoableCalls {
  readonly handle: Handler
  readonly answers: AnswerCapture
  /** Why the calls of a tool cannot be undone with certainty; undefined if they can. */
  doubt(tool: string): Promise<string | undefined>
  /** Set once a call could not be undone: then no further one is made. */
  failure?: string
}

interface Context extends Omit<CheckContext, 'session'> {
  readonly revision: string
  readonly seed: number
  readonly examples: readonly Example[]
}

/** The kinds of calls. Unusual values could have effects that the undo of usual ones does not find. */
const kinds: readonly CaseKind[] = ['valid', 'missing', 'wrong-type', 'extra']
/** The maximum number of cases of one tool. */
const MAX_CASES = 12

/** Tests one tool, or reports why it is not called. */
export async function testWritingTool(
  tool: Descriptor,
  calls: UndoableCalls,
  context: Context,
): Promise<void> {
  const { results, seed, examples } = context
  const checks = results.about(`tool/${tool.name}`)
  const why = calls.failure ?? (await calls.doubt(tool.name))
  if (why !== undefined) return checks.skip('results', 'calls', `not called: ${why}`)
  const inputs = examples.map(({ input }) => input)
  const { cases, problem } = casesOf(tool.definition, { seed, examples: inputs, most: MAX_CASES, kinds })
  if (problem !== undefined) checks.skip('results', 'valid', problem)
  const all: Tried[] = []
  for (const tried of cases) {
    if (calls.failure !== undefined) break
    const answer = await undoneCall(tool, tried, calls, context)
    if (answer) all.push({ tried, answer })
  }
  judgeAll(tool, all, context)
  const uncalled = 'not called: only the first examples that fit the schema are'
  await judgeExamples(tool, examples, context, (input) => answerIn(all, input) ?? uncalled)
}

/** Makes one call and undoes it. Undefined if the server was not called. */
async function undoneCall(
  tool: Descriptor,
  tried: Case,
  calls: UndoableCalls,
  context: Context,
): Promise<WireAnswer | undefined> {
  const { results, redactor } = context
  const id = randomUUID()
  const checks = results.about(`tool/${tool.name}`)
  let refusal: string | undefined
  try {
    await request(calls, 'transaction/begin', { [TRANSACTION_ID]: id }, tool)
    calls.answers.expect(tool.name)
    await request(calls, 'tools/call', { ...paramsOf(tool, tried), [TRANSACTION_ID]: id }, tool)
  } catch (error) {
    refusal = asGatewayError(error).message
  }
  const answer = calls.answers.take()
  const problem = await rollBack(calls, id, tool)
  if (answer) results.called(tool.name)
  if (answer) judgeCase(tool, { tried, answer }, context)
  if (problem !== undefined) {
    calls.failure = `a call of ${tool.name} (${tried.id}) could not be undone`
    const message = `The call could not be undone: ${problem}`
    checks.add('results', `${tried.id}/undo`, { status: 'error', message })
  } else if (!answer) {
    const why = shown(refusal ?? 'the gateway did not send it', redactor)
    checks.skip('results', tried.id, `not called: ${why}`)
  }
  return answer
}

/** Rolls a transaction back: the reason if not everything was undone. */
async function rollBack(calls: UndoableCalls, id: string, tool: Descriptor): Promise<string | undefined> {
  try {
    const ended = await request(calls, 'transaction/rollback', { [TRANSACTION_ID]: id }, tool)
    if (ended.status === 'rolled_back') return undefined
    const steps: readonly unknown[] = Array.isArray(ended.steps_compensated) ? ended.steps_compensated : []
    const errors = steps.flatMap((step) =>
      isObject(step) && isObject(step.error) ? [step.error.message] : [],
    )
    return `its transaction is ${JSON.stringify(ended.status)}. ${errors.join(' ')}`.trim()
  } catch (error) {
    return asGatewayError(error).message
  }
}

async function request(
  { handle }: UndoableCalls,
  method: string,
  fields: Fields,
  { upstream, name }: Descriptor,
): Promise<Fields> {
  const target = { method, upstream, ...(method === 'tools/call' && { name }) }
  const outcome = await handle(ownCall({ method, target, params: Payload.of(fields) }))
  return outcome.kind === 'result' ? outcome.result.fields : {}
}

/** Keeps the answer of the server to a call, as it is on the wire. Pass `intercept` to the gateway. */
export class AnswerCapture {
  #tool: string | undefined
  #id: unknown
  #since = 0
  #answer: WireAnswer | undefined
  readonly #now: () => number

  constructor(now: () => number) {
    this.#now = now
  }

  readonly intercept: TransportInterceptor = (open) => async (receiver) => {
    const transport = await open({
      ...receiver,
      receive: (text, about) => {
        this.#received(readJson(text))
        receiver.receive(text, about)
      },
    })
    const send = transport.send.bind(transport)
    transport.send = (message, exchange) => {
      this.#sent(readJson(message))
      return send(message, exchange)
    }
    return transport
  }

  /** Waits for the next call of a tool; the calls that undo it come later. */
  expect(tool: string): void {
    this.#tool = tool
    this.#id = this.#answer = undefined
  }

  /** The answer to the expected call; undefined if it was not made or not answered. */
  take(): WireAnswer | undefined {
    this.#tool = undefined
    return this.#answer
  }

  #sent(message: unknown): void {
    if (!isObject(message) || message.method !== 'tools/call' || !isObject(message.params)) return
    if (this.#id !== undefined || message.params.name !== this.#tool) return
    this.#id = message.id
    this.#since = this.#now()
  }

  #received(message: unknown): void {
    if (!isObject(message) || this.#id === undefined || message.id !== this.#id) return
    if (message.method === undefined) this.#answer ??= answerOf(message, this.#now() - this.#since)
  }
}

/*
 * Calls a tool that may change something in a sandbox, where nothing has to be undone. Invariant: no call is made with an
 * argument that looks like a place outside of the sandbox.
 */

/** The maximum number of cases of one tool. */
const MAX_SANDBOX_CASES = 40
/** After so many calls without a response in time, the rest of the calls of a tool is left out. */
const MAX_SILENT = 2

/** Tests one tool, or reports why it is not called. @throws ServerLost */
export async function testInSandbox(
  tool: Descriptor,
  sandbox: Sandbox,
  context: Context & CheckContext,
): Promise<void> {
  const { results, session, seed, examples } = context
  const checks = results.about(`tool/${tool.name}`)
  const leaveOut = (message: string): void => checks.skip('results', 'calls', message)
  const isExecuting = tool.classification.op === 'execute'
  if (isExecuting && examples.length === 0)
    return leaveOut(
      'not called: it runs what its caller writes: give examples of the tool in the configuration',
    )
  const given = examples.map(({ input }) => input)
  const trials = trialsOf(tool.definition, { sandbox, given: undefined, examples: given })
  if ('problem' in trials) {
    const advice = trials.isArgumentNeeded ? ': give examples of the tool in the configuration' : ''
    return leaveOut(`not called: ${trials.problem}${advice}`)
  }
  // Not a text that shows that a hostile one was executed.
  const { arguments: first } = trials.make(`sandbox-${randomUUID().slice(0, 8)}`)
  const made = casesOf(tool.definition, { seed, examples: [first, ...given], most: MAX_SANDBOX_CASES }).cases
  // What is run is never what the schema suggests.
  const cases = isExecuting
    ? made.filter((each) => given.some((input) => isSame(input, each.arguments)))
    : made
  const inside = cases.filter((each) => isInside(each, sandbox))
  const all: Tried[] = []
  for (const tried of inside) {
    if (all.filter(({ answer }) => answer.kind === 'none').length >= MAX_SILENT) break
    const answer = await session.request('tools/call', paramsOf(tool, tried), tool.definition)
    results.called(tool.name)
    all.push({ tried, answer })
    judgeCase(tool, { tried, answer }, context)
  }
  const left = cases.length - all.length
  if (left > 0)
    checks.skip(
      'results',
      'left-out',
      `${left} calls are not made: they leave the sandbox, or the server does not respond`,
    )
  judgeAll(tool, all, context)
  const uncalled = 'not called: it leaves the sandbox'
  await judgeExamples(tool, examples, context, (input) => answerIn(all, input) ?? uncalled)
}

function isInside({ arguments: given }: Case, sandbox: Sandbox): boolean {
  return isObject(given) && outsideOf(sandbox, given, { mustBind: true }) === undefined
}
