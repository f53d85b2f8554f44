/** Compares what two recordings answer to the same requests, without what differs in every run. */
import { exactly, isObject, isSame } from '../core/json/json.ts'
import type { Fields } from '../core/payload.ts'
import type { Cassette } from './cassette.ts'
import { type Episode, episodesOf, handshakes, withoutMeta } from './episodes.ts'
import { isRecorded } from './matching.ts'
import { steady } from './steady.ts'

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
export const notCompared: ReadonlySet<string> = new Set([...handshakes, 'logging/setLevel'])

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
  return [...walk(before, after, { path: '', marks })].slice(0, MAX_VALUES)
}

interface Place {
  readonly path: string
  readonly marks: readonly string[]
}

function* walk(before: unknown, after: unknown, { path, marks }: Place): Generator<ChangedValue> {
  if (isSame(before, after)) return
  if (Array.isArray(before) && Array.isArray(after)) {
    for (let index = 0; index < Math.max(before.length, after.length); index++)
      yield* walk(before[index], after[index], { path: `${path}[${index}]`, marks })
    return
  }
  if (isObject(before) && isObject(after)) {
    for (const key of new Set([...Object.keys(before), ...Object.keys(after)]))
      yield* walk(before[key], after[key], { path: path === '' ? key : `${path}.${key}`, marks })
    return
  }
  // What was removed from one of them may be equal.
  if (isRecorded(before, after, marks) || isRecorded(after, before, marks)) return
  yield { path, ...(before !== undefined && { before }), ...(after !== undefined && { after }) }
}
