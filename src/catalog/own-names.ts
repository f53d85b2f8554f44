/**
 * The names by which clients reach what the gateway answers itself: the tool, the method, and other names of both. Clients
 * written for the proposals of MCP extensions use the name of the tool, or one of the others, as tool and as method. No
 * list has the other names.
 */

/** What the gateway answers: the name of its tool, the method, and other names. */
type Row = readonly [tool: string, method: string, ...others: string[]]

/** All of them. A tool that is not here has the name of its method, or no method. */
export const ownNames: readonly Row[] = [
  ['get_manifest', 'manifest/get', 'capabilities'],
  ['check_permissions', 'permissions/check', 'can_execute'],
  ['negotiate_scopes', 'permissions/negotiate'],
  ['begin_transaction', 'transaction/begin', 'BEGIN_TRANSACTION'],
  ['commit_transaction', 'transaction/commit', 'COMMIT_TRANSACTION', 'COMMIT'],
  ['rollback_transaction', 'transaction/rollback', 'ROLLBACK_TRANSACTION', 'ROLLBACK'],
  ['get_transaction', 'transaction/status'],
  ['export_result_ref', 'reference/export'],
  ['import_from_ref', 'reference/import'],
  ['recommend_servers', 'servers/recommend'],
  ['resume_operation', 'operation/resume'],
  ['subscribe_events', 'event/subscribe', 'subscribe'],
  ['unsubscribe_events', 'event/unsubscribe', 'unsubscribe'],
  ['list_events', 'event/list'],
  ['poll_events', 'event/poll'],
]

const tools: ReadonlyMap<string, string> = new Map(
  ownNames.flatMap(([tool, _method, ...others]) => others.map((name) => [name, tool] as const)),
)

const methods: ReadonlyMap<string, string> = new Map(
  ownNames.flatMap(([tool, method, ...others]) => [tool, ...others].map((name) => [name, method] as const)),
)

/** The tool of the gateway that has this other name. */
export function toolNamed(name: string): string | undefined {
  return tools.get(name)
}

/** The method of the gateway that has this other name. */
export function methodNamed(name: string): string | undefined {
  return methods.get(name)
}
