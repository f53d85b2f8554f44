/**
 * The names by which clients reach what the gateway answers itself: the tool, the method, and other names of both. Clients
 * written for the proposals of MCP extensions use the name of the tool, or one of the others, as tool and as method. No
 * list has the other names.
 */

/** What the gateway answers as a tool and as a method. */
interface OwnName {
  readonly tool: string
  readonly method: string
  /** Other names. */
  readonly others?: readonly string[]
}

/** All of them. A tool that is not here has the name of its method, or no method. */
export const ownNames: readonly OwnName[] = [
  { tool: 'get_manifest', method: 'manifest/get', others: ['capabilities'] },
  { tool: 'check_permissions', method: 'permissions/check', others: ['can_execute'] },
  { tool: 'negotiate_scopes', method: 'permissions/negotiate' },
  { tool: 'begin_transaction', method: 'transaction/begin', others: ['BEGIN_TRANSACTION'] },
  { tool: 'commit_transaction', method: 'transaction/commit', others: ['COMMIT_TRANSACTION', 'COMMIT'] },
  {
    tool: 'rollback_transaction',
    method: 'transaction/rollback',
    others: ['ROLLBACK_TRANSACTION', 'ROLLBACK'],
  },
  { tool: 'get_transaction', method: 'transaction/status' },
  { tool: 'export_result_ref', method: 'reference/export' },
  { tool: 'import_from_ref', method: 'reference/import' },
  { tool: 'recommend_servers', method: 'servers/recommend' },
  { tool: 'resume_operation', method: 'operation/resume' },
  { tool: 'subscribe_events', method: 'event/subscribe', others: ['subscribe'] },
  { tool: 'unsubscribe_events', method: 'event/unsubscribe', others: ['unsubscribe'] },
  { tool: 'list_events', method: 'event/list' },
  { tool: 'poll_events', method: 'event/poll' },
]

const tools: ReadonlyMap<string, string> = new Map(
  ownNames.flatMap(({ tool, others = [] }) => others.map((name) => [name, tool] as const)),
)

const methods: ReadonlyMap<string, string> = new Map(
  ownNames.flatMap(({ tool, method, others = [] }) =>
    [tool, ...others].map((name) => [name, method] as const),
  ),
)

/** The tool of the gateway that has this other name. */
export function toolNamed(name: string): string | undefined {
  return tools.get(name)
}

/** The method of the gateway that has this other name. */
export function methodNamed(name: string): string | undefined {
  return methods.get(name)
}
