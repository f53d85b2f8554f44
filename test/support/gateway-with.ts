import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type RunningGateway, startGateway } from './run-gateway.ts'
import type { Json } from './server/json.ts'

/** Starts a gateway with this configuration and resolves once it is ready. */
export async function gatewayWith(config: Json, args: readonly string[] = []): Promise<RunningGateway> {
  const file = await configFile(config)
  const gateway = await startGateway(['--config', file.path, ...args]).catch(async (error: unknown) => {
    await file.remove()
    throw error
  })
  return {
    ...gateway,
    close: async () => {
      await gateway.close()
      await file.remove()
    },
  }
}

/** A configuration as a file in a folder of its own. */
export async function configFile(config: Json): Promise<{ path: string; remove: () => Promise<void> }> {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-test-'))
  const path = join(folder, 'gateway.config.yaml')
  // JSON is YAML.
  await writeFile(path, JSON.stringify(config))
  return { path, remove: () => rm(folder, { recursive: true, force: true, maxRetries: 5 }) }
}
