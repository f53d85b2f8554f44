/**
 * Names at the address of several servers, `/mcp`: those in its lists, and the owners of names. The prefix of a server is
 * its namespace, in which no other server has names, whatever the servers list.
 */
import type { Settings } from '../core/settings.ts'
import { aliasOf, shortNameOf } from '../core/text/alias.ts'
import { exposedUri, isView, ownUriOf } from '../core/text/server-uri.ts'

/** The name of a tool or prompt with the prefix of its server, however long. */
export function exposedName(upstream: string, name: string): string {
  return `${prefixOf(upstream)}${name}`
}

/** The names of the tools, prompts and resources of several servers. */
export interface Naming {
  /** The name of a tool or prompt in lists. */
  name(upstream: string, name: string): string
  /** The same with the prefix of its server, also for servers that are listed without one. */
  prefixed(upstream: string, name: string): string
  /** Whether the names of a server are listed without its prefix. */
  isBare(upstream: string): boolean
  uri(upstream: string, uri: string): string
  /** The server of an exposed URI, and the URI on that server. */
  serverOf(exposed: string, upstreams: readonly string[]): Candidate | undefined
}

/** The names at the address of several servers. */
export function namingOf({ listen, upstreams }: Pick<Settings, 'listen' | 'upstreams'>): Naming {
  const bare = upstreams.filter(({ prefix }) => prefix === 'never').map(({ name }) => name)
  return listen.isStrict ? strictNaming(new Set(bare)) : plainNaming(new Set(bare))
}

/** Names within the limit of clients, and URIs that name their server; servers in `bare` are listed without a prefix. */
export function plainNaming(bare: ReadonlySet<string> = new Set()): Naming {
  const prefixed = (upstream: string, name: string): string => shortNameOf(exposedName(upstream, name))
  return {
    name: (upstream, name) => (bare.has(upstream) ? name : prefixed(upstream, name)),
    prefixed,
    isBare: (upstream) => bare.has(upstream),
    uri: exposedUri,
    serverOf: uriOf,
  }
}

/** Names in snake case, and URIs that already have the scheme of their server. */
function strictNaming(bare: ReadonlySet<string>): Naming {
  const prefixed = (upstream: string, name: string): string => aliasOf(exposedName(upstream, name))
  return {
    name: (upstream, name) => (bare.has(upstream) ? aliasOf(name) : prefixed(upstream, name)),
    prefixed,
    isBare: (upstream) => bare.has(upstream),
    uri: (_upstream, uri) => uri,
    serverOf: (exposed, upstreams) => {
      const upstream = isView(exposed)
        ? uriOf(exposed, upstreams)?.upstream
        : upstreams.find((item) => exposed.startsWith(`${item}://`))
      return upstream === undefined ? undefined : { upstream, name: exposed }
    },
  }
}

/** A possible server, and the name or URI on it. */
export interface Candidate {
  readonly upstream: string
  readonly name: string
}

/**
 * The owner of an exposed name: the server with the longest matching prefix, independent of the servers' lists. A
 * server can therefore never take a name in the namespace of another.
 */
export function ownerOf(exposed: string, upstreams: readonly string[]): Candidate | undefined {
  const [upstream] = upstreams
    .filter((item) => exposed.startsWith(prefixOf(item)))
    .toSorted((one, other) => other.length - one.length)
  return upstream === undefined ? undefined : { upstream, name: exposed.slice(prefixOf(upstream).length) }
}

/** The server of an exposed URI. */
export function uriOf(exposed: string, upstreams: readonly string[]): Candidate | undefined {
  for (const upstream of upstreams) {
    const name = ownUriOf(upstream, exposed)
    if (name !== undefined) return { upstream, name }
  }
  return undefined
}

function prefixOf(upstream: string): string {
  return `${upstream.replaceAll('-', '_')}_`
}

/*
 * The names of tools and prompts in the lists of several servers. Invariant: a listed name is that of one entry. Without a
 * prefix, two servers may have the same name, or one a name in the namespace of the other: then the prefix is added.
 */

/** The tools or prompts that a server lists, under its own names. */
export interface ServerNames {
  readonly upstream: string
  readonly names: readonly string[]
}

/** A tool or prompt that is not listed as the configuration says, because of the names of another server. */
export interface NameConflict {
  readonly upstream: string
  /** The name that it would have. */
  readonly exposed: string
  /** Which servers are concerned, and where it is available, for people. */
  readonly message: string
}

interface Options {
  /** All servers, also those that list nothing. */
  readonly names: readonly string[]
  readonly naming: Naming
}

/** The names of entries in the shared lists. */
interface SharedNames {
  /** The name of an entry; undefined if it is left out. */
  of(upstream: string, name: string): string | undefined
  readonly conflicts: readonly NameConflict[]
}

/** Names the tools or prompts of all servers. */
export function sharedNames(lists: readonly ServerNames[], options: Options): SharedNames {
  const { naming } = options
  const own = new Map(lists.map(({ upstream, names }) => [upstream, new Set(names)]))
  const bare = ownersByName(
    [...own].filter(([upstream]) => naming.isBare(upstream)),
    naming,
  )
  const named = new Map<string, string | undefined>()
  const conflicts: NameConflict[] = []
  for (const [upstream, names] of own) {
    for (const name of names) {
      const found = nameOf({ upstream, name, names }, bare, options)
      named.set(`${upstream} ${name}`, found.exposed)
      if (found.conflict) conflicts.push(found.conflict)
    }
  }
  return { of: (upstream, name) => named.get(`${upstream} ${name}`), conflicts }
}

/** The servers that list each name without a prefix. */
function ownersByName(
  lists: readonly (readonly [string, ReadonlySet<string>])[],
  naming: Naming,
): ReadonlyMap<string, readonly string[]> {
  const found = new Map<string, string[]>()
  for (const [upstream, names] of lists) {
    for (const name of names) {
      const exposed = naming.name(upstream, name)
      const others = found.get(exposed)
      if (others) others.push(upstream)
      else found.set(exposed, [upstream])
    }
  }
  return found
}

interface Entry {
  readonly upstream: string
  readonly name: string
  /** All names of the list. */
  readonly names: ReadonlySet<string>
}

function nameOf(
  { upstream, name, names: own }: Entry,
  bare: ReadonlyMap<string, readonly string[]>,
  { names, naming }: Options,
): { readonly exposed: string | undefined; readonly conflict?: NameConflict } {
  const exposed = naming.name(upstream, name)
  const owner = ownerOf(exposed, names)?.upstream ?? upstream
  const others = (bare.get(exposed) ?? []).filter((each) => naming.isBare(upstream) && each !== upstream)
  if (owner === upstream && others.length === 0) return { exposed }
  const prefixed = naming.prefixed(upstream, name)
  const isFree = prefixed !== exposed && !own.has(prefixed) && ownerOf(prefixed, names)?.upstream === upstream
  const there = isFree ? `listed as ${prefixed}` : `available at /mcp/${upstream} only`
  const why =
    owner === upstream
      ? `without a prefix it would also be a name of ${others.join(' and of ')}`
      : `at /mcp such names belong to ${owner}`
  return {
    exposed: isFree ? prefixed : undefined,
    conflict: { upstream, exposed, message: `${exposed} of ${upstream} is ${there}: ${why}` },
  }
}
