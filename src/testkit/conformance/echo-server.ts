/**
 * The server that the gateway has in a run beside the one under test: checks can change its data, and see which calls
 * reached it. It is a server of MCP 2025-11-25 inside of this process, in the place of a child process.
 */
import { setTimeout as wait } from 'node:timers/promises'
import { asObject, isObject, readJson } from '../../core/json/json.ts'
import { latestLegacy } from '../../core/revisions.ts'
import type {
  TransportInterceptor,
  TransportReceiver,
  UpstreamTransport,
} from '../../upstream/transport/transport.ts'
import type { Fields } from '../../core/payload.ts'
import { self } from '../../core/identity.ts'
import type { ToolSettings, UpstreamSettings } from '../../core/settings.ts'

/** A call that reached the server. */
export interface Received {
  readonly tool: string
  readonly arguments: Fields
  readonly meta: Fields
}

/** How many items all pages of `list_entries` have together, and one of them. */
export const LISTED_ITEMS = 6
const PAGE_SIZE = 2

/** A server whose data and calls a check can see. */
export class EchoServer {
  readonly #received: Received[] = []
  readonly #entries = new Map<string, string>()
  #ids = 0

  /** Connects the gateway to it where it would start the server of this name. */
  interceptor(name: string): TransportInterceptor {
    return (open, { settings }) =>
      settings.name === name ? async (receiver) => new EchoTransport(this, receiver) : open
  }

  /** Returns a function that returns the calls of a tool that reached the server after this one, in their order. */
  follow(tool: ToolName): () => readonly Received[] {
    const start = this.#received.length
    return () => this.#received.slice(start).filter((each) => each.tool === tool)
  }

  /** The texts of the entries, the oldest first. */
  get entries(): readonly string[] {
    return [...this.#entries.values()]
  }

  /** Runs a tool; progress is reported in whole steps. @throws Error for an unknown tool */
  async run(call: Received, progress: (step: number, total: number) => void): Promise<Fields> {
    this.#received.push(call)
    const { tool, arguments: args } = call
    switch (tool as ToolName) {
      case 'get_echo':
      case 'get_limited':
      case 'get_metered':
        return structured({ echo: args.text })
      case 'list_entries':
        return json(pageAt(Number(args.cursor ?? 0)))
      case 'get_status':
        await steps(Number(args.steps), Number(args.milliseconds), progress)
        return structured({ status: `after ${String(args.steps)} steps` })
      case 'get_failure':
        return { isError: true, content: [{ type: 'text', text: String(args.text) }] }
      case 'get_picture_size':
        return structured({ bytes: Buffer.from(String(args.image), 'base64').length })
      case 'create_entry': {
        // Simultaneous duplicates overlap.
        await wait(OVERLAP_MS)
        const id = `entry-${++this.#ids}`
        this.#entries.set(id, String(args.text))
        return structured({ id })
      }
      case 'add_note': {
        this.#entries.set(`note-${++this.#ids}`, String(args.text))
        return structured({ added: true })
      }
      case 'delete_entry': {
        if (!this.#entries.delete(String(args.id))) return failed(`entry ${String(args.id)} does not exist`)
        return structured({ deleted: true })
      }
      default:
        throw new Error(`Unknown tool: ${tool}`)
    }
  }
}

/** How long `create_entry` takes, in milliseconds. */
const OVERLAP_MS = 30

async function steps(
  count: number,
  milliseconds: number,
  progress: (step: number, total: number) => void,
): Promise<void> {
  for (let step = 1; step <= count; step++) {
    await wait(milliseconds)
    progress(step, count)
  }
}

function pageAt(start: number): Fields {
  const items = Array.from({ length: PAGE_SIZE }, (_item, index) => ({ number: start + index + 1 }))
  const next = start + PAGE_SIZE
  return { items, ...(next < LISTED_ITEMS && { nextCursor: String(next) }) }
}

function structured(value: Fields): Fields {
  return { ...json(value), structuredContent: value }
}

function json(value: Fields): Fields {
  return { content: [{ type: 'text', text: JSON.stringify(value) }] }
}

function failed(text: string): Fields {
  return { isError: true, content: [{ type: 'text', text }] }
}

/** One connection of the gateway. */
class EchoTransport implements UpstreamTransport {
  readonly hasProvenance = true
  readonly #server: EchoServer
  readonly #receiver: TransportReceiver
  #isClosed = false

  constructor(server: EchoServer, receiver: TransportReceiver) {
    this.#server = server
    this.#receiver = receiver
  }

  async send(text: string): Promise<void> {
    const message = readJson(text)
    if (!isObject(message) || typeof message.method !== 'string' || message.id === undefined) return
    const { id, method } = message
    const params = asObject(message.params)
    // The gateway goes on before the response arrives, as with any server.
    setImmediate(() => {
      void this.#answer(id, method, params).then((answer) => this.#receive({ id, ...answer }, id))
    })
  }

  async close(): Promise<void> {
    this.#isClosed = true
  }

  async #answer(id: unknown, method: string, params: Fields): Promise<Fields> {
    try {
      return { result: await this.#resultOf(id, method, params) }
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error)
      return { error: { code: method === 'tools/call' ? -32602 : -32601, message } }
    }
  }

  async #resultOf(id: unknown, method: string, params: Fields): Promise<Fields> {
    if (method === 'initialize')
      return {
        protocolVersion: latestLegacy.name,
        capabilities: { tools: {} },
        serverInfo: SERVER_INFO,
      }
    if (method === 'ping') return {}
    if (method === 'tools/list') return { tools: definitions }
    if (method !== 'tools/call') throw new Error(`Method not found: ${method}`)
    const meta = asObject(params._meta)
    const { progressToken } = meta
    return this.#server.run(
      {
        tool: String(params.name),
        arguments: asObject(params.arguments),
        meta,
      },
      (progress, total) => {
        if (progressToken === undefined) return
        const note = { progressToken, progress, total, message: `step ${progress}` }
        this.#receive({ method: 'notifications/progress', params: note }, id)
      },
    )
  }

  #receive(message: Fields, about: unknown): void {
    if (this.#isClosed) return
    const text = JSON.stringify({ jsonrpc: '2.0', ...message })
    this.#receiver.receive(text, typeof about === 'number' ? about : undefined)
  }
}

