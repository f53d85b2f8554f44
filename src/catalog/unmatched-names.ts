import type { Finding } from '../core/finding.ts'
import { fits, overlaps } from '../core/glob.ts'
import { isObject } from '../core/json.ts'
import { hint, namesOf, takes } from '../core/misfits.ts'
import { nearest } from '../core/nearest.ts'
import type { Definition } from '../core/record.ts'
import type { ConfiguredName } from '../core/settings.ts'

/**
 * Holds the names and patterns of a configuration against what servers list. A name that matches nothing is most
 * often misspelt, and what it was to stop or to change then goes on as if nothing had been written. Of a server whose
 * list is not known nothing is said.
 */
export function unmatchedNames(names: readonly ConfiguredName[], known: Known): Finding[] {
  return names.flatMap((name) => {
    const message = problemOf(name, known)
    if (message === undefined) return []
    const { path, at, isGuard } = name
    return [{ path, message, isMinor: !isGuard, ...(at && { at }) }]
  })
}

/** What a server lists. */
export interface ServerLists {
  readonly tools: readonly Definition[]
  readonly prompts: readonly Definition[]
  readonly resources: readonly Definition[]
  readonly resourceTemplates: readonly Definition[]
  /** Whether it has resources at all: it may answer for some that it does not list. */
  readonly hasResources: boolean
}

/** What names are held against. */
export interface Known {
  /** The lists of the servers that could be asked. */
  readonly lists: ReadonlyMap<string, ServerLists>
  /** Whether every server could be asked. */
  readonly isWhole: boolean
  /** Every scope there is. */
  readonly scopes: readonly string[]
}

function problemOf(name: ConfiguredName, known: Known): string | undefined {
  const { kind, pattern, upstream } = name
  if (kind === 'scope') return scopeProblem(pattern, known.scopes)
  if (upstream === undefined)
    return known.isWhole ? commonProblem(name, [...known.lists.values()]) : undefined
  const lists = known.lists.get(upstream)
  if (!lists) return undefined
  if (kind === 'argument') return argumentProblem(name, lists)
  if (kind === 'tool' ? named(lists.tools).some((each) => fits(pattern, each)) : isItem(pattern, lists))
    return undefined
  const all = kind === 'tool' ? named(lists.tools) : subjects(lists)
  const what = kind === 'tool' ? 'tool' : 'tool, prompt or resource'
  return `${upstream} lists no ${what} that this matches${hintOf(name.written ?? pattern, all)}`
}

/** A name that is for the tools of all servers. */
function commonProblem({ kind, pattern }: ConfiguredName, all: readonly ServerLists[]): string | undefined {
  const tools = all.flatMap((each) => named(each.tools))
  if (kind !== 'tool' || tools.some((each) => fits(pattern, each))) return undefined
  return `no server lists a tool that this matches${hintOf(pattern, tools)}`
}

function scopeProblem(pattern: string, scopes: readonly string[]): string | undefined {
  if (scopes.some((scope) => fits(pattern, scope))) return undefined
  return `opens nothing: no server knows this scope${hintOf(pattern, scopes)}`
}

/** An argument that none of the tools or prompts it is meant for takes. */
function argumentProblem(
  { pattern, owner, upstream }: ConfiguredName,
  lists: ServerLists,
): string | undefined {
  if (!owner) return undefined
  const fitting = (entries: readonly Definition[]): readonly Definition[] =>
    entries.filter(({ name }) => typeof name === 'string' && fits(owner.pattern, name))
  const tools = fitting(lists.tools)
  const prompts = owner.kind === 'item' ? fitting(lists.prompts) : []
  const of = [...tools, ...prompts]
  // An owner that matches nothing is told of by itself; what is read by its URI has no arguments.
  if (of.length === 0) {
    const isUri = owner.kind === 'item' && isItem(owner.pattern, lists)
    return isUri ? 'a resource has no arguments: write `on` to refuse it as a whole' : undefined
  }
  if (tools.some((each) => takesArgument(each, pattern)) || prompts.some((each) => asksFor(each, pattern)))
    return undefined
  const others = [
    ...tools.flatMap(({ inputSchema }) => (isObject(inputSchema) ? namesOf(inputSchema) : [])),
  ].concat(prompts.flatMap(argumentNames))
  const whose =
    of.length === 1 ? String(of[0]?.name) : `none of the ${of.length} tools that ${owner.pattern} matches`
  const verb = of.length === 1 ? 'takes no argument' : 'takes an argument'
  return `${whose} of ${upstream} ${verb} ${pattern}${hintOf(pattern, [...new Set(others)])}`
}

