import { canonical, isObject } from '../../core/json.ts'
import { only, Payload } from '../../core/payload.ts'
import { NS } from '../../wire/extensions.ts'

/** Where in `_meta` it stands where a result comes from. */
const PROVENANCE_KEY = `${NS}/provenance`

/** What the gateway says of where a result comes from: that it was retrieved there, and whether it is as it was. */
export interface Stamp {
  readonly source: string
  readonly location: { readonly json_path: string } | undefined
  readonly retrieved_at: string
  readonly version: string | undefined
  readonly confidence: 'exact' | 'derived'
  readonly transformation: string | undefined
  readonly content_hash: string | undefined
  readonly attested_by: typeof US
}

/** Who says so: on each entry, as servers may claim things too. */
export const US = 'gatehouse'

/** How many claims of a server are kept. */
const CLAIMS = 50

type Fields = Readonly<Record<string, unknown>>

/** A result with what is said of it; what its server says by itself stands before that, as a claim of the server. */
export function stamped(
  result: Payload,
  stamps: readonly Stamp[],
  { server, compat }: { readonly server: string; readonly compat: boolean },
): Payload {
  const inMeta = result.meta(PROVENANCE_KEY)
  const beside = result.member('provenance')
  const [stamp] = stamps
  if (stamp && stamps.length === 1 && inMeta === undefined && beside === undefined)
    return told(result, Payload.text(encoded(stamp), stamp), compat)
  const claims = claimsOf([inMeta, beside], server)
  if (claims.length === 0 && stamps.length === 0) return result
  const said = [...claims, ...stamps]
  const whole = said.length === 1 ? said[0] : said
  return told(result, whole, compat || beside !== undefined)
}

function told(result: Payload, provenance: unknown, compat: boolean): Payload {
  return (compat ? result.with({ provenance }) : result).withMeta(only(PROVENANCE_KEY, provenance))
}

/** As `JSON.stringify` has it, which costs the usual stamp more than all else that is done for it. */
function encoded(stamp: Stamp): string {
  if ((stamp.location ?? stamp.version ?? stamp.transformation ?? stamp.content_hash) !== undefined)
    return JSON.stringify(stamp)
  const { source, retrieved_at: at, confidence, attested_by: by } = stamp
  const quoted = JSON.stringify(source)
  return `{"source":${quoted},"retrieved_at":"${at}","confidence":"${confidence}","attested_by":"${by}"}`
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

/** What a server says by itself of where its results come from: never in our name. */
function claimsOf(places: readonly unknown[], server: string): Fields[] {
  const found = new Map<string, Fields>()
  for (const claim of places.flatMap((place) => (Array.isArray(place) ? place.slice(0, CLAIMS) : [place]))) {
    const fields = typeof claim === 'string' ? { source: claim } : claim
    if (!isObject(fields)) continue
    const { source } = fields
    const named = { ...fields, source: typeof source === 'string' ? source : server, attested_by: server }
    found.set(canonical(named), named)
  }
  return [...found.values()].slice(0, CLAIMS)
}
