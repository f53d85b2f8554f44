import {
  type Call,
  type Channel,
  errorReply,
  InputRequired,
  isLevel,
  type Question,
  reaches,
  RpcError,
} from './call.ts'
import type { Incoming } from './incoming.ts'
import { isObject, type Json, objectAt } from './json.ts'
import { answer, isCacheable } from './methods.ts'
import { demand } from './questions.ts'
import { digest, openState, sealState } from './state.ts'
import type { Change, World } from './world.ts'

const versionKey = 'io.modelcontextprotocol/protocolVersion'
const capabilitiesKey = 'io.modelcontextprotocol/clientCapabilities'
const levelKey = 'io.modelcontextprotocol/logLevel'
const infoKey = 'io.modelcontextprotocol/serverInfo'
const subscriptionKey = 'io.modelcontextprotocol/subscriptionId'

type Request = Extract<Incoming, { kind: 'request' }>

/** Answers one request of 2026-07-28; nothing is kept between requests. */
export async function receiveModern(
  world: World,
  request: Request,
  channel: Channel,
  signal: AbortSignal,
): Promise<void> {
  const { id, method, params, text } = request
  const { journal, options, traits } = world
  const meta = objectAt(params, '_meta')
  const threshold = meta[levelKey]
  const call: Call = {
    id,
    method,
    params,
    text,
    world,
    channel,
    signal,
    logs: (level) => typeof threshold === 'string' && reaches(level, threshold),
    ask: asker(world, request),
  }
  try {
    if (method === 'initialize') {
      const data = { supported: [traits.revision], requested: String(params['protocolVersion']) }
      throw new RpcError(-32022, 'Unsupported protocol version', data)
    }
    const wrong = checkEnvelope(params, options.revision)
    if (wrong) {
      if (wrong.code !== -32022) journal.violation(`${wrong.message} with ${method}`)
      channel.finish(errorReply(id, wrong), 400)
      return
    }
    const result = await answerModern(call)
    if (!signal.aborted) channel.finish({ jsonrpc: '2.0', id, result: complete(call, result) })
  } catch (error) {
    if (!signal.aborted) finishFailed(call, error)
  } finally {
    if (signal.aborted) channel.finish()
  }
}

function checkEnvelope(params: Json, revision: string): RpcError | undefined {
  const meta = objectAt(params, '_meta')
  const version = meta[versionKey]
  if (typeof version !== 'string') return new RpcError(-32602, `Missing _meta["${versionKey}"]`)
  if (version !== revision) {
    return new RpcError(-32022, 'Unsupported protocol version', { supported: [revision], requested: version })
  }
  if (!isObject(meta[capabilitiesKey])) return new RpcError(-32602, `Missing _meta["${capabilitiesKey}"]`)
  const level = meta[levelKey]
  if (level !== undefined && !isLevel(level)) return new RpcError(-32602, `Unknown level: ${String(level)}`)
  return undefined
}

function statusOf(error: unknown): number {
  const code = error instanceof RpcError ? error.code : 0
  if (code === -32601) return 404
  return code === -32020 || code === -32021 || code === -32022 ? 400 : 200
}

function finishFailed(call: Call, error: unknown): void {
  const { channel, id, world } = call
  if (!(error instanceof InputRequired)) return channel.finish(errorReply(id, error), statusOf(error))
  const result = { resultType: 'input_required', ...error.result, _meta: { [infoKey]: world.info() } }
  channel.finish({ jsonrpc: '2.0', id, result })
}

function complete(call: Call, result: Json): Json {
  const { world, method } = call
  return {
    resultType: 'complete',
    ...result,
    ...(isCacheable(method) && { ttlMs: world.options.ttlMs ?? 0, cacheScope: 'private' }),
    _meta: { ...objectAt(result, '_meta'), [infoKey]: world.info() },
  }
}

function answerModern(call: Call): Json | Promise<Json> {
  if (call.method === 'server/discover') {
    const { traits } = call.world
    const instructions = 'Use the fake tools.'
    return { supportedVersions: [traits.revision], capabilities: call.world.capabilities(), instructions }
  }
  if (call.method === 'subscriptions/listen') return listen(call)
  return answer(call)
}

/** Sends the changes the client opted in to until either side ends it. */
function listen(call: Call): Promise<Json> {
  const { channel, id, signal, world } = call
  const filter = objectAt(call.params, 'notifications')
  const _meta = { [subscriptionKey]: id }
  const tell = (method: string, params: Json) =>
    channel.send({ jsonrpc: '2.0', method, params: { ...params, _meta } })
  const honoured = honouredOf(filter, world)
  tell('notifications/subscriptions/acknowledged', { notifications: honoured })
  return new Promise((resolve) => {
    const listener = {
      heard: ({ what, method, params = {} }: Change) => {
        const uris = honoured['resourceSubscriptions']
        const isWanted =
          what === 'watched'
            ? Array.isArray(uris) && uris.includes(params['uri'])
            : honoured[`${what}ListChanged`] === true
        if (isWanted) tell(method, params)
      },
      end: () => {
        world.listeners.delete(listener)
        resolve({ _meta })
      },
    }
    world.listeners.add(listener)
    signal.addEventListener('abort', listener.end, { once: true })
  })
}

function honouredOf(filter: Json, world: World): Json {
  const capabilities = world.capabilities()
  const honoured: Record<string, unknown> = {}
  for (const what of ['tools', 'prompts', 'resources']) {
    const name = `${what}ListChanged`
    if (filter[name] === true && objectAt(capabilities, what)['listChanged'] === true) honoured[name] = true
  }
  const uris = filter['resourceSubscriptions']
  const canSubscribe = objectAt(capabilities, 'resources')['subscribe'] === true
  if (Array.isArray(uris) && canSubscribe) honoured['resourceSubscriptions'] = uris
  return honoured
}

function asker(world: World, request: Request): Call['ask'] {
  const { id, method, params } = request
  const { journal } = world
  const keepsState = objectAt(params, 'arguments')['state'] !== false
  const bound = digest(method, params)
  return async (questions: Readonly<Record<string, Question>>) => {
    const remembered = openState(params['requestState'], bound, id, journal)
    const answers = { ...remembered, ...objectAt(params, 'inputResponses') }
    const isLater = Object.keys(questions).length === 0
    if (isLater && params['requestState'] !== undefined) return {}
    const missing = Object.entries(questions).filter(([key]) => !isObject(answers[key]))
    if (missing.length === 0 && !isLater) return pick(answers, Object.keys(questions))
    const inputRequests = Object.fromEntries(missing)
    demand(objectAt(objectAt(params, '_meta'), capabilitiesKey), inputRequests)
    throw new InputRequired({
      ...(!isLater && { inputRequests }),
      ...((keepsState || isLater) && { requestState: sealState(answers, bound, id) }),
    })
  }
}

function pick(answers: Json, keys: readonly string[]): Json {
  return Object.fromEntries(keys.map((key) => [key, answers[key]]))
}
