/** Makes the requests of a recording again at the live server; by default only those that read. */
import type { Handler, Outcome } from '../core/call.ts'
import { isObject } from '../core/json/json.ts'
import { Payload } from '../core/payload.ts'
import { ownCall } from '../protocol/lift.ts'
import { metaKeys } from '../protocol/meta-keys.ts'
import type { Cassette } from './cassette.ts'
import { notCompared } from './diff.ts'
import { type Episode, episodesOf, withoutMeta } from './episodes.ts'

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
  const make = (method: string, params: Payload, name?: string) => {
    const target = { upstream, method, ...(name !== undefined && { name }) }
    return handle(ownCall({ method, params, target, client }))
  }
  const hasCalls = episodes.some(({ method }) => method === 'tools/call')
  const readers = hasCalls && !withWrites ? await readersIn((params) => make('tools/list', params)) : []
  const skipped: Skipped[] = []
  for (const episode of episodes) {
    const { method, line, params } = episode
    const name = nameOf(episode)
    const reason = reasonToSkip(episode, withWrites || method !== 'tools/call' || readers.includes(name))
    if (reason === undefined) {
      // An error of the server is an answer too, which the interceptor has recorded.
      await make(method, Payload.of(withoutMeta(params)), name).catch(() => undefined)
      continue
    }
    skipped.push({ line, method, ...(name !== undefined && { name }), reason })
  }
  return skipped
}

/** The names of the tools that only read, according to the server. */
async function readersIn(list: (params: Payload) => Promise<Outcome>): Promise<readonly unknown[]> {
  const names: unknown[] = []
  let params: Payload | undefined = Payload.of({})
  while (params) {
    const outcome = await list(params)
    if (outcome.kind !== 'result') break
    const { tools, nextCursor } = outcome.result.fields
    const listed: readonly unknown[] = Array.isArray(tools) ? tools : []
    names.push(...listed.flatMap((tool) => (isReader(tool) ? [tool.name] : [])))
    params = nextCursor === undefined || listed.length === 0 ? undefined : Payload.of({ cursor: nextCursor })
  }
  return names
}

function isReader(tool: unknown): tool is Readonly<Record<string, unknown>> {
  return isObject(tool) && isObject(tool.annotations) && tool.annotations.readOnlyHint === true
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
  if (params.cursor !== undefined) return 'its cursor is of the recording'
  const isAsking =
    steps.some(({ frame }) => frame.id !== undefined) ||
    (isObject(response?.result) && response.result.resultType === 'input_required') ||
    params.inputResponses !== undefined
  return isAsking ? 'the server asks the client during it' : undefined
}

function nameOf({ params: { name, uri } }: Episode): string | undefined {
  const found = name ?? uri
  return typeof found === 'string' ? found : undefined
}
