/**
 * Names under which servers list their tools and prompts. Clients may also use aliases, short names in snake case; a
 * listed name takes precedence over an alias, and an alias of several names is none.
 */
import { listAllPages } from '../protocol/listing.ts'
import type { Call, Handler } from '../core/call.ts'
import type { ListedTool } from '../protocol/found-tool.ts'
import { withLastKnown } from './last-known.ts'
import { Payload } from '../core/payload.ts'
import { namesByAlias } from '../core/text/alias.ts'
import { world } from '../core/world.ts'

/** How long an unlisted prompt is considered unknown before the list is read again, in milliseconds. */
const UNKNOWN_TTL_MS = 10_000
/** How long a server may take to list its prompts before its last list is used, in milliseconds. */
const LIST_TIMEOUT_MS = 5000

/**
 * The listed name of the tool or prompt that a call of a server names; undefined if the server does not list it, or lists
 * nothing. @throws the error of listing
 */
export type ListedName = (call: Call) => string | undefined | Promise<string | undefined>

/**
 * Finds the listed names of tools and prompts: of tools by their list entries, which `tool` finds by name or alias, and of
 * prompts by the lists of the servers.
 */
export function listedNames(
  tool: (call: Call) => ListedTool | undefined | Promise<ListedTool | undefined>,
  upstreams: ReadonlyMap<string, Handler>,
): ListedName {
  const promptOf = promptNames(upstreams)
  return (call) => {
    if (call.target.method !== 'tools/call') return promptOf(call, call.target.name ?? '')
    const found = tool(call)
    return found instanceof Promise ? found.then(nameOf) : nameOf(found)
  }
}

/** The call, as one that names this tool or prompt of a server. */
export function itemCall(call: Call, kind: ItemMethod, { upstream, name }: NamedItem): Call {
  const target = { method: kind, name, ...(upstream !== undefined && { upstream }) }
  return { ...call, method: kind, params: Payload.of({ name }), target, emit: () => undefined }
}

/** The methods whose target is a tool or a prompt. */
export type ItemMethod = 'tools/call' | 'prompts/get'

interface NamedItem {
  readonly upstream?: string | undefined
  readonly name: string
}

/** The name under which a server lists a tool; undefined for one that it does not list. */
export function nameOf(found: ListedTool | undefined): string | undefined {
  const name = found?.isUnlisted === true ? undefined : found?.definition.name
  return typeof name === 'string' ? name : undefined
}

interface Known {
  readonly names: ReadonlySet<string>
  readonly byAlias: ReadonlyMap<string, readonly string[]>
  readonly at: number
}

/** Finds the prompt of a name or an alias; the lists are read if the name is unknown. */
function promptNames(
  upstreams: ReadonlyMap<string, Handler>,
): (call: Call, name: string) => Promise<string | undefined> {
  const known = new Map<string, Known>()

  const read = async (call: Call, upstream: string, handle: Handler): Promise<Known> => {
    const names = namesIn(
      await listAllPages(
        withLastKnown(handle, LIST_TIMEOUT_MS),
        { ...call, emit: () => undefined },
        'prompts/list',
      ),
    )
    const fresh = { names: new Set(names), byAlias: namesByAlias(names), at: world.now() }
    known.set(upstream, fresh)
    return fresh
  }

  return async (call, name) => {
    const { upstream = '' } = call.target
    const handle = upstreams.get(upstream)
    if (!handle) return undefined
    let lists = known.get(upstream)
    const isNew = (known: Known): boolean => !known.names.has(name) && !known.byAlias.has(name)
    if (!lists || (isNew(lists) && world.now() - lists.at > UNKNOWN_TTL_MS))
      lists = await read(call, upstream, handle)
    if (lists.names.has(name)) return name
    const [only, ...others] = lists.byAlias.get(name) ?? []
    return others.length === 0 ? only : undefined
  }
}

/** The names of list entries. */
export function namesIn(entries: readonly Payload[]): string[] {
  return entries.flatMap(({ fields: { name } }) => (typeof name === 'string' ? [name] : []))
}
