/**
 * The paths where other services send webhooks. They carry no token: a signature of the body authenticates them. The
 * response is 202 once the webhook is stored; the work that it causes comes after.
 */
import type { HttpBindings } from '@hono/node-server'
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import type { Context, Hono } from 'hono'
import type { IncomingHttpHeaders } from 'node:http'
import { asGatewayError } from '../../core/error.ts'
import type { Refusal } from '../../core/events.ts'
import type { Log } from '../../core/log.ts'
import { wholeBody } from './body.ts'
import type { Edge } from './edge.ts'
import { refuse, requestId } from './endpoint.ts'

/** A webhook as it arrived. The body is the text of its bytes, which were valid UTF-8. */
interface ArrivedHook {
  /** Absent for a webhook of no server. */
  readonly server?: string
  readonly name: string
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

/** Verifies and stores a webhook. @throws GatewayError if it is refused */
export type ReceiveHook = (hook: ArrivedHook) => Promise<void>

interface Options {
  edge(): Edge
  readonly receive: ReceiveHook
  readonly onRefused?: ((refusal: Refusal) => void) | undefined
  readonly log: Log
}

type Env = { Bindings: HttpBindings }

/** Adds the paths of webhooks. */
export function addHooks(app: Hono<Env>, { edge, receive, onRefused, log }: Options): void {
  const answer = async ({ env: { incoming, outgoing }, req }: Context<Env>): Promise<Response> => {
    const server = req.param('server')
    const name = req.param('name') ?? ''
    const id = requestId(incoming)
    try {
      const body = await wholeBody(incoming, edge().runtime.listen.body)
      await receive({ ...(server !== undefined && { server }), name, headers: incoming.headers, body })
      outgoing.writeHead(202, { 'x-request-id': id }).end()
    } catch (error) {
      refuse(outgoing, asGatewayError(error), { id: 'null', requestId: id, log, onRefused })
    }
    return RESPONSE_ALREADY_SENT
  }
  app.post('/hooks/:server/:name', answer)
  app.post('/hooks/:name', answer)
}
