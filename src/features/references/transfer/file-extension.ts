/**
 * The draft extension `files` (SEP-2631). The gateway answers `files/authorizeUpload` and `files/authorizeDownload` with URLs
 * of its own, for files whose URIs are references. A server that has the methods itself is asked first at its own address;
 * what it returns is checked, since clients send the bytes there. For clients that do not transfer files, arguments of tools
 * take files inline, and files in results become links. At the address of all servers, no server sees that its client can
 * transfer files, because only the gateway can be asked to.
 */
import type { Call, Handler, Middleware, Outcome } from '../../../core/call.ts'
import { GatewayError, invalidParam } from '../../../core/error.ts'
import { asObject, isObject } from '../../../core/json/json.ts'
import type { Payload, Fields } from '../../../core/payload.ts'
import { isoTime } from '../../../core/time/waiting.ts'
import { world } from '../../../core/world.ts'
import { unknownMethod } from '../../../protocol/methods.ts'
import type { Reference } from '../../../records/references.ts'
import { answered, positiveInteger } from '../../builtin-tool.ts'
import type { Services } from '../../feature.ts'
import { referenceUri } from '../kept-data.ts'
import { readableReference, type ReferenceAccess } from '../read.ts'
import { parseReference, SCHEME } from '../selection.ts'
import { MAX_NAME_LENGTH, type UploadService } from './uploads.ts'
import type { DataUrls } from './urls.ts'

interface TransferContext extends ReferenceAccess {
  readonly uploads: UploadService
  readonly urls: DataUrls
  /** How long URLs of data work, in milliseconds; undefined if clients get none. */
  readonly urlTtl: number | undefined
  /** The hosts, besides its own, at which a server may have clients transfer files. */
  hosts(upstream: string): readonly string[]
  readonly deps: Pick<Services, 'invoker' | 'servers'>
}

/** The direction of a transfer, as clients declare it. */
type Direction = 'upload' | 'download'

/** Whether a client can transfer files. */
function canTransfer({ client: { capabilities } }: Pick<Call, 'client'>, direction: Direction): boolean {
  const { files } = capabilities
  return isObject(files) && files[direction] === true
}

/** The methods. */
export function fileMethods(options: TransferContext): Readonly<Record<string, Handler>> {
  return {
    'files/authorizeUpload': (call) =>
      transfer(call, 'upload', { ...options, answer: () => authorizeUpload(call, options) }),
    'files/authorizeDownload': (call) =>
      transfer(call, 'download', { ...options, answer: () => authorizeDownload(call, options) }),
  }
}

/** The answer of the server if it has the method, else the one of the gateway. */
async function transfer(
  call: Call,
  direction: Direction,
  options: TransferContext & { answer(): Promise<Outcome> },
): Promise<Outcome> {
  if (!canTransfer(call, direction)) throw unknownMethod(call.method)
  const { upstream } = call.target
  const { uri } = call.params.fields
  const isOwn = direction === 'download' && typeof uri === 'string' && uri.startsWith(SCHEME)
  if (upstream === undefined || isOwn) return options.answer()
  const outcome = await relayed(call, upstream, options)
  if (!outcome) return options.answer()
  if (outcome.kind === 'result')
    for (const name of ['upload', 'download']) checkDescriptor(outcome.result.member(name), upstream, options)
  return outcome
}

/** What a server answers; undefined if it does not have the method. */
async function relayed(
  call: Call,
  upstream: string,
  { deps }: TransferContext,
): Promise<Outcome | undefined> {
  try {
    return await deps.invoker.relay({ ...call, target: { upstream, method: call.method } })
  } catch (error) {
    if (error instanceof GatewayError && error.rpc === METHOD_NOT_FOUND) return undefined
    throw error
  }
}

const METHOD_NOT_FOUND = -32601

/** Clients send and get bytes at the URL of a descriptor. @throws UPSTREAM_ERROR if it is not one of the server's */
function checkDescriptor(descriptor: unknown, upstream: string, { hosts, deps }: TransferContext): void {
  if (descriptor === undefined) return
  const text = isObject(descriptor) && typeof descriptor.url === 'string' ? descriptor.url : ''
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url?.protocol !== 'https:') throw badDescriptor(upstream, 'is not an https URL')
  const reach = deps.servers.settings(upstream)?.reach
  const own = reach?.kind === 'url' ? [new URL(String(reach.url)).hostname] : []
  if ([...own, ...hosts(upstream)].includes(url.hostname)) return
  throw badDescriptor(upstream, `is at ${url.hostname}, which is not a host of the server`)
}

