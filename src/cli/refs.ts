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
import type { OrderStep } from '../core/audit-step.ts'
import { anonymous, type Principal } from '../core/principal.ts'
import { isObject } from '../core/json/json.ts'
import { featureSettings, type Settings } from '../core/settings.ts'
import { oneLine } from '../core/text/escape.ts'
import { fileType } from '../core/text/file-type.ts'
import { durationText } from '../core/time/units.ts'
import { isoTime } from '../core/time/waiting.ts'
import { originText, UPLOADS } from '../records/plain-name.ts'
import { callerHash } from '../records/principal.ts'
import { type Reference, References } from '../records/references.ts'
import { type Given, UsageError } from './command.ts'
import type { commands } from './commands.ts'
import { type ConfigOptions, readStored, readWhole, userName, withAudit, withStore } from './config-file.ts'
import { inputPath, type Io, pathOf } from './io.ts'
import { detailLines, type Output, quoted, tableLines, timeText } from './output.ts'
import { mustBeOwn, privateFile } from './private-file.ts'

type Commands = typeof commands

/** The shortest accepted prefix of an id, and of the hash of a caller. */
const MIN_PREFIX_LENGTH = 6
const DEFAULTS = { ttl: 900_000, total: 4 * 1024 * 1024 * 1024 }

interface Context {
  readonly references: References
  /** Records what an operator did. */
  audit(order: OrderStep['order'], reference: Reference): void
}

/** Runs an action on the references in the store, with the limit of all of them in bytes. */
function withReferences(
  options: ConfigOptions,
  io: Io,
  act: (context: Context) => Promise<Output>,
  total = DEFAULTS.total,
): Promise<Output> {
  const settings = readStored(options, io)
  return withStore(settings, io, (store) =>
    withAudit(settings, io, (audit) =>
      act({
        references: new References(store, { total }),
        audit: (order, { id, caller, sha256 }) =>
          audit?.ordered({ order, by: userName(), reference: id, sha256, caller }),
      }),
    ),
  )
}

/** `gatehouse refs list`. */
export function list(given: Given<Commands['refs list']>, io: Io): Promise<Output> {
  return withReferences(given, io, async ({ references }) => {
    const all = (await references.all()).filter(({ caller }) => isCaller(caller, given.principal))
    const rows = all.map((each) => {
      const { id, caller, name, type, size, expiresAt } = each
      const origin = `from ${originText(each)}`
      return [id, `${size} bytes`, type, name, origin, caller, `until ${timeText(expiresAt)}`]
    })
    const text = all.length === 0 ? 'Nothing is kept.' : tableLines(rows).join('\n')
    return { json: { references: all.map(referenceView) }, text }
  })
}

/** `gatehouse refs show ID`. */
export function show(given: Given<Commands['refs show']>, io: Io): Promise<Output> {
  return withReferences(given, io, async ({ references }) => {
    const found = await findReference(given, references)
    return { json: referenceView(found), text: referenceText(found) }
  })
}

