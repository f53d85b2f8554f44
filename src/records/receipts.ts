/** Receipts: signed statements about results, and their verification. */
import { createPublicKey, hash, verify } from 'node:crypto'
import { exactHash } from '../core/json/canonical-hash.ts'
import { exactly, isObject, readJson } from '../core/json/json.ts'
import type { Payload, Fields } from '../core/payload.ts'
import { NS } from '../core/identity.ts'
import { ownUriOf, viewKeys } from '../core/text/server-uri.ts'

/** The key of the receipt in `_meta` of a result. */
export const RECEIPT_KEY = `${NS}/receipt`

/** The claims of a receipt, besides signer and time. */
export interface Receipt {
  /** The version of this format; distinguishes receipts from everything else that is signed. */
  readonly receipt: 1
  /** What was requested: the tool, or the URI of the resource. */
  readonly tool?: string
  readonly uri?: string
  readonly server: string
  /** A hash of the caller. */
  readonly principal: string
  readonly arguments_sha256: string
  readonly content_sha256: string
  /** When the server returned it; absent if unknown. */
  readonly retrieved_at?: string
  /** The result is a replay of an earlier call with the same idempotency key. */
  readonly was_replay: boolean
  /** The result is the report of a dry run: the server was not called. */
  readonly dry_run?: true
  /** The approval the call ran under. */
  readonly approval?: string
  /** The data that the arguments referred to, and the parts of the result that were kept: each with its `sha256`. */
  readonly references_used?: readonly unknown[]
  readonly references?: readonly unknown[]
}

/** A valid receipt, or why it is invalid. */
type Verified =
  | { readonly claims: Readonly<Record<string, unknown>>; readonly key: string }
  | { readonly problem: string }

/** The hash of arguments: equal for equal values, whatever the order of members; every digit of a number counts. */
export function argumentsHash(given: unknown): string {
  return exactHash(given ?? {})
}

/** The hash of a caller's id, because receipts are shown to others. */
export function principalHash(id: string): string {
  return hash('sha256', id)
}

/**
 * The hash of a result's content: its content and structured content, or the contents of a resource. It does not
 * depend on how the JSON is written, and differs if any value differs, even in the last digit of a long number.
 */
export function contentHash(result: Payload): string {
  return hashOf(result.fields, (block) => block)
}

type BlockReader = (block: unknown) => unknown

function hashOf({ content = [], contents, structuredContent }: Fields, read: BlockReader): string {
  if (Array.isArray(contents))
    return hash('sha256', exactly({ contents: contents.map((each) => read(withoutMeta(each))) }))
  const blocks = Array.isArray(content) ? content.map(read) : content
  return hash('sha256', exactly({ content: blocks, structuredContent }))
}

/** Whether a result is the signed one. At the combined endpoint, URIs of resources name their server. */
function isContent(result: Payload, { content_sha256: signed, server }: Fields): boolean {
  const { fields } = result
  const own = (uri: unknown): unknown =>
    typeof uri === 'string' ? (ownUriOf(String(server), uri) ?? uri) : uri
  const withOwn = (of: Fields, keys: readonly string[]): Fields => {
    const edits = keys.filter((key) => Object.hasOwn(of, key)).map((key) => [key, own(of[key])])
    return { ...of, ...Object.fromEntries(edits) }
  }
  const withOwnUris: BlockReader = (block) => {
    if (!isObject(block)) return block
    const { resource, _meta: meta } = block
    const ui = isObject(meta) ? meta.ui : undefined
    return {
      ...withOwn(block, ['uri']),
      ...(isObject(resource) && { resource: withOwnUris(resource) }),
      ...(isObject(meta) && {
        _meta: { ...withOwn(meta, viewKeys), ...(isObject(ui) && { ui: withOwn(ui, ['resourceUri']) }) },
      }),
    }
  }
  return signed === hashOf(fields, (block) => block) || signed === hashOf(fields, withOwnUris)
}

/** Verifies a receipt against the keys of the gateway and, if given, the result that it came with. */
export function verifyReceipt(receipt: string, keys: readonly unknown[], result?: Payload): Verified {
  const [head = '', body = '', signature = '', ...rest] = receipt.split('.')
  const header = decodePart(head)
  const claims = decodePart(body)
  if (rest.length > 0 || !header || !claims) return { problem: 'it is not a JWS in compact serialization' }
  if (header.alg !== 'ES256') return { problem: `it is signed with ${String(header.alg)}, not with ES256` }
  const key = keys.filter(isObject).find(({ kid }) => kid === header.kid)
  if (!key) return { problem: `the gateway has no key ${String(header.kid)}` }
  if (!isSigned(`${head}.${body}`, signature, key)) return { problem: 'the signature is invalid' }
  if (claims.receipt !== 1) return { problem: 'the signed content is not a receipt' }
  if (result && !isContent(result, claims)) return { problem: 'the content is not the one that was signed' }
  return { claims, key: String(key.kid) }
}

function isSigned(text: string, signature: string, jwk: Readonly<Record<string, unknown>>): boolean {
  const bytes = Buffer.from(signature, 'base64url')
  // The last character has insignificant bits; only one spelling is accepted.
  if (bytes.toString('base64url') !== signature) return false
  try {
    const key = createPublicKey({ key: jwk, format: 'jwk' })
    return verify('sha256', Buffer.from(text), { key, dsaEncoding: 'ieee-p1363' }, bytes)
  } catch {
    return false
  }
}

function decodePart(part: string): Readonly<Record<string, unknown>> | undefined {
  const value = readJson(Buffer.from(part, 'base64url').toString())
  return isObject(value) ? value : undefined
}

function withoutMeta(item: unknown): unknown {
  if (!isObject(item)) return item
  const { _meta, ...rest } = item
  return rest
}
