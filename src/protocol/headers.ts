/** HTTP headers of MCP: standard headers of 2026-07-28, mirrored arguments, rate limits. */
import { GatewayError } from '../core/error.ts'
import type { RateLimitStatus } from '../core/exchange.ts'
import { isObject, isSame } from '../core/json/json.ts'
import { follow } from '../core/json/path.ts'
import type { Payload } from '../core/payload.ts'
import { method } from './methods.ts'
import { type ExactNumber, isNumber, numberOf } from '../core/json/exact-number.ts'

/** Request headers by lower-case name, as Node provides them. */
export type Headers = Readonly<Record<string, string | readonly string[] | undefined>>

/** A tool argument that HTTP clients repeat as a header (`x-mcp-header`). */
interface MirroredArgument {
  readonly header: string
  readonly path: readonly string[]
}

/** The arguments of one tool that are mirrored in headers. */
export type HeaderMirror = readonly MirroredArgument[]

const plain = /^[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?$/
const sentinel = /^=\?base64\?(.*)\?=$/
const base64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/
const token = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/

/** A header value: plain ASCII as it is, anything else as base64 in the sentinel (2026-07-28 basic/transports). */
export function encodeHeader(value: string): string {
  if (plain.test(value) && !sentinel.test(value)) return value
  return `=?base64?${Buffer.from(value, 'utf8').toString('base64')}?=`
}

/** The decoded value of a header; undefined if its base64 is malformed. */
export function decodeHeader(raw: string): string | undefined {
  const value = raw.replaceAll(/^[ \t]+|[ \t]+$/g, '')
  const encoded = sentinel.exec(value)?.[1]
  if (encoded === undefined) return value
  if (!base64.test(encoded)) return undefined
  const bytes = Buffer.from(encoded, 'base64')
  const text = bytes.toString('utf8')
  return Buffer.from(text, 'utf8').equals(bytes) ? text : undefined
}

/** The headers required with a 2026-07-28 request. */
export function standardHeaders(name: string, params: Payload): Record<string, string> {
  const headers: Record<string, string> = { 'mcp-method': name }
  const { nameIn } = method(name)
  const subject = nameIn === undefined ? undefined : params.fields[nameIn]
  if (typeof subject === 'string') headers['mcp-name'] = encodeHeader(subject)
  return headers
}

/** Checks `Mcp-Method` and `Mcp-Name` against the body. @throws HEADER_MISMATCH */
export function checkStandardHeaders(headers: Headers, name: string, params: Payload): void {
  compare('Mcp-Method', headers['mcp-method'], name)
  const { nameIn, isNameOptional } = method(name)
  const subject = nameIn === undefined ? undefined : params.fields[nameIn]
  if (typeof subject !== 'string' || (isNameOptional && headers['mcp-name'] === undefined)) return
  compare('Mcp-Name', headers['mcp-name'], subject)
}

/**
 * The arguments a tool requires to be mirrored. Undefined for annotations that violate the rules: such a tool must not
 * be offered over HTTP (2026-07-28 basic/transports, custom headers).
 */
export function readMirror(inputSchema: unknown): HeaderMirror | undefined {
  const found: MirroredArgument[] = []
  const seen = new Set<string>()
  const isSound = walk(inputSchema, [], true, (path, name, type) => {
    const key = name.toLowerCase()
    if (!token.test(name) || seen.has(key) || !mirrorable.has(type)) return false
    seen.add(key)
    found.push({ header: `mcp-param-${key}`, path })
    return true
  })
  return isSound ? found : undefined
}

/** The `Mcp-Param-*` headers of a call. */
export function mirrorHeaders(mirror: HeaderMirror, params: Payload): Record<string, string> {
  const headers: Record<string, string> = {}
  for (const { header, path } of mirror) {
    const value = argument(params, path)
    if (value !== undefined) headers[header] = encodeHeader(String(value))
  }
  return headers
}

/** Checks `Mcp-Param-*` against the arguments. @throws HEADER_MISMATCH */
export function checkMirror(mirror: HeaderMirror, headers: Headers, params: Payload): void {
  for (const { header, path } of mirror) {
    const expected = argument(params, path)
    const sent = headers[header]
    if (expected === undefined && sent !== undefined) throw mismatch(header, 'is set but its argument is not')
    if (expected !== undefined) compare(header, sent, expected)
  }
}

const mirrorable = new Set<unknown>(['string', 'integer', 'boolean'])

/** Visits each `x-mcp-header`; only those reachable through `properties` alone are allowed. */
function walk(
  schema: unknown,
  path: readonly string[],
  isAllowed: boolean,
  visit: (path: readonly string[], name: string, type: unknown) => boolean,
): boolean {
  if (Array.isArray(schema)) return schema.every((item) => walk(item, path, false, visit))
  if (!isObject(schema)) return true
  if (Object.hasOwn(schema, 'x-mcp-header') && path.length > 0) {
    const name = schema['x-mcp-header']
    if (!isAllowed || typeof name !== 'string' || !visit(path, name, schema.type)) return false
  }
  return Object.entries(schema).every(([key, value]) => {
    if (dataKeywords.has(key)) return true
    if (key !== 'properties') return walk(value, [...path, key], false, visit)
    if (!isObject(value)) return true
    return Object.entries(value).every(([name, each]) => walk(each, [...path, name], isAllowed, visit))
  })
}

/** Keywords whose values are data, not schemas. */
const dataKeywords = new Set(['const', 'enum', 'default', 'examples'])

/** A value that a header repeats. */
type Mirrored = string | number | ExactNumber | boolean

function argument(params: Payload, path: readonly string[]): Mirrored | undefined {
  const value = follow(params.fields.arguments, path)
  return typeof value === 'string' || isNumber(value) || typeof value === 'boolean' ? value : undefined
}

function compare(name: string, sent: Headers[string], expected: Mirrored): void {
  if (typeof sent !== 'string') throw mismatch(name, sent === undefined ? 'is missing' : 'is sent twice')
  // Nearly all values are sent unencoded.
  if (sent === expected && !sent.startsWith('=?')) return
  const value = decodeHeader(sent)
  if (value === undefined) throw mismatch(name, 'is not valid base64')
  if (value === String(expected)) return
  // Only numbers have other representations.
  const isSameNumber =
    isNumber(expected) && /^-?\d+(?:\.0+)?$/.test(value) && isSame(numberOf(value), expected)
  if (!isSameNumber) throw mismatch(name, 'differs from the body')
}

/** The error for a header that is missing, malformed or inconsistent with the body. */
export function mismatch(name: string, why: string): GatewayError {
  return new GatewayError('HEADER_MISMATCH', `Header mismatch: ${name} ${why}.`, {
    suggestion: 'Send the header with the same value as the body.',
    details: { header: name },
  })
}

/** The headers that report a rate limit (draft-ietf-httpapi-ratelimit-headers-10, and the common older ones). */
export function limitHeaders({
  name,
  limit,
  remaining,
  window,
  reset,
}: RateLimitStatus): Record<string, string> {
  return {
    'ratelimit-policy': `"${name}";q=${limit};w=${window}`,
    ratelimit: `"${name}";r=${remaining};t=${reset}`,
    'x-ratelimit-limit': String(limit),
    'x-ratelimit-remaining': String(remaining),
    'x-ratelimit-reset': String(reset),
  }
}
