/** The provenance stamp in `_meta`, and the source that it names. */
import { world } from '../../core/world.ts'
import { exactly, isObject, readJson } from '../../core/json/json.ts'
import { find, type Scope } from '../../core/json/path.ts'
import { only, Payload, type Fields } from '../../core/payload.ts'
import { isSecretName } from '../../core/text/secret.ts'
import { isoTime } from '../../core/time/waiting.ts'
import { parsePath } from '../../core/undo/expression.ts'
import type { UsedReference } from '../../core/used-reference.ts'
import { PROVENANCE_KEY, REFERENCE_KEY } from '../../protocol/meta-keys.ts'
import { isNumber } from '../../core/json/exact-number.ts'

/** The facts about a result besides its source. */
interface StampFacts {
  /** When it was retrieved, in milliseconds since 1970. */
  readonly at: number
  /** What was done to it, in words; absent if it is unchanged. */
  readonly transformation?: string | undefined
  /** The SHA-256 of its content, in hex. */
  readonly hash?: string | undefined
}

/** Who attests: stated on each entry, because servers may make claims too. */
const ATTESTED_BY = 'gatehouse'

/** How many claims of a server are kept. */
const MAX_CLAIMS = 50

/**
 * The stamp of the gateway as JSON: source, retrieval time, and transformations. Built as a string, because encoding an
 * object would cost more than everything else that is done for a result.
 */
export function stampOf(
  { source, location, version }: Source,
  { at, transformation, hash }: StampFacts,
): string {
  const locationPart = location === undefined ? '' : `,"location":${JSON.stringify(location)}`
  const versionPart = version === undefined ? '' : `,"version":${JSON.stringify(version)}`
  const transformationPart =
    transformation === undefined
      ? ',"confidence":"exact"'
      : `,"confidence":"derived","transformation":${JSON.stringify(transformation)}`
  const hashPart = hash === undefined ? '' : `,"content_hash":"sha256:${hash}"`
  const retrievedAt = isoTime(at)
  return `{"source":${JSON.stringify(source)}${locationPart},"retrieved_at":"${retrievedAt}"${versionPart}${transformationPart}${hashPart},"attested_by":"${ATTESTED_BY}"}`
}

/** The stamp of data that an argument referred to: where it came from, and the call that returned it. */
export function inputStampOf(used: UsedReference): string {
  const { path, written, server, tool, requestId, createdAt, sha256 } = used
  return JSON.stringify({
    source: tool === undefined ? server : `${server}:${tool}`,
    retrieved_at: isoTime(createdAt),
    confidence: 'exact',
    content_hash: `sha256:${sha256}`,
    argument: path,
    reference: written,
    ...(requestId !== undefined && { request_id: requestId }),
    attested_by: ATTESTED_BY,
  })
}

/** The server whose results are stamped, and whether the stamp is also sent beside the content. */
interface StampTarget {
  readonly server: string
  readonly isOutsideMeta: boolean
}

/** Whether the server itself makes a claim about the source, which is then attributed to it. */
export function isClaimed(result: Payload): boolean {
  return result.meta(PROVENANCE_KEY) !== undefined || result.member('provenance') !== undefined
}

/** Stamps unchanged results of one source; results of the same millisecond share their stamp. */
export function stamper(source: Source, target: StampTarget): (result: Payload) => Payload {
  let since = Number.NaN
  let stamp = ''
  let edits: Fields = {}
  return (result) => {
    const at = world.now()
    if (at !== since) {
      since = at
      stamp = stampOf(source, { at })
      edits = editsOf(Payload.of({}), stamp, target.isOutsideMeta)
    }
    const isBare = result.member('_meta') === undefined && result.member('provenance') === undefined
    return isBare ? result.with(edits) : stamped(result, [stamp], target)
  }
}

/**
 * A result with its stamps; claims of the server come first, attributed to the server. What it says outside of `_meta` stays
 * there as it is, but for claims in the name of the gateway.
 */
