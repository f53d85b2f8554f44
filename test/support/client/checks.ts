import { isObject, type Json, keysWith, objectAt } from '../server/json.ts'
import { mayAsk } from '../server/questions.ts'
import type { Traits } from '../server/revisions.ts'

const cacheable = /^(server\/discover|(tools|prompts|resources|resources\/templates)\/list|resources\/read)$/

/** What a result says that its revision does not know, or fails to say. */
export function resultFaults(traits: Traits, method: string, result: Json): string[] {
  return [
    ...(traits.modern ? modernFaults(method, result) : legacyFaults(traits, method, result)),
    ...contentFaults(traits, result),
    ...toolFaults(traits, result),
  ].map((fault) => `${fault} (${method})`)
}

function modernFaults(method: string, result: Json): string[] {
  const { resultType, ttlMs, cacheScope } = result
  if (resultType === undefined) return ['no resultType']
  if (resultType === 'input_required') return inputFaults(result)
  if (resultType === 'task') return taskFaults(method, result)
  if (resultType !== 'complete') return [`unknown resultType ${String(resultType)}`]
  if (!cacheable.test(method)) return []
  return [
    ...(Number.isInteger(ttlMs) && Number(ttlMs) >= 0 ? [] : ['no ttlMs']),
    ...(cacheScope === 'public' || cacheScope === 'private' ? [] : ['no cacheScope']),
  ]
}

/** What is wrong with the answer to a call that became a task (SEP-2663, CreateTaskResult). */
function taskFaults(
  method: string,
  { taskId, status, createdAt, ttlMs, requestState, _meta }: Json,
): string[] {
  return [
    ...(method === 'tools/call' ? [] : ['a task']),
    ...(typeof taskId === 'string' && typeof status === 'string' ? [] : ['a task without taskId or status']),
    ...(typeof createdAt === 'string' ? [] : ['a task without createdAt']),
    ...(ttlMs === null || Number.isInteger(ttlMs) ? [] : ['no ttlMs']),
    ...(requestState === undefined ? [] : ['a task with requestState']),
    ...foreignTaskKeys(_meta),
  ]
}

function foreignTaskKeys(meta: unknown): string[] {
  return 'io.modelcontextprotocol/related-task' in objectAt({ meta }, 'meta') ? ['related-task'] : []
}

function inputFaults(result: Json): string[] {
  const { inputRequests, requestState } = result
  if (inputRequests === undefined && requestState === undefined)
    return ['input_required without inputRequests or requestState']
  if (requestState !== undefined && typeof requestState !== 'string') return ['requestState is no string']
  return Object.entries(objectAt(result, 'inputRequests')).flatMap(([key, request]) => {
    if (!isObject(request)) return [`input request ${key} is no object`]
    return ['jsonrpc', 'id']
      .filter((name) => name in request)
      .map((name) => `input request ${key} has ${name}`)
  })
}

function legacyFaults(traits: Traits, method: string, result: Json): string[] {
  const { structuredContent } = result
  // What an extension answers is the same in every revision.
  const caching = method.startsWith('skills/') ? [] : ['ttlMs', 'cacheScope']
  return [
    ...['resultType', ...caching, 'inputRequests', 'requestState'].filter((name) => name in result),
    ...foreignKeys(traits, objectAt(result, '_meta')),
    ...(structuredContent === undefined || isObject(structuredContent)
      ? []
      : ['structuredContent that is no object']),
  ].map((name) => `${name} in a result of ${traits.revision}`)
}

function contentFaults(traits: Traits, result: Json): string[] {
  const { content } = result
  if (!Array.isArray(content)) return []
  const kinds = content.map((block) => (isObject(block) ? block['type'] : 'nothing'))
  return [
    ...(kinds.includes('audio') && !traits.audio ? ['audio content'] : []),
    ...(kinds.includes('resource_link') && !traits.resourceLink ? ['resource_link content'] : []),
  ].map((fault) => `${fault} in ${traits.revision}`)
}

function toolFaults(traits: Traits, result: Json): string[] {
  const { tools } = result
  if (!Array.isArray(tools)) return []
  return tools.flatMap((tool) => {
    const type = objectAt(tool, 'outputSchema')['type']
    const isForeign =
      isObject(tool) && tool['outputSchema'] !== undefined && type !== 'object' && !traits.modern
    return [
      ...(isForeign ? [`an outputSchema of type ${String(type)} in ${traits.revision}`] : []),
      ...(isObject(tool) && 'execution' in tool && traits.modern ? ['a tool with execution'] : []),
    ]
  })
}

/** What is wrong with an error of this revision. */
export function errorFaults(traits: Traits, error: Json): string[] {
  const { code, message } = error
  if (!Number.isInteger(code)) return [`an error whose code is ${JSON.stringify(code)}`]
  if (typeof message !== 'string') return ['an error without a message']
  const isReserved = Number(code) <= -32020 && Number(code) >= -32099
  if (!traits.modern && isReserved && code !== -32042 && code !== -32022)
    return [`error ${String(code)} in ${traits.revision}`]
  if (traits.modern && (code === -32002 || code === -32042))
    return [`error ${String(code)} in ${traits.revision}`]
  return []
}

/** What is wrong with a notification of this revision. */
export function noteFaults(traits: Traits, method: string, params: Json): string[] {
  const foreign = traits.modern ? [] : foreignKeys(traits, objectAt(params, '_meta'))
  const message =
    method === 'notifications/progress' && !traits.progressMessage && 'message' in params ? ['message'] : []
  return [...foreign, ...message].map((name) => `${name} in ${method} of ${traits.revision}`)
}

/** What is wrong with a question to a client with these capabilities. */
export function questionFaults(traits: Traits, capabilities: Json, method: string, params: Json): string[] {
  const known = ['elicitation/create', 'sampling/createMessage', 'roots/list']
  if (!known.includes(method)) return [`asked for ${method}`]
  if (!mayAsk(capabilities, { method, params })) return [`asked for ${method} without the capability for it`]
  if (method === 'elicitation/create') return elicitationFaults(traits, params)
  if (method === 'sampling/createMessage') {
    if (!Array.isArray(params['messages'])) return ['sampling without messages']
    const isForeign = !traits.urlElicitation && ('tools' in params || 'toolChoice' in params)
    const isHeard = !traits.audio && JSON.stringify(params['messages']).includes('"type":"audio"')
    return [
      ...(isForeign ? [`sampling with tools in ${traits.revision}`] : []),
      ...(isHeard ? [`sampling with audio in ${traits.revision}`] : []),
    ]
  }
  return []
}

function elicitationFaults(traits: Traits, params: Json): string[] {
  const { mode, message, requestedSchema, url, elicitationId } = params
  if (typeof message !== 'string') return ['elicitation without a message']
  if (mode !== undefined && !traits.urlElicitation) return [`elicitation with a mode in ${traits.revision}`]
  if (mode !== 'url') return isObject(requestedSchema) ? [] : ['elicitation without requestedSchema']
  return [
    ...(typeof url === 'string' ? [] : ['elicitation for a URL without url']),
    ...((elicitationId !== undefined) === traits.elicitationId
      ? []
      : [`elicitationId is ${String(elicitationId)}`]),
  ]
}

function foreignKeys(traits: Traits, meta: Json): string[] {
  const known = traits.revision === '2025-11-25' ? ['io.modelcontextprotocol/related-task'] : []
  return keysWith(meta, 'io.modelcontextprotocol/').filter((key) => !known.includes(key))
}
