/** JSON lines on stderr, or readable ones on a terminal; secrets are masked. */
import { writeSync } from 'node:fs'
import { inspect, styleText } from 'node:util'
import { isoTime } from '../core/time/waiting.ts'
import type { Log } from '../core/log.ts'
import { isSecretKey, Redactor } from '../core/text/redact.ts'

const levels = ['debug', 'info', 'warn', 'error'] as const
export type Level = (typeof levels)[number]

interface Options {
  /** The least important lines that are written; told later where absent, `info` until then. */
  readonly level?: Level | undefined
  /** Lines for people instead of JSON. */
  readonly isPretty: boolean
  /** The file descriptor to write to. */
  readonly to?: number
}

/** A log that can be told how to go on. */
export interface OpenLog extends Log {
  /** Which secrets must not appear in it, and which lines are written where that was not said when it was opened. */
  configure(settings: { readonly secrets: readonly string[]; readonly level?: Level | undefined }): void
}

type Fields = Readonly<Record<string, unknown>>

const INFO = levels.indexOf('info')

/** How long lines may wait to be written together, in milliseconds. */
const WRITE_DELAY_MS = 20
const MAX_WAITING = 64 * 1024

/** A log of one line per event. Lines are written in batches, and the rest when the process ends. */
export function createLog({ level, isPretty, to = 2 }: Options): OpenLog {
  const redactor = new Redactor()
  let least = levels.indexOf(level ?? 'info')
  let waiting: string[] = []
  let size = 0
  let timer: NodeJS.Timeout | undefined

  const flush = (): void => {
    clearTimeout(timer)
    timer = undefined
    if (waiting.length === 0) return
    const text = waiting.join('')
    waiting = []
    size = 0
    try {
      writeSync(to, text)
    } catch {
      // A reader that went away, or is too slow, must not stop the gateway.
    }
  }
  process.on('exit', flush)

  const write = (at: Level, event: string, fields: Fields | undefined): void => {
    if (levels.indexOf(at) < least) return
    const time = isoTime(Date.now())
    const encode = isPretty ? pretty : json
    let line = encode(time, at, event, fields)
    if (redactor.finds(line)) line = encode(time, at, event, fields && redactor.fields(fields))
    waiting.push(`${line}\n`)
    size += line.length
    if (size > MAX_WAITING) flush()
    else timer ??= setTimeout(flush, WRITE_DELAY_MS).unref()
  }

  return {
    get isInfo() {
      return least <= INFO
    },
    configure: ({ secrets, level: later }) => {
      redactor.learn(secrets)
      least = levels.indexOf(level ?? later ?? 'info')
    },
    debug: (event, fields) => write('debug', event, fields),
    info: (event, fields) => write('info', event, fields),
    warn: (event, fields) => write('warn', event, fields),
    error: (event, fields) => write('error', event, fields),
  }
}

/** A log whose lines all have some fields more. */
export function withFields(log: Log, more: Fields): Log {
  return {
    get isInfo() {
      return log.isInfo ?? true
    },
    debug: (event, fields) => log.debug(event, { ...more, ...fields }),
    info: (event, fields) => log.info(event, { ...more, ...fields }),
    warn: (event, fields) => log.warn(event, { ...more, ...fields }),
    error: (event, fields) => log.error(event, { ...more, ...fields }),
  }
}

/** One JSON object, field by field: cheaper than making the object first. */
function json(time: string, level: Level, event: string, fields: Fields = {}): string {
  let text = `{"time":"${time}","level":"${level}","event":${JSON.stringify(event)}`
  for (const key in fields) {
    const value = fields[key]
    if (value === undefined) continue
    text += `,"${key}":${isSecretKey(key) ? MASKED : encoded(value)}`
  }
  return `${text}}`
}

function encoded(value: unknown): string {
  if (typeof value === 'string') return isPlain(value) ? `"${value}"` : JSON.stringify(value)
  if (typeof value === 'number' && Number.isFinite(value)) return `${value}`
  return JSON.stringify(value, masking) ?? 'null'
}

const MASKED = '"***"'

/** What stands under a telling key within a value. */
function masking(key: string, value: unknown): unknown {
  return key !== '' && isSecretKey(key) ? '***' : value
}

/** Longer text is looked at by those who are made for it. */
const MAX_SHORT_LENGTH = 64

/** Whether text is short and needs no escape. */
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
    .map(([key, value]) => `${styleText('dim', `${key}=`)}${isSecretKey(key) ? '***' : shown(value)}`)
  return [
    styleText('dim', time.slice(11, 23)),
    styleText(colours[level], level.padEnd(5)),
    event,
    ...rest,
  ].join(' ')
}

function shown(value: unknown): string {
  if (typeof value === 'string') return plain(value)
  const masked: unknown = JSON.parse(JSON.stringify(value, masking) ?? 'null')
  return inspect(masked, { breakLength: Infinity })
}

/** What a server wrote must not steer the terminal. */
function plain(text: string): string {
  return text.replaceAll(/\p{Cc}/gu, ' ')
}
