/** Checks media in calls against declared types and sizes. */
import { NS } from '../core/identity.ts'
import type { Call, Handler, Outcome } from '../core/call.ts'
import type { Descriptor } from '../core/descriptor.ts'
import { GatewayError } from '../core/error.ts'
import { isObject } from '../core/json/json.ts'
import { type Input, inputsOf, inputTypes } from '../core/media-inputs.ts'
import { statedTool } from '../core/stated-tool.ts'
import { type Feature, toolSetting } from './feature.ts'
import { toolFacts } from './offers.ts'
import { type MultimodalSettings, multimodalSchema } from './settings/authorize.ts'

/** The `_meta` key of media mismatches in a call. */
const META_KEY = `${NS}/multimodal`

/** How much of a request is left to everything but the media, in bytes: other arguments, `_meta`, the head of a data URI. */
const ENVELOPE_BYTES = 16 * 1024

/** The largest input in a request: of bytes those that fit in base64, which has four characters for three of them. */
export function largestInput(request: number, isBinary: boolean): number {
  const left = request - Math.min(ENVELOPE_BYTES, Math.ceil(request / 4))
  return isBinary ? Math.floor(left / 4) * 3 : left
}

/** Describes which media tools accept and return, and refuses oversized media before servers receive them. */
export const multimodal: Feature<MultimodalSettings | false> = {
  ...multimodalSchema,
  create: (settings, deps) => {
    const known = new WeakMap<object, Inputs>()
    const inputs = ({ definition }: Descriptor): Inputs => {
      const cached = known.get(definition)
      if (cached) return cached
      const all = inputsOf(definition.inputSchema)
      const found = { all, binary: all.filter(({ isBinary }) => isBinary) }
      known.set(definition, found)
      return found
    }
    return {
      calls: {
        judgesArguments: true,
        middleware: ({ upstream, method, name, isBuiltin }) => {
          if (method !== 'tools/call' || isBuiltin || upstream === undefined || name === undefined)
            return undefined
          const limit = toolSetting(deps, upstream, name, 'maxInput')
          return (next) => (call) => checked(call, { next, inputs, limit })
        },
        dryRun: 'same',
      },
      offers: [
        toolFacts.offer((entry) => {
          const { upstream, name } = entry
          const { all, binary } = inputs(entry)
          const configured = toolSetting(deps, upstream, name, 'accepts')
          const accepted = configured ?? inputTypes(all)
          const given = toolSetting(deps, upstream, name, 'returns')
          const isBinary =
            binary.length > 0 || (configured ?? statedTool(entry.definition).accepts) !== undefined
          const own = settings(upstream)
          return {
            ...(accepted.length > 0 && { inputTypes: accepted }),
            ...(given && { outputTypes: given }),
            maxInput: Math.min(
              toolSetting(deps, upstream, name, 'maxInput') ?? Infinity,
              largestInput(deps.gateway.settings.listen.body, isBinary),
            ),
            ...(own && own.compat && { mediaPlace: own.compat === 'always' ? 'always' : 'asked' }),
          }
        }),
      ],
    }
  },
}

interface CheckContext {
  readonly next: Handler
  readonly limit: number | undefined
  inputs(entry: Descriptor): Inputs
}

/** The media arguments of a tool, and those that contain bytes. */
interface Inputs {
  readonly all: readonly Input[]
  readonly binary: readonly Input[]
}

function checked(call: Call, context: CheckContext): Promise<Outcome> {
  const { next, inputs, limit } = context
  if (call.toolError !== undefined) return next(call)
  const binary = call.tool ? inputs(call.tool).binary : []
  if (binary.length === 0 && limit === undefined) return next(call)
  const { arguments: given } = call.params.fields
  const found = isObject(given) ? mediaIn(given, binary, limit !== undefined) : []
  const large = found.find(({ bytes }) => limit !== undefined && bytes.size > limit)
  if (large && limit !== undefined) return Promise.reject(tooLarge(large, limit))
  const notes = found.flatMap((each) => mismatch(each) ?? [])
  if (notes.length === 0) return next(call)
  return next(call).then((outcome) =>
    outcome.kind === 'result'
      ? { kind: 'result', result: outcome.result.withMeta({ [META_KEY]: { details: notes } }) }
      : outcome,
  )
}

/** Media in an argument. */
interface Found {
  readonly argument: string
  readonly bytes: Bytes
}

/** How many texts of one call are examined. */
const MAX_TEXTS = 100

/** The media in arguments: those that accept media and, if requested, every data URI. */
function mediaIn(
  given: Readonly<Record<string, unknown>>,
  binary: readonly Input[],
  isAnywhere: boolean,
): readonly Found[] {
  const found: Found[] = []
  for (const [argument, value] of Object.entries(given)) {
    const input = binary.find(({ name }) => name === argument)
    if (!input && !isAnywhere) continue
    for (const text of textsIn(value)) {
      const bytes = bytesIn(text, input)
      if (bytes && found.length < MAX_TEXTS) found.push({ argument, bytes })
    }
  }
  return found
}

function bytesIn(text: string, input: Input | undefined): Bytes | undefined {
  const uri = dataUri(text)
  if (uri || !input || !looksLikeBase64(text)) return uri
  return { ...inBase64(text), ...(input.isDeclared && { declared: input.type }) }
}

