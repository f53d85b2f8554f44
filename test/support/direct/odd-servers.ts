/**
 * Servers whose answers are odd and allowed: each is a table of JSON texts, which are sent as they stand here. What follows
 * is known by the method, and by the name or URI that a request is for.
 */
import { isObject, objectAt, parse } from '../server/json.ts'
import type { Revision } from '../server/revisions.ts'

/** The texts after the `id` of an answer, such as `"result":{}`; and those of notifications before it. */
export interface OddServer {
  readonly revision: Revision
  readonly answers: Readonly<
    Record<string, string | { readonly notes: readonly string[]; readonly answer: string }>
  >
  /** The tool `get_change` sends these outside of requests. */
  readonly changes?: readonly string[]
}

/** What a server says to a message: texts of messages, for the request itself or for everybody. */
export interface Said {
  readonly answers: readonly string[]
  readonly changes: readonly string[]
}

const progress = (token: unknown): string => JSON.stringify(token ?? null)

/** What an odd server says to a message. */
export function said({ answers, changes = [] }: OddServer, text: string): Said {
  const message = parse(text)
  if (!isObject(message) || !('id' in message) || typeof message['method'] !== 'string')
    return { answers: [], changes: [] }
  const { id, method } = message
  const params = objectAt(message, 'params')
  const about = params['name'] ?? params['uri']
  const found = answers[`${method} ${String(about)}`] ?? answers[method]
  const { notes, answer } =
    typeof found === 'object' ? found : { notes: [], answer: found ?? `"error":${unknownMethod(method)}` }
  const token = progress(objectAt(params, '_meta')['progressToken'])
  return {
    answers: [
      ...notes.map((note) => `{"jsonrpc":"2.0",${note.replace('$TOKEN', token)}}`),
      `{"jsonrpc":"2.0","id":${JSON.stringify(id)},${answer.replaceAll('$NAME', JSON.stringify(String(about)).slice(1, -1))}}`,
    ],
    changes: about === 'get_change' ? changes.map((each) => `{"jsonrpc":"2.0",${each}}`) : [],
  }
}

function unknownMethod(method: string): string {
  return `{"code":-32601,"message":${JSON.stringify(`Method not found: ${method}`)}}`
}
