/** The stamp in `_meta`, and the source it names. */
import { canonical, isObject, readJson } from '../../core/json/json.ts'
import { find, type Scope } from '../../core/json/path.ts'
import { only, Payload } from '../../core/payload.ts'
import { isSecretKey } from '../../core/text/redact.ts'
import { isoTime } from '../../core/time/waiting.ts'
import { parsePath } from '../../core/undo/expression.ts'
import { PROVENANCE_KEY } from '../../protocol/meta-keys.ts'

/** What is said of a result beside where it comes from. */
interface Known {
  /** When it was retrieved, in milliseconds since 1970. */
  readonly at: number
  /** What was done to it since, in words; it is as it was sent where nothing was. */
  readonly transformation?: string | undefined
  /** The SHA-256 of its content, in hex. */
  readonly hash?: string | undefined
}

/** Who says so: on each entry, as servers may claim things too. */
const US = 'gatehouse'

/** How many claims of a server are kept. */
const CLAIMS = 50

type Fields = Readonly<Record<string, unknown>>

/**
 * What the gateway says of a result, as JSON: that it was retrieved there, and whether it is as it was. Put together
 * here, as an object that is encoded would cost more than all else that is done for it.
 */
export function stampOf({ source, location, version }: Source, { at, transformation, hash }: Known): string {
  const place = location === undefined ? '' : `,"location":${JSON.stringify(location)}`
  const which = version === undefined ? '' : `,"version":${JSON.stringify(version)}`
  const done =
    transformation === undefined
      ? ',"confidence":"exact"'
      : `,"confidence":"derived","transformation":${JSON.stringify(transformation)}`
  const sum = hash === undefined ? '' : `,"content_hash":"sha256:${hash}"`
  const time = isoTime(at)
  return `{"source":${JSON.stringify(source)}${place},"retrieved_at":"${time}"${which}${done}${sum},"attested_by":"${US}"}`
}

/** Whose results are stamped, and whether it also stands beside their content. */
interface How {
  readonly server: string
  readonly isBeside: boolean
}

/** Whether a server says something by itself of where its result comes from, which is then named as its claim. */
export function isClaimed(result: Payload): boolean {
  return result.meta(PROVENANCE_KEY) !== undefined || result.member('provenance') !== undefined
}

/** Stamps results as they were sent, with the source they all have: those of one millisecond are stamped alike. */
export function stamper(source: Source, how: How): (result: Payload) => Payload {
  let since = Number.NaN
  let stamp = ''
  let edits: Fields = {}
  return (result) => {
    const at = Date.now()
    if (at !== since) {
      since = at
      stamp = stampOf(source, { at })
      edits = editsOf(Payload.of({}), stamp, how.isBeside)
    }
    const isBare = result.member('_meta') === undefined && result.member('provenance') === undefined
    return isBare ? result.with(edits) : stamped(result, [stamp], how)
  }
}

/** A result with what is said of it; what its server says by itself stands before that, as a claim of the server. */
export function stamped(result: Payload, stamps: readonly string[], { server, isBeside }: How): Payload {
  const inMeta = result.meta(PROVENANCE_KEY)
  const beside = result.member('provenance')
  const said = isClaimed(result) ? [...claimsOf([inMeta, beside], server), ...stamps] : stamps
  const [one] = said
  if (one === undefined) return result
  const all = said.length === 1 ? one : `[${said.join(',')}]`
  return result.with(editsOf(result, all, isBeside || beside !== undefined))
}

/** What puts a text of stamps into a result. */
function editsOf(result: Payload, stamps: string, isBeside: boolean): Fields {
  const provenance = Payload.text(stamps)
  const _meta = result.metaWith(only(PROVENANCE_KEY, provenance))
  return isBeside ? { provenance, _meta } : { _meta }
}

/** What the gateway said of a result of a server it stamps; nothing where it said nothing. */
export function ownStamp(result: Payload): Fields | undefined {
  const contents = result.member('contents')
  const [first] = Array.isArray(contents) ? contents : [{ _meta: result.member('_meta') }]
  const meta = isObject(first) ? first._meta : undefined
  const said = isObject(meta) ? meta[PROVENANCE_KEY] : undefined
  const last: unknown = Array.isArray(said) ? said.at(-1) : said
  return isObject(last) && last.attested_by === US ? last : undefined
}

/** What a server says by itself of where its results come from, as JSON: never in our name. */
function claimsOf(places: readonly unknown[], server: string): string[] {
  const found = new Map<string, string>()
  for (const claim of places.flatMap((place) => (Array.isArray(place) ? place.slice(0, CLAIMS) : [place]))) {
    const fields = typeof claim === 'string' ? { source: claim } : claim
    if (!isObject(fields)) continue
    const { source } = fields
    const named = { ...fields, source: typeof source === 'string' ? source : server, attested_by: server }
    found.set(canonical(named), JSON.stringify(named))
  }
  return [...found.values()].slice(0, CLAIMS)
}

