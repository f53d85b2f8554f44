/**
 * The feature `stream`: collects the pages of tools that return their results in pages. Only tools that read, with an
 * argument that selects a page, are collected, and only on request or where the configuration says so.
 */
import type { Call, Handler, Outcome } from '../../core/call.ts'
import { isPageSlot } from '../../core/spool.ts'
import type { Descriptor } from '../../core/descriptor.ts'
import { GatewayError } from '../../core/error.ts'
import { isObject } from '../../core/json/json.ts'
import { asCalled } from '../../core/judgement/call.ts'
import { type PageArgument, pageArguments } from '../../core/judgement/pages.ts'
import { STREAM_KEY, withoutFlag } from '../../protocol/meta-keys.ts'
import type { Feature } from '../feature.ts'
import { toolFacts } from '../offers.ts'
import { openCheckpoint, unknownCheckpoint, Collector, type Deps, notCollected } from './collector.ts'
import { MAX_PAGES, type StreamSettings, streamSchema } from '../settings/admit.ts'

/** Collects all pages of a result, each sent as it comes, and can go on where it ended. */
export const stream: Feature<StreamSettings> = {
  ...streamSchema,
  create: (settings, deps) => {
    const inputsOf = cachedArguments()
    return {
      calls: {
        middleware: ({ upstream, method, name, isBuiltin }) => {
          if (method !== 'tools/call' || isBuiltin || upstream === undefined || name === undefined)
            return undefined
          const own = settings(upstream)
          return (next) => (call) => {
            if (call.internal || (call.meta[STREAM_KEY] === undefined && !own.collect)) return next(call)
            return collect(call, next, { settings: own, inputsOf, deps })
          }
        },
        // There are no pages.
        dryRun: () => (next) => (call) => next(withoutFlag(call, STREAM_KEY)),
      },
      builtins: {
        extensions: (upstream) => ({ [STREAM_KEY]: { maxPages: settings(upstream).max_pages } }),
      },
      offers: [
        toolFacts.offer((entry) =>
          entry.classification.op === 'read' && inputsOf(entry).length > 0 ? { isCollectable: true } : {},
        ),
      ],
    }
  },
}

interface Context {
  readonly settings: StreamSettings
  readonly deps: Deps
  inputsOf(entry: Descriptor): readonly PageArgument[]
}

/** @throws INVALID_INPUT, RESOURCE_NOT_FOUND, what the first page fails with */
async function collect(given: Call, next: Handler, { settings, inputsOf, deps }: Context): Promise<Outcome> {
  const { isWanted, maxPages, token } = requestOf(given, settings)
  const isRequested = given.meta[STREAM_KEY] !== undefined
  const call = withoutFlag(given, STREAM_KEY)
  if (!isWanted) return next(call)
  const inputs = call.tool && isRead(call.tool, call) ? inputsOf(call.tool) : []
  if (inputs.length === 0) {
    if (token !== undefined) throw unknownCheckpoint()
    const outcome = await next(call)
    return isRequested ? notCollected(outcome) : outcome
  }
  const from = token === undefined ? undefined : openCheckpoint(token, call, deps.identity.seal)
  return new Collector(isPageSlot.set(call, true), { next, inputs, maxPages, from, isRequested, deps }).run()
}

/** Whether this call of a tool only reads. */
function isRead(tool: Descriptor, call: Call): boolean {
  return asCalled(tool, call).classification.op === 'read'
}

interface StreamRequest {
  readonly isWanted: boolean
  readonly maxPages: number
  readonly token?: string
}

/** What the caller requests, within the settings. @throws INVALID_INPUT */
function requestOf({ meta }: Call, settings: StreamSettings): StreamRequest {
  const requested = meta[STREAM_KEY]
  if (requested === undefined || typeof requested === 'boolean')
    return { isWanted: requested ?? settings.collect, maxPages: settings.max_pages }
  if (!isObject(requested)) throw invalid('must be true, false, or an object')
  const { max_pages: pages = settings.max_pages, checkpoint_token: token, ...others } = requested
  const [unknown] = Object.keys(others)
  if (unknown !== undefined) throw invalid(`has an unknown member ${JSON.stringify(unknown.slice(0, 100))}`)
  if (typeof pages !== 'number' || !Number.isInteger(pages) || pages < 1 || pages > MAX_PAGES)
    throw invalid(`max_pages must be a whole number from 1 to ${MAX_PAGES}`)
  if (token !== undefined && typeof token !== 'string') throw invalid('checkpoint_token must be a string')
  const maxPages = Math.min(pages, settings.max_pages)
  return { isWanted: true, maxPages, ...(token !== undefined && { token }) }
}

function invalid(why: string): GatewayError {
  return new GatewayError('INVALID_INPUT', `Invalid params: _meta["${STREAM_KEY}"] ${why}.`, {
    field: STREAM_KEY,
    suggestion: 'Send true, or an object with max_pages or checkpoint_token.',
  })
}

/** The arguments of tools that select a page, found once for each definition. */
function cachedArguments(): Context['inputsOf'] {
  const known = new WeakMap<object, readonly PageArgument[]>()
  return ({ definition }) => {
    const found = known.get(definition) ?? pageArguments(definition)
    known.set(definition, found)
    return found
  }
}
