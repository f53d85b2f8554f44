/**
 * Routes other than the endpoint: documents with ETags, and permissions. They run as calls, with the same checks.
 */
import type { HttpBindings } from '@hono/node-server'
import type { Context, Hono } from 'hono'
import { createHash } from 'node:crypto'
import { type AuthSettings, isProtected } from '../../core/auth-settings.ts'
import type { ByteExchange, ClientStream, Handler } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import { isObject } from '../../core/json/json.ts'
import { Payload } from '../../core/payload.ts'
import { anonymous, type Principal } from '../../core/principal.ts'
import { checkNesting, parsePeerJson, refuseDuplicates } from '../../protocol/jsonrpc.ts'
import { lift } from '../../protocol/lift.ts'
import { gatewayMetadataOf } from '../../protocol/meta-keys.ts'
import { pageMethod } from '../../protocol/methods.ts'
import { latestModern } from '../../protocol/revisions.ts'
import { headerTrace } from '../../protocol/trace-context.ts'
import type { DocumentPath, Edge } from './edge.ts'
import type { HttpContext } from './context.ts'

type Env = { Bindings: HttpBindings }

interface Options {
  edge(): Edge
  readonly handle: Handler
  /** Serves an authorized request, for the given server. */
  guarded(
    context: Context<Env>,
    serve: (exchange: HttpContext) => Promise<void>,
    request: RequestedDocument,
  ): Promise<Response>
}

/** The server whose document is requested, and whether the document is public. */
export interface RequestedDocument {
  readonly upstream: string | undefined
  readonly isOpen: boolean
  /** The caller that the URL names, in place of one that authenticates. @throws if the URL is not valid */
  bearer?(): Promise<Principal | undefined>
  /** Whether it is a call: then the sign-in of a person to the pages is no authentication. */
  readonly isCall?: true
}

/** Serves the documents of the gateway, which are results of a handler, as cacheable pages. */
export function addDocuments(app: Hono<Env>, { edge, handle, guarded }: Options): void {
  app.get('/*', async (context, next) => {
    const { path } = context.req
    const found = documentAt(path, edge().runtime.documents)
    if (!found) return next()
    const { document, upstream = context.req.query('upstream') } = found
    return guarded(
      context,
      async (exchange) => {
        const { upstream: _named, ...query } = context.req.query()
        const format = document.isNegotiated && formatFor(context.req.header('accept'))
        const params = Payload.of({ ...query, ...(format && { format }) })
        const request = { method: pageMethod(document.path), params }
        sendPage(exchange, (await callGateway(exchange, request, handle)).fields, document)
      },
      { upstream, isOpen: document.isOpen?.() === true },
    )
  })
}

/** The document at a path, and the server in the path. */
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

/** The reader of public documents: anonymous, without scopes. */
export function reader(auth: AuthSettings): Principal {
  return isProtected(auth) ? { ...anonymous, scopes: new Set() } : anonymous
}

/** The form in which a reader gets a document: a page, unless it accepts JSON and no HTML. */
function formatFor(accept = ''): 'html' | 'json' {
  return /\bapplication\/json\b/i.test(accept) && !/\btext\/html\b/i.test(accept) ? 'json' : 'html'
}

function sendPage(
  { incoming, outgoing, principal, requestId }: HttpContext,
  page: Payload['fields'],
  { isNegotiated }: DocumentPath,
): void {
  const text = String(page.text)
  const etag = etagOf(page, text)
  const scope = principal.isEverybody === true ? 'public' : 'private'
  const headers = {
    etag,
    'cache-control': `${scope}, max-age=${Number(page.maxAge)}`,
    vary: `Origin, Authorization, Cookie, X-MCP-Session-Token${isNegotiated ? ', Accept' : ''}`,
    ...(isObject(page.headers) && textsIn(page.headers)),
    'x-request-id': requestId,
  }
  if (matchesEtag(incoming.headers['if-none-match'], etag)) {
    outgoing.writeHead(304, headers).end()
    return
  }
  const body = { 'content-type': String(page.type), 'x-content-type-options': 'nosniff' }
  outgoing.writeHead(200, { ...headers, ...body }).end(text)
}

function textsIn(headers: Payload['fields']): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]))
}

/** RFC 9110 §8.8.1: a weak ETag if it covers only the significant part of the text. */
function etagOf({ lasting }: Payload['fields'], text: string): string {
  const isWeak = typeof lasting === 'string'
  const mark = createHash('sha256')
    .update(isWeak ? lasting : text)
    .digest('base64url')
    .slice(0, 22)
  return isWeak ? `W/"${mark}"` : `"${mark}"`
}