/** Where something came from. */
export interface Source {
  readonly source: string
  readonly version?: string
  readonly location?: { readonly json_path: string }
}

/** What the owner of a tool says of where its results come from. */
interface Words {
  readonly source?: string
  readonly version?: string
  readonly jsonPath?: string
}

type ContentFields = Readonly<Record<string, unknown>>

/** Fields that name what something is about, and those that say which version of it, the most telling first. */
const addresses = ['html_url', 'self', 'url', 'uri', 'path'] as const
const versions = ['sha', 'etag', 'version', 'updated_at', 'lastModified'] as const

/** How long a source and a version may be, in characters. */
const MAX_SOURCE_LENGTH = 500
const MAX_VERSION_LENGTH = 100
/** How long a text may be that is read as JSON: longer ones would cost more than it says. */
const MAX_JSON_TEXT_LENGTH = 2000
/** How many resources of one result are named. */
const MAX_SOURCES = 10

/** Where the result of a tool comes from, as far as it can be seen: from `own`, the tool itself, where it does not say. */
export function sourcesOf(result: Payload, own: readonly [Source], upstream: string): readonly Source[] {
  const content = result.member('content')
  const uris = urisOf(content)
  const [only] = uris
  const fields = fieldsOf(result.member('structuredContent'), content)
  if (!only && !fields) return own
  if (uris.length > 1) {
    return uris.map(({ uri, index }) => {
      return { source: `${upstream}:${uri}`, location: { json_path: `$.content[${index}]` } }
    })
  }
  const address = only ? only.uri : first(fields, addresses, MAX_SOURCE_LENGTH)
  const version = first(fields, versions, MAX_VERSION_LENGTH)
  const source = address === undefined ? own[0].source : `${upstream}:${address}`
  return [version === undefined ? { source } : { source, version }]
}

/** What the owner says, made ready: each a path, or a text in which `{argument}` stands for its value. */
export function statedSource(words: Words): (scope: Scope) => Partial<Source> {
  const source = words.source === undefined ? undefined : reader(words.source)
  const version = words.version === undefined ? undefined : reader(words.version)
  const location = words.jsonPath === undefined ? undefined : { json_path: words.jsonPath }
  return (scope) => {
    const found = { source: source?.(scope), version: version?.(scope), location }
    return Object.fromEntries(Object.entries(found).filter(([, value]) => value !== undefined))
  }
}

function reader(text: string): (scope: Scope) => string | undefined {
  if (text.startsWith('$')) {
    const path = parsePath(text)
    return (scope) => shown(find(path, scope), MAX_SOURCE_LENGTH)
  }
  return ({ args }) => filled(text, args)
}

/** A text with its arguments; nothing where one of them is not there. */
function filled(template: string, given: ContentFields): string | undefined {
  let isWhole = true
  const text = template.replaceAll(/\{([^{}]+)\}/g, (_found, name: string) => {
    if (isSecretKey(name)) return '***'
    const value = Object.hasOwn(given, name) ? shown(given[name], MAX_SOURCE_LENGTH) : undefined
    isWhole &&= value !== undefined
    return value ?? ''
  })
  return isWhole ? text.slice(0, MAX_SOURCE_LENGTH).toWellFormed() : undefined
}

function urisOf(content: unknown): readonly { readonly uri: string; readonly index: number }[] {
  if (!Array.isArray(content)) return []
  const found: { readonly uri: string; readonly index: number }[] = []
  for (let index = 0; index < content.length && found.length < MAX_SOURCES; index++) {
    const block: unknown = content[index]
    if (!isObject(block)) continue
    const uri = shown(isObject(block.resource) ? block.resource.uri : block.uri, MAX_SOURCE_LENGTH)
    if (uri !== undefined && !found.some((each) => each.uri === uri)) found.push({ uri, index })
  }
  return found
}

/** The members a result has, in its structured content or in the only text, where that is a short JSON object. */
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
  longest: number,
): string | undefined {
  if (!fields) return undefined
  for (const name of names) {
    const found = shown(Object.hasOwn(fields, name) ? fields[name] : undefined, longest)
    if (found !== undefined) return found
  }
  return undefined
}

function shown(value: unknown, longest: number): string | undefined {
  const text = typeof value === 'number' ? String(value) : value
  return typeof text === 'string' && text !== '' && text.length <= longest ? text : undefined
}
