/**
 * The paths where other services, and servers with events of their own, send webhooks. They carry no token: a signature
 * of the body authenticates them. The response is 202 once the webhook is stored, or 200 with what its sender expects;
 * the work that it causes comes after.
 */
import type { HttpBindings } from '@hono/node-server'
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import type { Context, Hono } from 'hono'
import type { IncomingHttpHeaders } from 'node:http'
import { asGatewayError } from '../../core/error.ts'
import type { Refusal } from '../../core/events.ts'
import type { Log } from '../../core/log.ts'
import type { Edge } from './edge.ts'
import { refuse, requestId } from './endpoint.ts'

/** A webhook whose body has not been read. */
interface ArrivingHook {
  /** Absent for a webhook of no server. */
  readonly server?: string
  readonly name: string
  /** Set for the events that the server has itself. */
  readonly isOfServer?: true
  readonly headers: IncomingHttpHeaders
  /** Reads the body, the text of its bytes. @throws if they are not valid UTF-8, are too many, or do not arrive */
  body(): Promise<string>
}

/** Verifies and stores a webhook; resolves with an answer for its sender. @throws GatewayError if it is refused */
export type ReceiveHook = (hook: ArrivingHook) => Promise<Readonly<Record<string, unknown>> | undefined>

/** The largest body that servers send, in bytes (SEP-3415). */
const MAX_EVENT_BYTES = 256 * 1024

interface Options {
  edge(): Edge
  readonly receive: ReceiveHook
  readonly onRefused?: ((refusal: Refusal) => void) | undefined
  readonly log: Log
}

type Env = { Bindings: HttpBindings }

/** Adds the paths of webhooks. */
export function addHooks(app: Hono<Env>, { edge, receive, onRefused, log }: Options): void {
  const answer =
    (isOfServer: boolean) =>
    async (context: Context<Env>): Promise<Response> => {
      const { incoming, outgoing } = context.env
      const server = context.req.param('server')
      const name = context.req.param('name') ?? ''
      const id = requestId(incoming)
      try {
        const { bodies, runtime } = edge()
        const { body: largest } = runtime.listen
        const limit = isOfServer ? Math.min(largest, MAX_EVENT_BYTES) : largest
        const result = await receive({
          ...(server !== undefined && { server }),
          name,
          ...(isOfServer && { isOfServer }),
          headers: incoming.headers,
          body: () => bodies.json(incoming, { limit }),
        })
        const type = result && { 'content-type': 'application/json' }
        outgoing.writeHead(result ? 200 : 202, { 'x-request-id': id, ...type })
        outgoing.end(result && JSON.stringify(result))
      } catch (error) {
        refuse(outgoing, asGatewayError(error), { id: 'null', requestId: id, edge: edge(), log, onRefused })
      }
      return RESPONSE_ALREADY_SENT
    }
  app.post('/hooks/:server/events/:name', answer(true))
  app.post('/hooks/:server/:name', answer(false))
  app.post('/hooks/:name', answer(false))
}
