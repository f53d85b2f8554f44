/**
 * Calls one tool with its cases and judges the answers. Only calls that read are made: the judgement is that of the
 * gateway, for the arguments of each call, not the name of the tool.
 */
import type { Descriptor } from '../../core/descriptor.ts'
import { asObject, isObject, isSame, readJson } from '../../core/json/json.ts'
import { asCalled } from '../../core/judgement/call.ts'
import { type Fields, Payload } from '../../core/payload.ts'
import type { Redactor } from '../../core/text/redactor.ts'
import { steady } from '../steady.ts'
import { type Case, casesOf, executionIn } from './cases.ts'
import { type Example, judgeExamples, failureText, leakIn, shown } from './examples.ts'
import { type SubjectChecks, summary } from './results.ts'
import {
  type WireAnswer,
  type CheckContext,
  isAsking,
  isHttpRefusal,
  isSuccess,
  ServerLost,
} from './session.ts'
import { callProblems } from './shapes.ts'
import { UnusableSchema, validator } from '../../core/schema/schema.ts'

interface Context extends CheckContext {
  readonly seed: number
  readonly examples: readonly Example[]
  /** The maximum number of cases. */
  readonly most: number
  /** When the test of this tool has to end, in milliseconds since 1970. */
  readonly deadline: number
  readonly now: () => number
}

/** An answer, and the case it belongs to. */
export interface Tried {
  readonly tried: Case
  readonly answer: WireAnswer
}

/**
 * After so many calls without a response in time, the rest of the calls of a tool is left out: one alone may be an
 * accident. A call that reports progress past its time is no accident, so the first one decides.
 */
const MAX_SILENT = 2
/** Above this 95th percentile a tool is called slow, in milliseconds. */
const SLOW_MS = 2000

/** Tests a tool that reads, in some of its calls at least. @throws ServerLost */
export async function testReadingTool(tool: Descriptor, context: Context): Promise<void> {
  const { results, session, seed, examples, most } = context
  const checks = results.about(`tool/${tool.name}`)
  const inputs = examples.map(({ input }) => input)
  const { cases, problem } = casesOf(tool.definition, { seed, examples: inputs, most })
  if (problem !== undefined) checks.skip('results', 'valid', problem)
  const reading = cases.filter(({ arguments: given }) => isRead(tool, given))
  const left = cases.length - reading.length
  if (left > 0)
    checks.skip(
      'results',
      'writes',
      `${left} calls are not made: with these arguments it may change something`,
    )
  const restarts = session.restarts
  const all: Tried[] = []
  const skipped: string[] = []
  for (const tried of reading) {
    const why = reasonToStop(all, context)
    if (why !== undefined) {
      skipped.push(why)
      continue
    }
    const answer = await session.request('tools/call', paramsOf(tool, tried), tool.definition)
    results.called(tool.name)
    all.push({ tried, answer })
    judgeCase(tool, { tried, answer }, { ...context, revision: session.revision })
  }
  if (skipped.length > 0)
    checks.skip('robustness', 'left-out', `${skipped.length} cases were left out: ${skipped[0]}`)
  judgeAll(tool, all, context)
  await judgeExamples(tool, examples, context, (input) => exampleAnswer(tool, input, all, context))
  await judgeRepeat(tool, all, context)
  await judgeSurvival(tool, all, { ...context, restarts })
}

/** The answer to the call of an example: that of a case with the same arguments, or else of a call of its own. */
async function exampleAnswer(
  tool: Descriptor,
  input: Fields,
  all: readonly Tried[],
  context: Context,
): Promise<WireAnswer | string> {
  const made = answerIn(all, input)
  if (made) return made
  if (!isRead(tool, input)) return 'not called, because it may change something with these arguments'
  const why = reasonToStop(all, context)
  if (why !== undefined) return `not called: ${why}`
  context.results.called(tool.name)
  const params = { name: tool.name, arguments: input }
  const answer = await context.session.request('tools/call', params, tool.definition)
  if (isSuccess(answer)) context.results.answered(tool.name)
  return answer
}

/** The answer to the case with these arguments. */
export function answerIn(all: readonly Tried[], input: Fields): WireAnswer | undefined {
  return all.find(({ tried }) => isSame(tried.arguments, input))?.answer
}

/** Whether a call with these arguments only reads. */
function isRead(tool: Descriptor, given: unknown): boolean {
  const params = Payload.of({ name: tool.name, arguments: asObject(given) })
  return asCalled(tool, { params }).classification.op === 'read'
}

