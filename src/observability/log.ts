/** Logs JSON lines, or pretty ones for a terminal; secrets are masked. */
import { inspect, styleText } from 'node:util'
import { world } from '../core/world.ts'
import { escapeHidden } from '../core/text/escape.ts'
import { isoTime } from '../core/time/waiting.ts'
import type { Log } from '../core/log.ts'
import { Redactor } from '../core/text/redactor.ts'
import { isSecretName } from '../core/text/secret.ts'
import { parseJson } from '../core/json/read.ts'

const levels = ['debug', 'info', 'warn', 'error'] as const
export type Level = (typeof levels)[number]

/** A log that can be reconfigured. */
export interface OpenLog extends Log {
  /** Knows the secrets to mask. */
  readonly redactor: Redactor
  /** Sets the minimum level unless it was given at the start. */
  configure(settings: { readonly level?: Level | undefined }): void
}

type Fields = Readonly<Record<string, unknown>>

const INFO = levels.indexOf('info')

/** Where a log goes: its lines, whether a terminal shows them, and which of several workers writes them. */
interface LogOutput {
  log(line: string): void
  readonly worker?: { readonly number: number } | undefined
  readonly stderr: { readonly isTTY?: boolean | undefined }
}

/** Opens a log with one line per event: pretty for a terminal, JSON otherwise. Without a level, it is configured later. */
export function openLog(
  level: Level | undefined,
  output: LogOutput,
  isPretty = output.stderr.isTTY === true,
): OpenLog {
  const redactor = new Redactor()
  const worker = output.worker?.number
  let least = levels.indexOf(level ?? 'info')

  const write = (at: Level, event: string, fields: Fields | undefined): void => {
    if (levels.indexOf(at) < least) return
    const time = isoTime(world.now())
    const encode = isPretty ? pretty : json
    const own = worker === undefined ? fields : { worker, ...fields }
    let line = encode(time, at, event, own)
    if (redactor.finds(line)) line = encode(time, at, event, own && redactor.fields(own))
    output.log(`${isPretty ? line : escapeHidden(line)}\n`)
  }

  return {
    get isInfo() {
      return least <= INFO
    },
    redactor,
    configure: ({ level: later }) => {
      least = levels.indexOf(level ?? later ?? 'info')
    },
    ...writingBy(write),
  }
}

function writingBy(
  write: (level: Level, event: string, fields: Fields | undefined) => void,
): Pick<Log, Level> {
  return {
    debug: (event, fields) => write('debug', event, fields),
    info: (event, fields) => write('info', event, fields),
    warn: (event, fields) => write('warn', event, fields),
    error: (event, fields) => write('error', event, fields),
  }
}

/** A log that adds fields to all lines. */
export function withFields(log: Log, more: Fields): Log {
  return {
    get isInfo() {
      return log.isInfo ?? true
    },
    ...writingBy((level, event, fields) => log[level](event, { ...more, ...fields })),
  }
}

/** Encodes a line field by field: cheaper than building the object first. */
function json(time: string, level: Level, event: string, fields: Fields = {}): string {
  let text = `{"time":"${time}","level":"${level}","event":${JSON.stringify(event)}`
  for (const key in fields) {
    const value = fields[key]
    if (value === undefined) continue
    text += `,"${key}":${isSecretName(key) ? MASKED : encoded(value)}`
  }
  return `${text}}`
}

function encoded(value: unknown): string {
  if (typeof value === 'string') return isPlain(value) ? `"${value}"` : JSON.stringify(value)
  if (typeof value === 'number' && Number.isFinite(value)) return `${value}`
  return JSON.stringify(value, masking) ?? 'null'
}

const MASKED = '"***"'

/** Masks nested values whose key marks them as secret. */
function masking(key: string, value: unknown): unknown {
  return key !== '' && isSecretName(key) ? '***' : value
}

/** Longer text is encoded by JSON.stringify. */
const MAX_SHORT_LENGTH = 64

/** Whether text is short and needs no escaping. */
function isPlain(text: string): boolean {
  if (text.length > MAX_SHORT_LENGTH) return false
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code < 32 || code > 126 || code === 34 || code === 92) return false
  }
  return true
}

const colours = { debug: 'gray', info: 'cyan', warn: 'yellow', error: 'red' } as const

function pretty(time: string, level: Level, event: string, fields: Fields = {}): string {
  const rest = Object.entries(fields)
    .filter(([, value]) => value !== undefined)
    .map(([key, value]) => `${styleText('dim', `${key}=`)}${isSecretName(key) ? '***' : valueText(value)}`)
  return [
    styleText('dim', time.slice(11, 23)),
    styleText(colours[level], level.padEnd(5)),
    event,
    ...rest,
  ].join(' ')
}

function valueText(value: unknown): string {
  if (typeof value === 'string') return plain(value)
  const masked: unknown = parseJson(JSON.stringify(value, masking) ?? 'null')
  return plain(inspect(masked, { breakLength: Infinity }))
}

/** Text of a server on one line, which cannot control the terminal. */
function plain(text: string): string {
  return escapeHidden(text.replaceAll(/\p{Cc}/gu, ' '))
}
