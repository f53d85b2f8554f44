/** Receipts: what is signed of a result, and their verification. */
import { createPublicKey, hash, verify } from 'node:crypto'
import { canonical, isObject, readJson } from '../core/json/json.ts'
import type { Payload } from '../core/payload.ts'

/** What a receipt says, besides who signed it and when. */
export interface Receipt {
  /** The version of this form; no other thing that is signed has it. */
  readonly receipt: 1
  /** What was asked: the tool, or the URI of the resource. */
  readonly tool?: string
  readonly uri?: string
  readonly server: string
  /** A hash of who asked. */
  readonly principal: string
  readonly arguments_sha256: string
  readonly content_sha256: string
  /** When it came from the server; absent where that is not known. */
  readonly retrieved_at?: string
  /** It was a replay, under the idempotency key of an earlier call. */
  readonly was_replay: boolean
  /** The approval the call ran under. */
  readonly approval?: string
}

/** A receipt that holds, or why it does not. */
type Verified =
  | { readonly claims: Readonly<Record<string, unknown>>; readonly key: string }
  | { readonly problem: string }

/** The hash of arguments: the same whatever the order of their members. */
export function argumentsHash(given: unknown): string {
  return hash('sha256', canonical(given ?? {}))
}

/** The hash of a caller's id: receipts are shown to others. */
export function principalHash(id: string): string {
  return hash('sha256', id)
}

/**
 * The hash of what a result says: its content and structured content, or the contents of a resource. It is the same
 * however the JSON is written, and another one wherever a value differs, be it in the last digit of a long number.
 */
export function contentHash(result: Payload): string {
  return hashOf(exact(result.text), (block) => block)
}

type Fields = Readonly<Record<string, unknown>>
type Reading = (block: unknown) => unknown

function hashOf({ content = [], contents, structuredContent }: Fields, read: Reading): string {
  if (Array.isArray(contents))
    return hash('sha256', written({ contents: contents.map((each) => read(withoutMeta(each))) }))
  const blocks = Array.isArray(content) ? content.map(read) : content
  return hash('sha256', written({ content: blocks, structuredContent }))
}

/** Whether a result is what was signed. Where all servers are together, resources have the name of theirs before them. */
function isContent(result: Payload, { content_sha256: signed, server }: Fields): boolean {
  const fields = exact(result.text)
  const prefix = `${String(server)}+`
  const bare: Reading = (block) => {
    if (!isObject(block)) return block
    const { uri, resource } = block
    const isNamed = typeof uri === 'string' && uri.startsWith(prefix)
    return {
      ...block,
      ...(isNamed && { uri: uri.slice(prefix.length) }),
      ...(isObject(resource) && { resource: bare(resource) }),
    }
  }
  return signed === hashOf(fields, (block) => block) || signed === hashOf(fields, bare)
}

/** Checks a receipt against the keys of the gateway and, where it is given, the result it came with. */
export function verifyReceipt(receipt: string, keys: readonly unknown[], result?: Payload): Verified {
  const [head = '', body = '', signature = '', ...rest] = receipt.split('.')
  const header = decoded(head)
  const claims = decoded(body)
  if (rest.length > 0 || !header || !claims) return { problem: 'it is no JWS in compact form' }
  if (header.alg !== 'ES256') return { problem: `it is signed with ${String(header.alg)}, not with ES256` }
  const key = keys.filter(isObject).find(({ kid }) => kid === header.kid)
  if (!key) return { problem: `no key ${String(header.kid)} is among those of the gateway` }
  if (!isSigned(`${head}.${body}`, signature, key)) return { problem: 'the signature does not fit' }
  if (claims.receipt !== 1) return { problem: 'what is signed is no receipt' }
  if (result && !isContent(result, claims)) return { problem: 'the content is not the one it was signed for' }
  return { claims, key: String(key.kid) }
}

function isSigned(text: string, signature: string, jwk: Readonly<Record<string, unknown>>): boolean {
  const bytes = Buffer.from(signature, 'base64url')
  // The last character has bits that mean nothing.
  if (bytes.toString('base64url') !== signature) return false
  try {
    const key = createPublicKey({ key: jwk, format: 'jwk' })
    return verify('sha256', Buffer.from(text), { key, dsaEncoding: 'ieee-p1363' }, bytes)
  } catch {
    return false
  }
}

function decoded(part: string): Readonly<Record<string, unknown>> | undefined {
  const value = readJson(Buffer.from(part, 'base64url').toString())
  return isObject(value) ? value : undefined
}

function withoutMeta(item: unknown): unknown {
  if (!isObject(item)) return item
  const { _meta, ...rest } = item
  return rest
}

/** A number as its decimal digits, as no number here is that exact. */
class Digits {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

type Reviver = (key: string, value: unknown, context?: { readonly source?: string }) => unknown

/** Parses an object; numbers keep every digit. */
function exact(text: string): Readonly<Record<string, unknown>> {
  const revive: Reviver = (_key, value, context) => {
    if (typeof value !== 'number' || context?.source === undefined) return value
    const digits = decimal(context.source)
    return digits === decimal(String(value)) ? value : new Digits(digits)
  }
  const value: unknown = JSON.parse(text, revive)
  return isObject(value) ? value : {}
}

/** Longer numbers are not worth the work. */
const MAX_DIGITS = 1000

/** The same text for the same number, however it is written. */
function decimal(text: string): string {
  if (text.length > MAX_DIGITS) return text
  const [, sign = '', whole = '', fraction = '', exponent = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/i.exec(text) ?? []
  const digits = `${whole}${fraction}`.replace(/^0+/, '')
  const significant = digits.replace(/0+$/, '')
  if (significant === '') return whole === '' ? text : '0'
  return `${sign}${significant}e${Number(exponent) - fraction.length + digits.length - significant.length}`
}

/** The same JSON for equal values, whatever the order of their members. */
function written(value: unknown): string {
  if (value instanceof Digits) return value.text
  if (Array.isArray(value)) return `[${value.map(written).join(',')}]`
  if (!isObject(value)) return JSON.stringify(value) ?? 'null'
  const keys = Object.keys(value).filter((key) => value[key] !== undefined)
  return `{${keys
    .toSorted()
    .map((key) => `${JSON.stringify(key)}:${written(value[key])}`)
    .join(',')}}`
}
