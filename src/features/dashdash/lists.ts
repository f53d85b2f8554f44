import type { Call, Outcome, Middleware } from '../../core/call.ts'
import type { Definition } from '../../core/record.ts'
import { Payload } from '../../core/payload.ts'
import { listedResourceObject, listedToolObject } from '../../documents/dashdash.ts'
import type { ServerDescription } from '../../documents/portrait.ts'
import { toolNotes } from '../../documents/tool-notes.ts'
import { isAskedFor, withoutFlag } from '../../wire/extensions.ts'
import { method } from '../../wire/methods.ts'
import { descriptionSoon } from '../discovered.ts'
import type { Deps } from '../feature.ts'
import { META_KEY, NAME } from './settings.ts'

/** A list as it came, and as it was described; for other texts or another portrait it is described anew. */
interface Described {
  readonly description: ServerDescription
  readonly source: Payload
  readonly entries: string
  readonly result: Payload
  readonly list: Payload
}

/** How many described lists are kept: of callers who see different ones, and of single pages. */
const MAX_CACHED_LISTS = 8

const described: ReadonlySet<string> = new Set(['tools/list', 'resources/list', 'resources/templates/list'])

/** Describes the entries of the lists a method asks for, if it does; the same list is described and encoded once. */
export function describeLists(
  deps: Deps,
  isOn: (upstream?: string) => boolean,
): (asked: string) => Middleware | undefined {
  const known = new Map<string, readonly Described[]>()

  const show = (call: Call, outcome: Outcome, description: ServerDescription | undefined): Outcome => {
    const key = method(call.method).list
    if (outcome.kind === 'input_required' || !description || key === undefined) return outcome
    const { result } = outcome
    const isInMeta = isAskedFor(call, META_KEY)
    const slot = `${call.target.upstream ?? ''} ${key} ${isInMeta}`
    const all = known.get(slot)?.filter((each) => each.description === description) ?? []
    // The same text is most often the same list of the same server.
    const same = all.find(({ source }) => source === result || source.text === result.text)
    if (same) return { kind: 'result', result: same.result }
    const list = result.at(key)
    if (!list || !Array.isArray(list.value)) return outcome
    const alike = all.find(({ entries }) => entries === list.text)
    const made = alike?.list ?? describedList(list, { key, description, deps, isInMeta })
    const shown = result.with({ [key]: made })
    if (!alike) {
      const added = { description, source: result, entries: list.text, result: shown, list: made }
      known.set(slot, [added, ...all].slice(0, MAX_CACHED_LISTS))
    }
    return { kind: 'result', result: shown }
  }

  const policy: Middleware = (next) => (call) => {
    if (!isOn(call.target.upstream)) return next(call)
    return next(withoutFlag(call, META_KEY)).then((outcome) => {
      const description = descriptionSoon(NAME, call, deps)
      return description instanceof Promise
        ? description.then((found) => show(call, outcome, found))
        : show(call, outcome, description)
    })
  }
  return (asked) => (described.has(asked) ? policy : undefined)
}

interface About {
  readonly key: string
  readonly description: ServerDescription
  readonly deps: Deps
  /** Whether it also stands in `_meta`. */
  readonly isInMeta: boolean
}

function describedList(list: Payload, about: About): Payload {
  const objectOf = about.key === 'tools' ? toolObjects(about) : resourceObjects(about)
  const notesOf = about.key === 'tools' ? toolNotesOf(about) : () => undefined
  const texts = list.items.map((entry) => {
    const object = objectOf(entry.fields)
    if (!object) return entry.text
    // Encoded once, though it may stand in two places.
    const encoded = Payload.text(JSON.stringify(object), object)
    const notes = { ...(about.isInMeta && { [META_KEY]: encoded }), ...notesOf(entry.fields) }
    const described = entry.with({ dashdash: encoded })
    return (Object.keys(notes).length > 0 ? described.withMeta(notes) : described).text
  })
  return Payload.text(`[${texts.join(',')}]`)
}

type ObjectOf = (definition: Definition) => Definition | undefined

function toolObjects({ description, deps }: About): ObjectOf {
  const objects = deps.document(description, 'tools', ({ tools }) =>
    tools.map((tool) => [tool.name, listedToolObject(tool)] as const),
  )
  const byName = new Map(objects)
  return ({ name }) => (typeof name === 'string' ? byName.get(name) : undefined)
}

/** What else stands in `_meta` of a tool: costs, latency, media. */
function toolNotesOf({ description, deps }: About): ObjectOf {
  const notes = new Map(
    deps.document(description, 'notes', ({ tools }) =>
      tools.map((tool) => [tool.name, toolNotes(tool)] as const),
    ),
  )
  return ({ name }) => (typeof name === 'string' ? notes.get(name) : undefined)
}

function resourceObjects({ description, deps }: About): ObjectOf {
  // What one server can do says nothing of another.
  const servers = description.parts.length > 0 ? description.parts : [description]
  const objects = deps.document(description, 'resources', () =>
    servers.flatMap(({ canSubscribe, resources, templates }) =>
      [...resources, ...templates].map(
        (each) => [String(each.uri ?? each.uriTemplate), listedResourceObject(each, canSubscribe)] as const,
      ),
    ),
  )
  const byUri = new Map(objects)
  return ({ uri, uriTemplate }) => byUri.get(String(uri ?? uriTemplate))
}
