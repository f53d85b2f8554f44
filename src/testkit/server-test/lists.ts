/** Reads the lists of a server page by page, and judges that they end, that nothing is listed twice, and their form. */
import type { Fields } from '../../core/payload.ts'
import { isObject } from '../../core/json/json.ts'
import { method } from '../../protocol/methods.ts'
import type { Results } from './results.ts'
import { absenceOf, type ServerSession } from './session.ts'
import { entryMembers, entryProblems } from './shapes.ts'

/** The entries of the lists of a server, by the name of the list: `tools`, `prompts`, `resources`, `resourceTemplates`. */
export type Lists = Readonly<Record<string, readonly Fields[]>>

const listMethods = ['tools/list', 'prompts/list', 'resources/list', 'resources/templates/list'] as const

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
  const subject = `list/${list}`
  results.add('protocol', subject, `${subject}/pages`, {
    status: problem === undefined ? 'passed' : 'failed',
    message: problem ?? `${entries.length} entries on ${pages} pages`,
    ms,
  })
  const problems = entries.flatMap((entry, at) => entryProblems(entry, list, at))
  results.judge('definitions', subject, `${subject}/entries`, { problems })
  const key = entryMembers[list]?.[0] ?? 'name'
  const names = entries.flatMap((entry) =>
    isObject(entry) && typeof entry[key] === 'string' ? [entry[key]] : [],
  )
  const counts = new Map<string, number>()
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1)
  const twice = [...counts].flatMap(([name, count]) => (count > 1 ? [name] : []))
  results.judge('definitions', subject, `${subject}/unique`, {
    problems: twice.map((name) => `${name.slice(0, 80)} is listed more than once`),
  })
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
  results.judge('definitions', 'list/tools', 'list/tools/names', {
    problems: odd.map((name) => `${JSON.stringify(name.slice(0, 80))} has other characters, or over 128`),
  })
}
