/**
 * What people see of data that the arguments of a call refer to, in place of the data. An approval applies to the data with
 * these hashes alone.
 */
import type { Call } from '../../core/call.ts'
import { exactHash } from '../../core/json/canonical-hash.ts'
import { oneLine, shortened } from '../../core/text/escape.ts'
import { partText, type UsedReference, writtenArguments, referencesSlot } from '../../core/used-reference.ts'
import type { ReferencedData } from '../../records/approvals.ts'
import { originText } from '../../records/plain-name.ts'

/** How long a path, a name or a media type is in a message, and how much of a hash, in characters. */
const MAX_WORD_LENGTH = 80
const SHORT_HASH_LENGTH = 12

/** The data that a call refers to. */
export interface CallData {
  readonly data: readonly ReferencedData[]
  /** Identifies the call as the caller wrote it, whatever its references stand for. */
  readonly written: string
}

/** The data that a call refers to; undefined if it has no references. */
export function dataOf(call: Call): CallData | undefined {
  const references = referencesSlot.of(call)
  if (!references) return undefined
  const { params, principal, target } = call
  const data = references.used.map(factsOf)
  const given = writtenArguments(params, references)?.value
  const written = exactHash([principal.id, target.upstream, target.name, given])
  return { data, written }
}

function factsOf({
  path,
  written,
  isOutside,
  server,
  tool,
  name,
  type,
  size,
  sha256,
}: UsedReference): ReferencedData {
  const origin = { server, ...(tool !== undefined && { tool }) }
  return { path, written, ...(isOutside && { isOutside }), ...origin, name, type, size, sha256 }
}

/**
 * What an approval is for: a person saw the hash of the data, and which part is sent. Equal values may have other digits.
 * Servers see name and type of a file and of what they download.
 */
export function identityOf({
  path,
  written,
  sha256,
  isOutside,
  name,
  type,
}: ReferencedData): readonly string[] {
  return [path, sha256, partText(written), ...(isOutside ? [name, type] : [])]
}

/** The data in a question to a person: where it goes, and what it is. */
export function dataNote(data: readonly ReferencedData[]): string {
  return data.map(sentenceOf).join('')
}

function sentenceOf({ path, written, server, name, type, size, sha256, isOutside }: ReferencedData): string {
  const where = path === '' ? 'the arguments are' : `${quoted(path)} is`
  const part = partText(written)
  const data = part === '' ? 'the data' : `the part ${quoted(part)} of the data`
  const what = isOutside ? `a file or a URL with ${data}` : data
  const facts = `${quoted(type)}, ${size} bytes, SHA-256 ${sha256.slice(0, SHORT_HASH_LENGTH)}`
  return ` In place of its reference, ${where} ${what} ${quoted(name)} from ${word(originText({ server }))} (${facts}).`
}

/** A word of a caller or a server, which could read like ours. */
function quoted(text: string): string {
  return `“${word(text)}”`
}

function word(text: string): string {
  const line = oneLine(text.slice(0, MAX_WORD_LENGTH + 1).toWellFormed()).replaceAll(/[“”]/g, '"')
  return shortened(line, MAX_WORD_LENGTH)
}