export function stamped(
  result: Payload,
  ownStamps: readonly string[],
  { server, isOutsideMeta }: StampTarget,
): Payload {
  const inMeta = result.meta(PROVENANCE_KEY)
  const outsideMeta = result.member('provenance')
  const allStamps = isClaimed(result) ? [...claimsOf([inMeta, outsideMeta], server), ...ownStamps] : ownStamps
  const [one] = allStamps
  if (one === undefined) return result
  const all = allStamps.length === 1 ? one : `[${allStamps.join(',')}]`
  if (outsideMeta === undefined || outsideMeta === null)
    return result.with(editsOf(result, all, isOutsideMeta))
  const honest = isForged(outsideMeta) && { provenance: attributed(outsideMeta, server) }
  return result.with({ ...editsOf(result, all, false), ...honest })
}

/** The claims of a server in their place, in its own name. */
function attributed(claims: unknown, server: string): unknown {
  if (Array.isArray(claims)) return claims.map((each: unknown) => attributed(each, server))
  return isForged(claims) && isObject(claims) ? { ...claims, attested_by: server } : claims
}

/** Whether claims of a server name the gateway as who makes them. */
function isForged(claims: unknown): boolean {
  return [claims]
    .flat(Number.POSITIVE_INFINITY)
    .some((each) => isObject(each) && each.attested_by === ATTESTED_BY)
}

/** The edits that put stamps into a result. */
function editsOf(result: Payload, stamps: string, isOutsideMeta: boolean): Fields {
  const provenance = Payload.text(stamps)
  const _meta = result.metaWith(only(PROVENANCE_KEY, provenance))
  return isOutsideMeta ? { provenance, _meta } : { _meta }
}

/** The gateway's own stamp on a result; undefined if there is none. */
export function ownStamp(result: Payload): Fields | undefined {
  const contents = result.member('contents')
  const [first] = Array.isArray(contents) ? contents : [{ _meta: result.member('_meta') }]
  const meta = isObject(first) ? first._meta : undefined
  const stamps = isObject(meta) ? meta[PROVENANCE_KEY] : undefined
  const last: unknown = Array.isArray(stamps) ? stamps.at(-1) : stamps
  return isObject(last) && last.attested_by === ATTESTED_BY ? last : undefined
}

/** The server's claims about the source as JSON, always attributed to the server. */
function claimsOf(places: readonly unknown[], server: string): string[] {
  const found = new Map<string, string>()
  for (const claim of places.flatMap((place) =>
    Array.isArray(place) ? place.slice(0, MAX_CLAIMS) : [place],
  )) {
    const fields = typeof claim === 'string' ? { source: claim } : claim
    if (!isObject(fields)) continue
    const { source } = fields
    const named = { ...fields, source: typeof source === 'string' ? source : server, attested_by: server }
    found.set(exactly(named), JSON.stringify(named))
  }
  return [...found.values()].slice(0, MAX_CLAIMS)
}

/** The source of a result. */
export interface Source {
  readonly source: string
  readonly version?: string
  readonly location?: { readonly json_path: string }
}

/** The configured source of a tool's results. */
interface SourceSettings {
  readonly source?: string
  readonly version?: string
  readonly jsonPath?: string
}

type ContentFields = Readonly<Record<string, unknown>>

/** Fields that identify the subject of a result, and fields with its version, the most specific first. */
const addresses = ['html_url', 'self', 'url', 'uri', 'path'] as const
const versions = ['sha', 'etag', 'version', 'updated_at', 'lastModified'] as const

/** The maximum length of a source and of a version, in characters. */
const MAX_SOURCE_LENGTH = 500
const MAX_VERSION_LENGTH = 100
/** The maximum length of a text that is parsed as JSON, in characters. */
const MAX_JSON_TEXT_LENGTH = 2000
/** How many resources of one result are named. */
const MAX_SOURCES = 10

