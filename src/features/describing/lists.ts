/** Descriptions in the dashdash format, in lists and in `server/discover`. */
import { NS } from '../../core/identity.ts'
import type { Call, Outcome, Middleware } from '../../core/call.ts'
import type { EntryDefinition } from '../../core/descriptor.ts'
import { Payload } from '../../core/payload.ts'
import {
  serverObject,
  specVersion,
  listedResourceObject,
  listedToolObject,
  withOwnWords,
  withServerWords,
} from '../../descriptions/formats/dashdash.ts'
import { skillUri } from '../../descriptions/formats/skill.ts'
import { MEDIA_KEY, mediaMembers, toolNotes } from '../../descriptions/formats/manifest.ts'
import type { ServerDescription } from '../../descriptions/model/description.ts'
import { isAskedFor, withoutFlag } from '../../protocol/meta-keys.ts'
import { method } from '../../protocol/methods.ts'
import type { Feature } from '../feature.ts'
import { dashdashSchema } from '../settings/describe.ts'
import { type DescribingDeps, descriptionSoon, extendDiscover } from './documents.ts'

/** The name of the feature. */
const { name: NAME } = dashdashSchema

/** The feature can only be on or off. */
type Settings = Readonly<Record<never, never>>

/** The `_meta` key of the objects, and the name of the extension. */
const META_KEY = `${NS}/dashdash`

/** Describes servers, tools and resources for authors of skills. */
export const dashdash: Feature<Settings | false> = {
  ...dashdashSchema,
  create: (settings, deps) => {
    const discoverMiddleware = extendDiscover(async (call) => {
      const { upstream } = call.target
      if (settings(upstream) === false) return undefined
      const description = await descriptionSoon(NAME, call, deps)
      if (!description) return undefined
      const object = deps.descriptions.document(description, 'server', serverObject)
      return {
        extended: { dashdash: (own) => withServerWords(object, own, isTrusted(upstream, deps)) },
        meta: { [META_KEY]: object },
        extensions: { [META_KEY]: { specVersion, aiHelp: description.front.hasHelp } },
        instructions: [
          deps.descriptions.document(description, 'purpose', ({ purpose }) => purpose),
          guideOf(description),
        ],
      }
    })
    const lists = describeLists(deps, (upstream) => settings(upstream) !== false)
    return {
      responseMiddleware: (method) => (method === 'server/discover' ? discoverMiddleware : lists(method)),
    }
  },
}

function isTrusted(upstream: string | undefined, { servers }: Pick<DescribingDeps, 'servers'>): boolean {
  return upstream !== undefined && servers.settings(upstream)?.trust === true
}

/** Where the guide is, for models that only use what lists contain. */
function guideOf(description: ServerDescription): string {
  const { isHelpListed, isSkillListed } = description.front
  if (isHelpListed) return 'Call `ai_help` for the guide.'
  return isSkillListed ? `The guide is the resource \`${skillUri(description)}\`.` : ''
}

/** A list, and its described form; reused for the same text and description. */
interface Described {
  readonly description: ServerDescription
  readonly source: Payload
  readonly entries: string
  readonly result: Payload
  readonly list: Payload
}

/** How many described lists are cached, for callers with different lists and for single pages. */
const MAX_CACHED_LISTS = 8

const described: ReadonlySet<string> = new Set(['tools/list', 'resources/list', 'resources/templates/list'])

/** Describes the entries of the lists of a method; the same list is described and encoded once. */
export function describeLists(
  deps: DescribingDeps,
  isOn: (upstream?: string) => boolean,
): (methodName: string) => Middleware | undefined {
  const known = new Map<string, readonly Described[]>()

  const describe = (call: Call, outcome: Outcome, description: ServerDescription | undefined): Outcome => {
    const key = method(call.method).list
    if (outcome.kind !== 'result' || !description || key === undefined) return outcome
    const { result } = outcome
    const isInMeta = isAskedFor(call, META_KEY)
    const isMediaAsked = isAskedFor(call, MEDIA_KEY)
    const slot = `${call.target.upstream ?? ''} ${key} ${isInMeta} ${isMediaAsked}`
    const all = known.get(slot)?.filter((each) => each.description === description) ?? []
    // The same text is usually the same list of the same server.
    const same = all.find(({ source }) => source === result || source.text === result.text)
    if (same) return { kind: 'result', result: same.result }
    const list = result.at(key)
    if (!list || !Array.isArray(list.value)) return outcome
    const sameEntries = all.find(({ entries }) => entries === list.text)
    const newList =
      sameEntries?.list ?? describedList(list, { key, description, deps, isInMeta, isMediaAsked })
    const describedResult = result.with({ [key]: newList })
    if (!sameEntries) {
      const added = {
        description,
        source: result,
        entries: list.text,
        result: describedResult,
        list: newList,
      }
      known.set(slot, [added, ...all].slice(0, MAX_CACHED_LISTS))
    }
    return { kind: 'result', result: describedResult }
  }

  const middleware: Middleware = (next) => (call) => {
    if (!isOn(call.target.upstream)) return next(call)
    // Both may wait for the same server, so they do at the same time.
    const description = descriptionSoon(NAME, call, deps)
    return next(withoutFlag(withoutFlag(call, META_KEY), MEDIA_KEY)).then((outcome) =>
      description instanceof Promise
        ? description.then((found) => describe(call, outcome, found))
        : describe(call, outcome, description),
    )
  }
  return (methodName) => (described.has(methodName) ? middleware : undefined)
}

