import { readClientConfig } from '../../src/config/import/clients.ts'
import { toGatewayConfig } from '../../src/config/import/render.ts'
import { loadSettings } from '../../src/config/load.ts'
import type { UpstreamSettings } from '../../src/core/settings.ts'

/** Where the configuration is that imports are written to. */
const TARGET = '/gateway.config.yaml'

/** The result of importing a file of a client: as text, and as the gateway reads it. */
export interface ImportedFile {
  readonly client: string
  readonly yaml: string
  /** The servers in the file, without what is before them. */
  readonly body: string
  readonly env: ReadonlyMap<string, string>
  /** What was reported, as `"server": message`. */
  readonly notes: readonly string[]
}

/** Imports the file of a client: a text, or a value as JSON. */
export function importedFile(
  value: unknown,
  { file = '/home/me/mcp.json', environment = {} }: ImportSettings = {},
): ImportedFile {
  const read = readClientConfig(typeof value === 'string' ? value : JSON.stringify(value), file)
  const { yaml, env, findings } = toGatewayConfig(read.servers, {
    file: TARGET,
    schema: './gateway.schema.json',
    environment,
  })
  const notes = [...read.findings, ...findings].map(
    ({ server, message }) => `${server === undefined ? '' : `${JSON.stringify(server)}: `}${message}`,
  )
  return { client: read.client, yaml, body: /^upstreams:\n([^]*)/m.exec(yaml)?.[1] ?? '', env, notes }
}

export interface ImportSettings {
  readonly file?: string
  readonly environment?: Readonly<Record<string, string>>
}

/** The settings of the imported servers, by name. @throws ConfigError if the gateway refuses them */
export function loadedServers(
  { yaml, env }: Pick<ImportedFile, 'yaml' | 'env'>,
  environment: Readonly<Record<string, string>> = {},
): ReadonlyMap<string, UpstreamSettings> {
  const { settings } = loadSettings(yaml, {
    file: TARGET,
    env: { ...environment, ...Object.fromEntries(env) },
  })
  return new Map(settings.upstreams.map((upstream) => [upstream.name, upstream]))
}
