/**
 * A server on stdio that keeps every rule, or breaks one on purpose: for tests of commands that check servers.
 * `node broken-server.ts WAY` runs it; without a way nothing is broken. NOTES_FILE records what its tools did.
 */
import { appendFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { isObject, type Json, parse } from './server/json.ts'

/** What each way breaks. */
export const ways = {
  'output-schema': 'structured content that does not fit the output schema',
  'structured-missing': 'no structured content though there is an output schema',
  'structured-text': 'text that is other JSON than the structured content',
  'malformed-result': 'a result without content',
  'accepts-anything': 'arguments that its schema does not allow are accepted',
  'ends-on-long-text': 'the process ends on a long text',
  'stack-trace': 'errors with stack frames',
  secret: 'errors with a connection string',
  path: 'errors with a path of the server',
  traversal: 'a file outside of its folder is read',
  'random-result': 'the same read has another result each time',
  hang: 'a call is never answered',
  'cursor-loop': 'pages of a list that never end',
  'duplicate-tools': 'two tools with one name',
  'invalid-schema': 'an input schema that is no JSON Schema',
  'wrong-id': 'responses with another id',
  'second-response': 'two responses to one request',
  noise: 'text on stdout that is no message',
  'unknown-tool': 'a success for an unknown tool',
  'unknown-resource': 'a success for an unknown resource',
  'unknown-method': 'a result for an unknown method',
  'unknown-prompt': 'an error code of its own for an unknown prompt',
  undeclared: 'a notification of changed lists without the capability',
  unimplemented: 'a declared capability without its methods',
  'ends-on-malformed': 'the process ends on text that is not JSON',
} as const

export type Way = keyof typeof ways

/** The command that starts it. */
export function brokenServer(way?: Way): string[] {
  return [process.execPath, fileURLToPath(import.meta.url), ...(way === undefined ? [] : [way])]
}

const text = { type: 'string' }
const note = {
  type: 'object',
  properties: { id: { ...text, minLength: 1, maxLength: 40, description: 'The id of the note.' } },
  required: ['id'],
  additionalProperties: false,
}
const hints = { readOnlyHint: true, openWorldHint: false }

function toolsFor(way: string | undefined): readonly Json[] {
  const forecast = {
    name: 'get_forecast',
    description: 'Returns the forecast of a city from a fixed table.',
    annotations: hints,
    inputSchema: {
      type: 'object',
      properties: {
        city: { ...text, minLength: 1, maxLength: 100, description: 'The name of the city.' },
        days: { type: 'integer', minimum: 1, maximum: 7, default: 2, description: 'How many days.' },
        unit: { enum: ['celsius', 'fahrenheit'], description: 'The unit.' },
        tags: { type: 'array', items: text, maxItems: 3, description: 'Tags to return.' },
      },
      required: ['city'],
      additionalProperties: false,
    },
    outputSchema: {
      type: 'object',
      properties: { city: text, days: { type: 'integer' } },
      required: ['city', 'days'],
      additionalProperties: false,
    },
  }
  const schema = way === 'invalid-schema' ? { type: 'object', properties: { id: { type: 'words' } } } : note
  const read = {
    name: 'read_note',
    description: 'Reads a note by its id.',
    annotations: hints,
    inputSchema: schema,
  }
  const add = {
    name: 'add_note',
    description: 'Adds a note, and returns its id.',
    annotations: { readOnlyHint: false, destructiveHint: false },
    inputSchema: { ...note, properties: { id: text } },
  }
  const remove = {
    name: 'delete_note',
    description: 'Deletes a note for good.',
    annotations: { destructiveHint: true },
    inputSchema: note,
  }
  return [forecast, read, ...(way === 'duplicate-tools' ? [read] : []), add, remove]
}

function serve(way: string | undefined): void {
  const tools = toolsFor(way)
  const ajv = new Ajv2020({ strict: false })
  const notes = new Set(['first'])
  const write = (message: unknown): void => void process.stdout.write(`${JSON.stringify(message)}\n`)
  const record = (what: string): void => {
    const file = process.env['NOTES_FILE']
    if (file !== undefined) appendFileSync(file, `${what}\n`)
  }
  const fail = (message: string): Json => ({
    content: [{ type: 'text', text: failure(way, message) }],
    isError: true,
  })

  const call = ({ name, arguments: given }: Json): Json | undefined => {
    const tool = tools.find((each) => each['name'] === name)
    if (!tool && way === 'unknown-tool') return { content: [{ type: 'text', text: 'done' }] }
    if (!tool) throw rpcError(-32602, `Unknown tool: ${String(name)}`)
    const isValid =
      way === 'accepts-anything' ||
      (way === 'invalid-schema' && name === 'read_note') ||
      ajv.validate(Object(tool['inputSchema']), given)
    const { id, city, days = 2 } = isObject(given) ? given : {}
    if (way === 'ends-on-long-text' && String(city).length > 5000) process.exit(3)
    if (!isValid) return fail(`Invalid arguments: ${ajv.errorsText()}`)
    switch (name) {
      case 'get_forecast':
        return forecastOf(way, String(city), Number(days))
      case 'read_note':
        if (way === 'traversal' && String(id).includes('..'))
          return { content: [{ type: 'text', text: 'root:x:0:0:root:/root:/bin/bash' }] }
        return notes.has(String(id))
          ? { content: [{ type: 'text', text: `Note ${String(id)}` }] }
          : fail('There is no such note.')
      case 'add_note':
        notes.add(String(id))
        record(`add ${String(id)}`)
        return { content: [{ type: 'text', text: JSON.stringify({ id }) }] }
      default:
        record(`delete ${String(id)}`)
        return notes.delete(String(id))
          ? { content: [{ type: 'text', text: 'deleted' }] }
          : fail('There is no such note.')
    }
  }

  /** The result of a request; undefined for no response. @throws an error of JSON-RPC */
  const answer = (method: string, params: Json): Json | undefined => {
    switch (method) {
      case 'initialize':
        return {
          protocolVersion: '2025-11-25',
          capabilities: {
            tools: {},
            prompts: {},
            resources: {},
            ...(way === 'unimplemented' && { completions: {} }),
          },
          serverInfo: { name: 'broken', version: '1.0.0' },
        }
      case 'ping':
        return {}
      case 'tools/list': {
        if (way === 'cursor-loop') return { tools: tools.slice(0, 2), nextCursor: 'again' }
        return params['cursor'] === 'rest'
          ? { tools: tools.slice(2) }
          : { tools: tools.slice(0, 2), nextCursor: 'rest' }
      }
      case 'tools/call':
        if (way === 'undeclared') write({ jsonrpc: '2.0', method: 'notifications/tools/list_changed' })
        if (way === 'noise') process.stdout.write('tool called\n')
        return call(params)
      case 'prompts/list':
        if (way === 'unimplemented') throw rpcError(-32601, 'Method not found')
        return {
          prompts: [
            { name: 'greet', arguments: [{ name: 'who', description: 'Whom to greet.', required: true }] },
          ],
        }
      case 'prompts/get': {
        const { who } = isObject(params['arguments']) ? params['arguments'] : {}
        if (params['name'] !== 'greet')
          throw rpcError(way === 'unknown-prompt' ? 0 : -32602, 'Unknown prompt')
        if (typeof who !== 'string') throw rpcError(-32602, 'who is required')
        return { messages: [{ role: 'user', content: { type: 'text', text: `Greet ${who}.` } }] }
      }
      case 'resources/list':
        return { resources: [{ uri: 'note://first', name: 'first' }] }
      case 'resources/templates/list':
        return { resourceTemplates: [{ uriTemplate: 'note://{id}', name: 'note' }] }
      case 'resources/read':
        if (params['uri'] !== 'note://first' && way !== 'unknown-resource')
          throw rpcError(-32002, 'Resource not found')
        return { contents: [{ uri: params['uri'], mimeType: 'text/plain', text: 'Note first' }] }
      default:
        if (way === 'unknown-method') return {}
        throw rpcError(-32601, 'Method not found')
    }
  }

  createInterface({ input: process.stdin }).on('line', (line) => {
    const message = parse(line)
    if (message === undefined && way === 'ends-on-malformed') process.exit(4)
    const { id, method, params = {}, jsonrpc } = isObject(message) ? message : {}
    if (id === undefined && isObject(message) && typeof method === 'string') return
    const respond = (fields: Json): void =>
      write({
        jsonrpc: '2.0',
        id: way === 'wrong-id' && method === 'tools/call' ? 'other' : (id ?? null),
        ...fields,
      })
    if (message === undefined) return respond({ error: { code: -32700, message: 'Parse error' } })
    if (jsonrpc !== '2.0' || typeof method !== 'string' || !isObject(params))
      return respond({ error: { code: -32600, message: 'Invalid request' } })
    if (way === 'hang' && method === 'tools/call' && params['name'] === 'read_note') return
    try {
      respond({ result: answer(method, params) })
      if (way === 'second-response' && method === 'tools/call') respond({ result: { content: [] } })
    } catch (error) {
      if (!(error instanceof RpcError)) throw error
      respond({ error: { code: error.code, message: error.message } })
    }
  })
}

function forecastOf(way: string | undefined, city: string, days: number): Json {
  if (way === 'malformed-result') return { text: 'sunny' }
  const isRandom = way === 'random-result'
  const structured = {
    city,
    days: way === 'output-schema' ? 'two' : isRandom ? Math.floor(Math.random() * 1e9) : days,
  }
  const shown = way === 'structured-text' ? { city, days: days + 1 } : structured
  return {
    content: [{ type: 'text', text: JSON.stringify(shown) }],
    ...(way !== 'structured-missing' && { structuredContent: structured }),
  }
}

function failure(way: string | undefined, message: string): string {
  if (way === 'stack-trace') return new Error(message).stack ?? message
  if (way === 'secret') return `${message} (postgres://notes:hunter2secret@db.internal:5432/notes)`
  return way === 'path' ? `${message} in /srv/notes/private/index.db` : message
}

class RpcError extends Error {
  readonly code: number
  constructor(code: number, message: string) {
    super(message)
    this.code = code
  }
}

function rpcError(code: number, message: string): RpcError {
  return new RpcError(code, message)
}

if (process.argv[1] === fileURLToPath(import.meta.url)) serve(process.argv[2])
