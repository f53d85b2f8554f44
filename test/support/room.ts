import { onTestFinished } from 'vitest'
import { scriptedServer } from './scripted-server.ts'
import { objectAt } from './server/json.ts'

/** A room messages are sent to. */
export interface Room {
  readonly url: string
  /** What is in the room. */
  readonly messages: ReadonlySet<string>
  /** What its server was told to do, such as `send a`. */
  readonly calls: readonly string[]
  /** The call that gets no answer, although it is done. */
  silent: string | undefined
  /** Whether messages are refused. */
  isClosed: boolean
  /** Ends its server. */
  end(): Promise<void>
}

interface Reopened {
  /** One of the system's unless it is given. */
  readonly port?: number
  readonly before?: Room
}

const inputSchema = { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] }

/** Starts the server of a room, until the test is over; with what was in the room, where one is opened again. */
export async function openRoom({ port = 0, before }: Reopened = {}): Promise<Room> {
  const messages = new Set<string>(before?.messages)
  const calls: string[] = []
  const server = await scriptedServer(
    { tools: {} },
    {
      'tools/list': () => ({
        tools: ['send', 'unsend', 'shout'].map((name) => ({ name, inputSchema })),
      }),
      'tools/call': ({ params }) => {
        const text = String(objectAt(params, 'arguments')['text'])
        const call = `${String(params['name'])} ${text}`
        calls.push(call)
        if (room.isClosed) return { content: [{ type: 'text', text: 'the room is closed' }], isError: true }
        if (params['name'] === 'unsend') messages.delete(text)
        else messages.add(text)
        return room.silent === call ? undefined : { content: [], structuredContent: { text } }
      },
    },
    port,
  )
  onTestFinished(() => server.close())
  const room: Room = {
    url: server.url,
    messages,
    calls,
    silent: undefined,
    isClosed: false,
    end: () => server.close(),
  }
  return room
}