function badDescriptor(upstream: string, problem: string): GatewayError {
  return new GatewayError('UPSTREAM_ERROR', `The URL for the transfer ${problem}.`, {
    reason: 'transfer_url',
    forOperator: `Server ${upstream}: the URL for the transfer of a file ${problem}. Add the host to file_hosts of features.references of the server, if it is right.`,
  })
}

async function authorizeUpload(call: Call, { uploads }: TransferContext): Promise<Outcome> {
  const { name, mimeType, digest } = call.params.fields
  const size = positiveInteger(call, 'size')
  const sha256 = digest === undefined ? undefined : sha256In(digest)
  if (size !== undefined && size > uploads.max) throw tooLarge(uploads.max, size)
  if (mimeType !== undefined && (typeof mimeType !== 'string' || !MEDIA_TYPE.test(mimeType)))
    throw invalidParam('mimeType', 'must be a media type')
  if (name !== undefined && (typeof name !== 'string' || name === '' || name.length > MAX_NAME_LENGTH))
    throw invalidParam('name', `must be a text of 1 to ${MAX_NAME_LENGTH} characters`)
  mustBeHttps(uploads.url)
  const { request, url } = await uploads.request(call.principal, {
    name,
    maxSize: size ?? uploads.max,
    size,
    sha256,
    types: mimeType === undefined ? [] : [mimeType],
    isForProgram: true,
  })
  const file = { uri: referenceUri(request), name, mimeType, size, digest }
  const headers = mimeType === undefined ? {} : { headers: { 'content-type': mimeType } }
  const expiresAt = isoTime(request.expiresAt)
  return answered({ file, upload: { transport: 'https', method: 'PUT', url, ...headers, expiresAt } })
}

async function authorizeDownload(call: Call, options: TransferContext): Promise<Outcome> {
  const { uri } = call.params.fields
  const written = typeof uri === 'string' ? parseReference(uri) : undefined
  const isWhole = written !== undefined && Object.keys(written.part).length === 0
  if (!isWhole) throw invalidParam('uri', 'must be the URI of a file')
  const { references, urls, urlTtl: ttl } = options
  const reference = await readableReference(call, written.id, options)
  const url = ttl === undefined ? undefined : urls.of(call.principal, reference, ttl)
  if (ttl === undefined || url === undefined)
    throw new GatewayError('UNSUPPORTED_OPERATION', 'The gateway returns no URLs of files.', {
      suggestion: 'Read the file by resources/read, or set features.references.urls: true.',
    })
  mustBeHttps(url)
  const until = world.now() + ttl
  await references.extend(call.principal, reference.id, until)
  const expiresAt = isoTime(until)
  return answered({
    file: fileOf(reference),
    download: { transport: 'https', method: 'GET', url, expiresAt },
  })
}

/** A file as the extension describes it. */
function fileOf(reference: Reference): Readonly<Record<string, unknown>> {
  const { name, type: mimeType, size, sha256 } = reference
  const value = Buffer.from(sha256, 'hex').toString('base64url')
  return { uri: referenceUri(reference), name, mimeType, size, digest: { algorithm: 'sha-256', value } }
}

const MEDIA_TYPE = /^[\w.+-]{1,60}\/[\w.+-]{1,100}$/

/** The SHA-256 of a digest, in hex. @throws INVALID_INPUT */
function sha256In(digest: unknown): string {
  const { algorithm, value } = asObject(digest)
  const isValid = algorithm === 'sha-256' && typeof value === 'string' && /^[\w-]{43}$/.test(value)
  if (!isValid) throw invalidParam('digest', 'must be a sha-256 in base64url without padding')
  return Buffer.from(value, 'base64url').toString('hex')
}

/** The extension has no other transport. @throws UNSUPPORTED_OPERATION */
function mustBeHttps(url: string | undefined): void {
  if (url?.startsWith('https:')) return
  throw new GatewayError('UNSUPPORTED_OPERATION', 'Files are transferred over https only.', {
    suggestion: 'Set listen.public_url to the https address of the gateway.',
  })
}

function tooLarge(maxSize: number, actualSize: number): GatewayError {
  return new GatewayError('INVALID_INPUT', `A file may have at most ${maxSize} bytes.`, {
    field: 'size',
    reason: 'too_large',
    data: { maxSize, actualSize },
  })
}

/** The member of the schema of an argument that is a file. */
const FILE = 'x-mcp-file'
/** How deep schemas and arguments are looked at. */
const MAX_DEPTH = 16

/** The middleware around the responses to a method; undefined for those without files. */
export function filesMiddleware(
  method: string,
  isOn: (upstream?: string) => boolean,
): Middleware | undefined {
  const change = changes[method]
  if (!change) return undefined
  return (next) => async (call) => {
    if (!isOn(call.target.upstream)) return next(call)
    return change(await next(method === 'tools/call' ? forServer(call) : call), call)
  }
}

