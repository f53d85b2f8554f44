/**
 * Reads the lists of a server page by page, and judges that they end, that nothing is listed twice, and their
 * form. Gets the listed prompts and reads the listed resources, and asks for ones that do not exist.
 */
import type { Fields } from '../../core/payload.ts'
import { isObject } from '../../core/json/json.ts'
import { listMethods } from '../../lint/asking.ts'
import { method } from '../../protocol/methods.ts'
import { type Results, type SubjectChecks, summary } from './results.ts'
import { absenceOf, type ServerSession, type WireAnswer, type CheckContext, isAsking } from './session.ts'
import { entryMembers, entryProblems, promptProblems, readProblems } from './shapes.ts'
import type { Redactor } from '../../core/text/redactor.ts'
import { failureText, leakIn, shown } from './examples.ts'

/** The entries of the lists of a server, by the name of the list: `tools`, `prompts`, `resources`, `resourceTemplates`. */
export type Lists = Readonly<Record<string, readonly Fields[]>>

/** The maximum number of pages that are read: a list that is longer does not end. */
const MAX_PAGES = 200
/** The maximum number of entries of one list. */
const MAX_ENTRIES = 20_000

interface Read {
  readonly entries: readonly unknown[]
  readonly pages: number
  readonly ms: number
  /** Why the list was not read to its end. */
  readonly problem?: string
  /** The server does not have the method. */
  readonly isUnknown?: true
}

/** Reads all lists, and adds the checks of each. @throws ServerLost */
export async function testLists(session: ServerSession, results: Results): Promise<Lists> {
  const lists: Record<string, readonly Fields[]> = {}
  for (const name of listMethods) {
    const { list = '', capability = '' } = method(name)
    const isDeclared = isObject(session.capabilities[capability])
    const read = await readPages(session, name, list)
    lists[list] = read.entries.filter(isObject)
    // What is declared and what is served is compared by the rules of lint.
    const isMissing = read.isUnknown && !(isDeclared && list === 'tools')
    if (isMissing || (!isDeclared && read.entries.length === 0)) continue
    judgeList(read, list, results)
  }
  return lists
}

function judgeList({ entries, pages, ms, problem }: Read, list: string, results: Results): void {
  const checks = results.about(`list/${list}`)
  checks.judge('protocol', 'pages', problem, { note: `${entries.length} entries on ${pages} pages`, ms })
  const problems = entries.flatMap((entry, at) => entryProblems(entry, list, at))
  checks.judge('definitions', 'entries', problems)
  const key = entryMembers[list]?.[0] ?? 'name'
  const names = entries.flatMap((entry) =>
    isObject(entry) && typeof entry[key] === 'string' ? [entry[key]] : [],
  )
  const counts = new Map<string, number>()
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1)
  const twice = [...counts].flatMap(([name, count]) => (count > 1 ? [name] : []))
  const repeated = twice.map((name) => `${name.slice(0, 80)} is listed more than once`)
  checks.judge('definitions', 'unique', repeated)
}

async function readPages(session: ServerSession, name: string, list: string): Promise<Read> {
  const entries: unknown[] = []
  const seen = new Set<string>()
  let cursor: unknown
  let ms = 0
  for (let pages = 0; pages < MAX_PAGES && entries.length < MAX_ENTRIES;) {
    const answer = await session.request(name, cursor === undefined ? {} : { cursor })
    ms += answer.ms
    if (answer.kind !== 'result') {
      const isUnknown = answer.kind === 'error' && answer.error.code === -32601 && pages === 0
      return { entries, pages, ms, problem: absenceOf(answer), ...(isUnknown && { isUnknown }) }
    }
    pages += 1
    const found = answer.result[list]
    if (!Array.isArray(found)) return { entries, pages, ms, problem: `the result has no list ${list}` }
    const page: readonly unknown[] = found
    entries.push(...page)
    cursor = answer.result.nextCursor
    if (cursor === undefined || cursor === null) return { entries, pages, ms }
    if (typeof cursor !== 'string') return { entries, pages, ms, problem: 'nextCursor is not a text' }
    if (seen.has(cursor))
      return { entries, pages, ms, problem: `the pages do not end: the cursor of page ${pages} came before` }
    seen.add(cursor)
  }
  return {
    entries,
    pages: seen.size,
    ms,
    problem: `the list does not end within ${MAX_PAGES} pages and ${MAX_ENTRIES} entries`,
  }
}

