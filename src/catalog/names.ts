import { aliasOf } from '../core/alias.ts'

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

/** Which servers an exposed name may be of; more than one only where one prefix begins with another. */
export function namesOf(exposed: string, upstreams: readonly string[]): Candidate[] {
  return upstreams
    .filter((upstream) => exposed.startsWith(prefixOf(upstream)))
    .map((upstream) => ({ upstream, name: exposed.slice(prefixOf(upstream).length) }))
}

/** The server an exposed URI is of. */
export function uriOf(exposed: string, upstreams: readonly string[]): Candidate | undefined {
  const upstream = upstreams.find((each) => exposed.startsWith(`${each}+`))
  return upstream === undefined ? undefined : { upstream, name: exposed.slice(upstream.length + 1) }
}

/** Whether names of two servers could be the same once prefixed. */
export function canCollide(one: string, other: string): boolean {
  return (
    one !== other && (prefixOf(one).startsWith(prefixOf(other)) || prefixOf(other).startsWith(prefixOf(one)))
  )
}

function prefixOf(upstream: string): string {
  return `${upstream.replaceAll('-', '_')}_`
}
