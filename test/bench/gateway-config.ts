/** What stands behind a gateway under test: the address of an HTTP server, or the words of a command. */
export type Upstream = { readonly url: string } | { readonly command: readonly string[] }

/** The config file of the gateway under test: defaults, and an upstream whose word about its tool is believed. */
export function gatewayConfig(upstream: Upstream): string {
  // JSON is YAML: no address or path can break out of its quotes.
  return JSON.stringify({ upstreams: { bench: { ...upstream, trust: true } } }) + '\n'
}
