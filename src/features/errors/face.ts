import { isObject } from '../../core/json.ts'
import { Payload } from '../../core/payload.ts'
import { ERROR_KEY } from '../../wire/extensions.ts'
import type { Sent } from './sanitise.ts'
import { sanitise } from './sanitise.ts'
import { cleaned, type Structured } from './structured.ts'

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
