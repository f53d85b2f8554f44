/**
 * Data that callers send: `POST /uploads` with their credentials, or one file at the URL of a requested upload, which is a
 * credential itself. The result is a reference of the caller who sent it, or who requested it. With the tool
 * `request_upload`, a model asks a person for a file, which does not pass through the client.
 */
import type { Call, Outcome } from '../../../core/call.ts'
import type { ByteExchange } from '../../../core/http-paths.ts'
import { asGatewayError, GatewayError, invalidParam } from '../../../core/error.ts'
import { Payload } from '../../../core/payload.ts'
import type { Principal } from '../../../core/principal.ts'
import { oneLine } from '../../../core/text/escape.ts'
import { isoTime } from '../../../core/time/waiting.ts'
import { escapeHtml } from '../../../core/web.ts'
import { world } from '../../../core/world.ts'
import { canAnswer } from '../../../protocol/input-requests.ts'
import { hasMembers } from '../../../durable/collection.ts'
import { Leases } from '../../../durable/lease.ts'
import { UPLOADS } from '../../../records/plain-name.ts'
import { callerHash } from '../../../records/principal.ts'
import type { Reference, References } from '../../../records/references.ts'
import {
  type NewUpload,
  UPLOAD_RETENTION_MS,
  type UploadRequest,
  type Uploads,
} from '../../../records/uploads.ts'
import { answered, asToolWithResult, positiveInteger } from '../../builtin-tool.ts'
import type { BuiltinTool, ByteRoute, Services } from '../../feature.ts'
import { dataReference, loggedReference, referenceUri } from '../kept-data.ts'
import { type FileLimits, sentFile, typedFile } from './sent-file.ts'
import { exchanged } from './urls.ts'

/** The path of uploads. */
const UPLOADS_PATH = '/uploads'
/** How long a requested upload can be done, in milliseconds. */
const UPLOAD_TTL_MS = 600_000
/** How long the name of an upload can be, in characters. */
export const MAX_NAME_LENGTH = 200

interface UploadContext {
  readonly references: References
  readonly uploads: Uploads
  readonly deps: Pick<Services, 'identity' | 'pages' | 'store'>
  /** The largest file, in bytes. */
  readonly max: number
  /** How long data is kept, in milliseconds. */
  readonly ttl: number
  /** The URL at which a caller can read its data, where there is one. */
  urlOf?(principal: Principal, reference: Reference): string | undefined
}

/** Requests uploads, and receives them. */
export class UploadService {
  readonly #options: UploadContext

  constructor(options: UploadContext) {
    this.#options = options
  }

  /** The largest file, in bytes. */
  get max(): number {
    return this.#options.max
  }

  /** The URL of the path; undefined where the gateway does not listen for HTTP. */
  get url(): string | undefined {
    return this.#options.deps.pages.url(UPLOADS_PATH)
  }

