/** Results that are kept on request, and data that is given to tools: as tools and methods of the gateway, and over HTTP. */
import type { Handler } from '../../core/call.ts'
import type { Finding } from '../../core/finding.ts'
import { createDialer } from '../dialer.ts'
import type { BuiltinRoute, BuiltinTool } from '../feature.ts'
import { exporting } from './export.ts'
import { download } from './foreign.ts'
import { importing } from './import.ts'
import { ImportTools } from './import-tools.ts'
import type { ImportSettings } from './settings.ts'

type Options = Parameters<typeof exporting>[0] &
  Pick<Parameters<typeof importing>[0], 'deps' | 'mayRead'> & {
    readonly settings: ImportSettings
    /** The tool that imports by default: of a server, or in the settings for all of them. */
    importOf(upstream?: string): ImportSettings['import']
    /** How long downloaded data is kept, in milliseconds. */
    readonly ttl: number
  }

/** What the feature adds to the gateway for that. */
export function exchanging({ settings, importOf, ttl, ...options }: Options): {
  readonly tools: readonly BuiltinTool[]
  readonly methods: Readonly<Record<string, Handler>>
  readonly routes: readonly BuiltinRoute[]
  problems(): Promise<readonly Finding[]>
} {
  const { imports: formats = {}, allow_hosts: allowHosts = [] } = settings
  const { references, mayRead, deps } = options
  const foreign = {
    references,
    opener: createDialer({ allow: [], proxies: deps.gateway.proxies }),
    allowHosts,
    ttl,
  }
  const tools = new ImportTools({ formats, byDefault: importOf }, deps)
  const exports = exporting(options)
  const imports = importing({
    references,
    mayRead,
    deps,
    tools,
    download: (call, data) => download(call, data, foreign),
  })
  return {
    tools: [exports.tool, imports.tool],
    methods: { 'reference/export': exports.route.handle, 'reference/import': imports.route.handle },
    routes: [exports.route, imports.route],
    problems: () => tools.problems(),
  }
}