/** `gatehouse refs get ID`: writes data to a file or to the output. @throws Error */
export function get(given: Given<Commands['refs get']>, io: Io): Promise<Output> {
  const { output, force, json } = given
  return withReferences(given, io, async ({ references, audit }) => {
    const found = await findReference(given, references)
    if (output === undefined && json) throw new UsageError('--json needs -o FILE')
    // Data of servers could control a terminal.
    if (output === undefined && io.stdout.isTTY)
      throw new Error('data is not printed to a terminal. Give -o FILE, or send the output to a program')
    if (output !== undefined && existsSync(pathOf(output, io)) && !force)
      throw new Error(`${output} already exists; --force overwrites it`)
    audit('get', found)
    const bytes = await references.open(found)
    if (output === undefined) {
      await pipeline(bytes, io.stdout, { end: false })
      return 0
    }
    await saved(bytes, pathOf(output, io))
    return { json: referenceView(found), text: `Saved ${found.size} bytes to ${output}.` }
  })
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

/** `gatehouse refs put FILE`: keeps a file for a caller. @throws Error */
export async function put(given: Given<Commands['refs put']>, io: Io): Promise<Output> {
  const { file, id, store } = given
  // Only this depends on the settings of the feature and on how callers are authenticated.
  const whole = store === undefined ? await readWhole(given, io) : undefined
  const limits = whole ? limitsIn(whole) : DEFAULTS
  if (!limits)
    throw new Error('features.references is off, so no gateway would find the data. Turn it on first')
  const keep = async ({ references, audit }: Context): Promise<Output> => {
    const path = inputPath(file, io)
    const principal = principalOf(given.principal, whole === undefined || isProtected(whole.auth))
    const { name = basename(file), type = fileType(name), ttl = limits.ttl } = given
    if (!existsSync(path) || !statSync(path).isFile()) throw new Error(`${file} is not a file`)
    if (id !== undefined) await references.mustBeFree(principal, id)
    const facts = { server: UPLOADS, name, type, id, ttl }
    const kept = await references.add(principal, facts, createReadStream(path))
    audit('put', kept)
    const text = `Kept as ref://${kept.id} for ${kept.caller}, until ${timeText(kept.expiresAt)}.`
    return { json: referenceView(kept), text }
  }
  return withReferences(given, io, keep, limits.total)
}

/** `gatehouse refs drop ID`. */
export function drop(given: Given<Commands['refs drop']>, io: Io): Promise<Output> {
  return withReferences(given, io, async ({ references, audit }) => {
    const found = await findReference(given, references)
    if (!(await references.drop(found))) throw unknown(found.id)
    audit('drop', found)
    return { json: referenceView(found), text: `Deleted ref://${found.id} of ${oneLine(found.caller)}.` }
  })
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

/** The caller that a file is kept for: everybody without authentication, else the one that is named. @throws UsageError */
function principalOf(id: string | undefined, isNamed: boolean): Principal {
  if (id !== undefined) return { id, ...(id === anonymous.id && { isEverybody: true }) }
  if (!isNamed) return anonymous
  throw new UsageError('give the caller with --principal ID, as the log of the gateway names it')
}

/** Finds a reference by its id or a prefix of it; several callers may have the same. @throws Error */
async function findReference(
  { principal, ...given }: { readonly id: string; readonly principal: string | undefined },
  references: References,
): Promise<Reference> {
  const id = given.id.replace(/^ref:\/\//, '')
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
  return new Error(`no such reference: ${quoted(id)}. See gatehouse refs list`)
}

// References as text and as JSON. Text from servers and callers is escaped.

function referenceText(reference: Reference): string {
  const { id, caller, name, type, size, sha256, requestId, createdAt, expiresAt } = reference
  const left = expiresAt - Date.now()
  const time = left > 0 ? `, in ${durationText(Math.ceil(left / 1000) * 1000)}` : ''
  const details = [
    ['name', name],
    ['type', type],
    ['size', `${size} bytes`],
    ['sha256', sha256],
    ['from', originText(reference)],
    ['of', `${caller} (${callerHash(caller)})`],
    ['request id', requestId],
    ['kept', timeText(createdAt)],
    ['expires', `${timeText(expiresAt)}${time}`],
  ] as const
  return detailLines(`ref://${id}`, details, 11).join('\n')
}

function referenceView(reference: Reference): Readonly<Record<string, unknown>> {
  const { id, caller, server, tool, requestId, name, type, size, sha256, createdAt, expiresAt } = reference
  return {
    ref_id: id,
    caller,
    caller_hash: callerHash(caller),
    origin_server: server,
    tool,
    request_id: requestId,
    name,
    mime_type: type,
    size_bytes: size,
    sha256,
    created_at: isoTime(createdAt),
    expires_at: isoTime(expiresAt),
  }
}