  /** The paths at which files are received. */
  get routes(): readonly ByteRoute[] {
    const path = `${UPLOADS_PATH}/:token`
    const bearer: ByteRoute['bearer'] = async ({ name }) => (await this.#requested(name)).owner
    return [
      {
        verb: 'POST',
        path: UPLOADS_PATH,
        handle: (call) => exchanged(call, (each) => this.#post(call, each)),
      },
      ...(['GET', 'POST', 'PUT'] as const).map((verb) => ({
        verb,
        path,
        bearer,
        handle: (call: Call) => exchanged(call, (each) => this.#serveRequested(call, each)),
      })),
    ]
  }

  /** Requests an upload: its id, and the URL that accepts it, a credential. @throws UNSUPPORTED_OPERATION, QUOTA_EXHAUSTED */
  async request(
    owner: Principal,
    upload: Omit<NewUpload, 'ttl'>,
  ): Promise<{ readonly request: UploadRequest; readonly url: string }> {
    const { url: base } = this
    if (base === undefined)
      throw new GatewayError(
        'UNSUPPORTED_OPERATION',
        'The gateway accepts uploads only where it listens for HTTP.',
        { isResult: true },
      )
    const request = await this.#options.uploads.request(owner, { ...upload, ttl: UPLOAD_TTL_MS })
    const value: UploadToken = { owner: callerHash(owner.id), id: request.id }
    const { seal } = this.#options.deps.identity
    return {
      request,
      url: `${base}/${seal.close(value, TOKEN_USE, request.expiresAt + UPLOAD_RETENTION_MS)}`,
    }
  }

  async #post(call: Call, exchange: ByteExchange): Promise<void> {
    const id = exchange.query.get('ref_id') ?? undefined
    if (id !== undefined) await this.#options.references.mustBeFree(call.principal, id)
    const { max: maxSize } = this.#options
    const reference = await this.#receive(call, exchange, { maxSize, types: [], id })
    await answerJson(exchange, dataReference(reference, this.#options.urlOf?.(call.principal, reference)))
  }

  /** Serves the URL of a requested upload, to a person or a program. */
  async #serveRequested(call: Call, exchange: ByteExchange): Promise<void> {
    try {
      const request = await this.#requested(exchange.name)
      mustBeOpen(request)
      if (!request.isForProgram) await mustBeOwner(exchange, request)
      if (exchange.verb === 'GET' || exchange.verb === 'HEAD') {
        await sendPage(exchange, 200, uploadPage(request, world.now()))
        return
      }
      if (isForPerson(exchange) && !exchange.isFromHere)
        throw new GatewayError('FORBIDDEN', 'The request did not come from the page of the upload.')
      const reference = await this.#alone(request.id, () => this.#receive(call, exchange, request))
      await this.#options.uploads.finish(request)
      if (isForPerson(exchange)) await sendPage(exchange, 201, donePage(reference))
      else await answerJson(exchange, dataReference(reference))
    } catch (thrown) {
      const error = asGatewayError(thrown)
      const isPage = isForPerson(exchange) && error.code !== 'CANCELLED' && error.code !== 'SERVER_ERROR'
      if (!isPage) throw error
      const { signInLink: link } = exchange
      const page = error.httpStatus === 401 && link !== undefined ? signInPage(link) : refusalPage(error)
      await sendPage(exchange, error.httpStatus, page)
      throw error
    }
  }

  /** The upload of a URL. @throws RESOURCE_NOT_FOUND if there is none */
  async #requested(token: string): Promise<UploadRequest> {
    const opened = this.#options.deps.identity.seal.open(token, TOKEN_USE)
    const content = opened.kind === 'valid' ? opened.value : undefined
    const found = isUploadToken(content)
      ? await this.#options.uploads.find(content.owner, content.id)
      : undefined
    if (!found)
      throw new GatewayError('RESOURCE_NOT_FOUND', 'There is no such upload.', {
        suggestion: 'Request an upload, and open its URL.',
      })
    return found
  }

  /** Receives a file of an upload, if no other one is received for it, at any gateway of the store. @throws CONFLICT */
  async #alone<Value>(id: string, receive: () => Promise<Value>): Promise<Value> {
    const { store, identity } = this.#options.deps
    const lease = await new Leases(store, identity.membership).acquire(`upload:${id}`, LEASE_TTL_MS)
    if (!lease)
      throw new GatewayError('CONFLICT', 'A file is being sent for this upload.', {
        reason: 'busy',
        suggestion: 'Wait until it is sent, or request another upload.',
      })
    try {
      return await receive()
    } finally {
      await lease.release()
    }
  }

  /** Keeps the file of a request. */
  async #receive(call: Call, exchange: ByteExchange, expected: Expected): Promise<Reference> {
    const { references, ttl } = this.#options
    const file = await sentFile(exchange, expected)
    const { type, bytes } = await typedFile(file.bytes, file, expected.types)
    const facts = { server: UPLOADS, name: expected.name ?? (file.name || 'upload'), type }
    const reference = await references.add(call.principal, { ...facts, id: expected.id, ttl }, bytes)
    call.logFields.set('references', [loggedReference(reference)])
    return reference
  }
}

interface Expected extends FileLimits {
  /** Media types; all of them if empty. */
  readonly types: readonly string[]
  readonly id?: string | undefined
  readonly name?: string | undefined
}

interface UploadToken {
  /** The hash of the caller. */
  readonly owner: string
  readonly id: string
}

const TOKEN_USE = { purpose: 'upload', binding: '' }

/** Only this file seals values for this purpose. */
const isUploadToken = hasMembers<UploadToken>({ string: ['owner', 'id'] })

/** @throws CONFLICT if a file was sent, RESOURCE_NOT_FOUND if it is too late */
function mustBeOpen({ isDone, expiresAt }: UploadRequest): void {
  if (isDone)
    throw new GatewayError('CONFLICT', 'A file was sent for this upload already.', {
      reason: 'done',
      suggestion: 'Request another upload to send another file.',
    })
  if (expiresAt <= world.now())
    throw new GatewayError('RESOURCE_NOT_FOUND', 'The time for this upload is over.', {
      reason: 'expired',
      status: 410,
      suggestion: 'Request another upload.',
    })
}