function textsIn(value: unknown, depth = 0): string[] {
  if (typeof value === 'string') return [value]
  if (depth > 4 || typeof value !== 'object' || value === null) return []
  return Object.values(value).flatMap((each) => textsIn(each, depth + 1))
}

/** A mismatch is only noted: the server may know better. */
function mismatch({ argument, bytes }: Found): Readonly<Record<string, unknown>> | undefined {
  const { base64, declared } = bytes
  const found = declared === undefined ? undefined : detectType(base64)
  if (found === undefined || declared === undefined || matchesDeclared(found, declared)) return undefined
  return { argument, declared, found, reason: 'media_type_mismatch' }
}

function tooLarge({ argument, bytes }: Found, limit: number): GatewayError {
  return new GatewayError(
    'PAYLOAD_TOO_LARGE',
    `The argument ${argument} has ${bytes.size} bytes; the limit is ${limit}.`,
    {
      field: argument,
      suggestion: 'Send something smaller.',
      details: { limit, actual: bytes.size },
      isResult: true,
    },
  )
}

/** The signature of a media type: bytes at an offset. */
type Signature = readonly [type: string, offset: number, bytes: string]

const signatures: readonly Signature[] = [
  ['image/png', 0, '\x89PNG\r\n\x1a\n'],
  ['image/jpeg', 0, '\xff\xd8\xff'],
  ['image/gif', 0, 'GIF8'],
  ['image/webp', 8, 'WEBP'],
  ['image/bmp', 0, 'BM'],
  ['image/tiff', 0, 'II*\0'],
  ['image/tiff', 0, 'MM\0*'],
  ['audio/wav', 8, 'WAVE'],
  ['audio/mpeg', 0, 'ID3'],
  ['audio/mpeg', 0, '\xff\xfb'],
  ['audio/flac', 0, 'fLaC'],
  ['audio/ogg', 0, 'OggS'],
  ['video/mp4', 4, 'ftyp'],
  ['video/webm', 0, '\x1aE\xdf\xa3'],
  ['application/pdf', 0, '%PDF-'],
  ['application/zip', 0, 'PK\x03\x04'],
  ['application/gzip', 0, '\x1f\x8b'],
]

/** How many characters of base64 are examined. */
const MAX_HEAD_LENGTH = 32

/** The media type of bytes in base64 by their signature; undefined if unknown. */
export function detectType(base64: string): string | undefined {
  const head = Buffer.from(base64.slice(0, MAX_HEAD_LENGTH), 'base64').toString('latin1')
  return signatures.find(([, offset, bytes]) => head.startsWith(bytes, offset))?.[0]
}

/** Aliases of types, and types whose files contain another type. */
const aliases: Readonly<Record<string, string>> = {
  'image/jpg': 'image/jpeg',
  'image/x-png': 'image/png',
  'audio/mp3': 'audio/mpeg',
  'audio/x-wav': 'audio/wav',
  'audio/wave': 'audio/wav',
  'audio/vnd.wave': 'audio/wav',
  'audio/mp4': 'video/mp4',
  'audio/x-m4a': 'video/mp4',
  'video/quicktime': 'video/mp4',
  'image/heic': 'video/mp4',
  'image/avif': 'video/mp4',
  'video/x-matroska': 'video/webm',
  'audio/webm': 'video/webm',
  'video/ogg': 'audio/ogg',
  'application/ogg': 'audio/ogg',
  'application/x-gzip': 'application/gzip',
}

/** Whether bytes of a detected type can be of the declared type. */
export function matchesDeclared(found: string, declared: string): boolean {
  const type = (declared.split(';')[0] ?? '').trim().toLowerCase()
  const known = aliases[type] ?? type
  if (known === found || known === '*/*' || known === 'application/octet-stream') return true
  if (known.endsWith('/*')) return found.startsWith(known.slice(0, -1))
  // Documents, packages and books are ZIP archives.
  return found === 'application/zip' && known.startsWith('application/')
}

/** Bytes in a text: their number, their base64, and their declared type. */
interface Bytes {
  readonly size: number
  readonly base64: string
  readonly declared?: string
}

/** The bytes of a base64 data URI; undefined if the text is none. */
export function dataUri(text: string): Bytes | undefined {
  if (!text.startsWith('data:')) return undefined
  const comma = text.indexOf(',')
  const head = comma === -1 || comma > 300 ? '' : text.slice(5, comma)
  if (!head.endsWith(';base64')) return undefined
  const [declared] = head.split(';')
  return {
    ...inBase64(text.slice(comma + 1)),
    ...(declared !== undefined && declared !== '' && { declared }),
  }
}

/** The bytes of a base64 text, which is not fully validated. */
export function inBase64(text: string): Bytes {
  const end = /=*\s*$/.exec(text.slice(-100))?.[0].length ?? 0
  return { size: Math.floor(((text.length - end) * 3) / 4), base64: text }
}

/** Whether a text can be base64, by its first characters. */
function looksLikeBase64(text: string): boolean {
  return text.length >= 4 && /^[\w+/-]+={0,2}\s*$/.test(text.slice(0, 200))
}