/** The parameters of the call of a case. */
export function paramsOf(tool: Descriptor, { arguments: given }: Case): Fields {
  return { name: tool.name, arguments: given }
}

function reasonToStop(all: readonly Tried[], { now, deadline }: Context): string | undefined {
  const reasons = all.map(({ answer }) => (answer.kind === 'none' ? answer.why : undefined))
  if (reasons.includes('slow')) return 'a call did not end in time though it reported progress'
  const silent = reasons.filter((why) => why === 'timeout').length
  if (silent >= MAX_SILENT) return `${silent} calls did not end in time`
  return now() > deadline ? 'the time is over' : undefined
}

/** Judges the answer to one case by itself. */
export function judgeCase(
  tool: Descriptor,
  { tried, answer }: Tried,
  { results, revision, redactor }: Omit<CheckContext, 'session'> & { readonly revision: string },
): void {
  const checks = results.about(`tool/${tool.name}`)
  if (tried.broken === undefined && isSuccess(answer)) results.answered(tool.name)
  const area = tried.broken !== undefined ? 'refusals' : tried.kind === 'hostile' ? 'robustness' : 'results'
  const { ms } = answer
  if (answer.kind === 'none' && answer.why === 'slow')
    return checks.add(area, tried.id, { status: 'skipped', message: answer.message, ms })
  const { problem, note } = verdict(tried, answer, { revision, redactor })
  checks.judge(area, tried.id, problem, { note, ms })
}

function verdict(
  { broken, kind }: Case,
  answer: WireAnswer,
  { revision, redactor }: { readonly revision: string; readonly redactor: Redactor },
): { readonly problem?: string; readonly note?: string } {
  if (isHttpRefusal(answer) && (broken !== undefined || kind !== 'valid')) return { note: 'refused by HTTP' }
  if (answer.kind === 'none') return { problem: answer.message }
  if (isAsking(answer)) return { note: 'it asks the client for something' }
  const failure = failureText(answer)
  if (answer.kind === 'result') {
    const problems = callProblems(answer.result, revision)
    if (problems.length > 0) return { problem: `the result is malformed: ${summary(problems)}` }
    const executed = executionIn(JSON.stringify(answer.result))
    if (executed !== undefined) return { problem: executed }
  }
  if (failure !== undefined) return { note: `refused: ${shown(failure, redactor)}` }
  return broken === undefined
    ? {}
    : { problem: `it accepted what its input schema does not allow: ${broken}` }
}

/** Judges all answers of a tool together. */
export function judgeAll(
  tool: Descriptor,
  all: readonly Tried[],
  { results, redactor }: Omit<CheckContext, 'session'>,
): void {
  const checks = results.about(`tool/${tool.name}`)
  const successes = all.flatMap(({ tried, answer }) =>
    answer.kind === 'result' && answer.result.isError !== true && tried.broken === undefined
      ? [{ id: tried.id, result: answer.result }]
      : [],
  )
  const { outputSchema } = tool.definition
  if (isObject(outputSchema)) {
    const problems = successes.flatMap(({ id, result }) =>
      outputProblems(result, outputSchema).map((each) => `${id}: ${each}`),
    )
    if (successes.length === 0) checks.skip('results', 'output-schema', 'no call succeeded')
    else checks.judge('results', 'output-schema', problems)
  }
  const structured = successes.filter(({ result }) => result.structuredContent !== undefined)
  if (structured.length > 0)
    checks.judge(
      'results',
      'structured-text',
      structured.flatMap(({ id, result }) => structuredTextProblem(result)?.replace(/^/, `${id}: `) ?? []),
    )
  const failures = all.flatMap(({ tried, answer }) => {
    const text = failureText(answer)
    return text === undefined ? [] : [{ tried, text }]
  })
  if (failures.length > 0)
    checks.judge(
      'errors',
      'error-text',
      failures.flatMap(
        ({ tried, text }) =>
          leakIn(text, paramsOf(tool, tried), redactor)?.replace(/^/, `${tried.id} reveals `) ?? [],
      ),
      { note: `${failures.length} errors` },
    )
  latency(all, checks)
}

function latency(all: readonly Tried[], checks: SubjectChecks): void {
  const times = all
    .flatMap(({ answer }) => (answer.kind === 'none' ? [] : [answer.ms]))
    .toSorted((one, other) => one - other)
  if (times.length === 0) return
  const [half, most] = [percentile(times, 0.5), percentile(times, 0.95)]
  const warning = most > SLOW_MS ? 'warning: slow, ' : ''
  const note = `${warning}median ${Math.round(half)} ms, 95% within ${Math.round(most)} ms, ${times.length} calls`
  checks.judge('latency', 'latency', undefined, { note, ms: half })
}

