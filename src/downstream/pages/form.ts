/** Forms of approvals, and the tokens against requests from other sites. */
import type { Context } from 'hono'
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import { GatewayError } from '../../core/error.ts'
import { isObject } from '../../core/json/json.ts'
import type { Decision } from '../../records/approvals.ts'
import type { Store } from '../../store/store.ts'
import { MAX_REASON_LENGTH } from './approval-page.ts'
import type { Visitor } from './visitors.ts'

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

/** Under which key of the store the key of forms is, and for how long, in milliseconds. */
const STORE_KEY = 'key:forms'
const KEY_TTL_MS = 365 * 24 * 60 * 60_000

/** Tells forms this gateway made for a person from those other pages made a browser send. */
export interface FormGuard {
  /** What a form for an approval and a person has to say. */
  token(id: string, visitor: Visitor): Promise<string>
  isRight(token: string, id: string, visitor: Visitor): Promise<boolean>
}

/** Guards forms with a key that all gateways of a store share, as each may get what another one's form sends. */
export function createFormGuard(store: () => Store): FormGuard {
  const token: FormGuard['token'] = async (id, { by, via }) => {
    const key = Buffer.from(await sharedKey(store()), 'base64')
    return createHmac('sha256', key)
      .update(JSON.stringify([id, by, via]))
      .digest('base64url')
  }
  return {
    token,
    isRight: async (given, id, visitor) => {
      const wanted = Buffer.from(await token(id, visitor))
      const found = Buffer.from(given)
      return found.length === wanted.length && timingSafeEqual(found, wanted)
    },
  }
}

async function sharedKey(store: Store): Promise<string> {
  const known = await store.get(STORE_KEY)
  if (known !== undefined) return known
  const fresh = randomBytes(32).toString('base64')
  return (await store.setIfAbsent(STORE_KEY, fresh, KEY_TTL_MS)) ?? fresh
}

/** The refusal of what may come from another page. */
export function notFromHere(): GatewayError {
  return new GatewayError(
    'FORBIDDEN',
    'This was not sent from a page of the gateway. Open the page, and decide there.',
    {
      suggestion: 'Programs send Authorization and Content-Type: application/json.',
    },
  )
}
