/** Approval forms, and their tokens against cross-site request forgery. */
import type { HttpBindings } from '@hono/node-server'
import type { Context } from 'hono'
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import { GatewayError } from '../../core/error.ts'
import { isObject } from '../../core/json/json.ts'
import type { Decision } from '../../records/approvals.ts'
import type { Store } from '../../store/store.ts'
import type { Bodies } from '../http/body.ts'
import { MAX_REASON_LENGTH } from './approval-page.ts'
import type { Visitor } from './visitors.ts'
import { duplicateKey, parseJson } from '../../core/json/read.ts'

/** The fields of a submitted form. */
export interface Form {
  readonly verdict?: Decision['verdict']
  readonly reason?: string
  readonly typed?: string
  /** The approval shall apply to later calls too. */
  readonly remember?: true
  /** The anti-forgery token of the form. */
  readonly token?: string
  /** The code from the terminal. */
  readonly code?: string
}

/** The maximum size of a form, in bytes. */
const MAX_FORM_BYTES = 64 * 1024

/**
 * Reads a form, or its JSON equivalent, with or without a Content-Length.
 * @throws PARSE_ERROR, INVALID_INPUT, PAYLOAD_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE, OVERLOADED
 */
export async function readForm(
  { req, env: { incoming } }: Context<{ Bindings: HttpBindings }>,
  bodies: Bodies,
): Promise<Form> {
  const type = (req.header('content-type') ?? '').split(';', 1)[0]?.trim().toLowerCase()
  if (type !== 'application/json' && type !== 'application/x-www-form-urlencoded')
    throw new GatewayError('UNSUPPORTED_MEDIA_TYPE', 'A decision must be a form or JSON.')
  const text = await bodies.text(incoming, { limit: MAX_FORM_BYTES })
  return formOf(type === 'application/json' ? parse(text) : fieldsIn(text))
}

function formOf(fields: Readonly<Record<string, unknown>>): Form {
  const field = (name: string): string | undefined => {
    const value = fields[name]
    if (value === undefined || typeof value === 'string') return value
    throw new GatewayError('INVALID_INPUT', `${name} must be a string.`, { field: name })
  }
  const verdict = (['approved', 'denied'] as const).find((each) => each === fields.verdict)
  const reason = field('reason')?.trim()
  if (reason !== undefined && reason.length > MAX_REASON_LENGTH)
    throw new GatewayError('INVALID_INPUT', `A reason may have at most ${MAX_REASON_LENGTH} characters.`, {
      field: 'reason',
    })
  const isRemembered = verdict === 'approved' && isTrue(fields.remember)
  const [typed, token, code] = [field('typed'), field('token'), field('code')]
  return {
    ...(verdict && { verdict }),
    ...(reason !== undefined && reason !== '' && { reason }),
    ...(typed !== undefined && { typed }),
    ...(isRemembered && { remember: true }),
    ...(token !== undefined && { token }),
    ...(code !== undefined && { code }),
  }
}

/** A ticked checkbox, or its JSON equivalent. @throws INVALID_INPUT */
function isTrue(value: unknown): boolean {
  if (value === undefined || value === false) return false
  if (value === true || value === 'on' || value === 'true') return true
  throw new GatewayError('INVALID_INPUT', 'remember must be true or false.', { field: 'remember' })
}

function fieldsIn(text: string): Readonly<Record<string, unknown>> {
  const given = new URLSearchParams(text)
  for (const name of given.keys()) if (given.getAll(name).length > 1) throw givenTwice(name)
  return Object.fromEntries(given)
}

function givenTwice(name: string): GatewayError {
  return new GatewayError(
    'INVALID_INPUT',
    `${JSON.stringify(name.slice(0, MAX_NAME_LENGTH))} is given twice.`,
  )
}

/** How much of a name is in an error, in characters. */
const MAX_NAME_LENGTH = 200

function parse(text: string): Readonly<Record<string, unknown>> {
  let value: unknown
  try {
    value = parseJson(text)
  } catch (cause) {
    throw new GatewayError('PARSE_ERROR', 'The body is not valid JSON.', { cause })
  }
  const key = duplicateKey(text, value)
  if (key !== undefined) throw givenTwice(key)
  if (isObject(value)) return value
  throw new GatewayError('INVALID_INPUT', 'A decision must be an object: {"verdict": "approved"}.')
}

/** The store key of the secret that signs form tokens, and its lifetime in milliseconds. */
const STORE_KEY = 'key:forms'
const KEY_TTL_MS = 365 * 24 * 60 * 60_000

/** Distinguishes forms of this gateway from cross-site requests. */
export interface FormGuard {
  /** The token of the form for an approval and a visitor. */
  token(id: string, visitor: Visitor): Promise<string>
  matches(token: string, id: string, visitor: Visitor): Promise<boolean>
}

/** Creates a guard with a key in the store, because one gateway may receive a form that another one rendered. */
export function createFormGuard(store: () => Store): FormGuard {
  const token: FormGuard['token'] = async (id, { by, via }) => {
    const key = Buffer.from(await sharedKey(store()), 'base64')
    return createHmac('sha256', key)
      .update(JSON.stringify([id, by, via]))
      .digest('base64url')
  }
  return {
    token,
    matches: async (actual, id, visitor) => {
      const expected = Buffer.from(await token(id, visitor))
      const found = Buffer.from(actual)
      return found.length === expected.length && timingSafeEqual(found, expected)
    },
  }
}

async function sharedKey(store: Store): Promise<string> {
  const known = await store.get(STORE_KEY)
  if (known !== undefined) return known
  const fresh = randomBytes(32).toString('base64')
  return (await store.setIfAbsent(STORE_KEY, fresh, KEY_TTL_MS)) ?? fresh
}

/** The error for a request that may come from another site. */
export function notFromHere(): GatewayError {
  return new GatewayError(
    'FORBIDDEN',
    'The request did not come from a page of the gateway. Open the page and decide there.',
    {
      suggestion: 'Programs must send Authorization and Content-Type: application/json.',
    },
  )
}
