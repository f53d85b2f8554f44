import { type Question, RpcError } from './call.ts'
import { type Json, isObject } from './json.ts'
import type { Traits } from './revisions.ts'

/** A question that wants a form filled in. */
export function formQuestion(traits: Traits, message: string): Question {
  const name = { type: 'string', title: 'Name', description: 'Your name' }
  const requestedSchema = { type: 'object', properties: { name }, required: ['name'] }
  const mode = traits.urlElicitation ? { mode: 'form' } : {}
  return { method: 'elicitation/create', params: { ...mode, message, requestedSchema } }
}

/** A question that wants a URL visited. */
export function urlQuestion(traits: Traits): Question {
  const elicitationId = traits.elicitationId ? { elicitationId: 'elicitation-1' } : {}
  const url = 'https://example.com/authorize?state=1'
  return {
    method: 'elicitation/create',
    params: { mode: 'url', message: 'Please sign in', url, ...elicitationId },
  }
}

/** A question for the client's model. */
export function samplingQuestion(text: string): Question {
  return sampling({ type: 'text', text })
}

/** The same, in a sound. */
export function spokenQuestion(): Question {
  return sampling({ type: 'audio', data: 'UklGRg==', mimeType: 'audio/wav' })
}

function sampling(content: Json): Question {
  const messages = [{ role: 'user', content }]
  return { method: 'sampling/createMessage', params: { messages, maxTokens: 100 } }
}

/** A question for the client's roots. */
export function rootsQuestion(): Question {
  return { method: 'roots/list', params: {} }
}

/** Whether a client with these capabilities may be asked this. */
export function mayAsk(capabilities: Json, question: Question): boolean {
  if (question.method === 'roots/list') return isObject(capabilities['roots'])
  if (question.method === 'sampling/createMessage') return isObject(capabilities['sampling'])
  const { elicitation } = capabilities
  if (!isObject(elicitation)) return false
  if (question.params['mode'] === 'url') return isObject(elicitation['url'])
  return isObject(elicitation['form']) || !isObject(elicitation['url'])
}

/** Refuses to ask a client what it did not declare. */
export function demand(capabilities: Json, questions: Readonly<Record<string, Question>>): void {
  for (const question of Object.values(questions)) {
    if (mayAsk(capabilities, question)) continue
    const requiredCapabilities = capabilityFor(question)
    const [name] = Object.keys(requiredCapabilities)
    throw new RpcError(-32021, `The client does not support ${name}`, { requiredCapabilities })
  }
}

function capabilityFor(question: Question): Json {
  if (question.method === 'roots/list') return { roots: {} }
  if (question.method === 'sampling/createMessage') return { sampling: {} }
  return { elicitation: question.params['mode'] === 'url' ? { url: {} } : { form: {} } }
}
