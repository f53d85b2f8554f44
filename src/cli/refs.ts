/**
 * `gatehouse refs`: lists kept data that callers refer to, prints or saves it, keeps a file for a caller, and deletes data. It
 * works on the store; no gateway needs to run.
 */
import { randomBytes } from 'node:crypto'
import { createReadStream, existsSync, realpathSync, statSync } from 'node:fs'
import { rename, rm } from 'node:fs/promises'
import { basename } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { isProtected } from '../core/auth-settings.ts'
import type { OrderStep } from '../core/events.ts'
import { anonymous, type Principal } from '../core/principal.ts'
import { isObject } from '../core/json/json.ts'
import { featureSettings, type Settings } from '../core/settings.ts'
import { escapeHidden, oneLine } from '../core/text/escape.ts'
import { fileType } from '../core/text/file-type.ts'
import { durationText, milliseconds } from '../core/time/units.ts'
import { openLog } from '../observability/log.ts'
import { audited, openSharedStore } from '../gateway/offline.ts'
import { callerHash } from '../records/principal.ts'
import { type Reference, References } from '../records/references.ts'
import { readStored, readWhole } from './config-file.ts'
import { inputPath, type Io, pathOf, print } from './io.ts'
import { mustBeOwn, privateFile } from './private-file.ts'
import { tableLines, timeText } from './table.ts'
import { didYouMean, parseWords, UsageError, userName } from './words.ts'
import { originText, UPLOADS } from '../records/plain-name.ts'

/** The options of the command. */
const optionTypes = {
  config: { type: 'string', short: 'c' },
  'env-file': { type: 'string' },
  store: { type: 'string' },
  json: { type: 'boolean' },
  principal: { type: 'string' },
  output: { type: 'string', short: 'o' },
  force: { type: 'boolean' },
  name: { type: 'string' },
  type: { type: 'string' },
  id: { type: 'string' },
  ttl: { type: 'string' },
} as const

/** What can be done: the options of each beside those of all, and whether a word follows it. */
const actions = {
  list: { options: [], needs: undefined, run: list },
  show: { options: [], needs: 'the id of a reference', run: show },
  get: { options: ['output', 'force'], needs: 'the id of a reference', run: get },
  put: { options: ['name', 'type', 'id', 'ttl'], needs: 'a file', run: put },
  drop: { options: [], needs: 'the id of a reference', run: drop },
} as const satisfies Readonly<Record<string, Action>>

interface Action {
  readonly options: readonly (keyof typeof optionTypes)[]
  /** The word that follows it, in words; undefined if none does. */
  readonly needs: string | undefined
  /** Resolves with what is printed. */
  run(context: Context): Promise<string>
}

interface Context {
  readonly io: Io
  /** Whether callers are authenticated, as far as is known. */
  readonly isProtected: boolean
  readonly references: References
  /** The lifetime of what is kept, in milliseconds. */
  readonly ttl: number
  /** The id of a reference, or a file. */
  readonly word: string
  readonly values: Readonly<Partial<Record<'principal' | 'output' | 'name' | 'type' | 'id' | 'ttl', string>>>
  readonly isJson: boolean
  readonly isForced: boolean
  /** Records what an operator did. */
  audit(order: OrderStep['order'], reference: Reference): void
}

/** The shortest accepted prefix of an id, and of the hash of a caller. */
const MIN_PREFIX_LENGTH = 6
const DEFAULTS = { ttl: 900_000, total: 4 * 1024 * 1024 * 1024 }

