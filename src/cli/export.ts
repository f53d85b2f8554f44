import { registryEntry } from '../documents/registry.ts'
import { described } from './described.ts'
import { readNamed } from './named.ts'
import { UsageError } from './options.ts'

/** `gatehouse export registry [server]`: prints how a registry lists a server, or all together. */
export async function exportEntry(args: readonly string[]): Promise<number> {
  const [kind, ...rest] = args
  if (kind !== 'registry') throw new UsageError('say what to export: registry')
  const { source, server, words } = readNamed(rest, ['config', 'log-level'])
  if (words.length > 0) throw new UsageError('name one server, or none')
  const entry = await described(source.settings, server, registryEntry)
  process.stdout.write(`${JSON.stringify(entry, null, 2)}\n`)
  return 0
}