/** The names of the tools. */
type ToolName =
  | 'get_echo'
  | 'get_limited'
  | 'get_metered'
  | 'get_status'
  | 'get_failure'
  | 'get_picture_size'
  | 'list_entries'
  | 'create_entry'
  | 'add_note'
  | 'delete_entry'

/** The name and version of the server. */
const SERVER_INFO = { name: `${self.name}-conformance`, version: self.version }

const reading = { readOnlyHint: true, openWorldHint: false }
const writing = { readOnlyHint: false, destructiveHint: false, idempotentHint: false, openWorldHint: false }
const text = { type: 'string', description: 'A text.' }
const echo = { type: 'object', properties: { echo: { type: 'string' } }, required: ['echo'] }

/** The entries of `tools/list`. */
export const definitions: readonly (Fields & { readonly name: ToolName })[] = [
  {
    name: 'get_echo',
    description: 'Returns the text that it gets.',
    inputSchema: object({ text }, ['text']),
    outputSchema: echo,
    annotations: reading,
  },
  {
    name: 'get_limited',
    description: 'Returns the text that it gets, once a minute.',
    inputSchema: object({ text }, ['text']),
    annotations: reading,
  },
  {
    name: 'get_metered',
    description: 'Returns the text that it gets, for a price.',
    inputSchema: object({ text }, ['text']),
    annotations: reading,
  },
  {
    name: 'get_status',
    description: 'Returns a status after a number of steps.',
    inputSchema: object({ steps: { type: 'integer' }, milliseconds: { type: 'integer' } }, [
      'steps',
      'milliseconds',
    ]),
    annotations: reading,
  },
  {
    name: 'get_failure',
    description: 'Fails with a text.',
    inputSchema: object({ text }, ['text']),
    outputSchema: echo,
    annotations: reading,
  },
  {
    name: 'get_picture_size',
    description: 'Returns the size of a picture.',
    inputSchema: object({ image: { type: 'string', contentEncoding: 'base64' } }, ['image']),
    annotations: reading,
  },
  {
    name: 'list_entries',
    description: 'Lists numbered items in pages.',
    inputSchema: object({ cursor: { type: 'string', description: 'The nextCursor of the last page.' } }, []),
    annotations: reading,
  },
  {
    name: 'create_entry',
    description: 'Creates an entry with a text.',
    inputSchema: object({ text }, ['text']),
    annotations: writing,
  },
  {
    name: 'add_note',
    description: 'Adds a note.',
    inputSchema: object({ text }, ['text']),
    annotations: writing,
  },
  {
    name: 'delete_entry',
    description: 'Deletes an entry.',
    inputSchema: object({ id: { type: 'string' } }, ['id']),
    annotations: { ...writing, destructiveHint: true },
  },
]

function object(properties: Fields, required: readonly string[]): Fields {
  return { type: 'object', properties, required }
}

/** The price of a call of `get_metered`. */
export const PRICE = { units: 2, label: 'credits' }

/** The largest picture that `get_picture_size` accepts, in bytes. */
export const MAX_PICTURE_BYTES = 1024

/** The intent for which `get_echo` is the wrong tool, and the capability that another server has. */
export const OTHER_INTENT = 'conformance intent'
export const OTHER_CAPABILITY = 'conformance capability'

/** The server that is recommended for that capability. */
export const OTHER_SERVER = 'conformance-elsewhere'

const tools: Readonly<Partial<Record<ToolName, ToolSettings>>> = {
  get_limited: { rate: '1/minute' },
  get_metered: { cost: { category: 'metered', units: PRICE.units, label: PRICE.label } },
  // At once a task for clients with tasks.
  get_status: { latency: 'minutes' },
  get_picture_size: { maxInput: MAX_PICTURE_BYTES },
  create_entry: { op: 'write', risk: 'reversible', confirm: false, undo: 'delete_entry(id=$.result.id)' },
  add_note: { op: 'write', risk: 'reversible', confirm: false },
  delete_entry: { op: 'delete', risk: 'destructive', confirm: 'Delete entry {id}?' },
}

/** The settings of the built-in server, from those of a server that has only defaults. */
export function echoSettings(plain: UpstreamSettings, name: string): UpstreamSettings {
  return {
    ...plain,
    name,
    transport: 'stdio',
    revision: latestLegacy.name,
    isolation: 'shared',
    trust: true,
    tools,
    intent: [
      { when: OTHER_INTENT, on: 'get_echo', suggest: 'list_entries', reason: 'the check asks for it' },
    ],
    recommend: [{ capability: OTHER_CAPABILITY, server: OTHER_SERVER, confidence: 'high' }],
  }
}
