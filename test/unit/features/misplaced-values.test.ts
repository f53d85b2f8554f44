// Values for the gateway among the arguments of a tool have no effect there, so the call is refused with the place
// where they belong. Arguments that the tool declares are not affected.
import { describe, expect, it } from 'vitest'
import type { Call, Outcome } from '../../../src/core/call.ts'
import type { Descriptor } from '../../../src/core/descriptor.ts'
import { GatewayError } from '../../../src/core/error.ts'
import { Payload } from '../../../src/core/payload.ts'
import type { CallerValue } from '../../../src/features/offers.ts'
import { misplacedValues } from '../../../src/features/misplaced-values.ts'
import { featureDeps, type ServiceStubs, withTool } from '../../support/feature-deps.ts'
import { serverSettings } from '../../support/server-settings.ts'
import { toolCall } from '../../support/tool-call.ts'

const values: readonly CallerValue[] = [
  { name: 'idempotency_key', aliases: ['idempotencyKey'], header: 'Idempotency-Key' },
  { name: 'transaction_id' },
  { name: 'intent' },
  { name: 'user_confirmed' },
]

function entryOf(inputSchema: unknown): Descriptor {
  const classification = { op: 'write', risk: 'safe', idempotent: false, evidence: [] } as const
  return {
    upstream: 'one',
    kind: 'tool',
    name: 't',
    definition: { name: 't', inputSchema },
    classification: classification,
  }
}

/** The refusal of a call with these arguments; undefined if it is forwarded unchanged. */
async function refusalOf(given: unknown, deps: ServiceStubs = {}, more: Partial<Call> = {}) {
  const whole = featureDeps({
    callerValues: () => values,
    entry: () => entryOf({ type: 'object', properties: { text: {} } }),
    isOn: (feature) => feature !== 'inject_arguments',
    ...deps,
  })
  const policy = withTool(
    misplacedValues.create(() => ({}), whole),
    whole,
  ).calls?.middleware({ method: 'tools/call', upstream: 'one', name: 't' })
  let seen: Call | undefined
  const handler = policy?.(async (call): Promise<Outcome> => {
    seen = call
    return { kind: 'result', result: Payload.of({}) }
  })
  const made = toolCall({ params: Payload.of({ name: 't', arguments: given }), ...more })
  const error: unknown = await handler?.(made).catch((thrown: unknown) => thrown)
  if (error instanceof GatewayError) return seen ? undefined : error
  expect(seen).toMatchObject({ params: made.params, meta: made.meta })
  return undefined
}

const names = values.flatMap(({ name, aliases = [] }) =>
  [name, ...aliases].flatMap((each) => [each, `_${each}`, `dev.gatehouse/${each}`]),
)
const schemas: readonly (readonly [string, unknown])[] = [
  ['allows additional properties', { type: 'object', properties: { text: {} } }],
  [
    'forbids additional properties',
    { type: 'object', properties: { text: {} }, additionalProperties: false },
  ],
  ['forbids others as zod writes it', { properties: { text: {} }, additionalProperties: { not: {} } }],
  ['forbids everything', { type: 'object', additionalProperties: false }],
  ['refers to one that forbids others', { $ref: '#/$defs/a', $defs: { a: { additionalProperties: false } } }],
  ['is made of parts of which one forbids others', { allOf: [{}, { additionalProperties: false }] }],
  [
    'is a choice of those that forbid others',
    { anyOf: [{ additionalProperties: false }, { oneOf: [{ additionalProperties: false }] }] },
  ],
  ['names patterns that do not fit', { patternProperties: { '^x-': {} }, additionalProperties: false }],
  ['names other names', { propertyNames: { enum: ['text'] } }],
  ['forbids unevaluated properties', { allOf: [{ properties: { text: {} } }], unevaluatedProperties: false }],
]

