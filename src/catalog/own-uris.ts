/** The URI of a resource in the scheme of its server: `files://file//srv/notes.md` for `file:///srv/notes.md`. */
export function ownUri(upstream: string, uri: string): string {
  const [, scheme, slashes] = /^([a-z][a-z0-9+.-]*):(\/\/)?/.exec(uri) ?? []
  // `~` is in no scheme, so what follows it can be told from a scheme of that name.
  if (scheme === undefined) return `${upstream}://~/${uri}`
  const mark = slashes === undefined ? `${scheme}~` : scheme
  return `${upstream}://${mark}/${uri.slice(scheme.length + 1 + (slashes?.length ?? 0))}`
}

/** The URI as the server knows it; any other than one made by `ownUri` is taken for one the server knows. */
export function originalUri(upstream: string, uri: string): string {
  const start = `${upstream}://`
  const end = uri.indexOf('/', start.length)
  if (!uri.startsWith(start) || end === -1) return uri
  const mark = uri.slice(start.length, end)
  const rest = uri.slice(end + 1)
  if (mark === '~') return rest
  return mark.endsWith('~') ? `${mark.slice(0, -1)}:${rest}` : `${mark}://${rest}`
}
