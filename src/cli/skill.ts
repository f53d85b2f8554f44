import { skillOf } from '../documents/skill.ts'
import { described } from './described.ts'
import { readNamed } from './named.ts'
import { UsageError } from './options.ts'

/** `gatehouse skill [server]`: prints the SKILL.md of a server, or of all together. */
export async function skill(args: readonly string[]): Promise<number> {
  const { source, server, words } = readNamed(args, ['config', 'log-level'])
  if (words.length > 0) throw new UsageError('name one server, or none')
  const { text } = await described(source.settings, server, skillOf)
  process.stdout.write(text)
  return 0
}
