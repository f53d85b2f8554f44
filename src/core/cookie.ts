/**
 * Cookies of the gateway's pages (RFC 6265): how one is written, and how one is found among those a browser sends.
 *
 * No script reads one, and over https none travels in clear. Values are of the gateway's own making, of letters,
 * digits and signs that need no quotes.
 */

/** A cookie as a browser is to keep it. */
export interface Cookie {
  readonly name: string
  readonly value: string
  /** The pages it is sent to: those whose path begins with this one. */
  readonly path: string
  /** In seconds; 0 takes the cookie back. */
  readonly lifetime: number
  readonly isSecure: boolean
  /** Whether the browser also sends it when it comes by a link of another site; Lax unless given. */
  readonly sameSite?: 'Lax' | 'Strict'
}

/** The value of `Set-Cookie`. */
export function cookieText({ name, value, path, lifetime, isSecure, sameSite = 'Lax' }: Cookie): string {
  const secure = isSecure ? '; Secure' : ''
  return `${name}=${value}; Path=${path}; Max-Age=${lifetime}; HttpOnly; SameSite=${sameSite}${secure}`
}

/** The value of a cookie in a `Cookie` header. */
export function cookieOf(cookies: string | undefined, name: string): string | undefined {
  const found = cookies?.split(';').find((each) => each.trim().startsWith(`${name}=`))
  return found?.trim().slice(name.length + 1)
}
