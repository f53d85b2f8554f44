import type { Context } from 'hono'
import { GatewayError } from '../core/error.ts'
import { isObject } from '../core/json.ts'
import type { Decision } from '../records/approvals.ts'
import { MAX_REASON_LENGTH } from './approval-page.ts'

/** What a person sent. */
export interface Form {
  readonly verdict?: Decision['verdict']
  readonly reason?: string
  readonly typed?: string
  /** The approval is to hold for more calls. */
  readonly remember?: true
  /** What the form had to say to be taken. */
  readonly token?: string
  /** The code of the terminal. */
  readonly code?: string
}

/** How large a form may be, in bytes. */
const MAX_FORM_BYTES = 64 * 1024

/**
 * Reads a form, or the same as JSON, with or without a Content-Length.
 * @throws PARSE_ERROR, INVALID_INPUT, PAYLOAD_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE
 */
export async function readForm(context: Context): Promise<Form> {
  const type = (context.req.header('content-type') ?? '').split(';', 1)[0]?.trim().toLowerCase()
  const text = await boundedText(context)
  if (type === 'application/json') return formOf(parse(text))
  if (type === 'application/x-www-form-urlencoded')
    return formOf(Object.fromEntries(new URLSearchParams(text)))
  throw new GatewayError('UNSUPPORTED_MEDIA_TYPE', 'A decision is a form, or JSON.')
}

/** The body as text. A body of unknown length is read up to the limit: proxies send chunks. */
async function boundedText({ req }: Context): Promise<string> {
  if (Number(req.header('content-length') ?? 0) > MAX_FORM_BYTES) throw tooLarge()
  const chunks: Uint8Array[] = []
  let size = 0
  const body: ReadableStream<Uint8Array> | null = req.raw.body
  for await (const chunk of body ?? []) {
    size += chunk.length
    if (size > MAX_FORM_BYTES) throw tooLarge()
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

function tooLarge(): GatewayError {
  return new GatewayError('PAYLOAD_TOO_LARGE', `A form has at most ${MAX_FORM_BYTES} bytes.`)
}

function formOf(fields: Readonly<Record<string, unknown>>): Form {
  const of = (name: string): string | undefined => {
    const value = fields[name]
    if (value === undefined || typeof value === 'string') return value
    throw new GatewayError('INVALID_INPUT', `${name} has to be a text.`, { field: name })
  }
  const verdict = (['approved', 'denied'] as const).find((each) => each === fields.verdict)
  const reason = of('reason')?.trim()
  if (reason !== undefined && reason.length > MAX_REASON_LENGTH)
    throw new GatewayError('INVALID_INPUT', `A reason has at most ${MAX_REASON_LENGTH} characters.`, {
      field: 'reason',
    })
  const isRemembered = verdict === 'approved' && isTrue(fields.remember)
  const [typed, token, code] = [of('typed'), of('token'), of('code')]
  return {
    ...(verdict && { verdict }),
    ...(reason !== undefined && reason !== '' && { reason }),
    ...(typed !== undefined && { typed }),
    ...(isRemembered && { remember: true }),
    ...(token !== undefined && { token }),
    ...(code !== undefined && { code }),
  }
}

/** A box of a form that was ticked, or the same as JSON. @throws INVALID_INPUT */
function isTrue(value: unknown): boolean {
  if (value === undefined || value === false) return false
  if (value === true || value === 'on' || value === 'true') return true
  throw new GatewayError('INVALID_INPUT', 'remember has to be true or false.', { field: 'remember' })
}

function parse(text: string): Readonly<Record<string, unknown>> {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (cause) {
    throw new GatewayError('PARSE_ERROR', 'This is not JSON.', { cause })
  }
  if (isObject(value)) return value
  throw new GatewayError('INVALID_INPUT', 'A decision is an object: {"verdict": "approved"}.')
}
