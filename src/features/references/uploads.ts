/**
 * Data that callers send: `POST /uploads` with their credentials, or one file at the URL of a requested upload, which is a
 * credential itself. The result is a reference of the caller who sent it, or who requested it.
 */
import { world } from '../../core/world.ts'
import type { ByteExchange, Call, Outcome } from '../../core/call.ts'
import { asGatewayError, GatewayError } from '../../core/error.ts'
import { isObject } from '../../core/json/json.ts'
import type { Principal } from '../../core/principal.ts'
import { callerHash } from '../../records/principal.ts'
import type { Reference, References } from '../../records/references.ts'
import {
  type NewUpload,
  UPLOAD_RETENTION_MS,
  type UploadRequest,
  type Uploads,
} from '../../records/uploads.ts'
import type { Bytes } from '../../store/blobs/blobs.ts'
import { answered } from '../builtin-tool.ts'
import type { ByteRoute, Services } from '../feature.ts'
import { withBeginning } from './beginning.ts'
import { loggedReference } from './logged.ts'
import { isOneOf, mediaTypeOf, SNIFFED_BYTES } from './media-type.ts'
import { dataReference } from './preview.ts'
import { type FileLimits, type SentFile, sentFile } from './sent-file.ts'
import { answerHtml, donePage, isForPerson, refusalPage, signInPage, uploadPage } from './upload-page.ts'
import { UPLOADS } from '../../records/plain-name.ts'

/** The path of uploads. */
const UPLOADS_PATH = '/uploads'
/** How long a requested upload can be done, in milliseconds. */
const UPLOAD_TTL_MS = 600_000
/** How long the name of an upload can be, in characters. */
export const MAX_NAME_LENGTH = 200

interface Options {
  readonly references: References
  readonly uploads: Uploads
  readonly deps: Pick<Services, 'identity' | 'pages'>
  /** The largest file, in bytes. */
  readonly max: number
  /** How long data is kept, in milliseconds. */
  readonly ttl: number
  /** The URL at which a caller can read its data, where there is one. */
  urlOf?(principal: Principal, reference: Reference): string | undefined
}

/** Requests uploads, and receives them. */
export class UploadService {
  readonly #options: Options
  /** The ids of the requested uploads whose files arrive at present. */
  readonly #receiving = new Set<string>()

  constructor(options: Options) {
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
        handle: (call) => this.#handle(call, (each) => this.#post(call, each)),
      },
      ...(['GET', 'POST', 'PUT'] as const).map((verb) => ({
        verb,
        path,
        bearer,
        handle: (call: Call) => this.#handle(call, (each) => this.#serveRequested(call, each)),
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
        {
          isResult: true,
        },
      )
    const request = await this.#options.uploads.request(owner, { ...upload, ttl: UPLOAD_TTL_MS })
    const value: UploadToken = { owner: callerHash(owner.id), id: request.id }
    return {
      request,
      url: `${base}/${this.#options.deps.identity.seal.close(value, TOKEN_USE, request.expiresAt + UPLOAD_RETENTION_MS)}`,
    }
  }

  async #handle(call: Call, serve: (exchange: ByteExchange) => Promise<void>): Promise<Outcome> {
    const { exchange } = call
    if (!exchange) throw new GatewayError('UNSUPPORTED_OPERATION', 'Not found.')
    const resume = call.pauseDeadline?.()
    try {
      await serve(exchange)
    } finally {
      resume?.()
    }
    return answered({})
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
        await answerHtml(exchange, 200, uploadPage(request, world.now()))
        return
      }
      if (isForPerson(exchange) && !exchange.isFromHere) throw notFromHere()
      const reference = await this.#alone(request.id, () => this.#receive(call, exchange, request))
      await this.#options.uploads.finish(request)
      if (isForPerson(exchange)) await answerHtml(exchange, 201, donePage(reference))
      else await answerJson(exchange, dataReference(reference))
    } catch (thrown) {
      const error = asGatewayError(thrown)
      const isPage = isForPerson(exchange) && error.code !== 'CANCELLED' && error.code !== 'SERVER_ERROR'
      if (!isPage) throw error
      const { signInLink: link } = exchange
      const page = error.httpStatus === 401 && link !== undefined ? signInPage(link) : refusalPage(error)
      await answerHtml(exchange, error.httpStatus, page)
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
    if (!found) throw unknownUpload()
    return found
  }

  /** Receives a file of an upload, if no other one is received for it. @throws CONFLICT */
  async #alone<Value>(id: string, receive: () => Promise<Value>): Promise<Value> {
    if (this.#receiving.has(id)) throw busy()
    this.#receiving.add(id)
    try {
      return await receive()
    } finally {
      this.#receiving.delete(id)
    }
  }

  /** Keeps the file of a request. */
  async #receive(call: Call, exchange: ByteExchange, expected: Expected): Promise<Reference> {
    const { references, ttl } = this.#options
    const file = await sentFile(exchange, expected)
    const { type, bytes } = await typed(file, expected.types)
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
function isUploadToken(value: unknown): value is UploadToken {
  return isObject(value) && typeof value.owner === 'string' && typeof value.id === 'string'
}

/** @throws CONFLICT if a file was sent, RESOURCE_NOT_FOUND if it is too late */
function mustBeOpen({ isDone, expiresAt }: UploadRequest): void {
  if (isDone) throw done()
  if (expiresAt <= world.now()) throw expired()
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

/** The media type of a file, and its bytes, of which the first are read. @throws INVALID_INPUT, UNSUPPORTED_MEDIA_TYPE */
async function typed(
  { bytes, type: declared, name }: SentFile,
  types: readonly string[],
): Promise<{ readonly type: string; readonly bytes: Bytes }> {
  const { found, all } = await withBeginning(bytes, SNIFFED_BYTES, (beginning) => {
    const type = mediaTypeOf(beginning, { type: declared, name })
    if (types.length > 0 && !isOneOf(type, types)) throw otherType(type, types)
    return type
  })
  return { type: found, bytes: all }
}

function answerJson(exchange: ByteExchange, value: object): Promise<void> {
  const headers = { 'content-type': 'application/json', 'cache-control': 'no-store' }
  return exchange.send({ status: 201, headers, body: JSON.stringify(value) })
}

function otherType(type: string, types: readonly string[]): GatewayError {
  return new GatewayError('UNSUPPORTED_MEDIA_TYPE', `The file is ${type}; ${types.join(', ')} is expected.`, {
    reason: 'media_type',
  })
}

function unknownUpload(): GatewayError {
  return new GatewayError('RESOURCE_NOT_FOUND', 'There is no such upload.', {
    suggestion: 'Request an upload, and open its URL.',
  })
}

function expired(): GatewayError {
  return new GatewayError('RESOURCE_NOT_FOUND', 'The time for this upload is over.', {
    reason: 'expired',
    status: 410,
    suggestion: 'Request another upload.',
  })
}

function done(): GatewayError {
  return new GatewayError('CONFLICT', 'A file was sent for this upload already.', {
    reason: 'done',
    suggestion: 'Request another upload to send another file.',
  })
}

function busy(): GatewayError {
  return new GatewayError('CONFLICT', 'A file is being sent for this upload.', {
    reason: 'busy',
    suggestion: 'Wait until it is sent, or request another upload.',
  })
}

function notFromHere(): GatewayError {
  return new GatewayError('FORBIDDEN', 'The request did not come from the page of the upload.')
}
