import type { Call, Client } from '../core/call.ts'
import { canonical } from '../core/json.ts'
import type { UpstreamSettings } from '../core/settings.ts'
import type { Route } from './negotiate.ts'

/**
 * Calls with the same name share a connection: one era, one caller, in the older era one set of capabilities, and one
 * token where that is exchanged for the one the server gets.
 */
export function connectionNames(settings: UpstreamSettings): (call: Call, route: Route) => string {
  const { isolation, roots, reach } = settings
  // A session's client is the same object for all its calls.
  const known = new WeakMap<Client, string>()
  const nameFor = (call: Call): string => {
    // A server keeps the roots it was told, so those of one client are not for another.
    const isOwn =
      isolation === 'per_client' || (roots === 'client' && call.client.capabilities.roots !== undefined)
    const client = isOwn ? (call.client.session ?? '') : ''
    return `older ${canonical(declared(call, settings))} ${client} ${call.principal.id}`
  }
  const named = (call: Call, { era }: Route): string => {
    if (isolation === 'shared') return ''
    // The era stands in front, so that no name of a caller can be that of a connection of the other era.
    if (era === 'modern')
      return isolation === 'auto'
        ? `newer ${call.principal.id}`
        : `newer ${call.principal.id} ${call.client.session}`
    const found = known.get(call.client)
    if (found !== undefined) return found
    const name = nameFor(call)
    known.set(call.client, name)
    return name
  }
  const isExchanged = reach.kind === 'url' && reach.oauth?.grant === 'token_exchange'
  if (!isExchanged) return named
  return (call, route) => `${call.principal.token?.digest ?? ''} ${named(call, route)}`
}

/** What an older server is told of its client: exactly what the client said, roots only where configured. */
export function declared(
  call: Call,
  { isolation, roots }: UpstreamSettings,
): Readonly<Record<string, unknown>> {
  const { roots: offered, tasks, ...rest } = call.client.capabilities
  const own = isolation === 'shared' ? {} : rest
  const clientTasks =
    tasks !== undefined && call.client.era === 'legacy' && isolation !== 'shared' ? { tasks } : {}
  if (Array.isArray(roots)) return { ...own, ...clientTasks, roots: {} }
  const passed =
    roots === 'client' && offered !== undefined && isolation !== 'shared' ? { roots: offered } : {}
  return { ...own, ...clientTasks, ...passed }
}