function percentile(sorted: readonly number[], share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0
}

/** Words of tools whose results differ by their purpose. */
const varying =
  /random|shuffle|sample|generate|uuid|\bnow\b|current time|\btime\b|clock|dice|weather|price|latest|live\b/i

/** Makes one call again: a read has the same result, apart from times and ids. */
async function judgeRepeat(
  tool: Descriptor,
  all: readonly Tried[],
  { results, session, now, deadline }: Context,
): Promise<void> {
  const checks = results.about(`tool/${tool.name}`)
  const first = all.find(
    ({ tried, answer }) =>
      tried.kind === 'valid' && answer.kind === 'result' && answer.result.isError !== true,
  )
  if (first?.answer.kind !== 'result') return
  const { name, definition } = tool
  const { description, annotations } = definition
  const words = `${name.replaceAll(/[_-]/g, ' ')} ${typeof description === 'string' ? description : ''}`
  const word = varying.exec(words)?.[0]
  if (word !== undefined)
    return checks.skip('results', 'repeat', `its results may differ: its definition has the word "${word}"`)
  if (now() > deadline) return
  const again = await session.request('tools/call', paramsOf(tool, first.tried), definition)
  const isEqual = again.kind === 'result' && isSame(steady(again.result), steady(first.answer.result))
  const isOpen = isObject(annotations) && annotations.openWorldHint === true
  const message = isEqual ? undefined : `${first.tried.id}: the same call has another result the second time`
  const note = message && `warning: ${message}`
  checks.judge('results', 'repeat', isOpen ? undefined : message, { note, ms: again.ms })
}

async function judgeSurvival(
  tool: Descriptor,
  all: readonly Tried[],
  { results, session, restarts }: Context & { readonly restarts: number },
): Promise<void> {
  const ended = all.flatMap(({ tried, answer }) =>
    answer.kind === 'none' && answer.why !== 'malformed' && answer.why !== 'slow' && !isHttpRefusal(answer)
      ? [`${tried.id}: ${answer.message}`]
      : [],
  )
  const isAlive = await session.isAlive().catch((error: unknown) => {
    session.mustGoOn()
    if (error instanceof ServerLost) return false
    throw error
  })
  const dead = isAlive || ended.length > 0 ? [] : ['afterwards it does not respond']
  const restarted =
    session.restarts > restarts ? [`it was started again ${session.restarts - restarts} times`] : []
  const problems = [...ended, ...dead, ...(ended.length + dead.length > 0 ? [] : restarted)]
  results
    .about(`tool/${tool.name}`)
    .judge('robustness', 'survives', problems, { note: `${all.length} calls` })
}

/** Why a success does not fit the output schema of its tool. */
export function outputProblems({ structuredContent }: Fields, outputSchema: Fields): string[] {
  if (structuredContent === undefined)
    return ['there is an output schema, but the result has no structuredContent']
  try {
    return validator(outputSchema)(structuredContent).map(
      ({ path, message }) => `structuredContent${path.map((each) => `.${each}`).join('')} ${message}`,
    )
  } catch (error) {
    if (!(error instanceof UnusableSchema)) throw error
    return [error.message.slice(0, 200)]
  }
}

/**
 * Why the text of a structured result says something else: it is JSON, and neither the structured content nor its only
 * member. Text that is not JSON is for people, and is not compared.
 */
export function structuredTextProblem({ content, structuredContent }: Fields): string | undefined {
  const blocks: readonly unknown[] = Array.isArray(content) ? content : []
  const values = blocks.flatMap((block) => {
    const value = isObject(block) && typeof block.text === 'string' ? readJson(block.text) : undefined
    return isObject(value) || Array.isArray(value) ? [value] : []
  })
  if (values.length === 0) return undefined
  const members = isObject(structuredContent) ? Object.values(structuredContent) : []
  const only = members.length === 1 ? members[0] : undefined
  // Some servers put a list, or a text, into an object with one member.
  const parsed = typeof only === 'string' ? readJson(only) : only
  const isEqual = (value: unknown): boolean => isSame(value, structuredContent) || isSame(value, parsed)
  const isItems = Array.isArray(only) && only.length === values.length && isSame(only, values)
  return values.some(isEqual) || isItems ? undefined : 'its text is other JSON than its structuredContent'
}
