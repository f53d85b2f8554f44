import { type Call, InputRequired, RpcError } from './call.ts'
import {
  complete,
  getPrompt,
  page,
  promptEntries,
  readResource,
  resourceEntries,
  templateEntries,
  toolEntries,
} from './catalog.ts'
import { type Json, objectAt, RawJson, textAt } from './json.ts'
import { callTool } from './tools.ts'

interface Method {
  /** The capability the server declares for it, as a path of members. */
  readonly capability: readonly string[]
  /** A 2026-07-28 result says how long it may be cached. */
  readonly isCacheable?: boolean
  answer(call: Call): Json | Promise<Json>
}

const methods: Readonly<Record<string, Method>> = {
  'tools/list': {
    capability: ['tools'],
    isCacheable: true,
    answer: (call) => page(call, 'tools', toolEntries(call.world)),
  },
  'tools/call': { capability: ['tools'], answer: callTool },
  'prompts/list': {
    capability: ['prompts'],
    isCacheable: true,
    answer: (call) => page(call, 'prompts', promptEntries()),
  },
  'prompts/get': { capability: ['prompts'], answer: getPrompt },
  'resources/list': {
    capability: ['resources'],
    isCacheable: true,
    answer: (call) => page(call, 'resources', resourceEntries(call.world)),
  },
  'resources/templates/list': {
    capability: ['resources'],
    isCacheable: true,
    answer: (call) => page(call, 'resourceTemplates', templateEntries()),
  },
  'resources/read': { capability: ['resources'], isCacheable: true, answer: readResource },
  'completion/complete': { capability: ['completions'], answer: complete },
  'vendor/ping': {
    capability: [],
    answer: (call) => ({
      pong: new RawJson(textAt(call.text, ['params', 'payload']) ?? '"none"'),
      'x-more': true,
    }),
  },
}

/** Methods of every revision, to tell a method of another era from an unknown one. */
const eraMethods = ['initialize', 'ping', 'logging/setLevel', 'resources/subscribe', 'resources/unsubscribe']
const modernMethods = ['server/discover', 'subscriptions/listen']

/** Whether a 2026-07-28 result of this method says how long it may be cached. */
export function isCacheable(method: string): boolean {
  return method === 'server/discover' || (methods[method]?.isCacheable ?? false)
}

/** Answers a request that means the same in every revision. */
export async function answer(call: Call): Promise<Json> {
  const method = methods[call.method]
  if (!method) throw unknownMethod(call)
  requireCapability(call, method.capability)
  try {
    return await method.answer(call)
  } catch (error) {
    const isOutcome = error instanceof RpcError || error instanceof InputRequired || call.signal.aborted
    if (isOutcome || call.method !== 'tools/call') throw error
    const text = error instanceof Error ? error.message : String(error)
    return { content: [{ type: 'text', text }], isError: true }
  }
}

/** Refuses a request for something the server did not declare. */
export function requireCapability(call: Call, path: readonly string[]): void {
  const { world } = call
  if (path[0] === 'completions' && !world.traits.completions) return
  let place = world.capabilities()
  for (const [depth, name] of path.entries()) {
    if (place[name] === undefined || place[name] === false) {
      world.journal.violation(`${call.method} was sent, but the server did not declare ${path.join('.')}`)
      throw new RpcError(-32601, `Method not found: ${call.method}`)
    }
    if (depth < path.length - 1) place = objectAt(place, name)
  }
}

/** The error for a method this revision lacks; noted when the method belongs to the other era. */
export function unknownMethod(call: Call): RpcError {
  const { journal, traits } = call.world
  const foreign = traits.modern ? eraMethods : modernMethods
  const isProbe = call.method === 'initialize' || call.method === 'server/discover'
  if (foreign.includes(call.method) && !isProbe)
    journal.violation(`${call.method} sent to ${traits.revision}`)
  return new RpcError(-32601, `Method not found: ${call.method}`)
}
