import { type Json, objectAt } from './server/json.ts'

const object = { type: 'object' }

/** Input schemas that cost far more than they look, by the name of the tool that has them. */
export function schemaBombs(): Readonly<Record<string, Json>> {
  return {
    pattern: { ...object, properties: { text: { type: 'string', pattern: '^(a+)+$' } } },
    patterns: {
      ...object,
      properties: {
        text: {
          type: 'string',
          allOf: ['(a|aa)+$', '(.*a){20}', '^(([a-z])+.)+[A-Z]([a-z])+$'].map((pattern) => ({ pattern })),
        },
      },
    },
    pattern_keys: { ...object, patternProperties: { '^(a+)+$': false } },
    self: { $ref: '#' },
    loop: {
      ...object,
      $defs: { a: { $ref: '#/$defs/b' }, b: { $ref: '#/$defs/a' } },
      properties: { x: { $ref: '#/$defs/a' } },
    },
    doubling: doubling('allOf'),
    doubling_any: doubling('anyOf'),
    doubling_one: doubling('oneOf'),
    nested_any: { ...object, properties: { x: nested(12) } },
    deep: { ...object, properties: { x: deep(1000) } },
    wide: {
      ...object,
      properties: Object.fromEntries(
        Array.from({ length: 50_000 }, (_, index) => [`p${index}`, { type: 'string' }]),
      ),
    },
    huge: { ...object, description: 'x'.repeat(10 * 1024 * 1024) },
    elsewhere: { $ref: 'https://schemas.example.com/bomb.json' },
    unique: { ...object, properties: { list: { type: 'array', uniqueItems: true } } },
    proto: JSON.parse(
      '{"type":"object","properties":{"__proto__":{"type":"string"},"constructor":{"type":"string"}}}',
    ) as Json,
    nonsense: { type: 'no such type', properties: 7, required: 'x', pattern: '(' },
  }
}

/** Each definition stands for two of the next: 2 to the power of 40 in all. */
function doubling(keyword: string): Json {
  const steps = Array.from({ length: 40 }, (_, index) => {
    const next = { $ref: `#/$defs/s${index + 1}` }
    return [`s${index}`, { [keyword]: [next, next] }] as const
  })
  return {
    ...object,
    $defs: { ...Object.fromEntries(steps), s40: { type: 'string' } },
    properties: { x: { $ref: '#/$defs/s0' } },
  }
}

/** Choices between choices, written out. */
function nested(depth: number): Json {
  if (depth === 0) return { type: 'string', minLength: 3 }
  const inner = nested(depth - 1)
  return { anyOf: [inner, { allOf: [inner] }] }
}

function deep(depth: number): Json {
  let schema: Json = { type: 'string' }
  for (let level = 0; level < depth; level++) schema = { type: 'object', properties: { x: schema } }
  return objectAt({ schema }, 'schema')
}
