import { isoTime } from '../../core/iso-time.ts'
import { canonical, isObject } from '../../core/json.ts'
import { only, Payload } from '../../core/payload.ts'
import { PROVENANCE_KEY } from '../../wire/extensions.ts'
import type { Source } from './source.ts'

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
