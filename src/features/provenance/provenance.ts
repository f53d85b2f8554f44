/** Stamps results with their source, retrieval time and transformations. */
import { world } from '../../core/world.ts'
import { isAnswer } from '../../core/failure.ts'
import type { Call, Outcome, Middleware } from '../../core/call.ts'
import { resultValue } from '../../core/undo/expression.ts'
import { asObject, isObject } from '../../core/json/json.ts'
import type { Payload } from '../../core/payload.ts'
import { settingOf } from '../../core/settings.ts'
import { writtenArguments, referencesSlot } from '../../core/used-reference.ts'
import { contentHash } from '../../records/receipts.ts'
import { isAskedFor, PROVENANCE_KEY, withoutFlag } from '../../protocol/meta-keys.ts'
import type { Feature } from '../feature.ts'
import {
  inputStampOf,
  isClaimed,
  type Source,
  sourcesOf,
  stamped,
  stamper,
  stampOf,
  statedSource,
} from './stamp.ts'
import { type ProvenanceSettings, provenanceSchema } from '../settings/upstream.ts'

/**
 * Adds to results where they come from, when they were retrieved, and whether they are unchanged: for clients that
 * request it, and wherever that is more than the server's name and the current time.
 */
export const provenance: Feature<ProvenanceSettings> = {
  ...provenanceSchema,
  create: (settings, { servers: { settings: server } }) => ({
    calls: {
      middleware: ({ upstream, method, name, isBuiltin }) => {
        if (isBuiltin || upstream === undefined) return undefined
        const stampSettings = { ...settings(upstream), server: upstream }
        if (method === 'resources/read')
          return stampResults((result, call, isRequested) =>
            withContents(result, call, { ...stampSettings, isRequested }),
          )
        if (method !== 'tools/call' || name === undefined) return undefined
        const sourceSetting = settingOf(server(upstream)?.tools ?? {}, name, 'provenance')?.value
        const configuredSource = sourceSetting && statedSource(sourceSetting)
        const own = [{ source: `${upstream}:${name}` }] as const
        const isEverywhere = stampSettings.always || stampSettings.compat === 'always'
        const isAlways = isEverywhere || stampSettings.hash || configuredSource !== undefined
        const defaultTarget = {
          server: upstream,
          isOutsideMeta: stampSettings.compat !== false && isEverywhere,
        }
        const requestedTarget = { server: upstream, isOutsideMeta: stampSettings.compat !== false }
        const stampOwn =
          configuredSource || stampSettings.hash || !isEverywhere ? undefined : stamper(own[0], defaultTarget)
        const stamp: Stamp = (result, call, isRequested) => {
          const place = isRequested ? requestedTarget : defaultTarget
          // Failures have no source, but claims of the server are still attributed to the server.
          if (!isAnswer(result)) return stamped(result, [], place)
          const isPlain = changesOf(call) === undefined && !referencesSlot.of(call)
          if (!isAlways && !isRequested && isPlain && !isClaimed(result)) return result
          const detected = sourcesOf(result, own, upstream)
          if (stampOwn && detected === own && isPlain) return stampOwn(result)
          const sources = configuredSource
            ? withConfigured(detected, configuredSource, result, call)
            : detected
          const hash = stampSettings.hash ? contentHash(result) : undefined
          return stamped(result, stampsOf(sources, call, hash), place)
        }
        if (stampSettings.compat !== 'always') return stampResults(stamp)
        return stampResults((...given) => withContentBeside(stamp(...given)))
      },
      dryRun: 'absent', // the result has no source
    },
  }),
}

type StampSettings = ProvenanceSettings & { readonly server: string }

type Stamp = (result: Payload, call: Call, isRequested: boolean) => Payload

/** A result with its content at `result`, beside `provenance`. */
function withContentBeside(result: Payload): Payload {
  if (!isAnswer(result) || result.member('result') !== undefined) return result
  return result.with({ result: result.at('structuredContent') ?? resultValue(result) })
}

function stampResults(stamp: Stamp): Middleware {
  return (next) => (call) => {
    // Results of internal calls are not shown to anyone.
    if (call.internal) return next(call)
    const isRequested = isAskedFor(call, PROVENANCE_KEY)
    const forwarded = withoutFlag(call, PROVENANCE_KEY)
    return next(forwarded).then((outcome): Outcome => {
      if (outcome.kind !== 'result') return outcome
      const result = stamp(outcome.result, forwarded, isRequested)
      return result === outcome.result ? outcome : { kind: 'result', result }
    })
  }
}

/** A configured source replaces all detected ones; otherwise the configured version and location are added to each. */
function withConfigured(
  detected: readonly Source[],
  configuredSource: ReturnType<typeof statedSource>,
  result: Payload,
  call: Call,
): readonly Source[] {
  const given = writtenArguments(call.params, referencesSlot.of(call))?.value
  const configured = configuredSource({ args: asObject(given), result: resultValue(result) })
  const [first] = detected
  if (!first) return detected
  return configured.source === undefined
    ? detected.map((each) => ({ ...each, ...configured }))
    : [{ ...first, ...configured }]
}

/** Transformations by the features below, and their descriptions. */
const changes = [
  ['masked', 'personal data was masked'],
  ['truncated', 'shortened to the limit of results'],
  ['text_added', 'the structured content was added as text'],
  ['references', 'large parts were replaced by references to them'],
] as const

function changesOf({ logFields }: Call): string | undefined {
  let found: string | undefined
  for (const [fact, wording] of changes)
    if (logFields.has(fact)) found = found === undefined ? wording : `${found}; ${wording}`
  return found
}

function stampsOf(sources: readonly Source[], call: Call, hash: string | undefined): string[] {
  const known = { at: world.now(), transformation: changesOf(call), hash }
  // Those of the result come last.
  const inputs = referencesSlot.of(call)?.used.map(inputStampOf) ?? []
  return [...inputs, ...sources.map((source) => stampOf(source, known))]
}

/** The contents of a resource are stamped individually. */
function withContents(
  result: Payload,
  call: Call,
  stampSettings: StampSettings & { readonly isRequested: boolean },
): Payload {
  const contents = result.at('contents')
  const isStamped =
    stampSettings.always || stampSettings.hash || stampSettings.isRequested || changesOf(call) !== undefined
  if (!contents || !Array.isArray(contents.value) || contents.value.length > MAX_STAMPED_CONTENTS)
    return result
  const hash = stampSettings.hash ? contentHash(result) : undefined
  return result.withItems('contents', (item) => {
    if (!isObject(item.value) || !(isStamped || isClaimed(item))) return item
    const { uri } = item.fields
    const source = `${stampSettings.server}:${typeof uri === 'string' ? uri : String(call.params.fields.uri)}`
    return stamped(item, stampsOf([{ source }], call, hash), {
      server: stampSettings.server,
      isOutsideMeta: false,
    })
  })
}

/** How many contents of one result are stamped. */
const MAX_STAMPED_CONTENTS = 1000
