/** Answers `permissions/list`, and `GET /permissions` without a tool: the scopes of a caller, and the tools that it may call. */
import type { Handler } from '../../core/call.ts'
import { knownScopes } from '../../core/principal.ts'
import { within } from '../../core/time/waiting.ts'
import { answered } from '../builtin-tool.ts'
import type { Services } from '../feature.ts'
import { type Context, isInaccessible } from './gate.ts'
import { scopesToCheck } from './preflight.ts'

type Deps = Pick<Services, 'servers'>

/** How long servers may take to list their tools, in milliseconds. */
const LISTING_TIMEOUT_MS = 10_000

/** The handler: of the server at the address of a call, or of all. */
export function answerHeld(contextOf: (upstream: string) => Context, { servers }: Deps): Handler {
  return async (call) => {
    const { upstream } = call.target
    const names = upstream === undefined ? servers.names() : [upstream]
    const scopes = scopesToCheck(call)
    const lists = await Promise.all(names.map(async (name) => permittedTools(name, scopes)))
    const tools = lists.flatMap((list, index) => {
      return (list ?? []).map((tool) => servers.exposedName(names[index] ?? '', tool, upstream === undefined))
    })
    const unavailable = names.filter((_name, index) => !lists[index])
    return answered({
      scopes_held: [...(scopes ?? allScopes(names))].toSorted(),
      is_limited: scopes !== undefined,
      tools,
      ...(unavailable.length > 0 && { unavailable_servers: unavailable }),
      ...(!scopes && {
        reason: 'Scopes do not limit this caller. Only what the configuration denies is not permitted.',
      }),
    })
  }

  /** The tools of a server for which some arguments are permitted; undefined if the server does not list them in time. */
  async function permittedTools(
    name: string,
    scopes: ReadonlySet<string> | undefined,
  ): Promise<readonly string[] | undefined> {
    const settings = servers.settings(name)
    const listing = servers.tools(name).catch(() => undefined)
    const listed = await within(listing, LISTING_TIMEOUT_MS, undefined)
    const { gates, isOff } = contextOf(name)
    return listed
      ?.filter((tool) => isOff || (settings && !isInaccessible(gates(tool, settings), scopes)))
      .map((tool) => tool.name)
  }

  function allScopes(names: readonly string[]): ReadonlySet<string> {
    return new Set(
      names.flatMap((name) => {
        const settings = servers.settings(name)
        return settings ? [...knownScopes(settings)] : []
      }),
    )
  }
}
