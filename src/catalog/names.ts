/**
 * Names at the address of several servers, `/mcp`: those in its lists, and the owners of names. The prefix of a server is
 * its namespace, in which no other server has names, whatever the servers list.
 */
import type { Settings } from '../core/settings.ts'
import { aliasOf, prefixOf, shortNameOf } from '../core/text/alias.ts'
import { exposedUri, isView, ownUriOf } from '../core/text/server-uri.ts'

/** The name of a tool or prompt with the prefix of its server, however long. */
export function exposedName(upstream: string, name: string): string {
  return `${prefixOf(upstream)}${name}`
}

/**
 * The names of the tools, prompts and resources of several servers. Usually they are within the limit of clients, and URIs
 * name their server; strict ones are in snake case, and URIs already have the scheme of their server.
 */
export class Naming {
  readonly #bare: ReadonlySet<string>
  readonly #isStrict: boolean

  /** Servers in `bare` are listed without a prefix. */
  constructor(bare: Iterable<string> = [], isStrict = false) {
    this.#bare = new Set(bare)
    this.#isStrict = isStrict
  }

  /** The name of a tool or prompt in lists. */
  name(upstream: string, name: string): string {
    if (!this.isBare(upstream)) return this.prefixed(upstream, name)
    return this.#isStrict ? aliasOf(name) : name
  }

  /** The same with the prefix of its server, also for servers that are listed without one. */
  prefixed(upstream: string, name: string): string {
    const exposed = exposedName(upstream, name)
    return this.#isStrict ? aliasOf(exposed) : shortNameOf(exposed)
  }

  /** Whether the names of a server are listed without its prefix. */
  isBare(upstream: string): boolean {
    return this.#bare.has(upstream)
  }

  uri(upstream: string, uri: string): string {
    return this.#isStrict ? uri : exposedUri(upstream, uri)
  }

  /** The server of an exposed URI, and the URI on that server. */
  serverOf(exposed: string, upstreams: readonly string[]): Candidate | undefined {
    const found = uriOf(exposed, upstreams)
    if (!this.#isStrict) return found
    const scheme = upstreams.find((item) => exposed.startsWith(`${item}://`))
    const upstream = isView(exposed) ? found?.upstream : scheme
    return upstream === undefined ? undefined : { upstream, name: exposed }
  }
}

/** The names at the address of several servers. */
export function namingOf({ listen, upstreams }: Pick<Settings, 'listen' | 'upstreams'>): Naming {
  const bare = upstreams.filter(({ prefix }) => prefix === 'never').map(({ name }) => name)
  return new Naming(bare, listen.isStrict)
}

/** The names in a list of some of the servers: a server alone has its own names, as at its own address. */
export function namingAmong(
  { listen, upstreams }: Pick<Settings, 'listen' | 'upstreams'>,
  servers: readonly string[],
): Naming {
  const bare = upstreams.filter(
    ({ name, prefix }) =>
      prefix === 'never' || (prefix === 'auto' && servers.length === 1 && servers.includes(name)),
  )
  return new Naming(
    bare.map(({ name }) => name),
    listen.isStrict,
  )
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

/** The names of entries in the shared lists. */
interface SharedNames {
  /** The name of an entry; undefined if it is left out. */
  of(upstream: string, name: string): string | undefined
  readonly conflicts: readonly NameConflict[]
}

/** Names the tools or prompts of all servers; `names` has those of servers that list nothing too. */
export function sharedNames(
  lists: readonly ServerNames[],
  { names: servers, naming }: { readonly names: readonly string[]; readonly naming: Naming },
): SharedNames {
  const entries = lists.flatMap(({ upstream, names }) => {
    const own = new Set(names)
    return [...own].map((name) => ({ upstream, name, exposed: naming.name(upstream, name), own }))
  })
  const bare = Map.groupBy(
    entries.filter(({ upstream }) => naming.isBare(upstream)),
    ({ exposed }) => exposed,
  )
  const named = new Map<string, string | undefined>()
  const conflicts: NameConflict[] = []
  for (const { upstream, name, exposed, own } of entries) {
    const owner = ownerOf(exposed, servers)?.upstream ?? upstream
    const alike = naming.isBare(upstream) ? (bare.get(exposed) ?? []) : []
    const others = alike.map((each) => each.upstream).filter((each) => each !== upstream)
    const isClear = owner === upstream && others.length === 0
    const prefixed = naming.prefixed(upstream, name)
    const isFree =
      !isClear &&
      prefixed !== exposed &&
      !own.has(prefixed) &&
      ownerOf(prefixed, servers)?.upstream === upstream
    named.set(`${upstream} ${name}`, isClear ? exposed : isFree ? prefixed : undefined)
    if (isClear) continue
    const there = isFree ? `listed as ${prefixed}` : `available at /mcp/${upstream} only`
    const why =
      owner === upstream
        ? `without a prefix it would also be a name of ${others.join(' and of ')}`
        : `at /mcp such names belong to ${owner}`
    conflicts.push({ upstream, exposed, message: `${exposed} of ${upstream} is ${there}: ${why}` })
  }
  return { of: (upstream, name) => named.get(`${upstream} ${name}`), conflicts }
}
