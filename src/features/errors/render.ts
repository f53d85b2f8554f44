/** The structured error in a result or an error object, and the error objects of servers made complete. */
import { type ErrorCode, isCategory, isErrorCode, isUserActionable, waitOf } from '../../core/error.ts'
import { isObject } from '../../core/json/json.ts'
import { Payload } from '../../core/payload.ts'
import { fits } from '../../core/text/pattern.ts'
import { isSecretKey, isWordOfErrors } from '../../core/text/redact.ts'
import { ERROR_KEY } from '../../protocol/meta-keys.ts'
import { type Sent, sanitise } from './sanitise.ts'

interface Places {
  /** Also at `error` of the result itself. */
  readonly compat: boolean
  /** Also in `structuredContent`: not where the tool says what stands there. */
  readonly isFree: boolean
}

/** The result of a tool that was not run: words for a model, and the object for programs. */
export function renderError(object: Structured, places: Places): Payload {
  const text = [object.message, object.suggestion].filter((each) => typeof each === 'string').join(' ')
  const result = Payload.of({ content: [{ type: 'text', text }], isError: true })
  return withObject(result, object, places)
}

/** A failed result of a server with the structured error added. */
export function withObject(result: Payload, object: Structured, { compat, isFree }: Places): Payload {
  const { fields } = result
  const added = {
    ...(compat && { error: object }),
    ...(isFree && fields.structuredContent === undefined && { structuredContent: { error: object } }),
  }
  return result.with(added).withMeta({ [ERROR_KEY]: object })
}

/** A failed result of a server with its texts made safe; there is always one to read. */
export function safeResult(result: Payload, sent: Sent): Payload {
  const { content } = result.fields
  const blocks: readonly unknown[] = Array.isArray(content) ? content : []
  const safe = blocks.map((block) => (isObject(block) ? safeBlock(block, sent) : block))
  const told = safeMembers(result, sent)
  const hasText = safe.some((block) => isObject(block) && block.type === 'text')
  if (!hasText) return told.with({ content: [{ type: 'text', text: 'The tool failed.' }, ...safe] })
  return safe.every((block, index) => block === blocks[index]) ? told : told.with({ content: safe })
}

/** What programs read of a failed result may hold the same texts. */
function safeMembers(result: Payload, sent: Sent): Payload {
  const changed = ['structuredContent', 'error'].flatMap((name) => {
    const value = result.fields[name]
    const safe = cleaned(value, sent)
    return JSON.stringify(safe) === JSON.stringify(value) ? [] : [[name, safe] as const]
  })
  return changed.length === 0 ? result : result.with(Object.fromEntries(changed))
}

function safeBlock(block: Record<string, unknown>, sent: Sent): Record<string, unknown> {
  const { type, text, resource } = block
  if (type === 'text' && typeof text === 'string') {
    const safe = sanitise(text, sent)
    return safe === text ? block : { ...block, text: safe }
  }
  if (type !== 'resource' || !isObject(resource) || typeof resource.text !== 'string') return block
  return { ...block, resource: { ...resource, text: sanitise(resource.text, sent) } }
}

/** A text no longer than a message may be. */
export function shortened(text: string): string {
  return text.length > MAX_MESSAGE ? `${text.slice(0, MAX_MESSAGE - 1)}…` : text
}

/** How long the message of a structured error may be, in characters. */
const MAX_MESSAGE = 2000

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
      return [key, isSecretKey(key) && isSecret(member) ? '[redacted]' : clean(member, depth + 1)] as const
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
