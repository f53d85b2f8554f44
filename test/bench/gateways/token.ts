import { createHmac } from 'node:crypto'

/** A JWT with these claims that is valid for a day, signed with a shared secret. */
export function signedToken(claims: object, secret: string): string {
  const now = Math.floor(Date.now() / 1000)
  const parts = [
    { alg: 'HS256', typ: 'JWT' },
    { ...claims, iat: now, exp: now + 86_400 },
  ]
  const signed = parts.map((part) => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.')
  return `${signed}.${createHmac('sha256', secret).update(signed).digest('base64url')}`
}
