/** Compares the names and globs of the configuration with the servers' lists, and reports those without a match. */
import { type Finding, logProblems } from '../core/findings.ts'
import { listAllPages } from '../protocol/listing.ts'
import type { Call, Handler } from '../core/call.ts'
import type { EntryDefinition } from '../core/descriptor.ts'
import { asGatewayError } from '../core/error.ts'
import { isObject } from '../core/json/json.ts'
import type { Log } from '../core/log.ts'
import { hint, namesOf, acceptsMember } from '../core/schema/argument-mismatches.ts'
import { roleScopes } from '../core/auth-settings.ts'
import { knownScopes } from '../core/principal.ts'
import type { ConfiguredName, UpstreamSettings } from '../core/settings.ts'
import { fits, overlaps } from '../core/text/pattern.ts'
import { nearest } from '../core/text/words.ts'
import { percentDecoded } from '../core/text/escape.ts'
import { within } from '../core/time/waiting.ts'
import { ownCall } from '../protocol/lift.ts'
import type { NameConflict } from './names.ts'
import { readLists } from './server-records.ts'

interface Source {
  readonly settings: UpstreamSettings
  /** Also lists tools that are not offered. */
  readonly handleWithHidden: Handler
  readonly takenNames: ReadonlyMap<string, string>
  readonly status: { readonly problem?: string }
}

/** How long a server may take to return its lists for a check, in milliseconds. */
const LISTING_TIMEOUT_MS = 10_000

/**
 * Checks the names of the configuration against the servers' lists: all servers at startup and on reload, and one
 * server when it becomes reachable or its lists change. An unreachable server is skipped with a log entry. Later
 * findings are logged once each.
 */
export class NameCheck {
  readonly #names: readonly ConfiguredName[]
  readonly #servers: ReadonlyMap<string, Source>
  readonly #log: Log
  readonly #reported = new Set<string>()

  constructor(names: readonly ConfiguredName[], servers: ReadonlyMap<string, Source>, log: Log) {
    this.#names = names
    this.#servers = servers
    this.#log = log
  }

  /** Names without a match. Unreachable servers are skipped. */
  async all(): Promise<readonly Finding[]> {
    return this.#names.length === 0 ? [] : this.#unreported(await this.#found([...this.#servers.keys()]))
  }

