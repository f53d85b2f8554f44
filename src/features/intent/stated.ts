import type { Call } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import { isObject } from '../../core/json.ts'
import { extensionOf } from '../../wire/extensions.ts'

/** What the caller's wish is called among the values for features. */
export const INTENT = 'intent'

/** How long it may be, in bytes. */
export const MAX_INTENT_BYTES = 2048
/** How long the name of a workflow may be, in characters. */
const MAX_WORKFLOW_ID_LENGTH = 256

const categories = ['user_requested', 'agent_autonomous', 'workflow_step']

/** What the caller of a tool says it wants. @throws INVALID_INPUT where that has another form */
export function statedIntent(call: Call): string {
  const stated = extensionOf(call, INTENT)
  const { text, category, workflow_id: workflow } = isObject(stated) ? stated : { text: stated }
  if (typeof text !== 'string') throw invalid(INTENT, 'must be a string, or an object with a string `text`')
  if (Buffer.byteLength(text) > MAX_INTENT_BYTES)
    throw invalid(INTENT, `may have at most ${MAX_INTENT_BYTES} bytes`)
  if (category !== undefined && !categories.some((each) => each === category)) {
    throw invalid(`${INTENT}.category`, `must be one of ${categories.join(', ')}`)
  }
  if (workflow !== undefined && (typeof workflow !== 'string' || workflow.length > MAX_WORKFLOW_ID_LENGTH)) {
    throw invalid(`${INTENT}.workflow_id`, `must be a string of at most ${MAX_WORKFLOW_ID_LENGTH} characters`)
  }
  return text
}

function invalid(field: string, what: string): GatewayError {
  return new GatewayError('INVALID_INPUT', `Invalid params: ${field} ${what}.`, { field, reason: 'shape' })
}
