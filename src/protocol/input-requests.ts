/**
 * Elicitation, sampling and roots as input requests: which client can answer them, how each revision encodes them, and
 * how responses are read.
 */
import type { Client, InputRequest, InputRequests } from '../core/call.ts'
import { isObject } from '../core/json/json.ts'
import type { Payload } from '../core/payload.ts'
import { findRevision, type Revision } from '../core/revisions.ts'

/** The client capability an input request needs, as a `ClientCapabilities` object. */
export function requiredCapability(question: InputRequest): Record<string, unknown> {
  switch (question.method) {
    case 'elicitation/create':
      return { elicitation: isUrl(question) ? { url: {} } : { form: {} } }
    case 'sampling/createMessage':
      return { sampling: usesTools(question) ? { tools: {} } : {} }
    case 'roots/list':
      return { roots: {} }
    default:
      return { [question.method]: {} }
  }
}

/** Whether a client declared the capability for an input request, and its revision can express it. */
export function canAnswer(client: Client, question: InputRequest): boolean {
  const { elicitation, sampling, roots } = client.capabilities
  const revision = findRevision(client.revision)
  switch (question.method) {
    case 'elicitation/create':
      if (!isObject(elicitation) || revision?.elicitation === 'none') return false
      if (isUrl(question)) return revision?.elicitation === 'url' && isObject(elicitation.url)
      // `elicitation: {}` means forms (2025-11-25 client/elicitation).
      return isObject(elicitation.form) || !isObject(elicitation.url)
    case 'sampling/createMessage':
      if (!isObject(sampling) || (usesTools(question) && !isObject(sampling.tools))) return false
      if (revision?.content.has('audio') !== true && hasAudio(question)) return false
      return revision?.samplingTools === true || !(usesTools(question) || hasManyBlocks(question))
    case 'roots/list':
      return isObject(roots)
    default:
      // A vendor's request: only clients with an open connection can receive it, and they reject it themselves if
      // needed.
      return client.era === 'legacy'
  }
}

const defined: ReadonlySet<string> = new Set(['elicitation/create', 'sampling/createMessage', 'roots/list'])

/** The first of the protocol's input requests that a client did not declare support for. */
export function unanswerable(client: Client, questions: InputRequests): InputRequest | undefined {
  return Object.values(questions).find(
    (question) => defined.has(question.method) && !canAnswer(client, question),
  )
}

/** The declared capabilities of a client that its revision defines: no server may rely on others. */
export function capabilitiesIn(
  { elicitation: asks, samplingTools }: Revision,
  { elicitation, sampling, ...rest }: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const forms = asks === 'form' && isObject(elicitation) ? {} : elicitation
  const models = !samplingTools && isObject(sampling) ? {} : sampling
  return {
    ...rest,
    ...(asks !== 'none' && forms !== undefined && { elicitation: forms }),
    ...(models !== undefined && { sampling: models }),
  }
}

/** Whether a client declared any capability to answer input requests. */
export function canBeAsked(capabilities: Readonly<Record<string, unknown>>): boolean {
  return isObject(capabilities.elicitation) || isObject(capabilities.sampling) || isObject(capabilities.roots)
}

/** Whether a server that received these capabilities may be notified of changed roots. */
export function acceptsRootsChanges({ roots }: Readonly<Record<string, unknown>>): boolean {
  return isObject(roots) && roots.listChanged === true
}

/**
 * An input request encoded for the client's revision: without an `elicitationId` for 2026-07-28, and enums without
 * titles where those are not supported.
 */
export function encodeInputRequest(question: InputRequest, client: Client): InputRequest {
  const { params } = question
  if (!params) return question
  const revision = findRevision(client.revision)
  let worded = params.withMeta({ progressToken: undefined })
  if (question.method === 'elicitation/create') {
    if (isUrl(question)) {
      if (client.era === 'modern') worded = worded.with({ elicitationId: undefined })
    } else if (revision && !revision.titledEnums) worded = plainForm(worded)
    if (client.era === 'legacy' && revision?.elicitation === 'form') worded = worded.with({ mode: undefined })
  }
  return { ...question, params: worded }
}

/** Whether an input request sends the user to a URL. */
export function isUrl(question: InputRequest): boolean {
  return question.method === 'elicitation/create' && question.params?.fields.mode === 'url'
}

function usesTools(question: InputRequest): boolean {
  const fields = question.params?.fields ?? {}
  return fields.tools !== undefined || fields.toolChoice !== undefined
}

function hasManyBlocks(question: InputRequest): boolean {
  return contents(question).some((content) => Array.isArray(content))
}

/** Unlike a result, a sampling message has no fallback for audio. */
function hasAudio(question: InputRequest): boolean {
  return contents(question)
    .flat()
    .some((block) => isObject(block) && block.type === 'audio')
}

function contents({ params }: InputRequest): unknown[] {
  const messages = params?.fields.messages
  return Array.isArray(messages)
    ? messages.map((message) => (isObject(message) ? message.content : undefined))
    : []
}

/** Converts titled and multi-select enums of 2025-11-25 for 2025-06-18. */
function plainForm(params: Payload): Payload {
  const schema = params.at('requestedSchema')
  const properties = schema?.at('properties')
  if (!schema || !properties) return params
  const fields = Object.entries(properties.fields).map(
    ([name, each]) => [name, each, plainField(each)] as const,
  )
  const changed = fields.filter(([, given, plain]) => given !== plain)
  if (changed.length === 0) return params
  const plain = properties.with(Object.fromEntries(changed.map(([name, , each]) => [name, each])))
  return params.with({ requestedSchema: schema.with({ properties: plain }) })
}

function plainField(field: unknown): unknown {
  if (!isObject(field)) return field
  const { oneOf, items, ...rest } = field
  if (Array.isArray(oneOf)) return { ...rest, type: 'string', ...enumOf(oneOf) }
  if (field.type !== 'array' || !isObject(items)) return field
  // Multiple selection does not exist before 2025-11-25: the user types the values.
  const { minItems: _min, maxItems: _max, default: _default, ...text } = rest
  const known = Array.isArray(items.enum)
    ? items.enum
    : enumOf(Array.isArray(items.anyOf) ? items.anyOf : []).enum
  const hint = `Choose any of these, separated by commas: ${known.join(', ')}`
  const description = typeof rest.description === 'string' ? `${rest.description} ${hint}` : hint
  return { ...text, type: 'string', description }
}

function enumOf(options: readonly unknown[]): { enum: unknown[]; enumNames: unknown[] } {
  const objects = options.filter(isObject)
  return {
    enum: objects.map((item) => item.const),
    enumNames: objects.map((item) => item.title ?? item.const),
  }
}

/** Converts the client's response back: selections typed as one text become a list again. */
export function readInputResponse({ params }: InputRequest, client: Client, result: Payload): Payload {
  const content = result.at('content')
  if (!content || findRevision(client.revision)?.titledEnums !== false) return result
  const fields = params?.at('requestedSchema')?.at('properties')?.fields ?? {}
  const lists = Object.entries(content.fields).flatMap(([name, value]) => {
    const field = Object.hasOwn(fields, name) ? fields[name] : undefined
    if (typeof value !== 'string' || !isObject(field) || field.type !== 'array') return []
    return [[name, choicesIn(value)] as const]
  })
  return lists.length === 0 ? result : result.with({ content: content.with(Object.fromEntries(lists)) })
}

function choicesIn(text: string): string[] {
  return text
    .split(',')
    .map((part) => part.trim())
    .filter((item) => item !== '')
}