/** The sources that a tool's result names; `fallback`, the tool itself, if it names none. */
export function sourcesOf(result: Payload, fallback: readonly [Source], upstream: string): readonly Source[] {
  const content = result.member('content')
  const uris = urisOf(content)
  const [only] = uris
  const fields = fieldsOf(result.member('structuredContent'), content)
  if (!only && !fields) return fallback
  if (uris.length > 1) {
    return uris.map(({ uri, index }) => {
      return { source: `${upstream}:${uri}`, location: { json_path: `$.content[${index}]` } }
    })
  }
  const address = only ? only.uri : first(fields, addresses, MAX_SOURCE_LENGTH)
  const version = first(fields, versions, MAX_VERSION_LENGTH)
  const source = address === undefined ? fallback[0].source : `${upstream}:${address}`
  return [version === undefined ? { source } : { source, version }]
}

/** Compiles a configured source: each part is a path, or a template with `{argument}` placeholders. */
export function statedSource(settings: SourceSettings): (scope: Scope) => Partial<Source> {
  const source = settings.source === undefined ? undefined : compileReader(settings.source)
  const version = settings.version === undefined ? undefined : compileReader(settings.version)
  const location = settings.jsonPath === undefined ? undefined : { json_path: settings.jsonPath }
  return (scope) => {
    const found = { source: source?.(scope), version: version?.(scope), location }
    return Object.fromEntries(Object.entries(found).filter(([, value]) => value !== undefined))
  }
}

function compileReader(text: string): (scope: Scope) => string | undefined {
  if (text.startsWith('$')) {
    const path = parsePath(text)
    return (scope) => textWithin(find(path, scope), MAX_SOURCE_LENGTH)
  }
  return ({ args }) => fillTemplate(text, args)
}

/** A filled template; undefined if one of its arguments is missing. */
function fillTemplate(template: string, given: ContentFields): string | undefined {
  let isComplete = true
  const text = template.replaceAll(/\{([^{}]+)\}/g, (_found, name: string) => {
    if (isSecretName(name)) return '***'
    const value = Object.hasOwn(given, name) ? textWithin(given[name], MAX_SOURCE_LENGTH) : undefined
    isComplete &&= value !== undefined
    return value ?? ''
  })
  return isComplete ? text.slice(0, MAX_SOURCE_LENGTH).toWellFormed() : undefined
}

function urisOf(content: unknown): readonly { readonly uri: string; readonly index: number }[] {
  if (!Array.isArray(content)) return []
  const found: { readonly uri: string; readonly index: number }[] = []
  for (let index = 0; index < content.length && found.length < MAX_SOURCES; index++) {
    const block: unknown = content[index]
    if (!isObject(block) || isKept(block)) continue
    const uri = textWithin(isObject(block.resource) ? block.resource.uri : block.uri, MAX_SOURCE_LENGTH)
    if (uri !== undefined && !found.some((each) => each.uri === uri)) found.push({ uri, index })
  }
  return found
}

/** Whether a block stands for data that the gateway keeps: its URI is no source. */
function isKept({ _meta: meta }: ContentFields): boolean {
  return isObject(meta) && meta[REFERENCE_KEY] !== undefined
}

/** The members of a result: its structured content, or its only text if that is a short JSON object. */
function fieldsOf(structuredContent: unknown, content: unknown): ContentFields | undefined {
  if (isObject(structuredContent)) return structuredContent
  if (!Array.isArray(content) || content.length !== 1) return undefined
  const [block]: readonly unknown[] = content
  const text = isObject(block) && block.type === 'text' ? block.text : undefined
  if (typeof text !== 'string' || text.length > MAX_JSON_TEXT_LENGTH || !text.startsWith('{'))
    return undefined
  const value = readJson(text)
  return isObject(value) ? value : undefined
}

function first(
  fields: ContentFields | undefined,
  names: readonly string[],
  maxLength: number,
): string | undefined {
  if (!fields) return undefined
  for (const name of names) {
    const found = textWithin(Object.hasOwn(fields, name) ? fields[name] : undefined, maxLength)
    if (found !== undefined) return found
  }
  return undefined
}

function textWithin(value: unknown, maxLength: number): string | undefined {
  const text = isNumber(value) ? String(value) : value
  return typeof text === 'string' && text !== '' && text.length <= maxLength ? text : undefined
}
