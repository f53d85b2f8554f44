import type { Context } from 'hono'
import { GatewayError } from '../core/error.ts'
import { isObject } from '../core/json.ts'
import type { Decision } from '../records/approvals.ts'
import { LONGEST_REASON } from './approval-page.ts'

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

/** Reads a form, or the same as JSON. @throws PARSE_ERROR, INVALID_INPUT, UNSUPPORTED_MEDIA_TYPE */
export async function readForm(context: Context): Promise<Form> {
  const type = (context.req.header('content-type') ?? '').split(';', 1)[0]?.trim().toLowerCase()
  const text = await context.req.text()
  if (type === 'application/json') return formOf(parse(text))
  if (type === 'application/x-www-form-urlencoded')
    return formOf(Object.fromEntries(new URLSearchParams(text)))
  throw new GatewayError('UNSUPPORTED_MEDIA_TYPE', 'A decision is a form, or JSON.')
}

function formOf(fields: Readonly<Record<string, unknown>>): Form {
  const of = (name: string): string | undefined => {
    const value = fields[name]
    if (value === undefined || typeof value === 'string') return value
    throw new GatewayError('INVALID_INPUT', `${name} has to be a text.`, { field: name })
  }
  const verdict = (['approved', 'denied'] as const).find((each) => each === fields.verdict)
  const reason = of('reason')?.trim()
  if (reason !== undefined && reason.length > LONGEST_REASON)
    throw new GatewayError('INVALID_INPUT', `A reason has at most ${LONGEST_REASON} characters.`, {
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
