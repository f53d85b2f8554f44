/** Stamps results with their source, time and changes. */
import { isAnswer } from '../../core/failure.ts'
import type { Call, Outcome, Middleware } from '../../core/call.ts'
import { resultValue } from '../../core/undo/expression.ts'
import { isObject } from '../../core/json/json.ts'
import type { Payload } from '../../core/payload.ts'
import { settingOf } from '../../core/settings.ts'
import { contentHash } from '../../records/receipts.ts'
import { isAskedFor, PROVENANCE_KEY, withoutFlag } from '../../protocol/meta-keys.ts'
import type { Feature } from '../feature.ts'
import { type Source, sourcesOf, statedSource, isClaimed, stamped, stamper, stampOf } from './stamp.ts'

interface Settings {
  readonly always: boolean
  readonly hash: boolean
  readonly compat: boolean
}

/**
 * Says of results where they come from, when they were got there, and whether they are as they were sent: to clients
 * that ask, and where that is more than every client knows of a result it gets, which then is as its server sent it.
 */
export const provenance: Feature<Settings> = {
  name: 'provenance',
  place: 'features',
  isLeftToGateway: true,
  schema: {
    type: 'object',
    properties: {
      always: {
        type: 'boolean',
        default: false,
        description:
          'Whether every result says it, and not only where there is more to say than its server and the time, or to clients that ask.',
      },
      hash: {
        type: 'boolean',
        default: false,
        description: 'Whether a hash of its content stands with every result. Receipts always have one.',
      },
      compat: {
        type: 'boolean',
        default: true,
        description:
          'Whether it also stands at `provenance` of a tool’s result, with `always` or for clients that ask.',
      },
    },
  },
  create: (settings, { servers: { settings: server } }) => ({
    middleware: ({ upstream, method, name, isBuiltin }) => {
      if (isBuiltin || upstream === undefined) return undefined
      const how = { ...settings(upstream), server: upstream }
      if (method === 'resources/read')
        return stamping((result, call, isAsked) => withContents(result, call, { ...how, isAsked }))
      if (method !== 'tools/call' || name === undefined) return undefined
      const words = settingOf(server(upstream)?.tools ?? {}, name, 'provenance')?.value
      const told = words && statedSource(words)
      const own = [{ source: `${upstream}:${name}` }] as const
      const isAlways = how.always || how.hash || told !== undefined
      const to = { server: upstream, isBeside: how.compat && how.always }
      const toAsking = { server: upstream, isBeside: how.compat }
      const stampOwn = told || how.hash || !how.always ? undefined : stamper(own[0], to)
      return stamping((result, call, isAsked) => {
        const place = isAsked ? toAsking : to
        // A failure comes from nowhere; what its server claims is still not said in our name.
        if (!isAnswer(result)) return stamped(result, [], place)
        if (!isAlways && !isAsked && changesOf(call) === undefined && !isClaimed(result)) return result
        const seen = sourcesOf(result, own, upstream)
        if (stampOwn && seen === own && changesOf(call) === undefined) return stampOwn(result)
        const sources = told ? withWords(seen, told, { result, call }) : seen
        const hash = how.hash ? contentHash(result) : undefined
        return stamped(result, stampsOf(sources, call, hash), place)
      })
    },
  }),
}

type How = Settings & { readonly server: string }

function stamping(stamp: (result: Payload, call: Call, isAsked: boolean) => Payload): Middleware {
  return (next) => (call) => {
    // Results of internal calls are not shown to anyone.
    if (call.internal) return next(call)
    const isAsked = isAskedFor(call, PROVENANCE_KEY)
    const sent = withoutFlag(call, PROVENANCE_KEY)
    return next(sent).then((outcome): Outcome => {
      if (outcome.kind !== 'result') return outcome
      const result = stamp(outcome.result, sent, isAsked)
      return result === outcome.result ? outcome : { kind: 'result', result }
    })
  }
}

/** What the owner says goes before what was seen; of several sources none is then named. */
function withWords(
  seen: readonly Source[],
  told: ReturnType<typeof statedSource>,
  { result, call }: { readonly result: Payload; readonly call: Call },
): readonly Source[] {
  const { arguments: given } = call.params.fields
  const words = told({ args: isObject(given) ? given : {}, result: resultValue(result) })
  const [one] = seen
  if (!one) return seen
  return words.source === undefined ? seen.map((each) => ({ ...each, ...words })) : [{ ...one, ...words }]
}

/** What features below do to results, and what that is called. */
const changes = [
  ['masked', 'personal data was masked'],
  ['truncated', 'shortened to the limit of results'],
  ['text_added', 'the structured content was added as text'],
] as const

function changesOf({ logFields }: Call): string | undefined {
  let found: string | undefined
  for (const [fact, words] of changes)
    if (logFields.has(fact)) found = found === undefined ? words : `${found}; ${words}`
  return found
}

function stampsOf(sources: readonly Source[], call: Call, hash: string | undefined): string[] {
  const known = { at: Date.now(), transformation: changesOf(call), hash }
  return sources.map((source) => stampOf(source, known))
}

/** The contents of a resource are each stamped by themselves. */
function withContents(result: Payload, call: Call, how: How & { readonly isAsked: boolean }): Payload {
  const contents = result.at('contents')
  const isTold = how.always || how.hash || how.isAsked || changesOf(call) !== undefined
  if (!contents || !Array.isArray(contents.value) || contents.value.length > MAX_STAMPED_CONTENTS)
    return result
  const hash = how.hash ? contentHash(result) : undefined
  return result.withItems('contents', (item) => {
    if (!isObject(item.value) || !(isTold || isClaimed(item))) return item
    const { uri } = item.fields
    const source = `${how.server}:${typeof uri === 'string' ? uri : String(call.params.fields.uri)}`
    return stamped(item, stampsOf([{ source }], call, hash), { server: how.server, isBeside: false })
  })
}

/** How many contents of one result are stamped. */
const MAX_STAMPED_CONTENTS = 1000
