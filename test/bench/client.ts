import { randomUUID } from 'node:crypto'
import { request } from 'undici'
import { REVISIONS, replyText, type Era } from './reply.ts'

/** How one client asks an MCP server for a reply of a given size, and how it checks what comes back. */
export interface Client {
  readonly headers: Record<string, string>
  body(id: number): string
  /** What is wrong with an answer, if anything; `fully` also parses it and compares the text. */
  complain(id: number, status: number, text: string, fully: boolean): string | undefined
}

/** The tools of the upstream: one that reads, and one that says that it writes. */
export type Tool = 'get_text' | 'write'

/** Stands where the key of each call goes. */
const KEY = 'the-key'
const accepts = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' }
const clientInfo = { name: 'bench', version: '1.0.0' }

/** A client of the given era; a legacy one has opened a session when this resolves. */
export async function connect(
  url: string,
  era: Era,
  {
    bytes,
    tool = 'get_text',
    token,
    isKeyed = false,
  }: {
    readonly bytes: number
    readonly tool?: Tool | undefined
    readonly token?: string | undefined
    readonly isKeyed?: boolean | undefined
  },
): Promise<Client> {
  const credentials = token === undefined ? {} : { authorization: `Bearer ${token}` }
  const first = { ...accepts, ...credentials }
  const headers =
    era === 'modern' ? { ...modernHeaders(tool), ...credentials } : await openSession(url, first)
  const params = {
    name: tool,
    arguments: { bytes },
    ...((era === 'modern' || isKeyed) && {
      _meta: { ...(era === 'modern' && envelope()), ...(isKeyed && { idempotency_key: KEY }) },
    }),
  }
  const tail = `,"method":"tools/call","params":${JSON.stringify(params)}}`
  const [before = '', after = ''] = tail.split(KEY)
  const run = randomUUID()
  return {
    headers,
    body: (id) => `{"jsonrpc":"2.0","id":${id}${isKeyed ? `${before}${run}-${id}${after}` : tail}`,
    complain: (id, status, text, fully) => complain(id, status, text, fully ? replyText(bytes) : undefined),
  }
}

function modernHeaders(tool: Tool): Record<string, string> {
  return {
    ...accepts,
    'mcp-protocol-version': REVISIONS.modern,
    'mcp-method': 'tools/call',
    'mcp-name': tool,
  }
}

function envelope() {
  const prefix = 'io.modelcontextprotocol'
  return {
    [`${prefix}/protocolVersion`]: REVISIONS.modern,
    [`${prefix}/clientInfo`]: clientInfo,
    [`${prefix}/clientCapabilities`]: {},
  }
}

async function openSession(url: string, first: Record<string, string>): Promise<Record<string, string>> {
  const params = { protocolVersion: REVISIONS.legacy, capabilities: {}, clientInfo }
  const hello = JSON.stringify({ jsonrpc: '2.0', id: 'hello', method: 'initialize', params })
  const answer = await request(url, { method: 'POST', headers: first, body: hello })
  const text = await answer.body.text()
  if (answer.statusCode !== 200 || !text.includes(REVISIONS.legacy))
    throw new Error(`initialize at ${url} answered ${answer.statusCode}: ${text.slice(0, 300)}`)
  const session = answer.headers['mcp-session-id']
  const headers: Record<string, string> = { ...first, 'mcp-protocol-version': REVISIONS.legacy }
  if (typeof session === 'string') headers['mcp-session-id'] = session
  const initialized = JSON.stringify({ jsonrpc: '2.0', method: 'notifications/initialized' })
  const accepted = await request(url, { method: 'POST', headers, body: initialized })
  await accepted.body.dump()
  if (accepted.statusCode !== 202) throw new Error(`initialized at ${url} answered ${accepted.statusCode}`)
  return headers
}

function complain(id: number, status: number, text: string, wanted?: string): string | undefined {
  const excerpt = text.slice(0, 300)
  if (status !== 200) return `HTTP ${status}: ${excerpt}`
  const isOurs = text.includes(`"id":${id},`) || text.includes(`"id":${id}}`)
  if (!isOurs || !text.includes('"result":')) return `not the answer to ${id}: ${excerpt}`
  if (wanted === undefined) return undefined
  const { id: answered, result } = JSON.parse(messageOf(text)) as { id?: unknown; result?: ToolResult }
  if (answered !== id || result?.isError === true) return `not the result of ${id}: ${excerpt}`
  return result?.content?.[0]?.text === wanted ? undefined : `not the text asked for: ${excerpt}`
}

/** The message of an answer, which may be an event stream of one. */
function messageOf(text: string): string {
  return text.startsWith('{') ? text : (/^data: ?(.*)$/m.exec(text)?.[1] ?? '')
}

interface ToolResult {
  readonly isError?: boolean
  readonly content?: readonly { readonly text?: string }[]
}