const changes: Readonly<Record<string, (outcome: Outcome, call: Call) => Outcome>> = {
  'tools/list': withModes,
  'tools/call': (outcome, call) => withLinks(outcome, call, 'content'),
  'resources/read': (outcome, call) => withLinks(outcome, call, 'contents'),
}

/** A call as servers see it: the client transfers files only where it reaches one server. */
function forServer(call: Call): Call {
  const { files, ...capabilities } = call.client.capabilities
  if (files === undefined || call.target.upstream !== undefined) return call
  return { ...call, client: { ...call.client, capabilities } }
}

function withModes(outcome: Outcome, call: Call): Outcome {
  if (outcome.kind !== 'result' || !outcome.result.text.includes(FILE)) return outcome
  const isTransferring = canTransfer(call, 'upload')
  if (isTransferring && call.target.upstream !== undefined) return outcome
  const tools = (outcome.result.at('tools')?.items ?? []).map((tool) =>
    tool.text.includes(FILE) ? inlineOnly(tool, isTransferring) : tool.value,
  )
  return { kind: 'result', result: outcome.result.with({ tools }) }
}

function inlineOnly(tool: Payload, isTransferring: boolean): unknown {
  const inputSchema = schemaFor(tool.member('inputSchema'), isTransferring, 0)
  return tool.with({ inputSchema }).value
}

/** A schema without what only servers of files can take, and for other clients without transfers at all. */
function schemaFor(schema: unknown, isTransferring: boolean, depth: number): unknown {
  if (depth > MAX_DEPTH) return schema
  if (Array.isArray(schema)) return schema.map((each: unknown) => schemaFor(each, isTransferring, depth + 1))
  if (!isObject(schema)) return schema
  return Object.fromEntries(
    Object.entries(schema).flatMap(([name, value]) => {
      if (name !== FILE || !isObject(value)) return [[name, schemaFor(value, isTransferring, depth + 1)]]
      const { transferModes: modes } = value
      if (Array.isArray(modes) && !modes.includes('inline')) return []
      return [[name, isTransferring ? value : { ...value, transferModes: ['inline'] }]]
    }),
  )
}

/** The result with links in place of files, for a client that does not transfer them. */
function withLinks(outcome: Outcome, call: Call, member: 'content' | 'contents'): Outcome {
  if (outcome.kind !== 'result' || canTransfer(call, 'download')) return outcome
  const { result } = outcome
  const toLink = member === 'content' ? linkOf : textOf
  const items = result.at(member)?.items ?? []
  const links = items.map(({ value }) => (isObject(value) ? toLink(value) : undefined))
  if (links.every((link) => link === undefined)) return outcome
  return {
    kind: 'result',
    result: result.with({ [member]: items.map(({ value }, at) => links[at] ?? value) }),
  }
}

function linkOf({ type, file }: Fields): Fields | undefined {
  if (type !== 'file' || !isObject(file) || typeof file.uri !== 'string') return undefined
  const { uri, name, mimeType, size } = file
  return {
    type: 'resource_link',
    uri,
    name: typeof name === 'string' ? name : uri.slice(-100),
    mimeType,
    size,
  }
}

function textOf({ uri, mimeType, content }: Fields): Fields | undefined {
  if (!isObject(content) || typeof content.uri !== 'string') return undefined
  return { uri, mimeType, text: `The content is the file ${content.uri}.` }
}

/** @throws INVALID_INPUT if an argument that takes a file inline is the URI of one */
export function checkFileArguments({ tool, params }: Call): void {
  const schema = tool?.definition.inputSchema
  const given = params.member('arguments')
  if (!isObject(schema) || !isObject(given) || !isObject(schema.properties)) return
  for (const [name, property] of Object.entries(schema.properties)) {
    const value = Object.hasOwn(given, name) ? given[name] : undefined
    if (typeof value === 'string' && isInlineOnly(property) && !isInline(value)) throw notInline(name)
  }
}

function isInlineOnly(property: unknown): boolean {
  const file = isObject(property) ? property[FILE] : undefined
  const modes = isObject(file) ? file.transferModes : undefined
  return Array.isArray(modes) && modes.length > 0 && !modes.includes('upload')
}

/** A reference is replaced by the data, inline. */
function isInline(value: string): boolean {
  return /^data:/i.test(value) || value.startsWith(SCHEME)
}

function notInline(name: string): GatewayError {
  return new GatewayError('INVALID_INPUT', `Invalid params: ${name} must be a data: URI.`, {
    field: name,
    reason: 'transfer_mode',
    suggestion: 'Send the file inline, or a reference such as ref://ref_1.',
  })
}
