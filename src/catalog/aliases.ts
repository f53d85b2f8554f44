/** Short names for tools whose names clients cannot take, and back again. */
import type { Call, Handler, Outcome } from '../core/call.ts'
import { isPlainName, namesByAlias } from '../core/text/alias.ts'
import type { ListedDefinition } from '../core/descriptor.ts'
import type { Payload } from '../core/payload.ts'
import { within } from '../core/time/waiting.ts'
import { listAllPages } from './pagination.ts'

interface AliasesOptions {
  /** What a server's list says of the tool a call names, by its name or its alias. */
  tool(call: Call): ListedDefinition | undefined | Promise<ListedDefinition | undefined>
  /** The handlers of the servers, by name. */
  readonly upstreams: ReadonlyMap<string, Handler>
}

/** How long a list may take before a name goes on as it is, in milliseconds. */
const LIST_TIMEOUT_MS = 5000
/** How long a prompt that is not listed stays unknown before the list is read again, in milliseconds. */
const UNKNOWN_TTL_MS = 10_000

/** Calls by alias reach what the alias stands for; a name a server has goes before the alias of another. */
export function withAliases(next: Handler, options: AliasesOptions): Handler {
  const promptOf = promptNames(options.upstreams)

  const nameOf = (call: Call, name: string): string | Promise<string> => {
    if (call.method !== 'tools/call') return patiently(promptOf(call, name), name)
    const tool = options.tool(call)
    if (!(tool instanceof Promise)) return listedName(tool) ?? name
    return patiently(
      tool.then((found) => listedName(found) ?? name),
      name,
    )
  }

  const later = async (call: Call, found: Promise<string>): Promise<Outcome> =>
    next(renamed(call, await found))

  const completing = async (call: Call, reference: Payload, prompt: string): Promise<Outcome> => {
    const real = await patiently(promptOf(call, prompt), prompt)
    return next({ ...call, params: referring(call.params, reference, real) })
  }

  return (call) => {
    const { name } = call.target
    const isTool = call.method === 'tools/call'
    if (isTool || call.method === 'prompts/get') {
      if (name === undefined || !isPlainName(name)) return next(call)
      const found = nameOf(call, name)
      return found instanceof Promise ? later(call, found) : next(renamed(call, found))
    }
    const reference = call.method === 'completion/complete' ? call.params.at('ref') : undefined
    const prompt = reference?.fields.name
    if (!reference || typeof prompt !== 'string' || !isPlainName(prompt)) return next(call)
    return completing(call, reference, prompt)
  }
}

/** Names of different tools or prompts of a server that have the same alias. */
export async function aliasCollisions(
  call: Call,
  upstreams: ReadonlyMap<string, Handler>,
): Promise<string[]> {
  const found: string[] = []
  for (const [upstream, handle] of upstreams) {
    for (const list of ['tools/list', 'prompts/list']) {
      const aimed = { ...call, target: { ...call.target, upstream } }
      const entries = await listAllPages(handle, aimed, list).catch(() => [])
      const shared = [...namesByAlias(namesIn(entries))].filter(([, names]) => names.length > 1)
      found.push(
        ...shared.map(
          ([alias, names]) =>
            `two tools or prompts have one name: ${alias} is the name of ${names.join(' and of ')} of ${upstream}`,
        ),
      )
    }
  }
  return found
}

function renamed(call: Call, name: string): Call {
  if (call.target.name === name) return call
  return { ...call, params: call.params.with({ name }), target: { ...call.target, name } }
}

function referring(params: Payload, reference: Payload, name: string): Payload {
  return reference.fields.name === name ? params : params.with({ ref: reference.with({ name }) })
}

function listedName(tool: ListedDefinition | undefined): string | undefined {
  const name = tool?.definition.name
  return typeof name === 'string' ? name : undefined
}

interface Known {
  readonly names: ReadonlySet<string>
  readonly byAlias: ReadonlyMap<string, readonly string[]>
  readonly at: number
}

/** Finds the prompt a name or an alias is of; the lists are read when a name is not known from them. */
function promptNames(upstreams: ReadonlyMap<string, Handler>): (call: Call, name: string) => Promise<string> {
  const known = new Map<string, Known>()

  const read = async (call: Call, upstream: string, handle: Handler): Promise<Known> => {
    const names = namesIn(await listAllPages(handle, { ...call, emit: () => undefined }, 'prompts/list'))
    const fresh = { names: new Set(names), byAlias: namesByAlias(names), at: Date.now() }
    known.set(upstream, fresh)
    return fresh
  }

  return async (call, name) => {
    const { upstream = '' } = call.target
    const handle = upstreams.get(upstream)
    if (!handle) return name
    let lists = known.get(upstream)
    const isNew = (each: Known): boolean => !each.names.has(name) && !each.byAlias.has(name)
    if (!lists || (isNew(lists) && Date.now() - lists.at > UNKNOWN_TTL_MS))
      lists = await read(call, upstream, handle)
    if (lists.names.has(name)) return name
    const [only, ...others] = lists.byAlias.get(name) ?? []
    return only !== undefined && others.length === 0 ? only : name
  }
}

function namesIn(entries: readonly Payload[]): string[] {
  return entries.flatMap(({ fields: { name } }) => (typeof name === 'string' ? [name] : []))
}

/** What is found in time, else the name as it is: a server that lists nothing may still do the call. */
function patiently(found: Promise<string>, name: string): Promise<string> {
  return within(
    found.catch(() => name),
    LIST_TIMEOUT_MS,
    name,
  )
}
