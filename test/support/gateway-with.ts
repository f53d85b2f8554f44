import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Json } from './server/json.ts'

/** A configuration as a file in a folder of its own. */
export async function configFile(config: Json): Promise<{ path: string; remove: () => Promise<void> }> {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-test-'))
  const path = join(folder, 'gateway.config.yaml')
  // JSON is YAML.
  await writeFile(path, JSON.stringify(config))
  return { path, remove: () => rm(folder, { recursive: true, force: true, maxRetries: 5 }) }
}