  /** Checks one server again and logs new findings. */
  async again(upstream: string): Promise<void> {
    if (!this.#names.some((name) => name.upstream === upstream)) return
    logProblems(this.#unreported(await this.#found([upstream])), this.#log)
  }

  async #found(wanted: readonly string[]): Promise<Finding[]> {
    const names = this.#names
    const lists = new Map<string, ServerLists>()
    await Promise.all(
      wanted.map(async (upstream) => {
        const source = this.#servers.get(upstream)
        const listed = source && (await this.#listsOf(upstream, source))
        if (listed) lists.set(upstream, listed)
      }),
    )
    const isWhole = lists.size === this.#servers.size
    const isAll = wanted.length === this.#servers.size
    const concerned = isAll ? names : names.filter((item) => wanted.includes(item.upstream ?? ''))
    const taken = [...lists.keys()].flatMap((upstream) => takenIn(upstream, this.#servers.get(upstream)))
    const ofServers = [...this.#servers.values()].flatMap(({ settings }) => knownScopes(settings))
    const scopes = [...ofServers, ...Object.values(roleScopes)]
    return [...unmatchedNames(concerned, { lists, isWhole, scopes }), ...taken]
  }

  async #listsOf(upstream: string, source: Source): Promise<ServerLists | undefined> {
    const own = this.#names.filter((name) => name.upstream === upstream)
    const isCommon = this.#names.some((name) => name.kind !== 'scope' && name.upstream === undefined)
    if (own.length === 0 && !isCommon) return undefined
    let { problem } = source.status
    try {
      const lists =
        problem === undefined && (await within(readFor(own, source), LISTING_TIMEOUT_MS, undefined))
      if (lists) return lists
      problem ??= 'the server did not return its lists in time'
    } catch (error) {
      problem = asGatewayError(error).message
    }
    this.#log.warn('config.unchecked', { upstream, reason: problem })
    return undefined
  }

  #unreported(findings: readonly Finding[]): Finding[] {
    return findings.filter((finding) => {
      const key = JSON.stringify([finding.path, finding.message])
      return !this.#reported.has(key) && this.#reported.add(key)
    })
  }
}

/** New names of tools that their server also lists itself: its own tool of that name is left out. */
function takenIn(upstream: string, source: Source | undefined): Finding[] {
  return [...(source?.takenNames ?? [])].map(([tool, name]) => ({
    path: ['upstreams', upstream, 'tools', tool, 'rename'],
    message: `${upstream} lists a tool ${name} itself, which is therefore left out: choose another name`,
    isMinor: true,
  }))
}

/**
 * The lists of a server, as far as these names may refer to them: prompts and resources only if needed besides its
 * tools.
 */
async function readFor(
  names: readonly ConfiguredName[],
  { settings, handleWithHidden: handle }: Source,
): Promise<ServerLists> {
  const upstream = settings.name
  const call: Call = ownCall({ target: { upstream, method: 'tools/list' } })
  const listed = await listAllPages(handle, call, 'tools/list')
  const tools = listed.map(({ fields }) => fields)
  const known: ServerLists = { tools, prompts: [], resources: [], resourceTemplates: [], hasResources: false }
  const about = { lists: new Map([[upstream, known]]), isWhole: false, scopes: [] }
  const isOther = ({ kind, owner }: ConfiguredName): boolean => kind === 'item' || owner?.kind === 'item'
  if (unmatchedNames(names.filter(isOther), about).length === 0) return known
  const { discovered, ...lists } = await readLists(handle, upstream)
  const { capabilities } = discovered.fields
  return { ...lists, tools, hasResources: isObject(capabilities) && isObject(capabilities.resources) }
}

/**
 * Compares the names and patterns of a configuration with the servers' lists. A name without a match is usually
 * misspelled, and what it should block or change then passes silently. Nothing is reported about servers with unknown
 * lists.
 */
export function unmatchedNames(names: readonly ConfiguredName[], known: Known): Finding[] {
  return names.flatMap((name) => {
    const message = problemOf(name, known)
    if (message === undefined) return []
    const { path, at, isGuard } = name
    return [{ path, message, isMinor: !isGuard, ...(at && { at }) }]
  })
}

/** The lists of a server. */
export interface ServerLists {
  readonly tools: readonly EntryDefinition[]
  readonly prompts: readonly EntryDefinition[]
  readonly resources: readonly EntryDefinition[]
  readonly resourceTemplates: readonly EntryDefinition[]
  /** Whether it supports resources: it may answer for unlisted ones. */
  readonly hasResources: boolean
}

/** What names are compared with. */
interface Known {
  /** The lists of the reachable servers. */
  readonly lists: ReadonlyMap<string, ServerLists>
  /** Whether all servers were reachable. */
  readonly isWhole: boolean
  /** All known scopes. */
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
  if (kind === 'tool' ? named(lists.tools).some((item) => fits(pattern, item)) : isItem(pattern, lists))
    return undefined
  const all = kind === 'tool' ? named(lists.tools) : subjects(lists)
  const what = kind === 'tool' ? 'tool' : 'tool, prompt or resource'
  return `${upstream} lists no matching ${what}${hintOf(name.written ?? pattern, all)}`
}

/** The problem of a name that applies to the tools of all servers. */
function commonProblem({ kind, pattern }: ConfiguredName, all: readonly ServerLists[]): string | undefined {
  const tools = all.flatMap((item) => named(item.tools))
  if (kind !== 'tool' || tools.some((tool) => fits(pattern, tool))) return undefined
  return `no server lists a matching tool${hintOf(pattern, tools)}`
}

function scopeProblem(pattern: string, scopes: readonly string[]): string | undefined {
  if (scopes.some((scope) => fits(pattern, scope))) return undefined
  return `has no effect: no server has this scope${hintOf(pattern, scopes)}`
}

/** The problem of an argument that none of its tools or prompts accepts. */
function argumentProblem(
  { pattern, owner, upstream }: ConfiguredName,
  lists: ServerLists,
): string | undefined {
  if (!owner) return undefined
  const fitting = (entries: readonly EntryDefinition[]): readonly EntryDefinition[] =>
    entries.filter(({ name }) => typeof name === 'string' && fits(owner.pattern, name))
  const tools = fitting(lists.tools)
  const prompts = owner.kind === 'item' ? fitting(lists.prompts) : []
  const of = [...tools, ...prompts]
  // An owner without a match is reported separately; resources have no arguments.
  if (of.length === 0) {
    const isUri = owner.kind === 'item' && isItem(owner.pattern, lists)
    return isUri ? 'a resource has no arguments: write `on` to deny it entirely' : undefined
  }
  if (
    tools.some((tool) => takesArgument(tool, pattern)) ||
    prompts.some((prompt) => asksFor(prompt, pattern))
  )
    return undefined
  const others = [
    ...tools.flatMap(({ inputSchema }) => (isObject(inputSchema) ? namesOf(inputSchema) : [])),
  ].concat(prompts.flatMap(argumentNames))
  const whose =
    of.length === 1 ? String(of[0]?.name) : `none of the ${of.length} tools that ${owner.pattern} matches`
  const verb = of.length === 1 ? 'takes no argument' : 'takes an argument'
  return `${whose} of ${upstream} ${verb} ${pattern}${hintOf(pattern, [...new Set(others)])}`
}

/** Rules ignore case in the names of arguments. */
function takesArgument({ inputSchema }: EntryDefinition, argument: string): boolean {
  if (!isObject(inputSchema)) return true
  const isAlike = namesOf(inputSchema).some((item) => item.toLowerCase() === argument.toLowerCase())
  return isAlike || acceptsMember(inputSchema, argument)
}

function asksFor(prompt: EntryDefinition, argument: string): boolean {
  return argumentNames(prompt).some((argumentName) => argumentName.toLowerCase() === argument.toLowerCase())
}

function argumentNames({ arguments: given }: EntryDefinition): string[] {
  return named(Array.isArray(given) ? given.filter(isObject) : [])
}

/** Whether a pattern of a rule or a scope matches something a server lists, or may have. */
function isItem(pattern: string, lists: ServerLists): boolean {
  const names = [...named(lists.tools), ...named(lists.prompts)]
  if (names.some((item) => fits(pattern, item))) return true
  const { resources, resourceTemplates } = lists
  if (!isUriPattern(pattern)) return false
  // A server without any listed resource may have any.
  if (resources.length + resourceTemplates.length === 0) return lists.hasResources
  const isBare = !SCHEME.test(pattern)
  const glob = comparable(pattern, isBare)
  const globs = texts(resourceTemplates, 'uriTemplate').map((text) => text.replaceAll(/\{[^{}]*\}/g, '*'))
  return (
    texts(resources, 'uri').some((uri) => fits(glob, comparable(uri, isBare))) ||
    globs.length > MAX_TEMPLATES ||
    globs.some((item) => item.length > MAX_TEMPLATE_LENGTH || overlaps(glob, comparable(item, isBare)))
  )
}

const SCHEME = /^[a-z*][a-z0-9+.*-]*:/i

function isUriPattern(pattern: string): boolean {
  return SCHEME.test(pattern) || pattern.includes('/') || pattern.startsWith('*')
}

/** The maximum number and length in characters of compared templates: they are untrusted. */
const MAX_TEMPLATES = 200
const MAX_TEMPLATE_LENGTH = 500

/** A URI for comparison: normalized, and without its scheme if the pattern has none. */
function comparable(uri: string, isBare: boolean): string {
  const plain = percentDecoded(uri).toLowerCase()
  return isBare ? plain.replace(/^[a-z][a-z0-9+.-]*:/, '').replace(/^\/+/, '') : plain.replace(/:\/+/, ':')
}

function subjects({ tools, prompts, resources, resourceTemplates }: ServerLists): string[] {
  return [
    ...named(tools),
    ...named(prompts),
    ...texts(resources, 'uri'),
    ...texts(resourceTemplates, 'uriTemplate'),
  ]
}

function named(entries: readonly EntryDefinition[]): string[] {
  return texts(entries, 'name')
}

function texts(entries: readonly EntryDefinition[], key: string): string[] {
  return entries.flatMap((entry) => {
    const text = entry[key]
    return typeof text === 'string' ? [text] : []
  })
}

/** A glob is most similar to globs with the same prefix or suffix. */
function hintOf(pattern: string, names: readonly string[]): string {
  if (!pattern.includes('*')) return hint(pattern, names)
  const globs = new Set(names.flatMap(globsOf))
  const suggestion = nearest(pattern, [...globs])
  return suggestion === undefined ? hint(pattern.replaceAll('*', ''), names) : `; did you mean ${suggestion}?`
}

function globsOf(name: string): string[] {
  const breaks = [...name.matchAll(/[_\-.:/]/g)].map(({ index }) => index)
  return breaks.flatMap((at) => [`${name.slice(0, at + 1)}*`, `*${name.slice(at)}`])
}

/** How many reported conflicts are remembered. */
const MAX_REPORTED_CONFLICTS = 1000

/** Logs each tool and prompt once that is not listed as the configuration says, because others have its name. */
export function reportOnce(log: Log): (conflict: NameConflict) => void {
  const reported = new Set<string>()
  return ({ message }) => {
    if (reported.has(message) || reported.size >= MAX_REPORTED_CONFLICTS) return
    reported.add(message)
    log.warn('config.problem', { message })
  }
}
