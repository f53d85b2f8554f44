import type { Call } from '../core/call.ts'
import type { Entry, Listed } from '../core/entry.ts'
import type { UpstreamSettings } from '../core/settings.ts'
import { classify, classifyOwn, classifyUnlisted } from './classify.ts'
import type { OwnTool } from './own.ts'

type Definition = Readonly<Record<string, unknown>>
type Found<Value> = Value | undefined | Promise<Value | undefined>

interface Options {
  server(upstream: string): UpstreamSettings | undefined
  /** What a server's list says of the tool a call names. */
  tool(call: Call): Found<Listed>
  /** The gateway's own tool a call names. */
  own(call: Call): Found<OwnTool>
  /** A call as its one server gets it. */
  resolve(call: Call): Call | Promise<Call | undefined>
}

/** What is known of the tools of all servers. */
export interface Entries {
  /** The entry of the tool a call names; at once where the server's list is known. @throws what listing throws */
  of(call: Call): Found<Entry>
  /** The entry of a tool as a server lists it. */
  listed(upstream: string, definition: Definition): Entry | undefined
}

/** Makes entries of what servers list, once for each definition. */
export function createEntries({ server, tool, own, resolve }: Options): Entries {
  const entries = new WeakMap<Definition, Entry>()

  const listed = (upstream: string, definition: Definition): Entry | undefined => {
    const known = entries.get(definition)
    if (known) return known
    const settings = server(upstream)
    if (!settings) return undefined
    const nature = classify(definition, settings)
    const entry: Entry = { upstream, kind: 'tool', name: String(definition.name), definition, nature }
    entries.set(definition, entry)
    return entry
  }

  const unlisted = (upstream: string, definition: Definition): Entry | undefined => {
    const settings = server(upstream)
    if (!settings) return undefined
    const nature = classifyUnlisted(definition, settings)
    return { upstream, kind: 'tool', name: String(definition.name), definition, nature, isUnlisted: true }
  }

  const ofServer = (call: Call | undefined): Found<Entry> => {
    const upstream = call?.target.upstream
    if (!call || upstream === undefined) return undefined
    return after(tool(call), (found) =>
      found?.isUnlisted ? unlisted(upstream, found.definition) : found && listed(upstream, found.definition),
    )
  }

  return {
    listed,
    of: (call) =>
      after(own(call), (found): Found<Entry> => {
        if (found) return ownEntry(found)
        return call.target.upstream === undefined ? after(resolve(call), ofServer) : ofServer(call)
      }),
  }
}

function ownEntry({ definition }: OwnTool): Entry {
  const nature = classifyOwn(definition)
  return { upstream: '', kind: 'tool', name: definition.name, definition, nature, isOwn: true }
}

/** Goes on at once where a value is there at once. */
function after<In, Out>(
  value: In | Promise<In>,
  read: (value: In) => Out | Promise<Out>,
): Out | Promise<Out> {
  return value instanceof Promise ? value.then(read) : read(value)
}
