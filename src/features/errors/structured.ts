import { type ErrorCode, isCategory, isErrorCode, isUserActionable, waitOf } from '../../core/error.ts'
import { fits } from '../../core/glob.ts'
import { isObject } from '../../core/json.ts'
import { isTelling } from '../../core/redact.ts'
import { isWordOfErrors } from '../../core/secret-shapes.ts'
import { sanitise, type Sent } from './sanitise.ts'

/** The object that says what an error is, for programs. */
export type Structured = Readonly<Record<string, unknown>>

interface Around {
  readonly sent: Sent
  /** Globs of the hosts that documentation may be on. */
  readonly hosts: readonly string[]
}

/** Whether a server sent a structured error itself. */
export function isStructured(value: unknown): value is Record<string, unknown> {
  return isObject(value) && typeof value.code === 'string' && value.code !== '' && isCategory(value.category)
}

/** A structured error of a server, made safe, and with the gaps filled in that it has. */
export function completed(given: Record<string, unknown>, message: string, around: Around): Structured {
  const { category } = given
  if (!isCategory(category)) throw new TypeError('not a structured error')
  const { documentation_url: url, retryAfter, retry_after_seconds: seconds, ...rest } = given
  const wait = waitOf(category, [seconds, retryAfter].map(Number).find(Number.isFinite))
  const isKnown = typeof given.user_actionable === 'boolean'
  const safe = cleaned(rest, around.sent)
  return {
    ...(isObject(safe) && safe),
    message: typeof given.message === 'string' ? sanitise(given.message, around.sent) : message,
    user_actionable: isKnown ? given.user_actionable : isUserActionable(category),
    ...(wait !== undefined && { retry_after_seconds: wait, retryAfter: wait }),
    ...(isDocumentation(url, around.hosts) && { documentation_url: url }),
  }
}

/** The code of the table for a server's own code. */
export function nearestCode({ code }: Structured): ErrorCode {
  return isErrorCode(code) ? code : 'UPSTREAM_ERROR'
}

/** How deep, and in how many values, data of an error is looked through; the rest is left out. */
const most = { depth: 20, values: 5000 }

/** Any data with its texts made safe. */
export function cleaned(value: unknown, sent: Sent): unknown {
  let left = most.values
  const clean = (each: unknown, depth: number): unknown => {
    left -= 1
    if (left < 0 || depth > most.depth) return undefined
    if (typeof each === 'string') return sanitise(each, sent)
    if (Array.isArray(each)) return each.map((item) => clean(item, depth + 1))
    if (!isObject(each)) return each
    const members = Object.entries(each).map(([key, member]) => {
      return [key, isTelling(key) && isSecret(member) ? '[redacted]' : clean(member, depth + 1)] as const
    })
    return Object.fromEntries(members)
  }
  return clean(value, 0)
}

/** What stands under a key such as `password`, unless it says what is wrong with one. */
function isSecret(value: unknown): boolean {
  return typeof value === 'string' && value !== '' && !isWordOfErrors(value)
}

function isDocumentation(url: unknown, hosts: readonly string[]): url is string {
  if (typeof url !== 'string' || url.length > 2000 || !URL.canParse(url)) return false
  const { protocol, hostname, username, password } = new URL(url)
  return protocol === 'https:' && username + password === '' && hosts.some((glob) => fits(glob, hostname))
}
