/** `gatehouse store`: describes, exports and imports a store, and accepts one that lost its content. */
import { createReadStream, existsSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { pipeline } from 'node:stream/promises'
import { isObject } from '../core/json/json.ts'
import type { Settings } from '../core/settings.ts'
import { openLog } from '../observability/log.ts'
import { acceptStore, mayStoreBeUnusable, openSharedStore } from '../gateway/offline.ts'
import type { StoreEntry, PortableStore } from '../store/store.ts'
import { readStored } from './config-file.ts'
import { inputPath, type Io, pathOf, print, printJson } from './io.ts'
import { privateFile } from './private-file.ts'
import { didYouMean, readOptions, UsageError } from './words.ts'
import { parseJson } from '../core/json/read.ts'

/** The first line of an export: its format. */
const HEADER = { format: 'gatehouse-store', version: 1 }
/** How many entries are written in parallel. */
const MAX_BATCH_ENTRIES = 200

/** `gatehouse store info | export | import | accept`: describes the store, exports or imports its entries, or accepts a loss of data. */
export async function store(args: readonly string[], io: Io): Promise<number> {
  const options = readOptions(args, ['config', 'json', 'force'])
  const [action, file, ...more] = options.words
  if (more.length > 0) throw new UsageError('give one file')
  const run = actions[action ?? '']
  const isAccept = action === 'accept'
  if (!run && !isAccept)
    throw new UsageError(
      `use gatehouse store info, export, import or accept${didYouMean(action ?? '', [...Object.keys(actions), 'accept'])}`,
    )
  if ((isAccept || action === 'info') && file !== undefined)
    throw new UsageError(`store ${action} takes no file`)
  if (action === 'import' && file === undefined) throw new UsageError('give the file to import')
  const settings = readStored({ config: options.config, envFile: options.envFile }, io)
  if (!run) return accept(settings, io)
  if (action !== 'import') requireStore(settings)
  const opened = await openSharedStore(settings, openLog('error', io))
  try {
    return await run(opened, { io, file: file ?? '', isJson: options.json, isForced: options.force })
  } finally {
    await opened.close()
  }
}

async function accept(settings: Pick<Settings, 'store'>, io: Io): Promise<number> {
  const isChanged = await acceptStore(settings, openLog('error', io))
  print(
    isChanged
      ? 'The store is accepted as it is. Restart the gateways that use it.'
      : 'The store has lost no data: nothing was changed.',
    io,
  )
  return 0
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

interface ActionOptions {
  readonly io: Io
  /** Empty if not given. */
  readonly file: string
  readonly isJson: boolean
  readonly isForced: boolean
}

type Action = (store: PortableStore, options: ActionOptions) => Promise<number>

const actions: Readonly<Record<string, Action>> = { info: describe, export: exportAll, import: importAll }

async function describe(opened: PortableStore, { io, isJson }: ActionOptions): Promise<number> {
  const owners = new Map<string, number>()
  let bytes = 0
  for await (const { key, value } of opened.entries()) {
    const owner = /^[^:/]*/.exec(key)?.[0] ?? key
    owners.set(owner, (owners.get(owner) ?? 0) + 1)
    bytes += Buffer.byteLength(key) + Buffer.byteLength(value)
  }
  const about = { ...(await opened.describe()), values: bytes }
  const entries = Object.fromEntries([...owners].toSorted(([one], [other]) => one.localeCompare(other)))
  const { unavailableReason: problem } = opened
  if (isJson) {
    printJson({ ...about, entries, ...(problem !== undefined && { problem }) }, io)
  } else {
    for (const [name, value] of Object.entries(about)) print(`${name.padEnd(12)}${valueText(value)}`, io)
    print(`${'entries'.padEnd(12)}${[...owners.values()].reduce((sum, each) => sum + each, 0)}`, io)
    const width = Math.max(10, ...[...owners.keys()].map((owner) => owner.length + 1))
    for (const [owner, count] of Object.entries(entries)) print(`  ${owner.padEnd(width)}${count}`, io)
    if (problem !== undefined) print(`${'problem'.padEnd(12)}${problem}`, io)
  }
  return problem === undefined ? 0 : 1
}

async function exportAll(opened: PortableStore, { io, file, isForced }: ActionOptions): Promise<number> {
  const path = pathOf(file, io)
  if (file !== '' && existsSync(path) && !isForced)
    throw new Error(`${file} already exists; --force overwrites it`)
  let count = 0
  const lines = async function* (): AsyncGenerator<string> {
    yield `${JSON.stringify(HEADER)}\n`
    for await (const { key, value, until } of opened.entries()) {
      yield `${JSON.stringify({ key, value, until })}\n`
      count++
    }
  }
  if (file === '') await pipeline(lines, io.stdout, { end: false })
  else {
    await pipeline(lines, privateFile(path))
    print(`exported ${count} entries to ${file}`, io)
  }
  return 0
}

async function importAll(opened: PortableStore, { io, file, isForced }: ActionOptions): Promise<number> {
  const path = inputPath(file, io)
  if (!existsSync(path)) throw new Error(`${file} does not exist`)
  // The whole file is validated before anything is written.
  const validation = readEntries(file, io)
  while ((await validation.next()).done !== true) continue
  const counts = { imported: 0, existing: 0, expired: 0 }
  const write = async ({ key, value, until }: StoreEntry): Promise<void> => {
    const ttl = until - Date.now()
    if (ttl <= 0) {
      counts.expired++
      return
    }
    const found = isForced ? await opened.put(key, value, ttl) : await opened.setIfAbsent(key, value, ttl)
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
  const kept =
    counts.existing === 0 ? '' : `, kept ${counts.existing} existing ones (--force overwrites them)`
  print(
    `imported ${counts.imported} entries${kept}${counts.expired === 0 ? '' : `, skipped ${counts.expired} expired ones`}`,
    io,
  )
  return 0
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
  const { format, version } = isObject(value) ? value : {}
  if (format !== HEADER.format) throw new Error(`${file}:1: not a file of gatehouse store export`)
  if (version !== HEADER.version)
    throw new Error(`${file}:1: exported by an incompatible version of Gatehouse (format ${String(version)})`)
}

function entryOf(value: unknown): StoreEntry | undefined {
  const { key, value: text, until } = isObject(value) ? value : {}
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
