import type { Call, Handler } from '../core/call.ts'
import { asGatewayError } from '../core/error.ts'
import { type Finding, logProblems } from '../core/finding.ts'
import { isObject } from '../core/json.ts'
import type { Log } from '../core/log.ts'
import { knownScopes } from '../core/scope.ts'
import type { ConfiguredName, UpstreamSettings } from '../core/settings.ts'
import { within } from '../core/waiting.ts'
import { ownCall } from '../wire/own-call.ts'
import { readLists } from './records.ts'
import { type ServerLists, unmatchedNames } from './unmatched-names.ts'
import { listAllPages } from './walk.ts'

/**
 * Asks servers what they list and holds the names of the configuration against it: all of them at the start and on
 * reload, and a server by itself once it can be reached or lists something else. A server that can not be asked is
 * left out, and the log says so. What is found later on is written to the log, each time once.
 */
export interface NameCheck {
  /** What matches nothing. Servers that can not be asked are left out. */
  all(): Promise<readonly Finding[]>
  /** Looks at one server again and tells the log what was not known before. */
  again(upstream: string): Promise<void>
}

interface Source {
  readonly settings: UpstreamSettings
  /** Lists tools that are not offered, too. */
  readonly handleWithHidden: Handler
  readonly takenNames: ReadonlyMap<string, string>
  readonly status: { readonly problem?: string }
}

interface Options {
  readonly names: readonly ConfiguredName[]
  readonly servers: ReadonlyMap<string, Source>
  readonly log: Log
}

/** How long a server may take to list what it has for a check, in milliseconds. */
const LISTING_TIMEOUT_MS = 10_000

/** The check of the names of one configuration. */
export function createNameCheck({ names, servers, log }: Options): NameCheck {
  const told = new Set<string>()
  const scopes = [...servers.values()].flatMap(({ settings }) => knownScopes(settings))
  const isCommon = names.some(({ kind, upstream }) => kind !== 'scope' && upstream === undefined)

  const listsOf = async (upstream: string, source: Source): Promise<ServerLists | undefined> => {
    const own = names.filter((name) => name.upstream === upstream)
    if (own.length === 0 && !isCommon) return undefined
    const { problem } = source.status
    try {
      const lists =
        problem === undefined && (await within(readFor(own, source), LISTING_TIMEOUT_MS, undefined))
      if (lists) return lists
      log.warn('config.unchecked', {
        upstream,
        reason: problem ?? 'the server does not list what it has in time',
      })
    } catch (error) {
      log.warn('config.unchecked', { upstream, reason: asGatewayError(error).message })
    }
    return undefined
  }

  const found = async (wanted: readonly string[]): Promise<Finding[]> => {
    const lists = new Map<string, ServerLists>()
    await Promise.all(
      wanted.map(async (upstream) => {
        const source = servers.get(upstream)
        const listed = source && (await listsOf(upstream, source))
        if (listed) lists.set(upstream, listed)
      }),
    )
    const isWhole = lists.size === servers.size
    const concerned =
      wanted.length === servers.size ? names : names.filter((each) => wanted.includes(each.upstream ?? ''))
    const taken = [...lists.keys()].flatMap((upstream) => takenIn(upstream, servers.get(upstream)))
    return [...unmatchedNames(concerned, { lists, isWhole, scopes }), ...taken]
  }

  const note = (findings: readonly Finding[]): Finding[] =>
    findings.filter((finding) => {
      const key = JSON.stringify([finding.path, finding.message])
      return !told.has(key) && told.add(key)
    })

  return {
    all: async () => (names.length === 0 ? [] : note(await found([...servers.keys()]))),
    again: async (upstream) => {
      if (names.some((name) => name.upstream === upstream)) logProblems(note(await found([upstream])), log)
    },
  }
}

/** New names of tools that their server lists itself: its own tool of that name is left out. */
function takenIn(upstream: string, source: Source | undefined): Finding[] {
  return [...(source?.takenNames ?? [])].map(([tool, name]) => ({
    path: ['upstreams', upstream, 'tools', tool, 'rename'],
    message: `${upstream} lists a tool ${name} itself, which is left out: choose another name`,
    isMinor: true,
  }))
}

/** What a server lists, as far as these names may be about it: its prompts and resources only where its tools are not all. */
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
  const { discovered, prompts, resources, templates } = await readLists(handle, upstream)
  const { capabilities } = discovered.fields
  return {
    tools,
    prompts: prompts.map(({ fields }) => fields),
    resources: resources.map(({ fields }) => fields),
    resourceTemplates: templates.map(({ fields }) => fields),
    hasResources: isObject(capabilities) && isObject(capabilities.resources),
  }
}
