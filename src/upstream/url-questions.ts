import type { Call, InputRequest } from '../core/call.ts'
import { asGatewayError, GatewayError } from '../core/error.ts'
import { isObject } from '../core/json.ts'
import { Payload } from '../core/payload.ts'
import { canAnswer, requiredCapability } from '../wire/questions.ts'

/** The error -32042 of 2025-11-25 ("visit these pages first") as questions for a client that does not know it. */
export function urlQuestions(error: unknown, call: Call): Record<string, InputRequest> | undefined {
  if (call.client.era === 'legacy') return undefined
  const { relayed } = asGatewayError(error).extra
  const data = relayed?.fields.code === -32042 ? relayed.fields.data : undefined
  if (!isObject(data) || !Array.isArray(data.elicitations)) return undefined
  const questions = data.elicitations.filter(isObject).map((each, index): [string, InputRequest] => {
    return [`url${index + 1}`, { method: 'elicitation/create', params: Payload.of({ ...each, mode: 'url' }) }]
  })
  const [first] = questions
  if (!first) return undefined
  if (!canAnswer(call.client, first[1])) {
    throw new GatewayError('CAPABILITY_REQUIRED', 'This needs a client that can open URLs for the user.', {
      data: { requiredCapabilities: requiredCapability(first[1]) },
    })
  }
  return Object.fromEntries(questions)
}