interface ListContext {
  readonly key: string
  readonly description: ServerDescription
  readonly deps: DescribingDeps
  /** Whether the object is also added to `_meta`. */
  readonly isInMeta: boolean
  /** Whether the client asks for media types as members of tools. */
  readonly isMediaAsked: boolean
}

function describedList(list: Payload, context: ListContext): Payload {
  const objectOf = context.key === 'tools' ? toolObjects(context) : resourceObjects(context)
  const isTrustedOf = context.key === 'tools' ? trustOfTools(context) : () => true
  const notesOf = context.key === 'tools' ? toolNotesOf(context) : () => undefined
  const media = context.key === 'tools' ? mediaIn(context) : () => undefined
  const texts = list.items.map((entry) => {
    const derived = objectOf(entry.fields)
    if (!derived) return entry.text
    const object = withOwnWords(derived, entry.fields, isTrustedOf(entry.fields))
    // Encoded once, though it may appear in two places.
    const encoded = Payload.text(JSON.stringify(object), object)
    const notes = { ...(context.isInMeta && { [META_KEY]: encoded }), ...notesOf(entry.fields) }
    const described = entry.with({ ...missingIn(entry.fields, media(entry.fields)), dashdash: encoded })
    return (Object.keys(notes).length > 0 ? described.withMeta(notes) : described).text
  })
  return Payload.text(`[${texts.join(',')}]`)
}

/** The members that an entry does not have. */
function missingIn(entry: EntryDefinition, members: EntryDefinition = {}): EntryDefinition {
  return Object.fromEntries(Object.entries(members).filter(([key]) => !Object.hasOwn(entry, key)))
}

type ObjectOf = (definition: EntryDefinition) => EntryDefinition | undefined

function toolObjects({ description, deps }: ListContext): ObjectOf {
  return byName(
    deps.descriptions.document(description, 'tools', ({ tools }) =>
      tools.map((tool) => [tool.name, listedToolObject(tool)] as const),
    ),
  )
}

/** Finds what belongs to the name of an entry. */
function byName<Found>(
  found: readonly (readonly [string, Found])[],
): (definition: EntryDefinition) => Found | undefined {
  const named = new Map(found)
  return ({ name }) => (typeof name === 'string' ? named.get(name) : undefined)
}

/** Whether the server of a tool is trusted. */
function trustOfTools({ description, deps }: ListContext): (definition: EntryDefinition) => boolean {
  const ownerOf = byName(description.tools.map(({ name, upstream }) => [name, upstream] as const))
  return (definition) => isTrusted(ownerOf(definition), deps)
}

/** Further members of a tool's `_meta`: costs, latency, media. */
function toolNotesOf({ description, deps }: ListContext): ObjectOf {
  return byName(
    deps.descriptions.document(description, 'notes', ({ tools }) =>
      tools.map((tool) => [tool.name, toolNotes(tool)] as const),
    ),
  )
}

/** The media of a tool as members of its entry, where clients get them. */
function mediaIn({ description: { tools }, isMediaAsked }: ListContext): ObjectOf {
  return byName(tools.map((tool) => [tool.name, mediaMembers(tool, isMediaAsked)] as const))
}

function resourceObjects({ description, deps }: ListContext): ObjectOf {
  // The capabilities of one server say nothing about another.
  const servers = description.parts.length > 0 ? description.parts : [description]
  const objects = deps.descriptions.document(description, 'resources', () =>
    servers.flatMap((server) =>
      [...server.resources, ...server.templates].map(
        (each) => [String(each.uri ?? each.uriTemplate), listedResourceObject(each, server)] as const,
      ),
    ),
  )
  const byUri = new Map(objects)
  return ({ uri, uriTemplate }) => byUri.get(String(uri ?? uriTemplate))
}
