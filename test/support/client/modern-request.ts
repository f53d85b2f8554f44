import { encodeHeader, mirroredParams } from '../server/modern-headers.ts'
import type { HeaderMap } from '../server/journal.ts'
import { encode, isObject, type Json, objectAt, parse } from '../server/json.ts'

/** Who the fake client says it is. */
export const clientInfo = { name: 'fake-client', version: '1.0.0' }

/** Adds the metadata every 2026-07-28 request carries. */
export function enveloped(params: Json, revision: string, capabilities: Json, logLevel?: string): Json {
  const _meta = {
    'io.modelcontextprotocol/protocolVersion': revision,
    'io.modelcontextprotocol/clientInfo': clientInfo,
    'io.modelcontextprotocol/clientCapabilities': capabilities,
    ...(logLevel !== undefined && { 'io.modelcontextprotocol/logLevel': logLevel }),
    ...objectAt(params, '_meta'),
  }
  return { ...params, _meta }
}

/** The headers that repeat parts of a 2026-07-28 request; `schemas` are the known input schemas by tool. */
export function mirrorHeaders(
  method: string,
  params: Json,
  schemas: ReadonlyMap<string, unknown>,
): HeaderMap {
  const version = objectAt(params, '_meta')['io.modelcontextprotocol/protocolVersion']
  const named = namedBy[method]
  return {
    'mcp-protocol-version': String(version),
    'mcp-method': method,
    ...(named !== undefined && { 'mcp-name': encodeHeader(String(params[named])) }),
    ...(method === 'tools/call' && paramHeaders(params, schemas.get(String(params['name'])))),
  }
}

/** The members of params that name the target of a request. */
const namedBy: Readonly<Record<string, string>> = {
  'tools/call': 'name',
  'prompts/get': 'name',
  'resources/read': 'uri',
  'tasks/get': 'taskId',
  'tasks/update': 'taskId',
  'tasks/cancel': 'taskId',
}

/** Remembers the input schemas of the tools in a list. */
export function rememberSchemas(result: Json | undefined, schemas: Map<string, unknown>): void {
  const tools = result?.['tools']
  if (!Array.isArray(tools)) return
  for (const tool of tools) {
    if (isObject(tool)) schemas.set(String(tool['name']), tool['inputSchema'])
  }
}

function paramHeaders(params: Json, schema: unknown): HeaderMap {
  const args = parse(encode(params['arguments'] ?? {}))
  const headers: Record<string, string> = {}
  for (const { header, path } of mirroredParams(schema)) {
    const value = path.reduce<unknown>((at, name) => (isObject(at) ? at[name] : undefined), args)
    if (value !== undefined && value !== null)
      headers[`mcp-param-${header.toLowerCase()}`] = encodeHeader(String(value))
  }
  return headers
}
