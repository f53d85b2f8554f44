/** What an error reveals about the inside of a server: found by what the gateway would remove from it. */
import { isObject } from '../../core/json/json.ts'
import { type Fields, Payload } from '../../core/payload.ts'
import { excerpt } from '../../core/text/redact.ts'
import { type Redactor } from '../../core/text/redactor.ts'
import { sentBy } from '../../features/errors/errors.ts'
import { sanitise } from '../../features/errors/sanitise.ts'
import { ownCall } from '../../protocol/lift.ts'
import type { Answer } from './session.ts'

/** The marks that replace each kind of detail. */
const kinds: readonly (readonly [mark: string, what: string])[] = [
  ['[path]', 'a path'],
  ['[host]', 'a host'],
  ['[query]', 'a database query'],
  ['[connection]', 'a connection string'],
  ['[redacted]', 'what looks like a secret'],
  ['***', 'a secret of the configuration'],
]

/** The text of a failed call; undefined for others. */
export function failureText(answer: Answer): string | undefined {
  if (answer.kind === 'error') {
    const { message, data } = answer.error
    return data === undefined ? String(message) : `${String(message)}\n${JSON.stringify(data)}`
  }
  if (answer.kind === 'none' || answer.result.isError !== true) return undefined
  const { content } = answer.result
  const blocks: readonly unknown[] = Array.isArray(content) ? content : []
  return blocks
    .flatMap((block) => (isObject(block) && typeof block.text === 'string' ? [block.text] : []))
    .join('\n')
}

/** The maximum length of a text that is examined, in characters. */
const MAX_TEXT = 60_000

/** What an error text reveals that the caller did not send, as a message without it; undefined if nothing. */
export function leakIn(text: string, params: Fields, redactor: Redactor): string | undefined {
  const sent = sentBy(ownCall({ params: Payload.of(params) }), redactor)
  const examined = text.slice(0, MAX_TEXT)
  const safe = sanitise(examined, sent)
  if (safe === examined) return undefined
  const found = kinds.filter(([mark]) => count(safe, mark) > count(examined, mark)).map(([, what]) => what)
  const what = found.length > 0 ? found.join(' and ') : 'a stack trace'
  return `${what}: ${excerpt(safe, 120)}`
}

/** A text of the server for a report: short, and without anything that looks like a secret. */
export function shown(text: string, redactor: Redactor): string {
  return excerpt(redactor.text(text), 120)
}

function count(text: string, mark: string): number {
  return text.split(mark).length - 1
}
