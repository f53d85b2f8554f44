import { onTestFinished } from 'vitest'
import { scriptedServer } from './scripted-server.ts'
import { type Json, objectAt } from './server/json.ts'

/** A server of notes, and the calls it got, such as `add a`. */
export interface Notes {
  readonly calls: string[]
  /** The arguments, call by call. */
  readonly given: Json[]
  /** The settings of a gateway for it. */
  readonly upstream: Json
  /** Answers the calls that were begun and not answered: those of which the text begins with `slow`. */
  release(): void
  /** Answers them with an error of the tool instead. */
  fail(): void
  /** How many calls its client cancelled. */
  cancelled(): number
}

const inputSchema = { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] }
const hints: Readonly<Record<string, Json>> = {
  look: { readOnlyHint: true },
  wipe: { destructiveHint: true },
}

/** Starts one, until the test is over; `result` is what it answers to a text. */
export async function notes(result: (text: string) => Json = (text) => ({ text })): Promise<Notes> {
  const calls: string[] = []
  const given: Json[] = []
  const waiting: ((result?: Json) => void)[] = []
  const server = await scriptedServer(
    { tools: {} },
    {
      'tools/list': () => ({
        tools: ['add', 'drop', 'look', 'wipe'].map((name) => ({
          name,
          inputSchema,
          annotations: hints[name],
        })),
      }),
      'tools/call': ({ params, finish }) => {
        const args = objectAt(params, 'arguments')
        const text = String(args['text'])
        calls.push(`${String(params['name'])} ${text.slice(0, 20)}`)
        given.push(args)
        const answer = { content: [{ type: 'text', text: 'done' }], structuredContent: result(text) }
        if (!text.startsWith('slow') || params['name'] !== 'add') return answer
        waiting.push((other = answer) => finish(other))
        return undefined
      },
    },
  )
  onTestFinished(() => server.close())
  const tools = { add: { undo: 'drop(text=$.result.text)' } }
  const upstream = { url: server.url, revision: '2025-11-25', trust: true, tools }
  const release = (): void => waiting.splice(0).forEach((finish) => finish())
  const refused = { content: [{ type: 'text', text: 'no room' }], isError: true }
  const fail = (): void => waiting.splice(0).forEach((finish) => finish(refused))
  const cancelled = (): number =>
    server.seen.filter(({ method }) => method === 'notifications/cancelled').length
  return { calls, given, upstream, release, fail, cancelled }
}
