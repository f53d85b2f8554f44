// The baseline for stdio: HTTP POST in, one line to the child with an id of its own, the reply matched by it.
// Usage: line-mux.ts COMMAND [ARGUMENT…]; it prints the port it listens on.
import { spawn } from 'node:child_process'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

interface Waiting {
  readonly id: unknown
  readonly response: ServerResponse
}
// Most servers write the envelope first; then the id is read and replaced without parsing the result.
const envelope = /^\{"jsonrpc":"2\.0","id":(\d+),/
const [, , command = '', ...args] = process.argv
const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'] })
const waiting = new Map<number, Waiting>()
let nextId = 1
let pending = ''

child.on('exit', () => process.exit(1))
child.stdout.setEncoding('utf8')
child.stdout.on('data', (chunk: string) => {
  const lines = (pending + chunk).split('\n')
  pending = lines.pop() ?? ''
  for (const line of lines) deliver(line)
})

const server = createServer((request, response) => {
  if (request.method !== 'POST') return void response.writeHead(405).end()
  let text = ''
  request.setEncoding('utf8')
  request.on('data', (chunk: string) => (text += chunk))
  request.on('end', () => send(text, response))
})
server.keepAliveTimeout = 600_000
server.listen(0, '127.0.0.1', () => {
  const address = server.address() as AddressInfo
  process.stdout.write(`${address.port}\n`)
})

function send(text: string, response: ServerResponse): void {
  const message = JSON.parse(text) as { id?: unknown }
  if (message.id === undefined) {
    child.stdin.write(JSON.stringify(message) + '\n')
    return void response.writeHead(202).end()
  }
  const own = nextId++
  waiting.set(own, { id: message.id, response })
  message.id = own
  child.stdin.write(JSON.stringify(message) + '\n')
}

function deliver(line: string): void {
  const quick = envelope.exec(line)
  const message = quick ? undefined : (JSON.parse(line) as { id?: unknown })
  const own = Number(quick ? quick[1] : message?.id)
  const asked = waiting.get(own)
  if (!asked) return
  waiting.delete(own)
  const id = JSON.stringify(asked.id)
  const body = quick
    ? `{"jsonrpc":"2.0","id":${id},${line.slice(quick[0].length)}`
    : JSON.stringify({ ...message, id: asked.id })
  const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }
  asked.response.writeHead(200, headers).end(body)
}
