import { once } from 'node:events'
import { createConnection, type Socket } from 'node:net'
import { until } from './condition.ts'
import type { HeaderMap } from './server/journal.ts'

/** Opens a TCP connection to the host of a URL. */
export async function tcp(url: string): Promise<Socket> {
  const { hostname, port } = new URL(url)
  const socket = createConnection(Number(port), hostname)
  await once(socket, 'connect')
  // What the other side thinks of what it gets shows in the answer.
  socket.on('error', () => undefined)
  return socket
}

/** The head of a POST to the MCP endpoint. */
export function postHead(headers: HeaderMap): string {
  const lines = Object.entries({ Host: 'localhost', ...headers }).map(
    ([name, value]) => `${name}: ${value}\r\n`,
  )
  return `POST /mcp HTTP/1.1\r\n${lines.join('')}\r\n`
}

/** What a socket says until a text has come, or until it closes. */
export async function readSocket(socket: Socket, end?: string, timeoutMs?: number): Promise<string> {
  let text = ''
  let isOver = socket.closed
  socket.setEncoding('latin1').on('data', (part: string) => void (text += part))
  socket.on('close', () => (isOver = true))
  await until(() => isOver || (end !== undefined && text.includes(end)), 'an answer', timeoutMs)
  return text
}
