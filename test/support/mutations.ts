import fc from 'fast-check'
import { encode, type Json } from './server/json.ts'

/** Values that are of the wrong type wherever they stand. */
const oddities = fc.constantFrom<unknown>(
  null,
  0,
  -1,
  1.5,
  1e308,
  '',
  '\u0000',
  '\ud800',
  true,
  [],
  {},
  [[]],
  { a: 1 },
  '__proto__',
)

/** Messages like this one, with a few things wrong: text cut, doubled or changed, members of odd types. */
export function mutated(message: Json): fc.Arbitrary<string> {
  const text = encode(message)
  const at = fc.nat(text.length)
  const cut = fc.tuple(at, at).map(([from, to]) => text.slice(0, from) + text.slice(Math.max(from, to)))
  const changed = fc.tuple(at, fc.string({ unit: 'binary', maxLength: 3 })).map(([from, junk]) => {
    return text.slice(0, from) + junk + text.slice(from + 1)
  })
  const retyped = fc.tuple(fc.constantFrom(...paths(message)), fc.oneof(oddities, fc.jsonValue()))
  return fc.oneof(
    cut,
    changed,
    at.map((end) => text.slice(0, end)),
    at.map((from) => text.slice(0, from) + text),
    retyped.map(([path, value]) => encode(put(message, path, value))),
    retyped.map(([path]) => encode(put(message, path, undefined))),
  )
}

/** Text of every kind: JSON, almost JSON, no JSON. */
export const anyText = fc.oneof(
  fc.json(),
  fc.string({ unit: 'binary' }),
  fc.constantFrom(
    '{',
    '[',
    '"',
    '[]',
    '{}',
    'null',
    '[[[[',
    '{"jsonrpc":"2.0"}',
    '\ufeff{}',
    '{"__proto__":{"method":"ping"}}',
  ),
)

function paths(value: unknown, above: readonly string[] = []): string[][] {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return []
  return Object.entries(value).flatMap(([key, each]) => [[...above, key], ...paths(each, [...above, key])])
}

function put(message: Json, [key = '', ...rest]: readonly string[], value: unknown): Json {
  const inner = message[key]
  const below = typeof inner === 'object' && inner !== null ? (inner as Json) : {}
  return { ...message, [key]: rest.length === 0 ? value : put(below, rest, value) }
}
