/** `gatehouse store`: describes, exports and imports a store, and accepts one that lost its content. */
import {
  closeSync,
  createReadStream,
  createWriteStream,
  existsSync,
  fchmodSync,
  fstatSync,
  ftruncateSync,
  openSync,
} from 'node:fs'
import { createInterface } from 'node:readline'
import type { Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { isObject } from '../core/json/json.ts'
import type { Settings } from '../core/settings.ts'
import { openLog } from '../gateway/gateway.ts'
import { acceptStore, isStoreDoubtful, openSharedStore } from '../gateway/offline.ts'
import type { StoreEntry, PortableStore } from '../store/store.ts'
import { didYouMean, readOptions, readSource, UsageError } from './options.ts'

/** What the first line of an export says of the others. */
const HEADER = { format: 'gatehouse-store', version: 1 }
/** How much is written together. */
const MAX_BATCH_ENTRIES = 200

/** `gatehouse store info | export | import | accept`: describes the store, moves its content, goes on without what it lost. */
export async function store(args: readonly string[]): Promise<number> {
  const options = readOptions(args, ['config', 'json', 'force'])
  const [action, file, ...more] = options.words
  if (more.length > 0) throw new UsageError('one file is enough')
  const run = actions[action ?? '']
  const isAccept = action === 'accept'
  if (!run && !isAccept)
    throw new UsageError(
      `write gatehouse store info, export, import or accept${didYouMean(action ?? '', [...Object.keys(actions), 'accept'])}`,
    )
  if ((isAccept || action === 'info') && file !== undefined)
    throw new UsageError(`store ${action} takes no file`)
  if (action === 'import' && file === undefined) throw new UsageError('name the file to import')
  const { settings } = readSource({ config: options.config, envFile: options.envFile, isForStore: true })
  if (!run) return accept(settings)
  if (action !== 'import') checkThere(settings)
  const opened = await openSharedStore(settings, openLog('error', process.stderr.isTTY))
  try {
    return await run(opened, { file: file ?? '', isJson: options.json, isForced: options.force })
  } finally {
    await opened.close()
  }
}

async function accept(settings: Settings): Promise<number> {
  const isChanged = await acceptStore(settings, openLog('error', process.stderr.isTTY))
  print(
    isChanged
      ? 'The store is used as it is from now on. Gateways that run with it have to be started again.'
      : 'Nothing is missing from the store: it was left as it was.',
  )
  return 0
}

/** Whoever looks at a store makes none. @throws Error where there is none */
function checkThere(settings: Settings): void {
  const { store: kept } = settings
  // Where a store is missing that was there, opening it says so.
  if (kept.kind !== 'folder' || existsSync(kept.path) || isStoreDoubtful(settings)) return
  throw new Error(
    `there is no store in ${kept.path}: no gateway with this configuration has kept anything yet`,
  )
}

interface Told {
  /** Empty for none. */
  readonly file: string
  readonly isJson: boolean
  readonly isForced: boolean
}

type Action = (store: PortableStore, told: Told) => Promise<number>

const actions: Readonly<Record<string, Action>> = { info: tell, export: exportAll, import: importAll }

async function tell(opened: PortableStore, { isJson }: Told): Promise<number> {
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
    print(JSON.stringify({ ...about, entries, ...(problem !== undefined && { problem }) }, null, 2))
  } else {
    for (const [name, value] of Object.entries(about)) print(`${name.padEnd(12)}${shown(value)}`)
    print(`${'entries'.padEnd(12)}${[...owners.values()].reduce((sum, each) => sum + each, 0)}`)
    const width = Math.max(10, ...[...owners.keys()].map((owner) => owner.length + 1))
    for (const [owner, count] of Object.entries(entries)) print(`  ${owner.padEnd(width)}${count}`)
    if (problem !== undefined) print(`${'problem'.padEnd(12)}${problem}`)
  }
  return problem === undefined ? 0 : 1
}