/** `gatehouse refs list | show | get | put | drop`: lists kept data, reads it, adds to it, and deletes it. */
export async function refs(args: readonly string[], io: Io): Promise<number> {
  const { values, positionals } = parseWords(args, optionTypes)
  const [word = '', subject, ...more] = positionals
  const names = Object.keys(actions)
  if (!isAction(word))
    throw new UsageError(`use gatehouse refs list, show, get, put or drop${didYouMean(word, names)}`)
  const action: Action = actions[word]
  const allowed: readonly string[] = ['config', 'env-file', 'store', 'json', 'principal', ...action.options]
  const stray = Object.keys(values).find((name) => !allowed.includes(name))
  if (stray !== undefined) throw new UsageError(`--${stray} is not an option of refs ${word}`)
  if (action.needs !== undefined && subject === undefined)
    throw new UsageError(`${word} needs ${action.needs}`)
  const extra = action.needs === undefined ? subject : more[0]
  if (extra !== undefined) throw new UsageError(`unexpected argument ${JSON.stringify(extra)}`)
  const { config, 'env-file': envFile, store: folder, json = false, force = false, ...rest } = values
  if (folder !== undefined && config !== undefined) throw new UsageError('give either --config or --store')
  const settings = readStored({ config, envFile, store: folder }, io)
  // Only `put` depends on the settings of the feature and on how callers are authenticated.
  const whole = word === 'put' && folder === undefined ? await readWhole({ config, envFile }, io) : undefined
  const log = openLog('warn', io)
  const own = whole && limitsIn(whole)
  if (whole && !own)
    throw new Error('features.references is off, so no gateway would find the data. Turn it on first')
  const { ttl, total } = own ?? DEFAULTS
  const store = await openSharedStore(settings, log)
  try {
    const text = await audited(settings, log, (audit) =>
      action.run({
        io,
        isProtected: whole === undefined || isProtected(whole.auth),
        references: new References(store, { total }),
        ttl,
        word: subject ?? '',
        values: rest,
        isJson: json,
        isForced: force,
        audit: (order, { id, caller, sha256 }) =>
          audit?.ordered({ order, by: userName(), reference: id, sha256, caller }),
      }),
    )
    if (text !== '') print(text, io)
  } finally {
    await store.close()
  }
  return 0
}

function isAction(word: string): word is keyof typeof actions {
  return Object.hasOwn(actions, word)
}

/** The lifetime in milliseconds, and the limit in bytes; undefined if nothing is kept. */
function limitsIn(settings: Settings): typeof DEFAULTS | undefined {
  const servers = settings.upstreams.map(({ name }) => name)
  const own = [undefined, ...servers]
    .map((upstream) => featureSettings(settings, 'references', upstream))
    .find(isObject)
  const { ttl, total } = own ?? {}
  return typeof ttl === 'number' && typeof total === 'number' ? { ttl, total } : undefined
}

async function list({ references, values: { principal }, isJson }: Context): Promise<string> {
  const all = (await references.all()).filter(({ caller }) => isCaller(caller, principal))
  if (isJson) return JSON.stringify({ references: all.map(referenceView) }, null, 2)
  if (all.length === 0) return 'Nothing is kept.'
  const rows = all.map((each) => {
    const { id, caller, name, type, size, expiresAt } = each
    return [
      id,
      `${size} bytes`,
      type,
      name,
      `from ${originText(each)}`,
      caller,
      `until ${timeText(expiresAt)}`,
    ]
  })
  return tableLines(rows).join('\n')
}

async function show(context: Context): Promise<string> {
  const found = await findReference(context)
  return context.isJson ? JSON.stringify(referenceView(found), null, 2) : referenceText(found)
}

/** Writes data to a file or to the output. @throws Error */
async function get(context: Context): Promise<string> {
  const { io, references, values, isForced, isJson, audit } = context
  const { output } = values
  const found = await findReference(context)
  if (output === undefined && isJson) throw new UsageError('--json needs -o FILE')
  // Data of servers could control a terminal.
  if (output === undefined && io.stdout.isTTY)
    throw new Error('data is not printed to a terminal. Give -o FILE, or send the output to a program')
  if (output !== undefined && existsSync(pathOf(output, io)) && !isForced)
    throw new Error(`${output} already exists; --force overwrites it`)
  audit('get', found)
  const bytes = await references.open(found)
  if (output === undefined) {
    await pipeline(bytes, io.stdout, { end: false })
    return ''
  }
  await saved(bytes, pathOf(output, io))
  return isJson ? JSON.stringify(referenceView(found), null, 2) : `Saved ${found.size} bytes to ${output}.`
}

/** Writes a file that is there only once all of the data is: what was there before stays if the data has changed. */
async function saved(bytes: AsyncIterable<Uint8Array>, output: string): Promise<void> {
  mustBeOwn(output)
  // A device or a pipe takes what it gets.
  if (existsSync(output) && !statSync(output).isFile()) return pipeline(bytes, privateFile(output))
  const file = existsSync(output) ? realpathSync(output) : output
  const unfinished = `${file}.${randomBytes(6).toString('hex')}`
  try {
    await pipeline(bytes, privateFile(unfinished))
    await rename(unfinished, file)
  } catch (error) {
    await rm(unfinished, { force: true })
    throw error
  }
}

