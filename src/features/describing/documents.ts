/**
 * The documents that are made of descriptions of servers, and what formats add to `server/discover`. A description that takes
 * too long to create is left out there.
 */
import type { Call, Handler, Middleware, Outcome } from '../../core/call.ts'
import { Payload, type Fields } from '../../core/payload.ts'
import { attempt, within } from '../../core/time/waiting.ts'
import { describeAllServers } from '../../descriptions/model/describe.ts'
import type { ServerDescription } from '../../descriptions/model/description.ts'
import { amongCapabilities } from '../../protocol/meta-keys.ts'
import { pageOf } from '../builtin-tool.ts'
import type { Services } from '../feature.ts'

/** What documents are made with. */
export type DescribingDeps = Pick<Services, 'log' | 'servers' | 'descriptions' | 'features'>

/** Additions to the result of `server/discover`. */
interface DiscoverAdditions {
  /** At the top level of the result and among the experimental capabilities, made of what the server has there. */
  readonly extended?: Readonly<Record<string, (own: unknown) => Fields>>
  /** In `_meta` of the result, and among the capabilities of extensions. */
  readonly meta?: Fields
  readonly extensions?: Fields
  /** Capabilities without members, where the server has none of that name. */
  readonly kinds?: readonly string[]
  /** Lines of a paragraph at the end of the instructions; those that are in them already are left out. */
  readonly instructions?: readonly string[]
}

/** How long a connecting client waits for the description of a server, in milliseconds; after that it is left out. */
const DESCRIPTION_TIMEOUT_MS = 2000

/** The description for lists and `server/discover`; undefined if the client would have to wait too long. */
export function descriptionSoon(
  feature: string,
  call: Call,
  deps: DescribingDeps,
): ServerDescription | undefined | Promise<ServerDescription | undefined> {
  // Internal calls create descriptions themselves, so they would wait for their own result.
  if (call.internal) return undefined
  const found = attempt(() => describedList(feature, call, deps))
  if (!(found instanceof Promise)) return found
  return within<ServerDescription | undefined>(
    found.catch(() => undefined),
    DESCRIPTION_TIMEOUT_MS,
    undefined,
  )
}

/** Adds to the result of `server/discover`, for clients of every revision. */
export function extendDiscover(
  additionsFor: (call: Call) => Promise<DiscoverAdditions | undefined>,
): Middleware {
  // Both may wait for the same server, so they do at the same time.
  return (next) => async (call) => {
    const additions = additionsFor(call)
    // The failure of the request itself comes first.
    additions.catch(() => undefined)
    return withAdditions(await next(call), await additions, call.client)
  }
}

/** The result with the additions. */
function withAdditions(
  outcome: Outcome,
  additions: DiscoverAdditions | undefined,
  client: Call['client'],
): Outcome {
  if (outcome.kind !== 'result' || !additions) return outcome
  const { result } = outcome
  const capabilities = result.at('capabilities') ?? Payload.of({})
  const extend = ({ fields }: Payload): Fields =>
    Object.fromEntries(
      Object.entries(additions.extended ?? {}).map(([key, make]) => [key, make(fields[key])] as const),
    )
  const experimental = additions.extended && extend(capabilities.at('experimental') ?? Payload.of({}))
  const kinds = Object.entries({ extensions: additions.extensions, experimental })
  const added = kinds.flatMap(([kind, members]) =>
    members
      ? [[kind, (capabilities.at(kind) ?? Payload.of({})).with(amongCapabilities(members, client))] as const]
      : [],
  )
  const missing = (additions.kinds ?? []).filter((kind) => !Object.hasOwn(capabilities.fields, kind))
  const { instructions } = result.fields
  const given = typeof instructions === 'string' ? instructions : ''
  const lines = (additions.instructions ?? []).filter((line) => line !== '' && !given.includes(line))
  const paragraphs = [given, lines.join('\n')].filter((each) => each !== '')
  const extended = result.with({
    ...extend(result),
    capabilities: capabilities.with(
      Object.fromEntries([...added, ...missing.map((kind) => [kind, {}] as const)]),
    ),
    ...(lines.length > 0 && { instructions: paragraphs.join('\n\n') }),
  })
  return { kind: 'result', result: additions.meta ? extended.withMeta(additions.meta) : extended }
}

/** Descriptions that omit some servers, by the names of the others. */
const partialDescriptions = new WeakMap<ServerDescription, Map<string, ServerDescription>>()

/** The description for the documents of a feature; of several servers, it covers those with the feature on. */
export function describedList(
  feature: string,
  call: Call,
  deps: DescribingDeps,
): ServerDescription | Promise<ServerDescription> {
  const found = deps.descriptions.of(call.target.upstream, call)
  return found instanceof Promise
    ? found.then((description) => partsWith(feature, description, deps))
    : partsWith(feature, found, deps)
}

function partsWith(feature: string, description: ServerDescription, deps: DescribingDeps): ServerDescription {
  const parts = description.parts.filter(({ name }) => deps.features.isOn(feature, name))
  if (parts.length === description.parts.length) return description
  const known = partialDescriptions.get(description) ?? new Map<string, ServerDescription>()
  partialDescriptions.set(description, known)
  const key = parts.map(({ name }) => name).join()
  const partial = known.get(key) ?? describeAllServers(parts, description.front)
  known.set(key, partial)
  return partial
}

/** A document of some kind: how it is made, and the key under which it is kept for each description. */
export interface DocumentFormat<Made> {
  readonly key: string
  make(description: ServerDescription): Made
}

/** The document of a format for the server, or for all servers, at whose address the call is. */
export async function documentFor<Made>(
  feature: string,
  { key, make }: DocumentFormat<Made>,
  call: Call,
  deps: DescribingDeps,
): Promise<Made> {
  return deps.descriptions.document(await describedList(feature, call, deps), key, make)
}

/** The type of texts in Markdown, over HTTP. */
export const MARKDOWN = 'text/markdown; charset=utf-8'

/** Answers with a page in Markdown, which may be cached for some seconds. */
export function markdownPage(textOf: (call: Call) => Promise<string>, maxAge: number): Handler {
  return async (call) => pageOf({ text: await textOf(call), type: MARKDOWN, maxAge })
}
