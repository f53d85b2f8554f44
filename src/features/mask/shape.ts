import { isUtf8 } from 'node:buffer'
import { isObject } from '../../core/json.ts'
import { Payload } from '../../core/payload.ts'
import { NS } from '../../wire/extensions.ts'
import { schemaOf, maskToFit } from './fit.ts'
import type { Masking } from './masking.ts'

/** Members of messages that are no data: programs go by them, or they are no text. */
const kept = new Set(
  'type role mimeType data resultType taskId nextCursor progressToken requestId elicitationId url level status'.split(
    ' ',
  ),
)
const schemas = new Set(['requestedSchema', 'inputSchema', 'outputSchema'])

/** What is known of the call whose answer is masked. */
export interface Asked {
  /** The URI the caller asked for, which may be told again. */
  readonly uri?: unknown
  /** The definition of the tool that was called. */
  readonly tool?: Readonly<Record<string, unknown>> | undefined
}

/** A result without what is masked, and with a word on how much that was; nothing where its schema forbids that. */
export function maskResult(result: Payload, masking: Masking, { uri, tool }: Asked): Payload | undefined {
  const edits: Record<string, unknown> = {}
  const { structuredContent, ...others } = result.fields
  for (const [key, value] of Object.entries(others)) {
    const masked = maskMember(key, value, masking, uri)
    if (masked !== value) edits[key] = masked
  }
  const places = structuredContent === undefined ? [] : masking.places(structuredContent)
  const content = result.at('structuredContent')
  if (places.length > 0 && content) {
    // What a failed tool says is bound by no schema.
    const fitted = maskToFit(content, places, result.fields.isError === true ? undefined : schemaOf(tool))
    if (!fitted) return undefined
    edits.structuredContent = fitted
  }
  if (masking.count === 0) return result
  return result.with(edits).withMeta({ [`${NS}/masked`]: masking.count })
}

/** What a message says, without what is masked; its structure stays. */
export function maskMessage(value: unknown, masking: Masking, uri?: unknown): unknown {
  if (typeof value === 'string') return masking.text(value)
  if (Array.isArray(value)) {
    const masked = value.map((each: unknown) => maskMessage(each, masking, uri))
    return masked.some((each, index) => each !== value[index]) ? masked : value
  }
  if (!isObject(value)) return value
  const changed = Object.entries(value).flatMap(([key, member]) => {
    const masked = maskMember(key, member, masking, uri)
    return masked === member ? [] : [[key, masked] as const]
  })
  return changed.length === 0 ? value : { ...value, ...Object.fromEntries(changed) }
}

function maskMember(key: string, value: unknown, masking: Masking, uri: unknown): unknown {
  if (kept.has(key) || key.startsWith('io.modelcontextprotocol/')) return value
  if (key === 'uri' && value === uri) return value
  if (schemas.has(key)) return maskWords(value, masking)
  if (typeof value !== 'string') return maskMessage(value, masking, uri)
  if (key === 'text') return masking.document(value)
  return key === 'blob' ? maskBlob(value, masking) : masking.text(value)
}

/** A schema without what is masked in its titles and descriptions: all else of it is to be answered to. */
function maskWords(value: unknown, masking: Masking): unknown {
  if (Array.isArray(value)) return value.map((each) => maskWords(each, masking))
  if (!isObject(value)) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, member]) => {
      const isWords = typeof member === 'string' && (key === 'title' || key === 'description')
      return [key, isWords ? masking.text(member) : maskWords(member, masking)]
    }),
  )
}

/** Binary data that is in truth a text. */
function maskBlob(blob: string, masking: Masking): string {
  const bytes = Buffer.from(blob, 'base64')
  if (!isUtf8(bytes)) return blob
  const text = bytes.toString()
  const masked = masking.document(text)
  return masked === text ? blob : Buffer.from(masked).toString('base64')
}

/** A JSON value without what is masked. */
export function maskValue(value: unknown, masking: Masking): unknown {
  const places = masking.places(value)
  return places.length === 0 ? value : (maskToFit(Payload.of(value), places, undefined)?.value ?? null)
}
