import type { Links } from './portrait.ts'

/** A page elsewhere on the web. */
export interface Link {
  readonly label: string
  readonly url: string
}

const labels = {
  cli: 'Command line',
  api: 'API',
  web: 'Web',
  homepage: 'Homepage',
  repository: 'Source',
  documentation: 'Documentation',
  statusPage: 'Status page',
} as const satisfies Record<keyof Links, string>

/** The pages that are known, in an order, each once. */
export function linksIn(links: Links, order: readonly (keyof Links)[]): Link[] {
  const seen = new Set<string>()
  return order.flatMap((key) => {
    const url = links[key]
    if (url === undefined || url === null || seen.has(url)) return []
    seen.add(url)
    return [{ label: labels[key], url }]
  })
}
