/** The audit log: entries in the order in which calls ended, queued and written in batches, without delaying calls. */
import { createHmac, hash } from 'node:crypto'
import { type Timer, world } from '../../core/world.ts'
import { maskedArguments, secretNames } from '../../core/masked-arguments.ts'
import { serverArguments } from '../../core/tool-call.ts'
import type { Call, Target } from '../../core/call.ts'
import { clientName } from '../../core/text/words.ts'
import type { ApprovalStep, OrderStep, Refusal, SignInStep } from '../../core/audit-step.ts'
import { messageOf } from '../../core/error.ts'
import { isoTime } from '../../core/time/waiting.ts'
import { exactly } from '../../core/json/json.ts'
import type { Log } from '../../core/log.ts'
import type { AuditSettings } from '../../core/settings.ts'
import { self } from '../../core/identity.ts'
import { DRY_RUN } from '../../protocol/meta-keys.ts'
import { isVendorRequest } from '../../protocol/methods.ts'
import { Anchor, type Anchors } from './anchor.ts'
import { AuditFile, encodeLine, type Head } from './file.ts'
import { Erasing, forgetOrder, lineTexts } from './forget.ts'
import { type Ending, displayName } from '../ending.ts'

type Fields = Readonly<Record<string, unknown>>

/** An entry, encoded when it is written. */
type Entry = () => Fields

/** The flush interval, and the retry interval, in milliseconds. */
const WRITE_DELAY_MS = 20
const RETRY_DELAY_MS = 1000
/** How often writing may fail before the last entries are discarded. */
const MAX_ATTEMPTS = 3
/** The maximum number of entries in one write, and in the queue. */
const MAX_BATCH_ENTRIES = 500
const MAX_WAITING_ENTRIES = 50_000

/** The field for the target name, by method. */
const subjects: Readonly<Record<string, string>> = {
  'tools/call': 'tool',
  'prompts/get': 'prompt',
  'resources/read': 'resource',
}

/** Whether all calls of a method are recorded: those that act, or may act because the protocol does not define them. */
export function isAudited(method: string): boolean {
  return Object.hasOwn(subjects, method) || isVendorRequest(method)
}

/** Records calls and rejections in a file, in the order in which they ended, without delaying callers. */
export class Audit {
  readonly #file: AuditFile
  #settings: AuditSettings
  readonly #log: Log
  readonly #anchor: Anchor | undefined
  #head: Head
  #waiting: Entry[] = []
  #dropped = 0
  /** The lines that are currently being written. */
  #text = ''
  #timer: Timer | undefined
  #writing: Promise<void> | undefined
  #hasFailed = false
  #isClosed = false
  readonly #onExit = (): void => this.#finish()

