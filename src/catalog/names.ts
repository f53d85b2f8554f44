/** Names at the address of all servers: `<server>_<name>` and `<server>+<uri>`, and whose a name is. */
import { aliasOf } from '../core/text/alias.ts'

/** The name of a tool or prompt where several servers are offered together. */
export function exposedName(upstream: string, name: string): string {
  return `${prefixOf(upstream)}${name}`
}

/** The URI of a resource where several servers are offered together. */
export function exposedUri(upstream: string, uri: string): string {
  return `${upstream}+${uri}`
}

/** How tools, prompts and resources of several servers are told apart. */
export interface Naming {
  name(upstream: string, name: string): string
  uri(upstream: string, uri: string): string
  /** The server an exposed URI is of, and the URI as that server is asked for it. */
  serverOf(exposed: string, upstreams: readonly string[]): Candidate | undefined
}

/** Names and URIs with that of their server in front. */
export const prefixed: Naming = { name: exposedName, uri: exposedUri, serverOf: uriOf }

/** Names in snake case, and URIs that are in the scheme of their server already. */
export const strict: Naming = {
  name: (upstream, name) => aliasOf(exposedName(upstream, name)),
  uri: (_upstream, uri) => uri,
  serverOf: (exposed, upstreams) => {
    const upstream = upstreams.find((each) => exposed.startsWith(`${each}://`))
    return upstream === undefined ? undefined : { upstream, name: exposed }
  },
}

/** A server that may be meant, and the name or URI as it knows it. */
export interface Candidate {
  readonly upstream: string
  readonly name: string
}

/**
 * The server an exposed name is of: that with the longest prefix, whatever servers list. So no server takes a name in
 * the space of another, at any time.
 */
export function ownerOf(exposed: string, upstreams: readonly string[]): Candidate | undefined {
  const [upstream] = upstreams
    .filter((each) => exposed.startsWith(prefixOf(each)))
    .toSorted((one, other) => other.length - one.length)
  return upstream === undefined ? undefined : { upstream, name: exposed.slice(prefixOf(upstream).length) }
}

/** The server an exposed URI is of. */
export function uriOf(exposed: string, upstreams: readonly string[]): Candidate | undefined {
  const upstream = upstreams.find((each) => exposed.startsWith(`${each}+`))
  return upstream === undefined ? undefined : { upstream, name: exposed.slice(upstream.length + 1) }
}

function prefixOf(upstream: string): string {
  return `${upstream.replaceAll('-', '_')}_`
}
