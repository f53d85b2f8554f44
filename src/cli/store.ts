/** `gatehouse store`: describes, exports and imports a store, and accepts one that lost its content. */
import { createReadStream, existsSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { pipeline } from 'node:stream/promises'
import { asObject } from '../core/json/json.ts'
import { parseJson } from '../core/json/read.ts'
import type { Settings } from '../core/settings.ts'
import { openLog } from '../observability/log.ts'
import { acceptStore, mayStoreBeUnusable } from '../gateway/offline.ts'
import type { StoreEntry } from '../store/store.ts'
import type { Given } from './command.ts'
import type { commands } from './commands.ts'
import { readStored, withStore } from './config-file.ts'
import { inputPath, type Io, pathOf } from './io.ts'
import type { Output } from './output.ts'
import { privateFile } from './private-file.ts'

type Commands = typeof commands

/** The first line of an export: its format. */
const HEADER = { format: 'gatehouse-store', version: 1 }
/** How many entries are written in parallel. */
const MAX_BATCH_ENTRIES = 200

/** What becomes of the gateways that use a store once it is accepted: those with Redis find out by themselves. */
const RESTART = 'Restart the gateways that use it.'
const CONTINUE = 'The gateways that use it continue within a few seconds.'

/** `gatehouse store accept`. */
export async function accept(given: Given<Commands['store accept']>, io: Io): Promise<Output> {
  const settings = readStored(given, io)
  const isChanged = await acceptStore(settings, openLog('error', io))
  const text = isChanged
    ? `The store is accepted as it is. ${settings.store.kind === 'folder' ? RESTART : CONTINUE}`
    : 'The store has lost no data: nothing was changed.'
  return { json: { accepted: isChanged }, text }
}

/** Reading a store must not create one. @throws Error if there is no store */
function requireStore(settings: Pick<Settings, 'store'>): void {
  const { store: configured } = settings
  // If the store existed before and is missing, opening it reports that.
  if (configured.kind !== 'folder' || existsSync(configured.path) || mayStoreBeUnusable(settings)) return
  throw new Error(
    `${configured.path} contains no store: no gateway with this configuration has stored anything yet`,
  )
}

/** `gatehouse store info`: exit code 1 if the store has a problem. */
export async function info(given: Given<Commands['store info']>, io: Io): Promise<Output> {
  const settings = readStored(given, io)
  requireStore(settings)
  return withStore(
    settings,
    io,
    async (opened) => {
      const owners = new Map<string, number>()
      let bytes = 0
      for await (const { key, value } of opened.entries()) {
        const owner = /^[^:/]*/.exec(key)?.[0] ?? key
        owners.set(owner, (owners.get(owner) ?? 0) + 1)
        bytes += Buffer.byteLength(key) + Buffer.byteLength(value)
      }
      const about = { ...(await opened.describe()), values: bytes }
      const counts = [...owners].toSorted(([one], [other]) => one.localeCompare(other))
      const { unavailableReason: problem } = opened
      const width = Math.max(10, ...counts.map(([owner]) => owner.length + 1))
      const lines = [
        ...Object.entries(about).map(([name, value]) => `${name.padEnd(12)}${valueText(value)}`),
        `${'entries'.padEnd(12)}${counts.reduce((sum, [, count]) => sum + count, 0)}`,
        ...counts.map(([owner, count]) => `  ${owner.padEnd(width)}${count}`),
        ...(problem === undefined ? [] : [`${'problem'.padEnd(12)}${problem}`]),
      ]
      return {
        json: { ...about, entries: Object.fromEntries(counts), problem },
        text: lines.join('\n'),
        code: problem === undefined ? 0 : 1,
      }
    },
    'error',
  )
}

/** `gatehouse store export [FILE]`. */
export async function exportAll(given: Given<Commands['store export']>, io: Io): Promise<Output> {
  const { file, force } = given
  const settings = readStored(given, io)
  requireStore(settings)
  if (file !== undefined && existsSync(pathOf(file, io)) && !force)
    throw new Error(`${file} already exists; --force overwrites it`)
  return withStore(
    settings,
    io,
    async (opened) => {
      let count = 0
      const lines = async function* (): AsyncGenerator<string> {
        yield `${JSON.stringify(HEADER)}\n`
        for await (const { key, value, until } of opened.entries()) {
          yield `${JSON.stringify({ key, value, until })}\n`
          count++
        }
      }
      if (file === undefined) {
        await pipeline(lines, io.stdout, { end: false })
        return 0
      }
      await pipeline(lines, privateFile(pathOf(file, io)))
      return { json: { exported: count }, text: `exported ${count} entries to ${file}` }
    },
    'error',
  )
}

/** `gatehouse store import FILE`. */
export async function importAll(given: Given<Commands['store import']>, io: Io): Promise<Output> {
  const { file, force } = given
  const settings = readStored(given, io)
  if (!existsSync(inputPath(file, io))) throw new Error(`${file} does not exist`)
  // The whole file is validated before anything is written.
  const validation = readEntries(file, io)
  while ((await validation.next()).done !== true) continue
  const counts = { imported: 0, existing: 0, expired: 0 }
  await withStore(
    settings,
    io,
    async (opened) => {
      const write = async ({ key, value, until }: StoreEntry): Promise<void> => {
        const ttl = until - Date.now()
        if (ttl <= 0) {
          counts.expired++
          return
        }
        const found = force ? await opened.put(key, value, ttl) : await opened.setIfAbsent(key, value, ttl)
        if (found === undefined) counts.imported++
        else counts.existing++
      }
      let batch: StoreEntry[] = []
      for await (const entry of readEntries(file, io)) {
        batch.push(entry)
        if (batch.length < MAX_BATCH_ENTRIES) continue
        await Promise.all(batch.map(write))
        batch = []
      }
      await Promise.all(batch.map(write))
    },
    'error',
  )
  const { imported, existing, expired } = counts
  const kept = existing === 0 ? '' : `, kept ${existing} existing ones (--force overwrites them)`
  const skipped = expired === 0 ? '' : `, skipped ${expired} expired ones`
  return { json: counts, text: `imported ${imported} entries${kept}${skipped}` }
}

/** Reads the entries of an export. @throws Error with the invalid line */
async function* readEntries(file: string, io: Io): AsyncGenerator<StoreEntry> {
  let number = 0
  const input = createReadStream(pathOf(file, io))
  for await (const line of createInterface({ input, crlfDelay: Infinity })) {
    number++
    const value = parsed(line)
    if (number === 1) checkHeader(value, file)
    else if (line !== '') {
      const entry = entryOf(value)
      if (!entry) throw new Error(`${file}:${number}: not an entry: key, value and until are required`)
      yield entry
    }
  }
  if (number === 0) throw new Error(`${file} is empty, so it is not a file of gatehouse store export`)
}

function checkHeader(value: unknown, file: string): void {
  const { format, version } = asObject(value)
  if (format !== HEADER.format) throw new Error(`${file}:1: not a file of gatehouse store export`)
  if (version !== HEADER.version)
    throw new Error(`${file}:1: exported by an incompatible version of Gatehouse (format ${String(version)})`)
}

function entryOf(value: unknown): StoreEntry | undefined {
  const { key, value: text, until } = asObject(value)
  if (typeof key !== 'string' || key === '' || typeof text !== 'string') return undefined
  return typeof until === 'number' && Number.isFinite(until) ? { key, value: text, until } : undefined
}

function parsed(line: string): unknown {
  try {
    return parseJson(line)
  } catch {
    return undefined
  }
}

function valueText(value: string | number): string {
  return typeof value === 'string' ? value : `${(value / 1024 / 1024).toFixed(1)} MB`
}
