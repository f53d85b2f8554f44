import type { ServerResponse } from 'node:http'
import { gzipSync } from 'node:zlib'
import { isObject, type Json } from './server/json.ts'

/** The answer every tool without a fault gives. */
export function goodAnswer(id: unknown): string {
  return JSON.stringify({ jsonrpc: '2.0', id, result: { content: [{ type: 'text', text: 'good' }] } })
}

/** Messages that are wrong on every transport, by the name of the tool that answers with them. */
export const badMessages: Readonly<Record<string, (id: unknown) => string>> = {
  no_json: () => 'Internal error: this is no JSON',
  cut_off: (id) => goodAnswer(id).slice(0, -7),
  no_object: () => '42',
  no_version: (id) => JSON.stringify({ id, result: {} }),
  wrong_id: () => goodAnswer(987_654),
  neither: (id) => JSON.stringify({ jsonrpc: '2.0', id }),
  both: (id) => JSON.stringify({ jsonrpc: '2.0', id, result: {}, error: { code: -32000, message: 'both' } }),
  text_result: (id) => JSON.stringify({ jsonrpc: '2.0', id, result: 'text' }),
  null_result: (id) => JSON.stringify({ jsonrpc: '2.0', id, result: null }),
  text_error: (id) => JSON.stringify({ jsonrpc: '2.0', id, error: 'boom' }),
  empty_error: (id) => JSON.stringify({ jsonrpc: '2.0', id, error: {} }),
  odd_error: (id) => JSON.stringify({ jsonrpc: '2.0', id, error: { code: 'E_BAD', message: 7 } }),
  nested: (id) => `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${'['.repeat(100_000)}`,
  batch_of_junk: () => '[1,[2],"three",{"jsonrpc":"2.0"}]',
}

type HttpFault = (response: ServerResponse, id: unknown, origin: string) => void

/** What goes wrong only over HTTP, by the name of the tool that does it. */
export const httpFaults: Readonly<Record<string, HttpFault>> = {
  nothing: (response) => void response.writeHead(200, json).end(),
  accepted: (response) => void response.writeHead(202).end(),
  page: (response) => void response.writeHead(200, { 'content-type': 'text/html' }).end('<h1>Hello</h1>'),
  badly_zipped: (response, id) => {
    const body = gzipSync(goodAnswer(id)).fill(0xff, 20)
    response.writeHead(200, { ...json, 'content-encoding': 'gzip' }).end(body)
  },
  half_event: (response, id) => {
    response.writeHead(200, stream)
    response.end(`event: message\ndata: ${goodAnswer(id).slice(0, 40)}`)
  },
  stream_of_junk: (response) =>
    void response.writeHead(200, stream).end('junk\n\n: note\n\ndata\n\ndata: {\n\n'),
  empty_stream: (response) => void response.writeHead(200, stream).end(),
  reset: (response) => void response.destroy(),
  reset_in_body: (response, id) => {
    response.writeHead(200, { ...json, 'content-length': 10_000 })
    response.write(goodAnswer(id), () => response.destroy())
  },
  reset_in_stream: (response) => {
    response.writeHead(200, stream)
    response.write(': hello\n\n', () => response.destroy())
  },
  redirect_loop: (response) => void response.writeHead(307, { location: '/mcp' }).end(),
  redirect_away: (response) => void response.writeHead(307, { location: 'http://192.0.2.1/mcp' }).end(),
  redirect_nowhere: (response) => void response.writeHead(308, { location: 'http://[' }).end(),
  bad_request: (response) => void response.writeHead(400, { 'content-type': 'text/plain' }).end('no'),
  unauthorized: (response) => void response.writeHead(401, { 'www-authenticate': 'Bearer' }).end(),
  gone: (response) => void response.writeHead(404).end(),
  too_many: (response) => void response.writeHead(429, { 'retry-after': '1' }).end('slow down'),
  broken: (response) => void response.writeHead(500).end('{"error":"oops"}'),
  bad_gateway: (response) => void response.writeHead(502, { 'content-type': 'text/html' }).end('<html>'),
}

/** The tools of a server with faults, as it lists them. */
export function toolList(names: readonly string[]): Json[] {
  return names.map((name) => ({ name, description: 'Returns a text', inputSchema: { type: 'object' } }))
}

/** The tool a message calls. */
export function toolOf(message: unknown): string | undefined {
  const params = isObject(message) ? message['params'] : undefined
  return isObject(params) && isObject(message) && message['method'] === 'tools/call'
    ? String(params['name'])
    : undefined
}

/** The answer to `initialize`. */
export function welcome(id: unknown): Json {
  const result = {
    protocolVersion: '2025-11-25',
    capabilities: { tools: {}, logging: {} },
    serverInfo: { name: 'faulty', version: '1.0.0' },
  }
  return { jsonrpc: '2.0', id, result }
}

/** An answer that the method is not known. */
export function unknownMethod(id: unknown): Json {
  return { jsonrpc: '2.0', id, error: { code: -32601, message: 'Method not found' } }
}

const json = { 'content-type': 'application/json' }
const stream = { 'content-type': 'text/event-stream' }