/** Keeps a file for a caller. @throws Error */
async function put(context: Context): Promise<string> {
  const { io, references, word: file, values, ttl, isJson, audit } = context
  const path = inputPath(file, io)
  const principal = principalOf(context)
  const { name = basename(file), type = fileType(name), id, ttl: lifetime } = values
  if (!existsSync(path) || !statSync(path).isFile()) throw new Error(`${file} is not a file`)
  if (id !== undefined) await references.mustBeFree(principal, id)
  const facts = { server: UPLOADS, name, type, id }
  const kept = await references.add(
    principal,
    { ...facts, ttl: lifetime === undefined ? ttl : lifetimeOf(lifetime) },
    createReadStream(path),
  )
  audit('put', kept)
  return isJson
    ? JSON.stringify(referenceView(kept), null, 2)
    : `Kept as ref://${kept.id} for ${kept.caller}, until ${timeText(kept.expiresAt)}.`
}

async function drop(context: Context): Promise<string> {
  const { references, isJson, audit } = context
  const found = await findReference(context)
  if (!(await references.drop(found))) throw unknown(found.id)
  audit('drop', found)
  return isJson
    ? JSON.stringify(referenceView(found), null, 2)
    : `Deleted ref://${found.id} of ${oneLine(found.caller)}.`
}

/** The caller that a file is kept for: everybody without authentication, else the one that is named. @throws UsageError */
function principalOf({ isProtected: isNamed, values: { principal: id } }: Context): Principal {
  if (id !== undefined) return { id, ...(id === anonymous.id && { isEverybody: true }) }
  if (!isNamed) return anonymous
  throw new UsageError('give the caller with --principal ID, as the log of the gateway names it')
}

function lifetimeOf(text: string): number {
  try {
    return milliseconds(text)
  } catch {
    throw new UsageError('--ttl must be a duration such as 30m or 2h')
  }
}

/** Finds a reference by its id or a prefix of it; several callers may have the same. @throws Error */
async function findReference({ references, word, values: { principal } }: Context): Promise<Reference> {
  const id = word.replace(/^ref:\/\//, '')
  const own = (await references.all()).filter(({ caller }) => isCaller(caller, principal))
  const exact = own.filter((each) => each.id === id)
  const found =
    exact.length > 0 || id.length < MIN_PREFIX_LENGTH ? exact : own.filter((each) => each.id.startsWith(id))
  const [first, ...others] = found
  if (!first) throw unknown(id)
  if (others.length === 0) return first
  const callers = [...new Set(found.map(({ caller }) => oneLine(caller)))]
  throw new Error(
    exact.length > 1
      ? `${callers.join(', ')} have a reference ${id}: give one of them with --principal`
      : `${found.length} references begin with ${id}: give more characters`,
  )
}

/** Whether a caller is the one that was named, by its id or by a prefix of its hash. */
function isCaller(caller: string, named: string | undefined): boolean {
  if (named === undefined || caller === named) return true
  return named.length >= MIN_PREFIX_LENGTH && callerHash(caller).startsWith(named)
}

function unknown(id: string): Error {
  return new Error(`no such reference: ${escapeHidden(JSON.stringify(id))}. See gatehouse refs list`)
}

// References as text and as JSON. Text from servers and callers is escaped.

function referenceText(reference: Reference): string {
  const { id, caller, name, type, size, sha256, requestId, createdAt, expiresAt } = reference
  const left = expiresAt - Date.now()
  const fields: readonly (readonly [label: string, value: string])[] = [
    ['name', name],
    ['type', type],
    ['size', `${size} bytes`],
    ['sha256', sha256],
    ['from', originText(reference)],
    ['of', `${caller} (${callerHash(caller)})`],
    ...(requestId === undefined ? [] : [['request id', requestId] as const]),
    ['kept', timeText(createdAt)],
    [
      'expires',
      `${timeText(expiresAt)}${left > 0 ? `, in ${durationText(Math.ceil(left / 1000) * 1000)}` : ''}`,
    ],
  ]
  return [`ref://${id}`, ...fields.map(([label, value]) => `  ${label.padEnd(11)} ${value}`)]
    .map(oneLine)
    .join('\n')
}

function referenceView(reference: Reference): Readonly<Record<string, unknown>> {
  const { id, caller, server, tool, requestId, name, type, size, sha256, createdAt, expiresAt } = reference
  return {
    ref_id: id,
    caller,
    caller_hash: callerHash(caller),
    origin_server: server,
    ...(tool !== undefined && { tool }),
    ...(requestId !== undefined && { request_id: requestId }),
    name,
    mime_type: type,
    size_bytes: size,
    sha256,
    created_at: new Date(createdAt).toISOString(),
    expires_at: new Date(expiresAt).toISOString(),
  }
}
