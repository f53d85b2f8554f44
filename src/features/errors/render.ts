/** Renders the structured error in a result or error object, and completes the error objects of servers. */
import { type ErrorCode, isCategory, isErrorCode, isUserActionable, waitOf } from '../../core/error.ts'
import { isObject, isSame } from '../../core/json/json.ts'
import { Payload } from '../../core/payload.ts'
import { fits } from '../../core/text/pattern.ts'
import { isWordOfErrors } from '../../core/text/redact.ts'
import { isSecretName } from '../../core/text/secret-names.ts'
import { ERROR_KEY } from '../../protocol/meta-keys.ts'
import { type Sent, sanitise } from './sanitise.ts'

interface ErrorPlacement {
  /** Also at `error` of the result. */
  readonly compat: boolean
  /** Also in `structuredContent`, unless the tool declares an output schema. */
  readonly isUnstructured: boolean
}

/** The result of a tool that was not run: text for a model, and the object for programs. */
export function renderError(object: Structured, placement: ErrorPlacement): Payload {
  const text = [object.message, object.suggestion].filter((each) => typeof each === 'string').join(' ')
  const result = Payload.of({ content: [{ type: 'text', text }], isError: true })
  return withObject(result, object, placement)
}

/** A failed result of a server with the structured error added. */
export function withObject(
  result: Payload,
  object: Structured,
  { compat, isUnstructured }: ErrorPlacement,
): Payload {
  const { fields } = result
  const added = {
    ...(compat && { error: object }),
    ...(isUnstructured && fields.structuredContent === undefined && { structuredContent: { error: object } }),
  }
  return result.with(added).withMeta({ [ERROR_KEY]: object })
}

/**
 * An error of the server with the structured error: as its data, if it has none; among the members of data that is a
 * structured error itself, or says only what that says. To other data, which is the server's own, only what the caller
 * asked for is added.
 */
export function withErrorData(error: Payload, object: Structured, asked: Structured): Payload {
  const data = error.at('data')
  if (!data) return error.with({ data: object })
  if (!isObject(data.value)) return error
  const names = Object.keys(data.fields)
  const isRepeated = (key: string): boolean =>
    Object.hasOwn(object, key) && isSame(data.fields[key], object[key])
  const isOwn = names.length === 0 || !names.every(isRepeated)
  const added = isOwn && !isStructured(data.value) ? asked : object
  const missing = Object.entries(added).filter(([key]) => !Object.hasOwn(data.fields, key))
  return missing.length === 0 ? error : error.with({ data: data.with(Object.fromEntries(missing)) })
}

/** A failed result of a server with sanitised texts, and at least one text. */
export function safeResult(result: Payload, sent: Sent): Payload {
  const { content } = result.fields
  const blocks: readonly unknown[] = Array.isArray(content) ? content : []
  const safe = blocks.map((block) => (isObject(block) ? safeBlock(block, sent) : block))
  const sanitised = safeMembers(result, sent)
  const hasText = safe.some((block) => isObject(block) && block.type === 'text')
  if (!hasText) return sanitised.with({ content: [{ type: 'text', text: 'The tool failed.' }, ...safe] })
  return safe.every((block, index) => block === blocks[index]) ? sanitised : sanitised.with({ content: safe })
}

/** Structured members of a failed result may contain the same texts. */
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

/** A text cut to the maximum length of a message. */
export function shortened(text: string): string {
  return text.length > MAX_MESSAGE ? `${text.slice(0, MAX_MESSAGE - 1)}…` : text
}

/** The maximum length of an error message, in characters. */
const MAX_MESSAGE = 2000

/** A structured error object, for programs. */
export type Structured = Readonly<Record<string, unknown>>

/** How texts of a server are reported. */
export interface Texts {
  text(text: string): string
  /** The texts at any depth of a value. */
  data(value: unknown): unknown
}

interface CompletionContext {
  readonly texts: Texts
  /** Globs of the hosts on which documentation may be. */
  readonly hosts: readonly string[]
}

/** Whether a server sent a structured error itself. */
export function isStructured(value: unknown): value is Record<string, unknown> {
  return isObject(value) && typeof value.code === 'string' && value.code !== '' && isCategory(value.category)
}

/** A structured error of a server with its gaps filled. */
export function completed(
  given: Record<string, unknown>,
  message: string,
  { texts, hosts }: CompletionContext,
): Structured {
  const { category } = given
  if (!isCategory(category)) throw new TypeError('not a structured error')
  const { documentation_url: url, retryAfter, retry_after_seconds: seconds, ...rest } = given
  const wait = waitOf(category, [seconds, retryAfter].map(Number).find(Number.isFinite))
  const isKnown = typeof given.user_actionable === 'boolean'
  const safe = texts.data(rest)
  return {
    ...(isObject(safe) && safe),
    message: typeof given.message === 'string' ? texts.text(given.message) : message,
    user_actionable: isKnown ? given.user_actionable : isUserActionable(category),
    ...(wait !== undefined && { retry_after_seconds: wait, retryAfter: wait }),
    ...(isDocumentation(url, hosts) && { documentation_url: url }),
  }
}

/** The code of the error table for a server's own code. */
export function nearestCode({ code }: Structured): ErrorCode {
  return isErrorCode(code) ? code : 'UPSTREAM_ERROR'
}

/** How deep error data is examined, and how many of its values; the rest is left out. */
const MAX_DATA = { depth: 20, values: 5000 }

/** Data with sanitised texts. */
export function cleaned(value: unknown, sent: Sent): unknown {
  let remaining = MAX_DATA.values
  const clean = (each: unknown, depth: number): unknown => {
    remaining -= 1
    if (remaining < 0 || depth > MAX_DATA.depth) return undefined
    if (typeof each === 'string') return sanitise(each, sent)
    if (Array.isArray(each)) return each.map((item) => clean(item, depth + 1))
    if (!isObject(each)) return each
    const members = Object.entries(each).map(([key, member]) => {
      return [key, isSecretName(key) && isSecret(member) ? '[redacted]' : clean(member, depth + 1)] as const
    })
    return Object.fromEntries(members)
  }
  return clean(value, 0)
}

/** Whether a value under a key such as `password` is a secret, not a message about one. */
function isSecret(value: unknown): boolean {
  return typeof value === 'string' && value !== '' && !isWordOfErrors(value)
}

function isDocumentation(url: unknown, hosts: readonly string[]): url is string {
  if (typeof url !== 'string' || url.length > 2000 || !URL.canParse(url)) return false
  const { protocol, hostname, username, password } = new URL(url)
  return protocol === 'https:' && username + password === '' && hosts.some((glob) => fits(glob, hostname))
}
