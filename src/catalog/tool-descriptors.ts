/** Descriptors of what calls name, from the lists of servers; cached by definition. */
import type { Call } from '../core/call.ts'
import type { Descriptor, ListedDefinition } from '../core/descriptor.ts'
import type { UpstreamSettings } from '../core/settings.ts'
import { classify, classifyBuiltin, classifyUnlisted } from './classify.ts'
import type { BuiltinTool } from './builtins.ts'

type Definition = Readonly<Record<string, unknown>>
type Found<Value> = Value | undefined | Promise<Value | undefined>

interface Options {
  server(upstream: string): UpstreamSettings | undefined
  /** What a server's list says of the tool a call names. */
  tool(call: Call): Found<ListedDefinition>
  /** The gateway's own tool a call names. */
  own(call: Call): Found<BuiltinTool>
  /** A call as its one server gets it. */
  resolve(call: Call): Call | Promise<Call | undefined>
}

/** What is known of the tools of all servers. */
export interface Descriptors {
  /** The entry of the tool a call names; at once where the server's list is known. @throws what listing throws */
  of(call: Call): Found<Descriptor>
  /** The entry of a tool as a server lists it. */
  listed(upstream: string, definition: Definition): Descriptor | undefined
}

/** Makes entries of what servers list, once for each definition. */
export function createDescriptors({ server, tool, own, resolve }: Options): Descriptors {
  const entries = new WeakMap<Definition, Descriptor>()

  const listed = (upstream: string, definition: Definition): Descriptor | undefined => {
    const known = entries.get(definition)
    if (known) return known
    const settings = server(upstream)
    if (!settings) return undefined
    const classification = classify(definition, settings)
    const entry: Descriptor = {
      upstream,
      kind: 'tool',
      name: String(definition.name),
      definition,
      classification: classification,
    }
    entries.set(definition, entry)
    return entry
  }

  const unlisted = (upstream: string, definition: Definition): Descriptor | undefined => {
    const settings = server(upstream)
    if (!settings) return undefined
    const classification = classifyUnlisted(definition, settings)
    return {
      upstream,
      kind: 'tool',
      name: String(definition.name),
      definition,
      classification: classification,
      isUnlisted: true,
    }
  }

  const ofServer = (call: Call | undefined): Found<Descriptor> => {
    const upstream = call?.target.upstream
    if (!call || upstream === undefined) return undefined
    return after(tool(call), (found) =>
      found?.isUnlisted ? unlisted(upstream, found.definition) : found && listed(upstream, found.definition),
    )
  }

  return {
    listed,
    of: (call) =>
      after(own(call), (found): Found<Descriptor> => {
        if (found) return ownEntry(found)
        return call.target.upstream === undefined ? after(resolve(call), ofServer) : ofServer(call)
      }),
  }
}

function ownEntry({ definition }: BuiltinTool): Descriptor {
  const classification = classifyBuiltin(definition)
  return {
    upstream: '',
    kind: 'tool',
    name: definition.name,
    definition,
    classification: classification,
    isBuiltin: true,
  }
}

/** Goes on at once where a value is there at once. */
function after<In, Out>(
  value: In | Promise<In>,
  read: (value: In) => Out | Promise<Out>,
): Out | Promise<Out> {
  return value instanceof Promise ? value.then(read) : read(value)
}
