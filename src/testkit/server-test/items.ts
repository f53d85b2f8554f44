/** Gets the listed prompts and reads the listed resources, and asks for ones that do not exist. */
import type { Fields } from '../../core/payload.ts'
import { isObject } from '../../core/json/json.ts'
import type { Redactor } from '../../core/text/redactor.ts'
import { failureText, leakIn, shown } from './leaks.ts'
import type { Lists } from './lists.ts'
import { type Results, summary } from './results.ts'
import { type Answer, absenceOf, type CheckContext, isAsking } from './session.ts'
import { promptProblems, readProblems } from './shapes.ts'

/** How many prompts are got, and how many resources are read. */
const MAX_ITEMS = 25
/** Resources whose declared size is above this are not read, in bytes. */
const MAX_SIZE = 5_000_000

const UNKNOWN = 'gatehouse-no-such-item'

/** Tests the items of the lists, and unknown ones. @throws ServerLost */
export async function testItems(lists: Lists, context: CheckContext): Promise<void> {
  const { tools = [], prompts = [], resources = [] } = lists
  for (const prompt of prompts.slice(0, MAX_ITEMS)) await testPrompt(prompt, context)
  for (const resource of resources.slice(0, MAX_ITEMS)) await testResource(resource, context)
  if (tools.length > 0) await testUnknown('tool', 'tools/call', { name: UNKNOWN, arguments: {} }, context)
  if (prompts.length > 0) await testUnknown('prompt', 'prompts/get', { name: UNKNOWN }, context)
  const [first] = resources
  if (first) await testUnknown('resource', 'resources/read', { uri: unknownUri(String(first.uri)) }, context)
}

async function testPrompt(
  { name, arguments: wanted }: Fields,
  { session, results, redactor }: CheckContext,
): Promise<void> {
  const subject = `prompt/${String(name)}`
  const declared = Array.isArray(wanted) ? wanted.filter(isObject) : []
  const given = Object.fromEntries(declared.map((each) => [String(each.name), '1']))
  const answer = await session.request('prompts/get', {
    name,
    ...(declared.length > 0 && { arguments: given }),
  })
  const problems = answer.kind === 'result' ? promptProblems(answer.result, session.revision) : []
  // The values of arguments are guesses.
  const isRefusal = answer.kind === 'error' && declared.length > 0
  addAnswer(results, { subject, id: `${subject}/get`, answer, problems, isRefusal, redactor })
  const required = declared.find((each) => each.required === true)
  if (!required) return
  const incomplete = await session.request('prompts/get', { name, arguments: {} })
  const accepted = incomplete.kind === 'result'
  results.add('refusals', subject, `${subject}/missing/${String(required.name)}`, {
    status: incomplete.kind === 'error' ? 'passed' : 'failed',
    message: accepted
      ? 'it accepted the call without a required argument'
      : refusalNote(incomplete, redactor),
    ms: incomplete.ms,
  })
}

async function testResource(
  { uri, size }: Fields,
  { session, results, redactor }: CheckContext,
): Promise<void> {
  const subject = `resource/${String(uri)}`
  const id = `${subject}/read`
  if (typeof size === 'number' && size > MAX_SIZE)
    return results.add('results', subject, id, { status: 'skipped', message: `it has ${size} bytes` })
  const answer = await session.request('resources/read', { uri })
  const problems = answer.kind === 'result' ? readProblems(answer.result) : []
  addAnswer(results, { subject, id, answer, problems, isRefusal: false, redactor })
}

interface Given {
  readonly subject: string
  readonly id: string
  readonly answer: Answer
  readonly problems: readonly string[]
  /** An error is a proper answer. */
  readonly isRefusal: boolean
  readonly redactor: Redactor
}

function addAnswer(results: Results, { subject, id, answer, problems, isRefusal, redactor }: Given): void {
  if (isAsking(answer))
    return results.add('results', subject, id, {
      status: 'skipped',
      message: 'the server asks the client for something',
    })
  const isRight = (answer.kind === 'result' && problems.length === 0) || isRefusal
  const failure = answer.kind === 'result' ? undefined : refusalNote(answer, redactor)
  const message =
    failure ?? (problems.length > 0 ? `the result is malformed: ${summary(problems)}` : undefined)
  results.add('results', subject, id, { status: isRight ? 'passed' : 'failed', message, ms: answer.ms })
}

/** The codes with which each unknown item is refused; the first is that of the specification. */
const codes = { tool: [-32602], prompt: [-32602], resource: [-32002, -32602] } as const

async function testUnknown(
  kind: keyof typeof codes,
  method: string,
  params: Fields,
  { session, results, redactor }: CheckContext,
): Promise<void> {
  const subject = `unknown/${kind}`
  const answer = await session.request(method, params)
  // Calls of unknown tools may fail as the call of a tool.
  const isFailed = answer.kind === 'result' && kind === 'tool' && answer.result.isError === true
  const code = answer.kind === 'error' ? answer.error.code : undefined
  const expected = kind === 'resource' && session.era === 'modern' ? [-32602, -32002] : codes[kind]
  const isRight = isFailed || expected.some((each) => each === code)
  const usual = `${session.revision} recommends ${expected[0]}`
  const note =
    isFailed || code === expected[0] ? undefined : `warning: the code is ${JSON.stringify(code)}; ${usual}`
  const problem =
    answer.kind === 'result'
      ? `it answered an unknown ${kind} with a result`
      : code === undefined
        ? absenceOf(answer)
        : `the code is ${JSON.stringify(code)}; ${usual}`
  results.add('refusals', subject, `${subject}/refused`, {
    status: isRight ? 'passed' : 'failed',
    message: isRight ? note : problem,
    ms: answer.ms,
  })
  const text = failureText(answer)
  const leak = text === undefined ? undefined : leakIn(text, params, redactor)
  if (text !== undefined)
    results.judge('errors', subject, `${subject}/error-text`, {
      problems: leak === undefined ? [] : [`it reveals ${leak}`],
    })
}

/** A URI that nothing has, with the scheme of one that exists. */
function unknownUri(uri: string): string {
  const scheme = /^[a-z][a-z0-9+.-]*:/i.exec(uri)?.[0] ?? 'gatehouse:'
  return `${scheme}//${UNKNOWN}/0`
}

function refusalNote(answer: Answer, redactor: Redactor): string | undefined {
  if (answer.kind === 'result') return undefined
  const text = failureText(answer)
  return text === undefined ? absenceOf(answer) : `${absenceOf(answer)}: ${shown(text, redactor)}`
}
