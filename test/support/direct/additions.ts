/**
 * The table of `docs/same-as-direct.md`: what the gateway adds to the messages of servers, and the few things it changes. It
 * is read from the page, so that what is documented is what tests allow.
 */
import { readFileSync } from 'node:fs'
import { isDeepStrictEqual } from 'node:util'
import { Payload } from '../../../src/core/payload.ts'
import { dialects } from '../../../src/protocol/dialects.ts'
import { toolsFor } from '../../../src/protocol/schema-repair.ts'
import { isObject, type Json, objectAt } from '../server/json.ts'

/** One row of the table. */
export interface Addition {
  /** The methods whose responses it is in; empty for all. */
  readonly methods: readonly string[]
  /** Where it is: `result.tools[].dashdash`. */
  readonly path: readonly string[]
  /**
   * `added`: only where the server has no such member. `extended`: the server's text comes first. `replaced`: the server
   * may have another value. `repaired`: the value is what `schema-repair.ts` makes of the server's. `removed`: only the server has it. `sent`: a whole notification. `answered`: a whole error, where the server has another failure.
   */
  readonly how: 'added' | 'extended' | 'replaced' | 'repaired' | 'removed' | 'sent' | 'answered'
  /** The only value of the server that is replaced, if any other stays. */
  readonly value?: string
}

const kinds: readonly Addition['how'][] = [
  'added',
  'extended',
  'replaced',
  'repaired',
  'removed',
  'sent',
  'answered',
]

function isKnown(how: string): how is Addition['how'] {
  return kinds.some((each) => each === how)
}

const page = new URL('../../../docs/same-as-direct.md', import.meta.url)

/** The rows of the table. @throws Error for one that cannot be read */
export function readAdditions(text: string = readFileSync(page, 'utf8')): readonly Addition[] {
  const rows = text.split('\n').filter((line) => /^\| (?:`|all )/.test(line))
  return rows.map((row) => {
    const [, methods = '', path = '', kind = ''] = row.split('|').map((cell) => cell.trim())
    const [, how = '', value] = /^(\w+)(?: "(.*)")?$/.exec(kind) ?? []
    if (!isKnown(how)) throw new Error(`cannot read: ${row}`)
    return {
      methods: methods === 'all' ? [] : [...methods.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name),
      path: stepsOf(path.replaceAll('`', '')),
      how,
      ...(value !== undefined && { value }),
    }
  })
}

/** A response with the additions taken out, given the response of the server itself; that, as far as it was replaced. */
export function withoutAdditions(
  method: string,
  through: unknown,
  direct: unknown,
  additions: readonly Addition[],
): { readonly through: unknown; readonly direct: unknown } {
  if (isAnsweredByGateway(method, through, direct, additions)) return { through: {}, direct: {} }
  return additions
    .filter(({ methods }) => methods.length === 0 || methods.includes(method))
    .reduce<{ through: unknown; direct: unknown }>(
      (pair, { path, methods: _methods, ...row }) => without(pair.through, pair.direct, path, row),
      { through, direct },
    )
}

/** Whether the gateway refused what the server refuses too, in other words. */
function isAnsweredByGateway(
  method: string,
  through: unknown,
  direct: unknown,
  additions: readonly Addition[],
): boolean {
  const { data } = objectAt(through, 'error')
  const code = isObject(data) ? data['code'] : undefined
  const isFailure =
    isObject(direct) && (direct['error'] !== undefined || objectAt(direct, 'result')['isError'] === true)
  return additions.some(({ methods, path, how }) => {
    return how === 'answered' && methods.includes(method) && isFailure && path[0] === code
  })
}

/** Notifications without those that the gateway sends itself, beyond as many as the server sends. */
export function withoutSent(
  through: readonly unknown[],
  direct: readonly unknown[],
  additions: readonly Addition[],
): readonly unknown[] {
  const own = additions.flatMap(({ how, path }) => (how === 'sent' ? path : []))
  const methods = (notes: readonly unknown[]): unknown[] =>
    notes.map((note) => (isObject(note) ? note['method'] : undefined))
  let surplus = own.map((method) => {
    const count = (notes: readonly unknown[]): number =>
      methods(notes).filter((each) => each === method).length
    return { method, more: count(through) - count(direct) }
  })
  return through.filter((note) => {
    const [method] = methods([note])
    const found = surplus.find((each) => each.method === method && each.more > 0)
    if (found) surplus = surplus.map((each) => (each === found ? { ...each, more: each.more - 1 } : each))
    return !found
  })
}

type Pair = { readonly through: unknown; readonly direct: unknown }

function without(
  through: unknown,
  direct: unknown,
  [step = '', ...rest]: readonly string[],
  row: Omit<Addition, 'path' | 'methods'>,
): Pair {
  const { how, value } = row
  if (step === '[]') {
    if (!Array.isArray(through)) return { through, direct }
    const there = Array.isArray(direct) ? direct : []
    const pairs = through.map((each: unknown, index) => without(each, there[index], rest, row))
    return {
      through: pairs.map((pair) => pair.through),
      direct: Array.isArray(direct)
        ? there.map((each: unknown, index) => pairs[index]?.direct ?? each)
        : direct,
    }
  }
  if (!isObject(through)) return { through, direct }
  const given = isObject(direct) ? direct : {}
  if (!Object.hasOwn(through, step)) {
    const isRemoved = how === 'removed' && rest.length === 0 && Object.hasOwn(given, step)
    return { through, direct: isRemoved ? omitted(given, step) : direct }
  }
  const isThere = Object.hasOwn(given, step)
  if (rest.length > 0) {
    const pair = without(through[step], given[step], rest, row)
    const isEmptied = !isThere && isObject(pair.through) && Object.keys(pair.through).length === 0
    return {
      through: isEmptied ? omitted(through, step) : { ...through, [step]: pair.through },
      direct: isThere ? { ...given, [step]: pair.direct } : direct,
    }
  }
  if (how === 'removed') return { through, direct }
  if (how === 'replaced') {
    if (value !== undefined && value !== given[step]) return { through, direct }
    return { through: omitted(through, step), direct: isThere ? omitted(given, step) : direct }
  }
  if (how === 'repaired') {
    if (!isThere || !isDeepStrictEqual(through[step], repairedMember(given, step))) return { through, direct }
    return { through: omitted(through, step), direct: omitted(given, step) }
  }
  if (!isThere) return { through: omitted(through, step), direct }
  const isLonger = how === 'extended' && String(through[step]).startsWith(`${String(given[step])}\n\n`)
  return { through: isLonger ? { ...through, [step]: given[step] } : through, direct }
}

/** A member of an entry of `tools/list`, as the gateway lists it. */
function repairedMember(entry: Json, key: string): unknown {
  const [tool] = toolsFor([Payload.of(entry)], dialects.any)
  return JSON.parse(tool?.text ?? '{}')[key]
}

function omitted(object: Json, key: string): Json {
  return Object.fromEntries(Object.entries(object).filter(([each]) => each !== key))
}

/** `result.capabilities.extensions["a.b/c"]` as steps; `[]` stands for every element. */
function stepsOf(path: string): string[] {
  return [...path.matchAll(/\["([^"]+)"\]|(\[\])|([^.[\]]+)/g)].map(
    ([, quoted, every, name]) => quoted ?? every ?? name ?? '',
  )
}