/** Rules do not tell upper from lower case in the names of arguments. */
function takesArgument({ inputSchema }: Definition, argument: string): boolean {
  if (!isObject(inputSchema)) return true
  const isAlike = namesOf(inputSchema).some((each) => each.toLowerCase() === argument.toLowerCase())
  return isAlike || takes(inputSchema, argument)
}

function asksFor(prompt: Definition, argument: string): boolean {
  return argumentNames(prompt).some((each) => each.toLowerCase() === argument.toLowerCase())
}

function argumentNames({ arguments: given }: Definition): string[] {
  return named(Array.isArray(given) ? given.filter(isObject) : [])
}

/** Whether a pattern of a rule or a scope is about something a server lists, or might have. */
function isItem(pattern: string, lists: ServerLists): boolean {
  const names = [...named(lists.tools), ...named(lists.prompts)]
  if (names.some((each) => fits(pattern, each))) return true
  const { resources, resourceTemplates } = lists
  if (!isUriPattern(pattern)) return false
  // A server that lists none at all may have any.
  if (resources.length + resourceTemplates.length === 0) return lists.hasResources
  const isBare = !SCHEME.test(pattern)
  const glob = comparable(pattern, isBare)
  const globs = texts(resourceTemplates, 'uriTemplate').map((each) => each.replaceAll(/\{[^{}]*\}/g, '*'))
  return (
    texts(resources, 'uri').some((uri) => fits(glob, comparable(uri, isBare))) ||
    globs.length > MAX_TEMPLATES ||
    globs.some((each) => each.length > MAX_TEMPLATE_LENGTH || overlaps(glob, comparable(each, isBare)))
  )
}

const SCHEME = /^[a-z*][a-z0-9+.*-]*:/i

function isUriPattern(pattern: string): boolean {
  return SCHEME.test(pattern) || pattern.includes('/') || pattern.startsWith('*')
}

/** How many templates are compared, and how long one may be, in characters: they are a server's own. */
const MAX_TEMPLATES = 200
const MAX_TEMPLATE_LENGTH = 500

/** A URI as it is compared: however it is spelled, and without its scheme where the pattern has none. */
function comparable(uri: string, isBare: boolean): string {
  const plain = decoded(uri).toLowerCase()
  return isBare ? plain.replace(/^[a-z][a-z0-9+.-]*:/, '').replace(/^\/+/, '') : plain.replace(/:\/+/, ':')
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

function subjects({ tools, prompts, resources, resourceTemplates }: ServerLists): string[] {
  return [
    ...named(tools),
    ...named(prompts),
    ...texts(resources, 'uri'),
    ...texts(resourceTemplates, 'uriTemplate'),
  ]
}

function named(entries: readonly Definition[]): string[] {
  return texts(entries, 'name')
}

function texts(entries: readonly Definition[], key: string): string[] {
  return entries.flatMap((each) => {
    const text = each[key]
    return typeof text === 'string' ? [text] : []
  })
}

/** A glob is most like the globs of what begins or ends alike. */
function hintOf(pattern: string, names: readonly string[]): string {
  if (!pattern.includes('*')) return hint(pattern, names)
  const globs = new Set(names.flatMap(globsOf))
  const meant = nearest(pattern, [...globs])
  return meant === undefined ? hint(pattern.replaceAll('*', ''), names) : `; did you mean ${meant}?`
}

function globsOf(name: string): string[] {
  const breaks = [...name.matchAll(/[_\-.:/]/g)].map(({ index }) => index)
  return breaks.flatMap((at) => [`${name.slice(0, at + 1)}*`, `*${name.slice(at)}`])
}
