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
