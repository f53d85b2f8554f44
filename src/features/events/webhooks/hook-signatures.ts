/**
 * Verifies webhooks of other services, by the bytes of their body: GitHub, Stripe and Standard Webhooks.
 *
 * Each form yields a replay key from what its signature covers, so nobody without the secret can change it. GitHub signs
 * no time and no id: its key is the signature of the body, which is the same again only for the same body.
 */
import type { Secret } from '../../../core/text/secret.ts'
import {
  digest,
  type HeadersIn,
  isWithin,
  matchesAny,
  TOLERANCE_MS,
  verifySigned,
} from './standard-webhooks.ts'

/** The forms of signatures, by who uses them. */
export type HookForm = 'github' | 'stripe' | 'standard'

/** The longest header with signatures, in characters. */
const MAX_SIGNATURE_LENGTH = 4096

interface Expected {
  /** A signature by any of them suffices. */
  readonly secrets: readonly Secret[]
  /** In milliseconds since 1970. */
  readonly now: number
}

/** What verification found: `headers` are missing or malformed, the `signature` is wrong, or the `time` is. */
type HookCheck =
  | { readonly kind: 'valid'; readonly replayKey: string }
  | { readonly kind: 'invalid'; readonly reason: 'headers' | 'signature' | 'time' }

/** Verifies a webhook of a form. */
export function verifyHook(
  form: HookForm,
  request: { readonly headers: HeadersIn; readonly body: string },
  expected: Expected,
): HookCheck {
  switch (form) {
    case 'github':
      return verifyGithub(request.headers['x-hub-signature-256'], request.body, expected)
    case 'stripe':
      return verifyStripe(request.headers['stripe-signature'], request.body, expected)
    case 'standard': {
      const found = verifySigned(request.headers, request.body, expected)
      return found.kind === 'valid' ? { kind: 'valid', replayKey: found.id } : found
    }
  }
}

/** Whether the headers have a signature of a form, which may be wrong. It does not depend on the body. */
export function isSigned(form: HookForm, headers: HeadersIn): boolean {
  const check = verifyHook(form, { headers, body: '' }, { secrets: [], now: 0 })
  return check.kind === 'valid' || check.reason !== 'headers'
}

/** `X-Hub-Signature-256: sha256=<hex>`, of the body alone. */
function verifyGithub(header: HeadersIn[string], body: string, { secrets }: Expected): HookCheck {
  const [, signature] = (typeof header === 'string' && /^sha256=([0-9a-f]{64})$/.exec(header)) || []
  if (signature === undefined) return { kind: 'invalid', reason: 'headers' }
  const isSigned = secrets.some((secret) => matchesAny(digest(secret.reveal(), '', body), [signature], 'hex'))
  return isSigned ? { kind: 'valid', replayKey: signature } : { kind: 'invalid', reason: 'signature' }
}

/** `Stripe-Signature: t=<seconds>,v1=<hex>,…`, of `{t}.{body}`. The key is the text of the secret, with its prefix. */
function verifyStripe(header: HeadersIn[string], body: string, { secrets, now }: Expected): HookCheck {
  if (typeof header !== 'string' || header.length > MAX_SIGNATURE_LENGTH)
    return { kind: 'invalid', reason: 'headers' }
  const parts = header.split(',').map((part) => part.trim())
  const valuesOf = (name: string): readonly string[] =>
    parts.flatMap((part) => (part.startsWith(`${name}=`) ? [part.slice(name.length + 1)] : []))
  const [time, ...otherTimes] = valuesOf('t')
  const signatures = valuesOf('v1')
  if (time === undefined || otherTimes.length > 0 || !/^\d{1,12}$/.test(time) || signatures.length === 0)
    return { kind: 'invalid', reason: 'headers' }

  const expected = secrets.map((secret) => digest(secret.reveal(), `${time}.`, body))
  const found = expected.find((each) => matchesAny(each, signatures, 'hex'))
  if (!found) return { kind: 'invalid', reason: 'signature' }
  if (!isWithin(Number(time) * 1000, now, TOLERANCE_MS)) return { kind: 'invalid', reason: 'time' }
  return { kind: 'valid', replayKey: `${time}.${found.toString('hex')}` }
}
