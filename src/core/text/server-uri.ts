/**
 * URIs of resources at the address of several servers: `<server>+<uri>`. The URI of a view of a tool (MCP Apps, SEP-1865)
 * is `ui://<server>+…` there, because hosts accept views with the scheme `ui` only.
 */

const VIEW = /^ui:\/\//i

/** Whether a URI is that of a view. */
export function isView(uri: string): boolean {
  return VIEW.test(uri)
}

/** Members of `_meta` that are the URI of a view, besides `ui.resourceUri`: a former key, and that of OpenAI's Apps SDK. */
export const viewKeys: readonly string[] = ['ui/resourceUri', 'openai/outputTemplate']

/** The URI of a resource at the address of several servers. */
export function exposedUri(server: string, uri: string): string {
  const scheme = VIEW.exec(uri)?.[0] ?? ''
  return `${scheme}${server}+${uri.slice(scheme.length)}`
}

/** The URI on its server of one that `exposedUri` made for this server; undefined for all others. */
export function ownUriOf(server: string, exposed: string): string | undefined {
  const scheme = VIEW.exec(exposed)?.[0] ?? ''
  const isOwn = exposed.startsWith(`${server}+`, scheme.length)
  return isOwn ? scheme + exposed.slice(scheme.length + server.length + 1) : undefined
}