/** A person who can sign in must be the caller who requested the upload. @throws AUTHENTICATION_REQUIRED, PERMISSION_DENIED */
async function mustBeOwner(exchange: ByteExchange, { owner }: UploadRequest): Promise<void> {
  const person = await exchange.person()
  if (person === undefined || owner.isEverybody || person === owner.id) return
  throw new GatewayError(
    'PERMISSION_DENIED',
    `You are ${person}. Only the caller who requested this upload can send it.`,
  )
}

function answerJson(exchange: ByteExchange, value: object): Promise<void> {
  const headers = { 'content-type': 'application/json', 'cache-control': 'no-store' }
  return exchange.send({ status: 201, headers, body: JSON.stringify(value) })
}

/** How long a gateway that has ended keeps others from receiving the file of an upload, in milliseconds. */
const LEASE_TTL_MS = 15_000

const MAX_PURPOSE_LENGTH = 500
const MAX_TYPES = 20
const MEDIA_RANGE = /^(?:\*|[\w.+-]{1,60})\/(?:\*|[\w.+-]{1,100})$/

/** The key of the input request, and of what is known when its response comes. */
const REQUEST_KEY = 'upload'

const requestUploadDefinition = {
  name: 'request_upload',
  title: 'Request a file from a person',
  description:
    'Returns a URL at which a person can send one file, and the reference (ref://…) that the file will have. Give the URL to the person. After that, send the reference as the argument of a tool, or read it with read_reference.',
  inputSchema: {
    type: 'object',
    properties: {
      name: { type: 'string', maxLength: MAX_NAME_LENGTH, description: 'What the file is called.' },
      purpose: {
        type: 'string',
        maxLength: MAX_PURPOSE_LENGTH,
        description: 'What it is for, as the person reads it.',
      },
      max_size: { type: 'integer', minimum: 1, description: 'The largest size, in bytes.' },
      types: {
        type: 'array',
        items: { type: 'string' },
        maxItems: MAX_TYPES,
        description: 'The accepted media types, such as image/* or text/csv.',
      },
    },
    additionalProperties: false,
  },
  annotations: { readOnlyHint: true, idempotentHint: false, openWorldHint: false },
} as const

/** The tool. */
export function requestUploadTool(uploads: UploadService): BuiltinTool {
  const tool = asToolWithResult(requestUploadDefinition, (call) => requestUpload(call, uploads))
  return { ...tool, isListed: () => uploads.url !== undefined }
}

async function requestUpload(call: Call, uploads: UploadService): Promise<Outcome> {
  const before = call.requestState[REQUEST_KEY]
  // The person was asked at the client, and has opened the page or not.
  if (isRequested(before)) return isDeclined(call) ? declined() : resultOf(before)
  const { request, url } = await uploads.request(call.principal, optionsOf(call, uploads.max))
  const requested = { id: request.id, url, expiresAt: request.expiresAt }
  const inputRequest = {
    method: 'elicitation/create',
    params: Payload.of({ mode: 'url', message: messageOf(request), url }),
  }
  const canOpen =
    call.client.nonInteractive !== true && call.rpcId !== undefined && canAnswer(call.client, inputRequest)
  if (!canOpen) return resultOf(requested)
  return {
    kind: 'input_required',
    inputRequests: { [REQUEST_KEY]: inputRequest },
    requestState: { [REQUEST_KEY]: requested },
  }
}

interface Requested {
  readonly id: string
  readonly url: string
  readonly expiresAt: number
}

/** The state is encrypted, so only this file wrote it. */
const isRequested = hasMembers<Requested>({ string: ['url'] })

/** Whether the person refused to open the page. */
function isDeclined({ inputResponses }: Call): boolean {
  const response = inputResponses?.[REQUEST_KEY]
  return response !== undefined && 'result' in response && response.result.fields.action === 'decline'
}

function declined(): Outcome {
  return answered({ content: [{ type: 'text', text: 'The person declined to send a file.' }], isError: true })
}

function messageOf({ purpose, name }: UploadRequest): string {
  return purpose ?? (name === undefined ? 'Send a file.' : `Send the file ${name}.`)
}

function resultOf({ id, url, expiresAt }: Requested): Outcome {
  const ref = referenceUri({ id })
  const until = isoTime(expiresAt)
  const text = `Ask the person to open ${url} and to send the file there, until ${until}. Then use ${ref}.`
  const structuredContent = { url, ref, ref_id: id, expires_at: until }
  return answered({ content: [{ type: 'text', text }], structuredContent })
}

