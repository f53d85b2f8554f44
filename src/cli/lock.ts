/**
 * `gatehouse lock` writes what the servers list to `gatehouse.lock`, or compares the two; `gatehouse accept` shows what differs, and
 * writes only what a person accepts.
 */
import { dirname, join } from 'node:path'
import {
  acceptedParts,
  type Lock,
  LOCK_FILE,
  lockChanges,
  lockFileText,
  lockText,
  type LockedTool,
  own,
  readLock,
} from '../config/lock.ts'
import type { Descriptor } from '../core/descriptor.ts'
import { messageOf } from '../core/error.ts'
import { isObject } from '../core/json/json.ts'
import { definitionHash, proofText } from '../core/pack.ts'
import type { UpstreamSettings } from '../core/settings.ts'
import { escapeHidden, oneLine } from '../core/text/escape.ts'
import type { Gateway } from '../gateway/gateway.ts'
import { confirmed } from './ask.ts'
import { didYouMean, type Given, UsageError } from './command.ts'
import type { commands } from './commands.ts'
import { type Io, printError, write } from './io.ts'
import { countText } from '../core/text/words.ts'
import { type Output } from './output.ts'
import { replaceText } from './private-file.ts'
import { readableLog, readOnlySettings, readServers, type Source, withGateway } from './source.ts'

/** `gatehouse lock`: exit code 1 if servers differ from the lock with `--check`, or cannot be read. */
export async function lock(given: Given<typeof commands.lock>, io: Io): Promise<Output> {
  const { source, servers } = readServers({ ...given, server: undefined, withoutLock: true }, io)
  const file = lockFileOf(source, 'lock')
  const text = lockFileText(file) ?? ''
  if (given.check && text === '') throw new Error(`${file} does not exist: write it with gatehouse lock`)
  const before = text === '' ? {} : lockIn(text, file)
  const { found, problems } = await readFound({ source, servers, before }, given, io)
  const changes = lockChanges(before, found).map(oneLine)
  problems.forEach((problem) => printError(problem, io))
  if (!given.check) replaceText(file, text, lockText(found))
  const isSame = changes.length === 0
  const code = problems.length > 0 || (given.check && !isSame) ? 1 : 0
  const count = countText(Object.values(found).flatMap((tools) => Object.keys(tools)).length, 'tool')
  const done = given.check
    ? isSame
      ? `The servers are as in ${file}: ${count}.`
      : 'Accept these changes with gatehouse accept.'
    : `Wrote ${file}: ${count}.`
  return { json: { file, same: isSame, changes, problems }, text: [...changes, done].join('\n'), code }
}

/**
 * `gatehouse accept [SERVER [TOOL…]]`: exit code 1 if the answer is no, a server cannot be read, or a tool that is named is neither
 * listed nor in the lock.
 */
export async function accept(given: Given<typeof commands.accept>, io: Io): Promise<Output> {
  const { server, tools } = given
  const named = server === undefined ? undefined : { name: server }
  const { source, servers } = readServers({ ...given, server: named, withoutLock: true }, io)
  const file = lockFileOf(source, 'accept')
  const text = lockFileText(file)
  if (text === undefined) throw new Error(`${file} does not exist: write it with gatehouse lock`)
  const before = lockIn(text, file)
  const { found, problems } = await readFound({ source, servers, before }, given, io)
  problems.forEach((problem) => printError(problem, io))
  const known = [before, found].flatMap((each) => Object.keys(own(each, server ?? '') ?? {}))
  const unknown = problems.length === 0 ? tools.find((tool) => !known.includes(tool)) : undefined
  if (unknown !== undefined)
    throw new Error(`${server} lists no tool "${oneLine(unknown)}"${didYouMean(unknown, known)}`)
  const after = acceptedParts(before, found, { servers: servers.map(({ name }) => name), tools })
  const changes = lockChanges(before, after, true).map(oneLine)
  const report = { file, changes, problems }
  const code = problems.length > 0 ? 1 : 0
  if (changes.length === 0)
    return {
      json: { ...report, accepted: false },
      text: `Nothing to accept: ${file} is as the servers are.`,
      code,
    }
  if (!given.json) write(`${changes.join('\n')}\n`, io)
  if (!given.yes && (given.json || !(await confirmed('Accept these tools as they are now?', ADVICE, io))))
    return { json: { ...report, accepted: false }, text: 'Nothing was accepted.', code: 1 }
  replaceText(file, text, lockText(after))
  return { json: { ...report, accepted: true }, text: `Wrote ${file}.`, code }
}

const ADVICE = 'without a terminal, add --yes to accept these tools'

/** The lock beside the configuration. @throws UsageError without a configuration file */
function lockFileOf({ file }: Source, command: string): string {
  if (file === undefined)
    throw new UsageError(`${command} needs a configuration file: create one with gatehouse connect`)
  return join(dirname(file), LOCK_FILE)
}

function lockIn(text: string, file: string): Lock {
  try {
    return readLock(text)
  } catch (cause) {
    throw new Error(`${file}: ${oneLine(messageOf(cause))}`, { cause })
  }
}

/** What the servers list now; those that cannot be read stay as they are in the lock. */
async function readFound(
  {
    source,
    servers,
    before,
  }: { readonly source: Source; readonly servers: readonly UpstreamSettings[]; readonly before: Lock },
  { logLevel }: Pick<Given<typeof commands.lock>, 'logLevel'>,
  io: Io,
): Promise<{ readonly found: Lock; readonly problems: readonly string[] }> {
  const settings = readOnlySettings(source.settings, servers)
  return withGateway(settings, { io, log: readableLog(io, logLevel) }, async (gateway) => {
    await gateway.start()
    const problems: string[] = []
    const found: Record<string, Lock[string]> = {}
    for (const { name } of servers) {
      try {
        found[name] = await lockedTools(name, gateway)
      } catch (error) {
        problems.push(
          `${name} cannot be read, so it stays as it is in the lock: ${oneLine(messageOf(error))}`,
        )
        const kept = own(before, name)
        if (kept) found[name] = kept
      }
    }
    return { found, problems }
  })
}

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
    description: typeof description === 'string' ? escapeHidden(description) : '',
    arguments: isObject(properties) ? Object.keys(properties) : [],
  }
}
