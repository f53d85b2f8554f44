import type { HttpBindings } from '@hono/node-server'
import type { Context, Hono } from 'hono'
import type { Handler } from '../core/call.ts'
import { GatewayError } from '../core/error.ts'
import { isObject } from '../core/json.ts'
import { Payload } from '../core/payload.ts'
import { checkNesting, parseJson } from '../wire/jsonrpc.ts'
import { askOwn } from './ask-own.ts'
import { wholeBody } from './body.ts'
import type { HttpContext } from './exchange.ts'

type Method = 'permissions/check' | 'permissions/negotiate'
type PermissionsEnv = { Bindings: HttpBindings }

interface PermissionsOptions {
  readonly handle: Handler
  /** The largest request body, in bytes. */
  limit(): number
  /** Serves a request of somebody who may make it. */
  guarded(context: Context<PermissionsEnv>, serve: (exchange: HttpContext) => Promise<void>): Promise<Response>
}

/** The paths by which one server is asked, or the one that `?upstream=` names, and what is asked by POST. */
const paths = [
  ['/permissions/negotiate', 'permissions/negotiate'],
  ['/permissions/:upstream/negotiate', 'permissions/negotiate'],
  ['/permissions', 'permissions/check'],
  ['/permissions/:upstream', 'permissions/check'],
] as const

/** Adds the paths at which permissions are asked about without MCP. */
export function addPermissions(app: Hono<PermissionsEnv>, { handle, limit, guarded }: PermissionsOptions): void {
  for (const [path, method] of paths) {
    app.post(path, (context) =>
      guarded(context, async (exchange) => {
        const text = await wholeBody(exchange.incoming, limit())
        return servePermissions(exchange, method, bodyParams(text), handle)
      }),
    )
    if (method === 'permissions/negotiate') continue
    app.get(path, (context) =>
      guarded(context, (exchange) =>
        servePermissions(exchange, method, queryParams(context.req.query()), handle),
      ),
    )
  }
}

/** Answers a request about permissions as the method of MCP with the same params does. @throws what that throws */
async function servePermissions(
  exchange: HttpContext,
  method: Method,
  params: Payload,
  handle: Handler,
): Promise<void> {
  const { text } = await askOwn(exchange, { method, params }, handle)
  const type = { 'content-type': 'application/json', 'cache-control': 'no-store' }
  exchange.outgoing.writeHead(200, { ...type, 'x-request-id': exchange.requestId }).end(text)
}

/** What to check, from the query of a URL: `tool`, and `scopes_held` with spaces or commas between. */
function queryParams(query: Readonly<Record<string, string>>): Payload {
  const { tool, scopes_held: held, parameters, arguments: args } = query
  return Payload.of({
    // No query can say them, and nobody shall take the answer for one about them.
    ...(parameters !== undefined && { parameters }),
    ...(args !== undefined && { arguments: args }),
    ...(tool !== undefined && { tool }),
    ...(held !== undefined && { scopes_held: held.split(/[\s,]+/).filter((scope) => scope !== '') }),
  })
}

/** What to check or negotiate, from the body of a request. @throws PARSE_ERROR, INVALID_REQUEST, INVALID_INPUT */
function bodyParams(text: string): Payload {
  const value = parseJson(text)
  checkNesting(text)
  if (isObject(value)) return Payload.text(text, value)
  throw new GatewayError('INVALID_INPUT', 'The body must be a JSON object.')
}