/** What the arguments request. @throws INVALID_INPUT */
function optionsOf(call: Call, max: number): Omit<NewUpload, 'ttl'> {
  const { types = [], name, purpose } = call.params.fields
  const size = positiveInteger(call, 'max_size') ?? max
  if (size > max) throw invalidParam('max_size', `must be at most ${max}, the limit of the gateway`)
  if (!Array.isArray(types) || types.length > MAX_TYPES || !types.every(isMediaRange))
    throw invalidParam('types', `must be at most ${MAX_TYPES} media types such as image/* or text/csv`)
  return {
    name: textOf(name, 'name', MAX_NAME_LENGTH),
    purpose: textOf(purpose, 'purpose', MAX_PURPOSE_LENGTH),
    maxSize: size,
    types,
  }
}

function isMediaRange(value: unknown): value is string {
  return typeof value === 'string' && MEDIA_RANGE.test(value)
}

function textOf(value: unknown, field: string, max: number): string | undefined {
  if (value === undefined) return undefined
  if (typeof value === 'string' && value.trim() !== '' && value.length <= max) return value.trim()
  throw invalidParam(field, `must be a text of 1 to ${max} characters`)
}

interface Page {
  readonly title: string
  /** HTML. */
  readonly content: string
}

/** Whether a browser shows the response to a person. */
function isForPerson({ headers }: Pick<ByteExchange, 'headers'>): boolean {
  return /\btext\/html\b/i.test(String(headers['accept'] ?? ''))
}

function sendPage(exchange: ByteExchange, status: number, { title, content }: Page): Promise<void> {
  return exchange.sendPage(status, content, { title, kind: 'upload' })
}

/** The page of an upload that waits for its file. */
function uploadPage({ name, purpose, owner, maxSize, types, expiresAt }: UploadRequest, now: number): Page {
  const title = 'Send a file'
  const accept = types.length === 0 ? '' : ` accept="${escapeHtml(types.join(','))}"`
  const content = `<h1>${title}</h1>
<p>A program that works for <strong>${word(owner.isEverybody ? 'you' : owner.id)}</strong> requests a file. Its model, and the tools that it calls, can read what you send. Continue only if you expect this.</p>
${purpose === undefined ? '' : `<p class="message">${word(purpose)}</p>`}
<dl>
${name === undefined ? '' : `<dt>Name</dt><dd>${word(name)}</dd>`}
${types.length === 0 ? '' : `<dt>Types</dt><dd>${types.map(word).join(', ')}</dd>`}
<dt>At most</dt><dd>${sizeText(maxSize)}</dd>
<dt>Until</dt><dd>${timeHtml(expiresAt)} (${minutesText(expiresAt - now)})</dd>
</dl>
<form method="post" enctype="multipart/form-data">
<label for="file">File</label>
<input id="file" type="file" name="file" required${accept}>
<div class="buttons"><button class="main">Send</button></div>
</form>`
  return { title, content }
}

/** The page after the file was sent. */
function donePage({ name, type, size }: Reference): Page {
  const title = 'The file was sent'
  const content = `<h1>${title}</h1>
<p>${word(name)}: ${word(type)}, ${sizeText(size)}. You can close this page.</p>`
  return { title, content }
}

/** The page for an error. */
function refusalPage({ message, extra: { suggestion } }: GatewayError): Page {
  const title = 'The file was not sent'
  const more = suggestion === undefined ? '' : `\n<p>${word(suggestion)}</p>`
  return { title, content: `<h1>${title}</h1>\n<p role="alert">${word(message)}</p>${more}` }
}

/** The page that asks a person to sign in. */
function signInPage(link: string): Page {
  const title = 'Sign in'
  const content = `<h1>${title}</h1>
<p>Sign in to send a file.</p>
<p><a rel="noreferrer" href="${escapeHtml(link)}">Sign in</a></p>`
  return { title, content }
}

/** A short text in which hidden characters are shown, and whose direction does not affect the text around it. */
function word(text: string): string {
  return `<bdi>${escapeHtml(oneLine(text))}</bdi>`
}

function sizeText(bytes: number): string {
  const units = ['bytes', 'KB', 'MB', 'GB']
  const power = Math.min(units.length - 1, Math.floor(Math.log2(Math.max(1, bytes)) / 10))
  const value = bytes / 1024 ** power
  return `${Number.isInteger(value) ? value : value.toFixed(1)} ${units[power] ?? ''}`
}

function timeHtml(at: number): string {
  const text = new Date(at).toISOString()
  return `<time datetime="${text}">${text.slice(0, 16).replace('T', ' ')} UTC</time>`
}

function minutesText(milliseconds: number): string {
  const minutes = Math.ceil(milliseconds / 60_000)
  return `in ${minutes} ${minutes === 1 ? 'minute' : 'minutes'}`
}
