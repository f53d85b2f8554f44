/** The tool `request_upload`: a model asks a person for a file, without the file passing through the client. */
import type { Call, Outcome } from '../../core/call.ts'
import { invalidParam } from '../../core/error.ts'
import { Payload } from '../../core/payload.ts'
import { isoTime } from '../../core/time/waiting.ts'
import { canAnswer } from '../../protocol/input-requests.ts'
import type { UploadRequest } from '../../records/uploads.ts'
import { answered, asToolWithResult } from '../builtin-tool.ts'
import type { BuiltinTool } from '../feature.ts'
import { uriOf } from './preview.ts'
import { MAX_NAME_LENGTH, type UploadService } from './uploads.ts'

const MAX_PURPOSE_LENGTH = 500
const MAX_TYPES = 20
const MEDIA_RANGE = /^(?:\*|[\w.+-]{1,60})\/(?:\*|[\w.+-]{1,100})$/

/** The key of the input request, and of what is known when its response comes. */
const KEY = 'upload'

const definition = {
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
  const tool = asToolWithResult(definition, (call) => requestUpload(call, uploads))
  return { ...tool, isListed: () => uploads.url !== undefined }
}

async function requestUpload(call: Call, uploads: UploadService): Promise<Outcome> {
  const before = call.requestState[KEY]
  // The person was asked at the client, and has opened the page or not.
  if (isRequested(before)) return isDeclined(call) ? declined() : resultOf(before)
  const { request, url } = await uploads.request(call.principal, optionsOf(call, uploads.max))
  const requested = { id: request.id, url, expiresAt: request.expiresAt }
  const question = {
    method: 'elicitation/create',
    params: Payload.of({ mode: 'url', message: messageOf(request), url }),
  }
  const canOpen =
    call.client.nonInteractive !== true && call.rpcId !== undefined && canAnswer(call.client, question)
  if (!canOpen) return resultOf(requested)
  return { kind: 'input_required', inputRequests: { [KEY]: question }, requestState: { [KEY]: requested } }
}

interface Requested {
  readonly id: string
  readonly url: string
  readonly expiresAt: number
}

/** The state is encrypted, so only this file wrote it. */
function isRequested(value: unknown): value is Requested {
  return typeof value === 'object' && value !== null && 'url' in value
}

/** Whether the person refused to open the page. */
function isDeclined({ inputResponses }: Call): boolean {
  const response = inputResponses?.[KEY]
  return response !== undefined && 'result' in response && response.result.fields.action === 'decline'
}

function declined(): Outcome {
  return answered({ content: [{ type: 'text', text: 'The person declined to send a file.' }], isError: true })
}

function messageOf({ purpose, name }: UploadRequest): string {
  return purpose ?? (name === undefined ? 'Send a file.' : `Send the file ${name}.`)
}

function resultOf({ id, url, expiresAt }: Requested): Outcome {
  const ref = uriOf({ id })
  const until = isoTime(expiresAt)
  const text = `Ask the person to open ${url} and to send the file there, until ${until}. Then use ${ref}.`
  const structuredContent = { url, ref, ref_id: id, expires_at: until }
  return answered({ content: [{ type: 'text', text }], structuredContent })
}

/** What the arguments request. @throws INVALID_INPUT */
function optionsOf({ params: { fields } }: Call, max: number): Parameters<UploadService['request']>[1] {
  const { max_size: size = max, types = [] } = fields
  if (typeof size !== 'number' || !Number.isSafeInteger(size) || size < 1)
    throw invalidParam('max_size', 'must be a positive integer')
  if (size > max) throw invalidParam('max_size', `must be at most ${max}, the limit of the gateway`)
  if (!Array.isArray(types) || types.length > MAX_TYPES || !types.every(isMediaRange))
    throw invalidParam('types', `must be at most ${MAX_TYPES} media types such as image/* or text/csv`)
  return {
    name: textOf(fields.name, 'name', MAX_NAME_LENGTH),
    purpose: textOf(fields.purpose, 'purpose', MAX_PURPOSE_LENGTH),
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
