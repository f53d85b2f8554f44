/**
 * Compares what two recordings answer to the same requests, without what differs in every run. The second one may be made for
 * it, of the live server; by default only with requests that read.
 */
import { listAllPages } from '../protocol/listing.ts'
import { exactly, isObject, isSame } from '../core/json/json.ts'
import { type Fields, Payload } from '../core/payload.ts'
import { type Cassette, type Episode, episodesOf, handshakes, withoutMeta, nameOf } from './cassette.ts'
import { isRecorded } from './player.ts'
import { steady } from './steady.ts'
import type { Call, Handler } from '../core/call.ts'
import { ownCall } from '../protocol/lift.ts'
import { metaKeys } from '../protocol/meta-keys.ts'

/** A value that differs, at a path such as `result.content[0].text`. */
export interface ChangedValue {
  readonly path: string
  /** Absent if it is not there. */
  readonly before?: unknown
  readonly after?: unknown
}

/** A request that the recordings answer differently, or that only one of them has. */
interface Difference {
  readonly kind: 'changed' | 'removed' | 'added'
  readonly method: string
  readonly params: Fields
  /** The lines of the request in the two files. */
  readonly lines: readonly [before: number | undefined, after: number | undefined]
  readonly values: readonly ChangedValue[]
}

/** The result of a comparison. */
export interface Comparison {
  /** The number of requests that both have. */
  readonly compared: number
  readonly differences: readonly Difference[]
}

/** Requests that depend on the client, or change how a connection works. */
const notCompared: ReadonlySet<string> = new Set([...handshakes, 'logging/setLevel'])

/** The maximum number of values listed for one request. */
const MAX_VALUES = 50

/** Compares the answered requests of two recordings; repetitions are compared in order, as far as both have them. */
export function diffCassettes(before: Cassette, after: Cassette): Comparison {
  const marks = [...new Set([...before.header.redaction.marks, ...after.header.redaction.marks])]
  const [older, newer] = [answered(before), answered(after)]
  const differences: Difference[] = []
  let compared = 0
  for (const [key, ones] of older) {
    const others = newer.get(key)
    if (!others) {
      differences.push(onlyIn(ones, 'removed'))
      continue
    }
    for (const [index, one] of ones.entries()) {
      const other = others[index]
      if (!other) break
      compared++
      const values = changedValues(answerOf(one), answerOf(other), marks)
      if (values.length === 0) continue
      const { method, params } = one
      const lines = [one.line, other.line] as const
      differences.push({ kind: 'changed', method, params: withoutMeta(params), lines, values })
      break
    }
  }
  for (const [key, others] of newer) if (!older.has(key)) differences.push(onlyIn(others, 'added'))
  return { compared, differences }
}

function answered(cassette: Cassette): Map<string, Episode[]> {
  const requests = new Map<string, Episode[]>()
  for (const episode of episodesOf(cassette)) {
    const { method, params, response } = episode
    if (!response || notCompared.has(method)) continue
    const key = `${method} ${exactly(comparable(params))}`
    const same = requests.get(key)
    if (same) same.push(episode)
    else requests.set(key, [episode])
  }
  return requests
}

/** The parameters of a request without the opaque values that its server chose. */
function comparable(params: Fields): Fields {
  const { requestState, ...rest } = withoutMeta(params)
  return { ...rest, ...(rest.cursor !== undefined && { cursor: '<id>' }) }
}

function onlyIn([episode]: readonly Episode[], kind: 'removed' | 'added'): Difference {
  const { method = '', params = {}, line } = episode ?? {}
  const lines = kind === 'removed' ? ([line, undefined] as const) : ([undefined, line] as const)
  return { kind, method, params: withoutMeta(params), lines, values: [] }
}

function answerOf({ response = {}, steps }: Episode): Fields {
  const { result, error } = response
  const questions = steps.filter(({ frame }) => frame.id !== undefined)
  return {
    ...(result !== undefined && { result }),
    ...(error !== undefined && { error }),
    ...(questions.length > 0 && {
      questions: questions.map(({ frame }) => ({ method: frame.method, params: frame.params })),
    }),
  }
}

function changedValues(before: unknown, after: unknown, marks: readonly string[]): ChangedValue[] {
  return valuesThatDiffer(steady(before), steady(after), marks)
}

/** The values that differ between two JSON values, by path; texts of `marks` equal any value. */
export function valuesThatDiffer(
  before: unknown,
  after: unknown,
  marks: readonly string[] = [],
): ChangedValue[] {
  return [...walk(before, after, marks, '')].slice(0, MAX_VALUES)
}

function* walk(
  before: unknown,
  after: unknown,
  marks: readonly string[],
  path: string,
): Generator<ChangedValue> {
  if (isSame(before, after)) return
  if (Array.isArray(before) && Array.isArray(after)) {
    for (let index = 0; index < Math.max(before.length, after.length); index++)
      yield* walk(before[index], after[index], marks, `${path}[${index}]`)
    return
  }
  if (isObject(before) && isObject(after)) {
    for (const key of new Set([...Object.keys(before), ...Object.keys(after)]))
      yield* walk(before[key], after[key], marks, path === '' ? key : `${path}.${key}`)
    return
  }
  // What was removed from one of them may be equal.
  if (isRecorded(before, after, marks) || isRecorded(after, before, marks)) return
  yield { path, ...(before !== undefined && { before }), ...(after !== undefined && { after }) }
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

/** Makes the requests of a recording at a server, `withWrites` also those that may change something. The interceptor of the gateway records what it answers. @throws what listing throws */
export async function repeatLive(
  cassette: Cassette,
  handle: Handler,
  upstream: string,
  withWrites: boolean,
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
