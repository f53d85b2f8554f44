/** The route of the front page: who reads it, and what they may see. */
import type { HttpBindings } from '@hono/node-server'
import type { Context, Hono } from 'hono'
import { isProtected } from '../../core/auth-settings.ts'
import { asGatewayError, GatewayError } from '../../core/error.ts'
import { anonymous, type Principal } from '../../core/principal.ts'
import type { Refusal } from '../../core/events.ts'
import type { Edge } from '../http/edge.ts'
import { documentAt } from '../http/routes.ts'
import { frontPageHeaders } from './front-page.ts'

/** Who looks at the page, and what for. */
export interface Reader {
  /** Absent for a stranger where callers are told apart. */
  readonly principal?: Principal
  /** Why the reader was not let in. */
  readonly problem?: string
  readonly query: string
}

type Env = { Bindings: HttpBindings }

interface Options {
  edge(): Edge
  /** Who has the credentials of a request; the answer to one that is refused gets its challenge. @throws what it is refused with */
  enter(context: Context<Env>): Promise<Principal>
  /** The person whose session in the browser a request belongs to. */
  signedIn(context: Context<Env>): Promise<Principal | undefined>
  page(reader: Reader): Promise<string>
  onRefused?: ((refusal: Refusal) => void) | undefined
}

/** Adds the page for people. It is open to all; anonymous readers see less. */
export function addFrontPage(app: Hono<Env>, options: Options): void {
  const { edge, enter, signedIn, page, onRefused } = options
  app.get('/', async (context) => {
    const { req, env } = context
    const { auth, documents } = edge().runtime
    const query = req.query('q') ?? ''
    const link = documentAt('/llms.txt', documents) && { link: '</llms.txt>; rel="llms-help"' }
    const sent = { ...frontPageHeaders, ...link }
    if (!isProtected(auth)) return context.html(await page({ principal: anonymous, query }), 200, sent)
    const isEntering = req.query('sign-in') !== undefined || req.header('authorization') !== undefined
    if (!isEntering) {
      // The page shows the state of the gateway: it is there even where the store is not.
      const person = await signedIn(context).catch(() => undefined)
      return context.html(await page({ query, ...(person && { principal: person }) }), 200, sent)
    }
    const found = await enter(context).catch(asGatewayError)
    if (!(found instanceof GatewayError))
      return context.html(await page({ principal: found, query }), 200, sent)
    const requestId = String(env.incoming.headers['x-request-id'])
    const address = env.incoming.socket.remoteAddress
    onRefused?.({ requestId, error: found, request: 'GET /', address })
    return context.html(await page({ problem: found.message, query }), statusOf(found.httpStatus), sent)
  })
}

const statuses = [400, 401, 403, 429, 503] as const

function statusOf(status: number): (typeof statuses)[number] | 500 {
  return statuses.find((each) => each === status) ?? 500
}