async function exportAll(opened: PortableStore, { file, isForced }: Told): Promise<number> {
  if (file !== '' && existsSync(file) && !isForced)
    throw new Error(`${file} is there already; --force overwrites it`)
  let count = 0
  const lines = async function* (): AsyncGenerator<string> {
    yield `${JSON.stringify(HEADER)}\n`
    for await (const { key, value, until } of opened.entries()) {
      yield `${JSON.stringify({ key, value, until })}\n`
      count++
    }
  }
  if (file === '') await pipeline(lines, process.stdout, { end: false })
  else {
    await pipeline(lines, privateFile(file))
    print(`exported ${count} entries to ${file}`)
  }
  return 0
}

/** A file for its owner alone, also where it was there before: there are keys among the values. */
function privateFile(file: string): Writable {
  const fd = openSync(file, 'a', 0o600)
  try {
    // What others may read is not written to, and only what is to be written to is emptied.
    if (fstatSync(fd).isFile()) {
      fchmodSync(fd, 0o600)
      ftruncateSync(fd)
    }
  } catch (error) {
    closeSync(fd)
    throw error
  }
  return createWriteStream(file, { fd })
}

async function importAll(opened: PortableStore, { file, isForced }: Told): Promise<number> {
  if (!existsSync(file)) throw new Error(`there is no ${file}`)
  // Nothing is written before all of it is known to be good.
  const whole = read(file)
  while ((await whole.next()).done !== true) continue
  const counts = { imported: 0, there: 0, over: 0 }
  const write = async ({ key, value, until }: StoreEntry): Promise<void> => {
    const ttl = until - Date.now()
    if (ttl <= 0) {
      counts.over++
      return
    }
    const found = isForced ? await opened.put(key, value, ttl) : await opened.setIfAbsent(key, value, ttl)
    if (found === undefined) counts.imported++
    else counts.there++
  }
  let part: StoreEntry[] = []
  for await (const entry of read(file)) {
    part.push(entry)
    if (part.length < MAX_BATCH_ENTRIES) continue
    await Promise.all(part.map(write))
    part = []
  }
  await Promise.all(part.map(write))
  const left = counts.there === 0 ? '' : `, left ${counts.there} as they were (--force overwrites them)`
  print(
    `imported ${counts.imported} entries${left}${counts.over === 0 ? '' : `, left out ${counts.over} whose time is over`}`,
  )
  return 0
}

/** The entries of an export. @throws Error with the line that is wrong */
async function* read(file: string): AsyncGenerator<StoreEntry> {
  let number = 0
  for await (const line of createInterface({ input: createReadStream(file), crlfDelay: Infinity })) {
    number++
    const value = parsed(line)
    if (number === 1) checkHeader(value, file)
    else if (line !== '') {
      const entry = entryOf(value)
      if (!entry)
        throw new Error(`${file}:${number}: this is no entry: it has to have a key, a value and until when`)
      yield entry
    }
  }
  if (number === 0) throw new Error(`${file} is empty: it is no export of gatehouse store export`)
}

function checkHeader(value: unknown, file: string): void {
  const { format, version } = isObject(value) ? value : {}
  if (format !== HEADER.format) throw new Error(`${file}:1: this is no export of gatehouse store export`)
  if (version !== HEADER.version)
    throw new Error(`${file}:1: it was exported by another version of Gatehouse (format ${String(version)})`)
}

function entryOf(value: unknown): StoreEntry | undefined {
  const { key, value: text, until } = isObject(value) ? value : {}
  if (typeof key !== 'string' || key === '' || typeof text !== 'string') return undefined
  return typeof until === 'number' && Number.isFinite(until) ? { key, value: text, until } : undefined
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line)
  } catch {
    return undefined
  }
}

function shown(value: string | number): string {
  return typeof value === 'string' ? value : `${(value / 1024 / 1024).toFixed(1)} MB`
}

function print(text: string): void {
  process.stdout.write(`${text}\n`)
}
