import { RpcError } from './call.ts'
import type { HeaderMap } from './journal.ts'
import { isObject, type Json, objectAt } from './json.ts'
import { toolEntries } from './catalog.ts'
import type { World } from './world.ts'

const nameFields: Readonly<Record<string, string>> = {
  'tools/call': 'name',
  'prompts/get': 'name',
  'resources/read': 'uri',
}

/** Compares the HTTP headers of a 2026-07-28 request with its body. */
export function checkHeaders(
  method: string,
  params: Json,
  headers: HeaderMap,
  world: World,
): RpcError | undefined {
  const version = objectAt(params, '_meta')['io.modelcontextprotocol/protocolVersion']
  const field = nameFields[method]
  const wrong =
    compare('MCP-Protocol-Version', headers, version, (text) => text) ??
    compare('Mcp-Method', headers, method, (text) => text) ??
    (field === undefined ? undefined : compare('Mcp-Name', headers, params[field], decodeHeader)) ??
    (method === 'tools/call' ? checkParams(params, headers, world) : undefined)
  return wrong === undefined ? undefined : new RpcError(-32020, `Header mismatch: ${wrong}`)
}

function checkParams(params: Json, headers: HeaderMap, world: World): string | undefined {
  const entry = toolEntries(world).find(({ name }) => name === params['name'])
  if (!entry) return undefined
  for (const { header, path } of mirroredParams(entry['inputSchema'])) {
    const value = path.reduce<unknown>((at, name) => objectAt({ at }, 'at')[name], params['arguments'])
    const name = `Mcp-Param-${header}`
    if (value === undefined || value === null) {
      if (headers[name.toLowerCase()] !== undefined) return `${name} without a value in the body`
      continue
    }
    const wrong = compare(name, headers, value, decodeHeader)
    if (wrong !== undefined) return wrong
  }
  return undefined
}

/** The parameters of an input schema that are mirrored in headers. */
export function mirroredParams(
  schema: unknown,
  path: readonly string[] = [],
): { header: string; path: string[] }[] {
  return Object.entries(objectAt(schema, 'properties')).flatMap(([name, property]) => {
    if (!isObject(property)) return []
    const header = property['x-mcp-header']
    const own = typeof header === 'string' ? [{ header, path: [...path, name] }] : []
    return [...own, ...mirroredParams(property, [...path, name])]
  })
}

// Undefined when the base64 form is broken.
function decodeHeader(value: string): string | undefined {
  const encoded = /^=\?base64\?(.*)\?=$/.exec(value)?.[1]
  if (encoded === undefined) return value
  const bytes = Buffer.from(encoded, 'base64')
  return bytes.toString('base64') === encoded ? bytes.toString() : undefined
}

/** Encodes a header value where it is not plain ASCII. */
export function encodeHeader(value: string): string {
  const isPlain = /^[\x21-\x7e]([\x20-\x7e\t]*[\x21-\x7e])?$/.test(value) && !/^=\?base64\?.*\?=$/.test(value)
  return isPlain ? value : `=?base64?${Buffer.from(value).toString('base64')}?=`
}

function compare(
  name: string,
  headers: HeaderMap,
  expected: unknown,
  decode: (text: string) => string | undefined,
): string | undefined {
  const text = headers[name.toLowerCase()]
  if (text === undefined) return `${name} is missing`
  const value = decode(text.trim())
  const isSame = typeof expected === 'number' ? Number(value) === expected : value === String(expected)
  return isSame ? undefined : `${name} is ${text}, the body says ${String(expected)}`
}
