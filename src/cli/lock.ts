/** `gatehouse lock`: writes what the servers list to `gatehouse.lock`, or compares the two. */
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type Lock, LOCK_FILE, lockChanges, lockText, type LockedTool, readLock } from '../config/lock.ts'
import { readText } from '../config/secrets.ts'
import type { Descriptor } from '../core/descriptor.ts'
import { isObject } from '../core/json/json.ts'
import { definitionHash, proofText } from '../core/pack.ts'
import { oneLine } from '../core/text/escape.ts'
import type { Gateway } from '../gateway/gateway.ts'
import { type Given, UsageError } from './command.ts'
import type { commands } from './commands.ts'
import { type Io, printError } from './io.ts'
import { countText, type Output } from './output.ts'
import { replaceText } from './private-file.ts'
import { readableLog, readOnlySettings, readServers, withGateway } from './source.ts'

/** `gatehouse lock`: exit code 1 if servers differ from the lock with `--check`, or cannot be read. */
export async function lock(given: Given<typeof commands.lock>, io: Io): Promise<Output> {
  const { source, servers } = readServers({ ...given, server: undefined }, io)
  if (source.file === undefined)
    throw new UsageError('lock needs a configuration file: create one with gatehouse connect')
  const file = join(dirname(source.file), LOCK_FILE)
  const text = existsSync(file) ? readText(file, MAX_LOCK_BYTES) : ''
  if (given.check && text === '') throw new Error(`${file} does not exist: write it with gatehouse lock`)
  const before = text === '' ? {} : readLock(text)
  const settings = readOnlySettings(source.settings, servers)
  return withGateway(settings, { io, log: readableLog(io, given.logLevel) }, async (gateway) => {
    await gateway.start()
    const problems: string[] = []
    const found: Record<string, Lock[string]> = {}
    for (const { name } of servers) {
      try {
        found[name] = await lockedTools(name, gateway)
      } catch (error) {
        problems.push(
          `${name} cannot be read, so it stays as it is in the lock: ${oneLine(String(error instanceof Error ? error.message : error))}`,
        )
        if (before[name]) found[name] = before[name]
      }
    }
    const changes = lockChanges(before, found).map(oneLine)
    problems.forEach((problem) => printError(problem, io))
    if (!given.check) replaceText(file, text, lockText(found))
    const isSame = changes.length === 0
    const code = problems.length > 0 || (given.check && !isSame) ? 1 : 0
    const count = countText(Object.values(found).flatMap((tools) => Object.keys(tools)).length, 'tool')
    const done = given.check
      ? isSame
        ? `The servers are as in ${file}: ${count}.`
        : 'Accept these changes with gatehouse lock.'
      : `Wrote ${file}: ${count}.`
    return { json: { file, same: isSame, changes, problems }, text: [...changes, done].join('\n'), code }
  })
}

const MAX_LOCK_BYTES = 64 * 1_048_576

async function lockedTools(server: string, gateway: Gateway): Promise<Lock[string]> {
  const problem = gateway.statuses.get(server)?.problem
  if (problem !== undefined) throw new Error(problem)
  const entries = await gateway.entries(server)
  const tools = await Promise.all(
    entries
      .filter(({ isBuiltin }) => isBuiltin !== true)
      .map(async (entry) => [entry.name, await locked(entry, gateway)] as const),
  )
  return Object.fromEntries(tools)
}

async function locked(
  { upstream, name, definition, classification, proved }: Descriptor,
  gateway: Gateway,
): Promise<LockedTool> {
  const { description, inputSchema } = definition
  const properties = isObject(inputSchema) ? inputSchema.properties : undefined
  const scopes = (await gateway.inspect(upstream, name))?.scopes ?? []
  return {
    definition: definitionHash(definition),
    judgement: `${classification.op} ${classification.risk}`,
    scopes: [...new Set(scopes.flatMap(([least]) => least ?? []))].toSorted(),
    ...(proved && { proof: proofText(proved.proof) }),
    description: typeof description === 'string' ? description : '',
    arguments: isObject(properties) ? Object.keys(properties) : [],
  }
}
