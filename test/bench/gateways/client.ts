import { request } from 'undici'
import { REVISIONS } from '../reply.ts'
import { parseJson } from '../../../src/core/json/read.ts'

/** Where a gateway serves MCP. */
export interface Address {
  readonly url: string
  readonly token?: string
}

/** An open session with a gateway: what each request needs, and the tools by the names that the server gave them. */
export interface Session {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  /** The gateway's name of a tool of the server; many prepend the server's. @throws Error if it is not listed */
  toolName(name: string): string
}

const accepts = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' }

/** The gateway has not answered, or not with a result. */
export class NoResult extends Error {
  /** The status of the response, if there was one. */
  readonly status: number | undefined

  constructor(message: string, status?: number) {
    super(message)
    this.status = status
  }
}

/** Opens a session as a client of the last revision with sessions, and lists the tools. @throws NoResult */
export async function openSession({ url, token }: Address, limitMs: number): Promise<Session> {
  const signal = AbortSignal.timeout(limitMs)
  const first = { ...accepts, ...(token !== undefined && { authorization: `Bearer ${token}` }) }
  const params = {
    protocolVersion: REVISIONS.legacy,
    capabilities: {},
    clientInfo: { name: 'bench', version: '1.0.0' },
  }
  const hello = await post({ url, headers: first, signal }, { id: 'hello', method: 'initialize', params })
  const { protocolVersion = REVISIONS.legacy } = resultOf(hello, 'hello')
  const session = hello.headers['mcp-session-id']
  const headers: Record<string, string> = { ...first, 'mcp-protocol-version': String(protocolVersion) }
  if (typeof session === 'string') headers['mcp-session-id'] = session
  await post({ url, headers, signal }, { method: 'notifications/initialized' })
  const { tools } = resultOf(
    await post({ url, headers, signal }, { id: 'list', method: 'tools/list' }),
    'list',
  )
  const names = Array.isArray(tools) ? tools.map((tool) => String(Object(tool).name)) : []
  return {
    url,
    headers,
    toolName(name) {
      const ending = plain(name)
      const found = names.find((each) => each === name) ?? names.find((each) => plain(each).endsWith(ending))
      if (found === undefined) throw new NoResult(`${url} does not list ${name}, but ${names.join(' ')}`)
      return found
    },
  }
}

/** Calls a tool. The value is its result, also one that says that the call failed. @throws NoResult */
export async function callTool(
  { url, headers }: Session,
  params: object,
  limitMs: number,
): Promise<Readonly<Record<string, unknown>>> {
  const signal = AbortSignal.timeout(limitMs)
  return resultOf(await post({ url, headers, signal }, { id: 'call', method: 'tools/call', params }), 'call')
}

/** The message with this id in a response, which is JSON or an event stream. */
export function messageOf(text: string, id: string | number): Record<string, unknown> | undefined {
  const documents = text.startsWith('{')
    ? [text]
    : text.split(/\r?\n/).flatMap((line) => (line.startsWith('data:') ? [line.slice(5)] : []))
  for (const each of documents) {
    const message = read(each)
    if (message?.['id'] === id && message['method'] === undefined) return message
  }
  return undefined
}

function read(text: string): Record<string, unknown> | undefined {
  try {
    const value = parseJson(text)
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined
  } catch {
    return undefined
  }
}

interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly text: string
}

async function post(
  { url, ...options }: { url: string; headers: Readonly<Record<string, string>>; signal: AbortSignal },
  message: object,
): Promise<Answer> {
  try {
    const body = JSON.stringify({ jsonrpc: '2.0', ...message })
    const answer = await request(url, { method: 'POST', ...options, body })
    return { status: answer.statusCode, headers: answer.headers, text: await answer.body.text() }
  } catch (error) {
    throw new NoResult(String(error))
  }
}

function resultOf({ status, text }: Answer, id: string): Readonly<Record<string, unknown>> {
  const result = status === 200 ? messageOf(text, id)?.['result'] : undefined
  if (typeof result === 'object' && result !== null) return result as Record<string, unknown>
  throw new NoResult(`HTTP ${status}: ${text.slice(0, 300)}`, status)
}

/** A name as gateways compare it whose own names allow fewer characters. */
function plain(name: string): string {
  return name.replaceAll(/[^a-zA-Z0-9]/g, '-').toLowerCase()
}
