/** Makes the requests of a recording again at the live server; by default only those that read. */
import { listAllPages } from '../catalog/pagination.ts'
import type { Call, Handler } from '../core/call.ts'
import { isObject } from '../core/json/json.ts'
import { Payload } from '../core/payload.ts'
import { ownCall } from '../protocol/lift.ts'
import { metaKeys } from '../protocol/meta-keys.ts'
import type { Cassette } from './cassette.ts'
import { notCompared } from './diff.ts'
import { type Episode, episodesOf, nameOf, withoutMeta } from './episodes.ts'

interface Options {
  readonly upstream: string
  /** Also calls tools that may change something. */
  readonly withWrites: boolean
}

/** A request that was not made, and why. */
export interface Skipped {
  readonly line: number
  readonly method: string
  readonly name?: string
  readonly reason: string
}

const reading = new Set([
  'tools/list',
  'prompts/list',
  'prompts/get',
  'resources/list',
  'resources/templates/list',
  'resources/read',
  'completion/complete',
])

/** Makes the requests of a recording at a server. The interceptor of the gateway records what it answers. @throws what listing throws */
export async function repeatLive(
  cassette: Cassette,
  handle: Handler,
  { upstream, withWrites }: Options,
): Promise<readonly Skipped[]> {
  const episodes = episodesOf(cassette).filter(({ method, response }) => response && !notCompared.has(method))
  // Servers offer other tools to clients that they can ask.
  const own = ownCall()
  const client = { ...own.client, capabilities: capabilitiesIn(cassette) }
  const callOf = (method: string, params: Payload, name?: string): Call => {
    const target = { upstream, method, ...(name !== undefined && { name }) }
    return ownCall({ method, params, target, client })
  }
  const hasCalls = episodes.some(({ method }) => method === 'tools/call')
  const readers = hasCalls && !withWrites ? await readersIn(handle, callOf('tools/list', Payload.of({}))) : []
  const skipped: Skipped[] = []
  for (const episode of episodes) {
    const { method, line, params } = episode
    const name = nameOf(params)
    const reason = reasonToSkip(episode, withWrites || method !== 'tools/call' || readers.includes(name))
    if (reason === undefined) {
      // An error of the server is an answer too, which the interceptor has recorded.
      await handle(callOf(method, Payload.of(withoutMeta(params)), name)).catch(() => undefined)
      continue
    }
    skipped.push({ line, method, ...(name !== undefined && { name }), reason })
  }
  return skipped
}

/** The names of the tools that only read, according to the server. */
async function readersIn(handle: Handler, call: Call): Promise<readonly unknown[]> {
  const tools = await listAllPages(handle, call, 'tools/list')
  return tools.flatMap(({ fields: { name, annotations } }) =>
    isObject(annotations) && annotations.readOnlyHint === true ? [name] : [],
  )
}

/** The capabilities of the recorded client; of several, the one with the most. */
function capabilitiesIn(cassette: Cassette): Readonly<Record<string, unknown>> {
  const found = episodesOf(cassette).flatMap(({ params: { capabilities, _meta } }) => {
    const declared = isObject(_meta) ? (_meta[metaKeys.capabilities] ?? capabilities) : capabilities
    return isObject(declared) ? [declared] : []
  })
  return found.toSorted((one, other) => Object.keys(other).length - Object.keys(one).length)[0] ?? {}
}

function reasonToSkip({ method, params, steps, response }: Episode, isReading: boolean): string | undefined {
  if (!reading.has(method) && method !== 'tools/call')
    return 'it changes what the server keeps for its client'
  if (!isReading) return 'its tool does not declare readOnlyHint'
  if (params.cursor !== undefined) return 'its cursor is valid only in the recorded session'
  const isAsking =
    steps.some(({ frame }) => frame.id !== undefined) ||
    (isObject(response?.result) && response.result.resultType === 'input_required') ||
    params.inputResponses !== undefined
  return isAsking ? 'the server asks the client during it' : undefined
}
