import type { HttpBindings } from '@hono/node-server'
import type { Context, Hono } from 'hono'
import type { Handler } from '../core/call.ts'
import { GatewayError } from '../core/error.ts'
import { isObject } from '../core/json.ts'
import { Payload } from '../core/payload.ts'
import { checkNesting, parseJson } from '../wire/jsonrpc.ts'
import { askOwn } from './ask-own.ts'
import { wholeBody } from './body.ts'
import type { Exchange } from './exchange.ts'

type Method = 'permissions/check' | 'permissions/negotiate'
type Env = { Bindings: HttpBindings }

interface Options {
  readonly handle: Handler
  /** The largest request body, in bytes. */
  limit(): number
  /** Serves a request of somebody who may make it. */
  guarded(context: Context<Env>, serve: (exchange: Exchange) => Promise<void>): Promise<Response>
}

/** Adds the paths at which permissions are asked about without MCP. */
export function addPermissions(app: Hono<Env>, { handle, limit, guarded }: Options): void {
  app.get('/permissions', (context) =>
    guarded(context, (exchange) =>
      servePermissions(exchange, 'permissions/check', queryParams(context.req.query()), handle),
    ),
  )
  for (const [path, method] of [
    ['/permissions', 'permissions/check'],
    ['/permissions/negotiate', 'permissions/negotiate'],
  ] as const) {
    app.post(path, (context) =>
      guarded(context, async (exchange) => {
        const text = await wholeBody(exchange.incoming, limit())
        return servePermissions(exchange, method, bodyParams(text), handle)
      }),
    )
  }
}

/** Answers a request about permissions as the method of MCP with the same params does. @throws what that throws */
async function servePermissions(
  exchange: Exchange,
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
