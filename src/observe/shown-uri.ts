/** A URI as it is written down: what stands before its host, in its query or after `#` may be a secret. */
export function displayUri(uri: string): string {
  return uri.replace(/^([a-z][a-z0-9+.-]*:\/\/)[^/@?#]*@/i, '$1').replace(/([?#]).*$/s, '$1…')
}

/** The name of what a call is for, as it is written down. */
export function displayName(method: string, name: string | undefined): string | undefined {
  return name !== undefined && method.startsWith('resources/') ? displayUri(name) : name
}