/** Judges the names of tools: what clients and models accept as one. */
export function judgeNames(tools: readonly Fields[], results: Results): void {
  const odd = tools.flatMap(({ name }) =>
    typeof name === 'string' && !/^[\w.-]{1,128}$/.test(name) ? [name] : [],
  )
  if (tools.length === 0) return
  const problems = odd.map((name) => `${JSON.stringify(name.slice(0, 80))} has other characters, or over 128`)
  results.about('list/tools').judge('definitions', 'names', problems)
}

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
  const checks = results.about(`prompt/${String(name)}`)
  const declared = Array.isArray(wanted) ? wanted.filter(isObject) : []
  const given = Object.fromEntries(declared.map((each) => [String(each.name), '1']))
  const answer = await session.request('prompts/get', {
    name,
    ...(declared.length > 0 && { arguments: given }),
  })
  const problems = answer.kind === 'result' ? promptProblems(answer.result, session.revision) : []
  // The values of arguments are guesses.
  const isRefusal = answer.kind === 'error' && declared.length > 0
  addAnswer(checks, 'get', { answer, problems, isRefusal, redactor })
  const required = declared.find((each) => each.required === true)
  if (!required) return
  const incomplete = await session.request('prompts/get', { name, arguments: {} })
  const isRefused = incomplete.kind === 'error'
  checks.add('refusals', `missing/${String(required.name)}`, {
    status: isRefused ? 'passed' : 'failed',
    message: refusalNote(incomplete, redactor) ?? 'it accepted the call without a required argument',
    ms: incomplete.ms,
  })
}

async function testResource(
  { uri, size }: Fields,
  { session, results, redactor }: CheckContext,
): Promise<void> {
  const checks = results.about(`resource/${String(uri)}`)
  if (typeof size === 'number' && size > MAX_SIZE)
    return checks.skip('results', 'read', `it has ${size} bytes`)
  const answer = await session.request('resources/read', { uri })
  const problems = answer.kind === 'result' ? readProblems(answer.result) : []
  addAnswer(checks, 'read', { answer, problems, isRefusal: false, redactor })
}

interface Given {
  readonly answer: WireAnswer
  readonly problems: readonly string[]
  /** An error is a proper answer. */
  readonly isRefusal: boolean
  readonly redactor: Redactor
}

function addAnswer(
  checks: SubjectChecks,
  name: string,
  { answer, problems, isRefusal, redactor }: Given,
): void {
  if (isAsking(answer)) return checks.skip('results', name, 'the server asks the client for something')
  const isRight = (answer.kind === 'result' && problems.length === 0) || isRefusal
  const failure = answer.kind === 'result' ? undefined : refusalNote(answer, redactor)
  const message =
    failure ?? (problems.length > 0 ? `the result is malformed: ${summary(problems)}` : undefined)
  checks.add('results', name, { status: isRight ? 'passed' : 'failed', message, ms: answer.ms })
}

/** The codes with which each unknown item is refused; the first is that of the specification. */
const codes = { tool: [-32602], prompt: [-32602], resource: [-32002, -32602] } as const

async function testUnknown(
  kind: keyof typeof codes,
  method: string,
  params: Fields,
  { session, results, redactor }: CheckContext,
): Promise<void> {
  const checks = results.about(`unknown/${kind}`)
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
  checks.judge('refusals', 'refused', isRight ? undefined : problem, { note, ms: answer.ms })
  const text = failureText(answer)
  if (text === undefined) return
  const leak = leakIn(text, params, redactor)
  checks.judge('errors', 'error-text', leak && `it reveals ${leak}`)
}

/** A URI that nothing has, with the scheme of one that exists. */
function unknownUri(uri: string): string {
  const scheme = /^[a-z][a-z0-9+.-]*:/i.exec(uri)?.[0] ?? 'gatehouse:'
  return `${scheme}//${UNKNOWN}/0`
}

function refusalNote(answer: WireAnswer, redactor: Redactor): string | undefined {
  if (answer.kind === 'result') return undefined
  const text = failureText(answer)
  return text === undefined ? absenceOf(answer) : `${absenceOf(answer)}: ${shown(text, redactor)}`
}
