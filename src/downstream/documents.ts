import { createHash } from 'node:crypto'
import type { HttpBindings } from '@hono/node-server'
import type { Context, Hono } from 'hono'
import { type AuthSettings, isProtected } from '../core/auth-settings.ts'
import type { Handler } from '../core/call.ts'
import { Payload } from '../core/payload.ts'
import { anonymous, type Principal } from '../core/principal.ts'
import { pageMethod } from '../wire/methods.ts'
import { askOwn } from './ask-own.ts'
import type { HttpContext } from './exchange.ts'

/** A path documents are read at; `*` stands for the name of a server. */
export interface DocumentPath {
  readonly path: string
  /** Whether nobody has to say who they are to read it. */
  isOpen?(): boolean
}

type Env = { Bindings: HttpBindings }

interface Options {
  /** The paths there are just then. */
  readonly paths: () => readonly DocumentPath[]
  readonly handle: Handler
  /** Serves a request of somebody who may make it, for the server that is named. */
  guarded(
    context: Context<Env>,
    serve: (exchange: HttpContext) => Promise<void>,
    asked: RequestedDocument,
  ): Promise<Response>
}

/** Whose document is asked for, and whether anybody may read it. */
export interface RequestedDocument {
  readonly upstream: string | undefined
  readonly isOpen: boolean
}

/** Serves the documents of the gateway, which are what a handler answers, as pages that can be kept for a while. */
export function addDocuments(app: Hono<Env>, { paths, handle, guarded }: Options): void {
  app.get('/*', async (context, next) => {
    const { path } = context.req
    const found = documentAt(path, paths())
    if (!found) return next()
    const { document, upstream = context.req.query('upstream') } = found
    return guarded(
      context,
      async (exchange) => {
        const { upstream: _named, ...query } = context.req.query()
        const asked = { method: pageMethod(document.path), params: Payload.of(query) }
        tell(exchange, (await askOwn(exchange, asked, handle)).fields)
      },
      { upstream, isOpen: document.isOpen?.() === true },
    )
  })
}

/** The document at a path, and the server the path names. */
export function documentAt(
  path: string,
  documents: readonly DocumentPath[],
): { readonly document: DocumentPath; readonly upstream?: string } | undefined {
  const exact = documents.find((each) => each.path === path)
  if (exact) return { document: exact }
  for (const document of documents) {
    const [before = '', after] = document.path.split('*')
    if (after === undefined || !path.startsWith(before) || !path.endsWith(after)) continue
    const upstream = path.slice(before.length, path.length - after.length)
    if (/^[a-z][a-z0-9-]*$/.test(upstream)) return { document, upstream }
  }
  return undefined
}

/** Somebody who reads what is open to all: nobody known, who has no rights where others have. */
export function reader(auth: AuthSettings): Principal {
  return isProtected(auth) ? { ...anonymous, scopes: new Set() } : anonymous
}

function tell({ incoming, outgoing, principal, requestId }: HttpContext, page: Payload['fields']): void {
  const text = String(page.text)
  const etag = etagOf(page, text)
  const scope = principal.isEverybody === true ? 'public' : 'private'
  const headers = {
    etag,
    'cache-control': `${scope}, max-age=${Number(page.maxAge)}`,
    vary: 'Origin, Authorization, Cookie, X-MCP-Session-Token',
    'x-request-id': requestId,
  }
  if (isKnown(incoming.headers['if-none-match'], etag)) {
    outgoing.writeHead(304, headers).end()
    return
  }
  const body = { 'content-type': String(page.type), 'x-content-type-options': 'nosniff' }
  outgoing.writeHead(200, { ...headers, ...body }).end(text)
}

/** RFC 9110 §8.8.1: weak where texts that differ in what does not matter have the same. */
function etagOf({ lasting }: Payload['fields'], text: string): string {
  const isWeak = typeof lasting === 'string'
  const mark = createHash('sha256')
    .update(isWeak ? lasting : text)
    .digest('base64url')
    .slice(0, 22)
  return isWeak ? `W/"${mark}"` : `"${mark}"`
}

/** RFC 9110 §13.1.2: compared without regard to whether they are weak. */
function isKnown(header: string | undefined, etag: string): boolean {
  const known = (header ?? '').split(',').map((each) => each.trim().replace(/^W\//, ''))
  return known.includes(etag.replace(/^W\//, '')) || known.includes('*')
}
