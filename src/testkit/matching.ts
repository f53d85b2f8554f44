/** Finds the episode of a recording that a request repeats, and what is nearest if there is none. */
import { exactly, isObject, isSame } from '../core/json/json.ts'
import type { Fields } from '../core/payload.ts'
import { shortened } from '../core/text/escape.ts'
import { nearest } from '../core/text/words.ts'
import type { Cassette } from './cassette.ts'
import { type Episode, handshakes, nameOf, withoutMeta } from './episodes.ts'

/** The maximum length of a value in a message, in characters. */
const MAX_SHOWN = 120

/** Whether a value is the recorded one; a mark in a recorded text stands for any text. */
export function isRecorded(recorded: unknown, given: unknown, marks: readonly string[]): boolean {
  // A rule may have replaced a value of any type.
  if (typeof recorded === 'string' && marks.includes(recorded)) return true
  if (typeof recorded === 'string' && typeof given === 'string')
    return recorded === given || isMarked(recorded, given, marks)
  if (Array.isArray(recorded)) {
    return (
      Array.isArray(given) &&
      recorded.length === given.length &&
      recorded.every((each, index) => isRecorded(each, given[index], marks))
    )
  }
  if (!isObject(recorded)) return isSame(recorded, given)
  if (!isObject(given)) return false
  const keys = Object.keys(recorded)
  return (
    keys.length === Object.keys(given).length &&
    keys.every((key) => Object.hasOwn(given, key) && isRecorded(recorded[key], given[key], marks))
  )
}

/** The parts of a text before, between and after its marks. */
export function partsBetween(text: string, marks: readonly string[]): readonly string[] {
  return marks.reduce<readonly string[]>((before, mark) => before.flatMap((part) => part.split(mark)), [text])
}

/** Whether the parts between the marks of a recorded text occur in a text, in this order. */
function isMarked(recorded: string, given: string, marks: readonly string[]): boolean {
  const [first = '', ...others] = partsBetween(recorded, marks)
  const last = others.pop()
  if (last === undefined || !given.startsWith(first) || !given.endsWith(last)) return false
  const end = given.length - last.length
  let at = first.length
  for (const part of others) {
    const found = given.indexOf(part, at)
    if (found === -1) return false
    at = found + part.length
  }
  return at <= end
}

/** What identifies a request: its parameters, with of the client's answers only those that a person chose. */
function identifying(method: string, params: Fields): Fields {
  if (handshakes.has(method)) return {}
  const { inputResponses, ...rest } = withoutMeta(params)
  if (!isObject(inputResponses)) return rest
  const chosen = Object.entries(inputResponses).map(([key, answer]) => [
    key,
    isObject(answer) && answer.action !== undefined ? answer : {},
  ])
  return { ...rest, inputResponses: Object.fromEntries(chosen) }
}

/** The requests of a recording, and how far it is. Each is used once, in recorded order; the last one then repeats. */
export class Matches {
  readonly #byMethod = new Map<string, Map<string, Episode[]>>()
  readonly #marks: readonly string[]
  readonly #used = new Set<Episode>()

  constructor(episodes: readonly Episode[], { header }: Pick<Cassette, 'header'>) {
    this.#marks = header.redaction.marks
    for (const episode of episodes) {
      const { method } = episode
      const byParams = this.#byMethod.get(method) ?? new Map<string, Episode[]>()
      this.#byMethod.set(method, byParams)
      const key = exactly(identifying(method, episode.params))
      const same = byParams.get(key)
      if (same) same.push(episode)
      else byParams.set(key, [episode])
    }
  }

  /** The episode of a request, preferably of one of these connections. */
  take(method: string, params: Fields, connections: readonly number[]): Episode | undefined {
    const found = this.#find(method, identifying(method, params))
    const preferred = found.filter(({ connection }) => connections.includes(connection))
    const choice = preferred.length > 0 ? preferred : found
    const taken = choice.find((each) => !this.#used.has(each)) ?? choice.at(-1)
    if (taken) this.#used.add(taken)
    return taken
  }

  /** Why a request is not in the recording, and what is nearest to it. */
  missing(method: string, params: Fields): string {
    const byParams = this.#byMethod.get(method)
    if (!byParams) {
      const methods = [...this.#byMethod.keys()].filter((each) => !each.startsWith('notifications/'))
      const hint = nearest(method, methods) ?? (methods.length > 0 ? methods.join(', ') : 'nothing')
      return `The recording has no request ${method}. It has: ${hint}.`
    }
    const recorded = [...byParams.values()].flat()
    const named = recorded.filter((each) => nameOf(each.params) === nameOf(params))
    const name = nameOf(params)
    if (named.length === 0) {
      const names = [...new Set(recorded.flatMap((each) => nameOf(each.params) ?? []))]
      const hint = (name === undefined ? undefined : nearest(name, names)) ?? names.join(', ')
      return `The recording has no ${method} of "${shown(name)}". It has: ${shown(hint)}.`
    }
    const given = leavesOf(identifying(method, params))
    const [best] = named
      .map((each) => ({ each, differing: differing(leavesOf(identifying(method, each.params)), given) }))
      .toSorted((one, other) => one.differing.length - other.differing.length)
    const of = name === undefined ? '' : ` of "${shown(name)}"`
    const parts = best?.differing.slice(0, 5).join('; ') ?? ''
    return `The recording has no ${method}${of} with these parameters. The nearest, in line ${best?.each.line}, differs: ${parts}.`
  }

  #find(method: string, params: Fields): readonly Episode[] {
    const byParams = this.#byMethod.get(method)
    const exact = byParams?.get(exactly(params))
    if (exact) return exact
    return [...(byParams?.values() ?? [])]
      .flat()
      .filter((each) => isRecorded(identifying(method, each.params), params, this.#marks))
  }
}

function shown(value: unknown): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? 'nothing')
  return shortened(text, MAX_SHOWN)
}

/** The values in parameters by their paths. */
function leavesOf(value: unknown, path = ''): Map<string, unknown> {
  if (!isObject(value) || Object.keys(value).length === 0) return new Map([[path, value]])
  const below = Object.entries(value).flatMap(([key, each]) => [
    ...leavesOf(each, path === '' ? key : `${path}.${key}`),
  ])
  return new Map(below)
}

/** The differing paths, with the recorded value of each. Given values are not repeated: they may be secret. */
function differing(recorded: Map<string, unknown>, given: Map<string, unknown>): string[] {
  const paths = new Set([...recorded.keys(), ...given.keys()])
  return [...paths].flatMap((path) => {
    if (!recorded.has(path)) return [`${path} is not in it`]
    if (!given.has(path)) return [`it has ${path}: ${shown(recorded.get(path))}`]
    return isSame(recorded.get(path), given.get(path)) ? [] : [`${path} is ${shown(recorded.get(path))}`]
  })
}
