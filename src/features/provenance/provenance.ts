import { isAnswer } from '../../core/answer.ts'
import type { Call, Outcome, Policy } from '../../core/call.ts'
import { resultValue } from '../../core/expression.ts'
import { isObject } from '../../core/json.ts'
import { Payload } from '../../core/payload.ts'
import { settingOf } from '../../core/tool-settings.ts'
import { contentHash } from '../../records/receipts.ts'
import type { Feature } from '../feature.ts'
import { type Source, sourcesOf, toldSource } from './source.ts'
import { stamped, stamper, stampOf } from './stamp.ts'

interface Settings {
  readonly hash: boolean
  readonly compat: boolean
}

/** Says of each result where it comes from, when it was got there, and whether it is as it was sent. */
export const provenance: Feature<Settings> = {
  name: 'provenance',
  place: 'features',
  schema: {
    type: 'object',
    properties: {
      hash: {
        type: 'boolean',
        default: false,
        description: 'Whether a hash of its content stands with every result. Receipts always have one.',
      },
      compat: {
        type: 'boolean',
        default: true,
        description: 'Whether it also stands at `provenance` of a tool’s result.',
      },
    },
  },
  create: (settings, { server }) => ({
    policy: ({ upstream, method, name, isOwn }) => {
      if (isOwn || upstream === undefined) return undefined
      const how = { ...settings(upstream), server: upstream }
      if (method === 'resources/read') return stamping((result, call) => withContents(result, call, how))
      if (method !== 'tools/call' || name === undefined) return undefined
      const words = settingOf(server(upstream)?.tools ?? {}, name, 'provenance')?.value
      const told = words && toldSource(words)
      const own = [{ source: `${upstream}:${name}` }] as const
      const stampOwn = told || how.hash ? undefined : stamper(own[0], how)
      return stamping((result, call) => {
        // A failure comes from nowhere; what its server claims is still not said in our name.
        if (!isAnswer(result)) return stamped(result, [], how)
        const seen = sourcesOf(result, own, upstream)
        if (stampOwn && seen === own && changesOf(call) === undefined) return stampOwn(result)
        const sources = told ? withWords(seen, told, { result, call }) : seen
        const hash = how.hash ? contentHash(result) : undefined
        return stamped(result, stampsOf(sources, call, hash), how)
      })
    },
  }),
}

type How = Settings & { readonly server: string }

function stamping(stamp: (result: Payload, call: Call) => Payload): Policy {
  return (next) => (call) => {
    // What the gateway does by itself is shown to nobody.
    if (call.errand) return next(call)
    return next(call).then((outcome): Outcome => {
      if (outcome.kind !== 'result') return outcome
      const result = stamp(outcome.result, call)
      return result === outcome.result ? outcome : { kind: 'result', result }
    })
  }
}

/** What the owner says goes before what was seen; of several sources none is then named. */
function withWords(
  seen: readonly Source[],
  told: ReturnType<typeof toldSource>,
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

function changesOf({ facts }: Call): string | undefined {
  let found: string | undefined
  for (const [fact, words] of changes)
    if (facts.has(fact)) found = found === undefined ? words : `${found}; ${words}`
  return found
}

function stampsOf(sources: readonly Source[], call: Call, hash: string | undefined): string[] {
  const known = { at: Date.now(), transformation: changesOf(call), hash }
  return sources.map((source) => stampOf(source, known))
}

/** The contents of a resource are each stamped by themselves. */
function withContents(result: Payload, call: Call, how: How): Payload {
  const contents = result.at('contents')
  if (!contents || !Array.isArray(contents.value) || contents.value.length > MOST) return result
  const hash = how.hash ? contentHash(result) : undefined
  const items = contents.items.map((item) => {
    if (!isObject(item.value)) return item
    const { uri } = item.fields
    const source = `${how.server}:${typeof uri === 'string' ? uri : String(call.params.fields.uri)}`
    return stamped(item, stampsOf([{ source }], call, hash), { server: how.server, compat: false })
  })
  return result.with({ contents: Payload.text(`[${items.map(({ text }) => text).join(',')}]`) })
}

/** How many contents of one result are stamped. */
const MOST = 1000
