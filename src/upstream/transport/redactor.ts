/** Removes secrets from the messages of a server. */
import type { Notification } from '../../core/call.ts'
import { cleanedValue, Redactor, secretsOf, withoutSecrets } from '../../core/text/redact.ts'
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
      return { ...note, params: note.params.with({ data: cleanedValue(data.value, text) }) }
    },
  }
}