const closed = { additionalProperties: false }
const textOnly = { text: {} }
/** Schemas that leave the arguments open, or name them by a pattern. */
const openSchemas: readonly unknown[] = [
  { properties: { a: {} }, allOf: Array.from({ length: 20 }, () => ({ $ref: '#' })) },
  undefined,
  null,
  true,
  {},
  { type: 'object' },
  { type: 'object', description: 'transaction_id and others' },
  { type: 'object', properties: {} },
  { type: 'object', properties: {}, required: [] },
  { type: 'object', additionalProperties: true },
  { type: 'object', additionalProperties: {} },
  { type: 'object', additionalProperties: { type: 'string' } },
  { properties: textOnly, additionalProperties: true },
  { properties: textOnly, additionalProperties: { type: 'string' } },
  { properties: textOnly, additionalProperties: { not: {}, $comment: 'unusual' } },
  { patternProperties: { '^[\\w/._]+$': {} } },
  { properties: textOnly, patternProperties: { '.': {} } },
  { patternProperties: { '.': {} }, ...closed },
  { patternProperties: { '^(?=.)': {} }, ...closed },
  { patternProperties: { '\\A': {} }, ...closed },
  { properties: textOnly, unevaluatedProperties: true },
  { unevaluatedProperties: { type: 'string' } },
  { propertyNames: { maxLength: 40 } },
  { properties: textOnly, propertyNames: { pattern: '.' } },
  { properties: textOnly, propertyNames: { pattern: '\\A' } },
  { anyOf: [{ properties: textOnly }, closed] },
  { oneOf: [closed, { type: 'object' }] },
  { anyOf: [true, closed] },
  { allOf: [{ properties: textOnly }, { type: 'object' }] },
  { allOf: [{ additionalProperties: true }], unevaluatedProperties: false },
  { $ref: '#/$defs/a', $defs: { a: { type: 'object' } } },
  { $ref: '#/$defs/a', $defs: { a: { properties: textOnly } } },
  { $ref: '#/$defs/a', $defs: { a: { $ref: '#/$defs/a' } } },
  { $ref: '#/$defs/a', $defs: { a: { anyOf: [{ $ref: '#/$defs/b' }] }, b: {} } },
  { $ref: 'https://example.com/other' },
  { $dynamicRef: '#a' },
  { properties: textOnly, dependentSchemas: { text: { properties: { more: {} } } } },
  { properties: textOnly, dependencies: { text: { properties: { more: {} } } } },
  { if: { required: ['text'] }, then: { properties: { more: {} } }, properties: textOnly },
]

describe('misplaced values among the arguments', () => {
  it.each(names.flatMap((name) => schemas.map(([what, schema]) => ({ name, what, schema }))))(
    '$name is refused if the schema of the tool $what',
    async ({ name, schema }) => {
      for (const given of [{ text: 'a', [name]: 'v' }, { _meta: { [name]: 'v' } }]) {
        const error = await refusalOf(given, { entry: () => entryOf(schema) })
        expect(error).toMatchObject({ code: 'INVALID_INPUT', isResult: true, extra: { reason: 'misplaced' } })
        expect(error?.extra.field).toMatch(new RegExp(`${name}$`))
      }
    },
  )

  it.each(openSchemas.map((schema) => [schema]))(
    'are accepted by a tool with the schema %j',
    async (schema) => {
      for (const name of names) {
        expect(await refusalOf({ text: 'a', [name]: 'v' }, { entry: () => entryOf(schema) })).toBeUndefined()
        expect(await refusalOf({ _meta: { [name]: 'v' } }, { entry: () => entryOf(schema) })).toBeUndefined()
      }
    },
  )

  it('the refusal names the right place: _meta, a header and the injected argument', async () => {
    const key = await refusalOf({ idempotencyKey: 'k' })
    expect(key?.extra.suggestion).toBe(
      'Send it as "dev.gatehouse/idempotency_key" in _meta of the params, beside the arguments, or in the HTTP header Idempotency-Key.',
    )
    const injected = await refusalOf(
      { transaction_id: 't' },
      { isOn: () => true, reserved: () => [{ argument: '_transaction_id', value: 'transaction_id' }] },
    )
    expect(injected?.extra.suggestion).toMatch(/^Send it as the argument "_transaction_id", or as "dev/)
  })

  it.each([
    ['the schema names it', { entry: () => entryOf({ properties: { transaction_id: {} } }) }],
    [
      'a part of the schema names it',
      { entry: () => entryOf({ anyOf: [{ required: ['transaction_id'] }] }) },
    ],
    ['the tool is in no list', { entry: () => undefined }],
    ['the tools of the server cannot be listed', { entry: () => Promise.reject(new Error('away')) }],
    [
      'the lookup throws synchronously',
      {
        entry: () => {
          throw new Error('away')
        },
      },
    ],
    ['no feature reads such a value', { callerValues: () => values.slice(2) }],
    [
      'it is the configured key argument',
      { server: () => serverSettings({ tools: { t: { keyArgument: 'transaction_id' } } }) },
    ],
  ] satisfies [string, ServiceStubs][])('a value is accepted as an argument if %s', async (_what, deps) => {
    expect(await refusalOf({ transaction_id: 'x' }, deps)).toBeUndefined()
  })

  it.each([
    ['it is empty', { transaction_id: '', intent: null }],
    ['it is nested', { text: { transaction_id: 'x' } }],
    ['it has another name', { transaction: 'x', 'my-intent': 'y', __intent: 'z' }],
    ['there are no arguments', undefined],
  ])('an argument is not a misplaced value if %s', async (_what, given) => {
    expect(await refusalOf(given)).toBeUndefined()
  })

  it('a misplaced value is refused after the tools are requested, and accepted in internal calls', async () => {
    const entry = async () => entryOf({ properties: { text: {} } })
    expect((await refusalOf({ intent: 'x' }, { entry }))?.code).toBe('INVALID_INPUT')
    expect(await refusalOf({ intent: 'x' }, {}, { internal: 'compensate' })).toBeUndefined()
  })
})