/** RFC 9110 §13.1.2: weak comparison. */
function matchesEtag(header: string | undefined, etag: string): boolean {
  const known = (header ?? '').split(',').map((each) => each.trim().replace(/^W\//, ''))
  return known.includes(etag.replace(/^W\//, '')) || known.includes('*')
}

/** A request to the gateway itself. */
interface GatewayRequest {
  readonly method: string
  readonly params: Payload
  /** The response as a stream, which the call may use beyond its end. */
  readonly stream?: ClientStream
  /** The request and the response, for calls about bytes. */
  readonly exchange?: ByteExchange
}

/** Makes an internal call of the gateway for a plain HTTP request. @throws the error of the call */
export async function callGateway(
  { incoming, outgoing, upstream, principal, presentCaller, requestId }: HttpContext,
  { method, params, stream, exchange }: GatewayRequest,
  handle: Handler,
): Promise<Payload> {
  const controller = new AbortController()
  outgoing.on('close', () => {
    if (!outgoing.writableFinished)
      controller.abort(new GatewayError('CANCELLED', 'The client closed the request.'))
  })
  const client = { era: 'modern', revision: latestModern.name, capabilities: {} } as const
  const { headers } = incoming
  const context = {
    requestId,
    peer: incoming,
    trace: headerTrace(headers),
    gatewayMetadata: gatewayMetadataOf(headers),
    upstream,
  }
  const call = lift(
    { kind: 'request', id: '0', method, params },
    { ...context, client, principal, presentCaller, stream, controller, emit: () => undefined },
  )
  const target = { ...call.target, isBuiltin: true } as const
  const outcome = await handle({ ...call, target, ...(exchange && { exchange }) })
  if (outcome.kind !== 'result')
    throw new GatewayError('SERVER_ERROR', 'Input requests are not possible over plain HTTP.')
  return outcome.result
}

type Method = 'permissions/check' | 'permissions/list' | 'permissions/negotiate'
type PermissionsEnv = { Bindings: HttpBindings }

interface PermissionsOptions {
  readonly handle: Handler
  /** Serves an authorized request. */
  guarded(
    context: Context<PermissionsEnv>,
    serve: (exchange: HttpContext) => Promise<void>,
  ): Promise<Response>
}

/** Paths for one server, or the one in `?upstream=`, and the methods called by POST. */
const paths = [
  ['/permissions/negotiate', 'permissions/negotiate'],
  ['/permissions/:upstream/negotiate', 'permissions/negotiate'],
  ['/permissions', 'permissions/check'],
  ['/permissions/:upstream', 'permissions/check'],
] as const

/** Adds the paths of permission queries over plain HTTP. */
export function addPermissions(app: Hono<PermissionsEnv>, { handle, guarded }: PermissionsOptions): void {
  for (const [path, method] of paths) {
    app.post(path, (context) =>
      guarded(context, async (exchange) => {
        const params = bodyParams(await jsonBody(exchange))
        return servePermissions(exchange, method, params, handle)
      }),
    )
    if (method === 'permissions/negotiate') continue
    app.get(path, (context) =>
      guarded(context, (exchange) => {
        const query = context.req.query()
        const params = queryParams(query)
        // Without a tool, the question is what the caller may do at all.
        const isAboutAll = Object.keys(params.fields).every((key) => key === 'scopes_held')
        return servePermissions(exchange, isAboutAll ? 'permissions/list' : method, params, handle)
      }),
    )
  }
}

/** Answers a permission query like the MCP method with the same params. @throws what the method throws */
async function servePermissions(
  exchange: HttpContext,
  method: Method,
  params: Payload,
  handle: Handler,
): Promise<void> {
  sendJson(exchange, await callGateway(exchange, { method, params }, handle))
}

/** Sends a result as JSON. */
export function sendJson({ outgoing, requestId }: HttpContext, { text }: Payload): void {
  const type = { 'content-type': 'application/json', 'cache-control': 'no-store' }
  outgoing.writeHead(200, { ...type, 'x-request-id': requestId }).end(text)
}

/** The params of a check from the query of a URL: `tool`, and `scopes_held` separated by spaces or commas. */
function queryParams(query: Readonly<Record<string, string>>): Payload {
  const { tool, scopes_held: held, parameters, arguments: args } = query
  return Payload.of({
    // A query cannot contain arguments, and the response must not be mistaken for one that considers them.
    ...(parameters !== undefined && { parameters }),
    ...(args !== undefined && { arguments: args }),
    ...(tool !== undefined && { tool }),
    ...(held !== undefined && { scopes_held: held.split(/[\s,]+/).filter((scope) => scope !== '') }),
  })
}

/** The JSON in the body of a request. @throws what `Bodies.json` throws */
export function jsonBody({ incoming, principal, edge }: HttpContext): Promise<string> {
  return edge.bodies.json(incoming, { limit: edge.runtime.listen.body, principal })
}

/** The params of a check or negotiation from the body of a request. @throws PARSE_ERROR, INVALID_REQUEST, INVALID_INPUT */
export function bodyParams(text: string): Payload {
  const value = parsePeerJson(text)
  checkNesting(text)
  refuseDuplicates(text, value)
  if (isObject(value)) return Payload.text(text, value)
  throw new GatewayError('INVALID_INPUT', 'The body must be a JSON object.')
}