  /**
   * Opens the file, or the next free one, and continues its chain; `anchors` store its head as well.
   * @throws Error with the file name if it cannot be opened
   */
  constructor(settings: AuditSettings, log: Log, anchors?: Anchors, file: AuditFile = opened(settings)) {
    this.#file = file
    this.#settings = settings
    this.#log = log
    const { head, torn, missing, path } = this.#file
    this.#head = head
    const version = self.version
    if (torn !== undefined) {
      log.warn('audit.torn', { file: path, after: head.seq })
      this.#add(() => ({ ...now(), event: 'torn', torn }))
    }
    const tellMissing = (from: number, last: Head): void => {
      log.error('audit.missing', { file: path, from, to: last.seq })
      this.#add(() => ({ ...now(), event: 'missing', from, to: last.seq, last: last.hash }))
    }
    if (missing) tellMissing(head.seq + 1, missing)
    const known = missing ?? head
    this.#anchor =
      anchors && new Anchor({ path, head: known }, anchors, (cut) => tellMissing(known.seq + 1, cut))
    this.#add(() => ({ ...now(), event: 'started', version, pid: process.pid }))
    process.on('exit', this.#onExit)
  }

  /** Applies other settings; returns false if they have another file. */
  configure(settings: AuditSettings): boolean {
    if (settings.file !== this.#settings.file) return false
    this.#settings = settings
    return true
  }

  /** Records how a call ended. */
  called(call: Call, target: Target, ending: Ending): void {
    const { requestId, principal, client, method, logFields } = call
    const time = world.now()
    const subject = subjects[method]
    const given = serverArguments(call)
    const secrets = secretNames(call.tool?.definition.inputSchema)
    this.#add(() => ({
      time: isoTime(time),
      event: 'call',
      request_id: requestId,
      principal: principal.id,
      client: clientName(client),
      upstream: target.upstream,
      method,
      ...(subject !== undefined && { [subject]: displayName(method, target.name) }),
      rule: logFields.get('rule') ?? logFields.get('limited_by'),
      approval: logFields.get('approval'),
      approved_by: logFields.get('approved_by'),
      declined_by: logFields.get('declined_by'),
      edited_as: logFields.get('edited_as'),
      edited_from: logFields.get('edited_from'),
      outcome: ending.outcome,
      replayed: logFields.get('replayed'),
      dry_run: logFields.get(DRY_RUN),
      remembered: logFields.get('remembered'),
      code: ending.code,
      arguments_digest: given === undefined ? undefined : this.#digest(maskedArguments(given, secrets)),
      references_used: logFields.get('references_used'),
      references: logFields.get('references'),
      ms: ending.ms,
    }))
  }

  /** Records a rejected request. */
  refused({ requestId, error, request, address, principal }: Refusal): void {
    const time = world.now()
    this.#add(() => ({
      time: isoTime(time),
      event: 'refused',
      request_id: requestId,
      principal,
      address,
      request,
      code: error.code,
      reason: error.extra.reason,
    }))
  }

  /** Records a step of a sign-in to a server. */
  signedIn(step: SignInStep): void {
    const at = now()
    this.#add(() => ({ ...at, event: 'sign_in', ...step }))
  }

  /** Records a decision on a call that waits for approval. */
  decided({ by, via, verdict, approval, caller, upstream, tool, given, changed }: ApprovalStep): void {
    const at = now()
    this.#add(() => ({
      ...at,
      event: 'approval',
      approval,
      principal: by,
      via,
      verdict,
      caller,
      upstream,
      tool,
      changed,
      arguments_digest: this.#digest(given),
    }))
  }

  /** The file, without those that it was rotated to. */
  get path(): string {
    return this.#file.path
  }

  /** Records an action of an operator. */
  ordered({ order, by, via = 'command_line', caller, eventId, until, ...target }: OrderStep): void {
    const at = now()
    this.#add(() => ({
      ...at,
      event: 'order',
      order,
      principal: by,
      via,
      reason: target.reason,
      until: until === undefined ? undefined : isoTime(until),
      force: target.force,
      left: target.left,
      transaction: target.transaction,
      operation: target.operation,
      action: target.action,
      subscription: target.subscription,
      reference: target.reference,
      sha256: target.sha256,
      event_id: eventId,
      person: target.person,
      records: target.records,
      upstream: target.upstream,
      gateway: target.gateway,
      channel: target.channel,
      caller,
      code: target.code,
    }))
  }

  /**
   * Erases the lines that name a person, by the hash of its id: each becomes a stub, which keeps its place in the chain. Before, the
   * order is a line itself, which says which lines these are. Resolves with how many there were. @throws the system error
   */
  async forget({ person, by }: { readonly person: string; readonly by: string }): Promise<number> {
    await this.#writeAll()
    const erasing = new Erasing(this.#file.path)
    try {
      const numbers = await erasing.find(person)
      for (const lines of lineTexts(numbers)) {
        const at = now()
        this.#add(() => ({ ...at, ...forgetOrder, principal: by, via: 'command_line', person, lines }))
      }
      await this.#writeAll()
      if (this.#isLeft) throw new Error(`the audit log ${this.#file.path} cannot be written`)
      await erasing.erase()
      return numbers.length
    } finally {
      erasing.close()
    }
  }

  /** Writes the queued entries, and closes the file. */
  async close(): Promise<void> {
    if (this.#isClosed) return
    await this.#writeAll()
    await this.#anchor?.close()
    // The anchor may have revealed missing lines.
    await this.#writeAll()
    this.#isClosed = true
    process.off('exit', this.#onExit)
    world.clearTimeout(this.#timer)
    await this.#file.close()
  }

  async #writeAll(): Promise<void> {
    await this.#writing
    for (let failures = 0; this.#isLeft && failures < MAX_ATTEMPTS; failures += this.#hasFailed ? 1 : 0)
      await this.#flush()
  }

  get #isLeft(): boolean {
    return this.#waiting.length > 0 || this.#text !== ''
  }

  #add(entry: Entry): void {
    if (this.#waiting.length >= MAX_WAITING_ENTRIES) this.#dropped++
    else this.#waiting.push(this.#waiting.length < MAX_BATCH_ENTRIES ? entry : made(entry))
    this.#timer ??= world.setTimeout(() => void this.#flush(), WRITE_DELAY_MS).unref()
  }

  #flush(): Promise<void> {
    this.#writing ??= this.#write().finally(() => {
      this.#writing = undefined
      world.clearTimeout(this.#timer)
      this.#timer = undefined
      if (!this.#isLeft || this.#isClosed) return
      const delay = this.#hasFailed
        ? RETRY_DELAY_MS
        : this.#waiting.length >= MAX_BATCH_ENTRIES
          ? 0
          : WRITE_DELAY_MS
      this.#timer = world.setTimeout(() => void this.#flush(), delay).unref()
    })
    return this.#writing
  }

  async #write(): Promise<void> {
    try {
      if (this.#text === '') this.#encode()
      await this.#file.add(this.#text, this.#head)
      this.#text = ''
      this.#hasFailed = false
      this.#anchor?.follow(this.#head)
    } catch (error) {
      this.#hasFailed = true
      this.#log.error('audit.failed', { file: this.#file.path, reason: String(error) })
    }
  }

  /** Encodes queued entries in batches, so that other work can run in between. */
  #encode(): void {
    const { maxSize, keep } = this.#settings
    if (this.#file.size >= maxSize) {
      this.#file.rotate(keep)
      this.#line({ ...now(), event: 'continued', version: self.version, pid: process.pid })
    }
    if (this.#dropped > 0) this.#line({ ...now(), event: 'dropped', count: this.#dropped })
    this.#dropped = 0
    for (const entry of this.#waiting.splice(0, MAX_BATCH_ENTRIES)) this.#line(entry())
  }

  #line(fields: Fields): void {
    const { line, head } = encodeLine(this.#head, fields)
    this.#text += line
    this.#head = head
  }

  /** Writes everything synchronously at exit. Lines in an unfinished write are written again, at the same position. */
  #finish(): void {
    try {
      for (const entry of this.#waiting.splice(0)) this.#line(entry())
      if (this.#text !== '') this.#file.addNow(this.#text, this.#head)
      this.#file.closeNow()
    } catch {
      // The process is exiting, so the failure cannot be reported.
    }
  }

  /** A digest of arguments, in which secrets are `***`: the hash of their canonical form (RFC 8785). */
  #digest(given: unknown): string {
    const text = canonicalText(given)
    const { key } = this.#settings
    if (!key) return `sha256:${hash('sha256', text)}`
    return `hmac-sha256:${createHmac('sha256', key.reveal()).update(text).digest('hex')}`
  }
}

/** Encodes an entry immediately: while writes fail, the queue must not retain whole calls. */
function made(entry: Entry): Entry {
  const fields = entry()
  return () => fields
}

function now(): { readonly time: string } {
  return { time: isoTime(world.now()) }
}

function canonicalText(value: unknown): string {
  try {
    return exactly(value)
  } catch {
    // Too deeply nested to encode.
    return '"[deep]"'
  }
}

function opened(settings: AuditSettings): AuditFile {
  try {
    return AuditFile.open(settings)
  } catch (cause) {
    const message = `the audit log ${settings.file} cannot be written, so nothing was changed: ${messageOf(cause)}`
    throw new Error(message, { cause })
  }
}
