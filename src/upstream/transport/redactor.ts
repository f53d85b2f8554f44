/** Removes secrets from the messages of a server. */
import type { Notification } from '../../core/call.ts'
import { isObject } from '../../core/json/json.ts'
import { isSecretKey, Redactor, secretsOf, withoutSecrets } from '../../core/text/redact.ts'
import type { UpstreamSettings } from '../../core/settings.ts'

/** Removes secrets from a server's texts: configured ones, and anything that looks like one. */
export interface MessageRedactor {
  text(text: string): string
  /** A redacted notification. Log messages are for people, and often contain too much. */
  note(note: Notification): Notification
}

/** The redactor of one server. */
export function createMessageRedactor(settings: UpstreamSettings): MessageRedactor {
  const redactor = new Redactor()
  redactor.learn(secretsOf(settings))
  const text = (given: string): string => withoutSecrets(redactor.text(given))
  return {
    text,
    note: (note) => {
      const data = note.method === 'notifications/message' ? note.params?.at('data') : undefined
      if (!note.params || !data || text(data.text) === data.text) return note
      return { ...note, params: note.params.with({ data: cleaned(data.value, text) }) }
    },
  }
}

const MAX_DEPTH = 64
const MASK = '***'

function cleaned(value: unknown, text: (given: string) => string, depth = 0): unknown {
  if (typeof value === 'string') return text(value)
  if (typeof value !== 'object' || value === null) return value
  if (depth > MAX_DEPTH) return MASK
  if (Array.isArray(value)) return value.map((item) => cleaned(item, text, depth + 1))
  if (!isObject(value)) return value
  const members = Object.entries(value).map(([key, member]) => {
    const isSecret = isSecretKey(key) && typeof member === 'string'
    return [text(key), isSecret ? MASK : cleaned(member, text, depth + 1)] as const
  })
  return Object.fromEntries(members)
}
