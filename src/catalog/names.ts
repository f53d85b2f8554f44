/**
 * Names at the shared endpoint: `<server>_<name>`, `<server>+<uri>` and `ui://<server>+…`, and the owners of names.
 */
import { aliasOf } from '../core/text/alias.ts'

/** The name of a tool or prompt at the shared endpoint. */
export function exposedName(upstream: string, name: string): string {
  return `${prefixOf(upstream)}${name}`
}

/** The URI of a resource at the shared endpoint. A view keeps its scheme, as hosts require. */
export function exposedUri(upstream: string, uri: string): string {
  const scheme = VIEW.exec(uri)?.[0] ?? ''
  return `${scheme}${upstream}+${uri.slice(scheme.length)}`
}

/** The scheme of views (MCP Apps, SEP-1865). */
const VIEW = /^ui:\/\//i

/** Whether a URI is that of a view of a tool, which hosts accept with the scheme `ui` only. */
export function isView(uri: string): boolean {
  return VIEW.test(uri)
}

/** The naming scheme of the tools, prompts and resources of several servers. */
export interface Naming {
  name(upstream: string, name: string): string
  uri(upstream: string, uri: string): string
  /** The server of an exposed URI, and the URI on that server. */
  serverOf(exposed: string, upstreams: readonly string[]): Candidate | undefined
}

/** Names and URIs prefixed with the name of their server. */
export const prefixed: Naming = { name: exposedName, uri: exposedUri, serverOf: uriOf }

/** Names in snake case, and URIs that already have the scheme of their server. */
export const strict: Naming = {
  name: (upstream, name) => aliasOf(exposedName(upstream, name)),
  uri: (_upstream, uri) => uri,
  serverOf: (exposed, upstreams) => {
    if (isView(exposed)) {
      const found = uriOf(exposed, upstreams)
      return found && { ...found, name: exposed }
    }
    const upstream = upstreams.find((item) => exposed.startsWith(`${item}://`))
    return upstream === undefined ? undefined : { upstream, name: exposed }
  },
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
  const scheme = VIEW.exec(exposed)?.[0] ?? ''
  const rest = exposed.slice(scheme.length)
  const upstream = upstreams.find((item) => rest.startsWith(`${item}+`))
  return upstream === undefined ? undefined : { upstream, name: scheme + rest.slice(upstream.length + 1) }
}

function prefixOf(upstream: string): string {
  return `${upstream.replaceAll('-', '_')}_`
}
