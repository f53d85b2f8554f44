import type { Services } from '../../../../src/features/feature.ts'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Outcome } from '../../../../src/core/call.ts'
import type { Descriptor } from '../../../../src/core/descriptor.ts'
import { GatewayError } from '../../../../src/core/error.ts'
import type { Log } from '../../../../src/core/log.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { validate } from '../../../../src/features/validate/validate.ts'
import { featureDeps, withTool } from '../../../support/feature-deps.ts'
import { silentLog } from '../../../support/silent-log.ts'
import { toolCall } from '../../../support/tool-call.ts'

const inputSchema = {
  type: 'object',
  properties: {
    path: { type: 'string', minLength: 1 },
    mode: { enum: ['a', 'b'] },
    lines: { type: 'array', items: { type: 'integer' } },
  },
  required: ['path'],
  additionalProperties: false,
}

const done = Payload.of({ content: [] })

interface Given {
  readonly definition?: Readonly<Record<string, unknown>>
  readonly input?: 'off' | 'warn' | 'strict'
  readonly output?: 'off' | 'warn' | 'strict'
  readonly result?: Payload
  readonly params?: Readonly<Record<string, unknown>>
  readonly entry?: Services['servers']['tool']
  readonly log?: Log
}

function entryOf(definition: Readonly<Record<string, unknown>>): Descriptor {
  const classification = { op: 'write', risk: 'reversible', idempotent: false, evidence: [] } as const
  return {
    upstream: 'one',
    kind: 'tool',
    name: 't',
    definition: { name: 't', ...definition },
    classification: classification,
  }
}

function maker({
  definition = { inputSchema },
  input = 'strict',
  output = 'warn',
  result = done,
  entry,
  log = silentLog,
}: Given) {
  const known = entryOf(definition)
  const deps = featureDeps({ entry: entry ?? (() => known), log })
  const policy = withTool(
    validate.create(() => ({ input, output }), deps),
    deps,
  ).calls?.middleware
  const target = { method: 'tools/call', upstream: 'one', name: 't' }
  const made: unknown[] = []
  const wrapped = policy?.(target)?.(async (call) => {
    made.push(call.params.fields.arguments)
    return { kind: 'result', result }
  })
  if (!wrapped) throw new Error('There is no policy')
  return {
    made,
    call: (params: Readonly<Record<string, unknown>>): Promise<Outcome> =>
      wrapped(toolCall({ params: Payload.of({ name: 't', ...params }) })),
  }
}

async function refusal(given: Given): Promise<GatewayError> {
  const { call, made } = maker(given)
  const error = await call(given.params ?? {}).then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  expect(made).toEqual([])
  if (error instanceof GatewayError) return error
  throw new Error(`It was not refused: ${String(error)}`)
}

function withArguments(args: unknown, definition?: Given['definition']): Promise<GatewayError> {
  return refusal({ params: { arguments: args }, ...(definition && { definition }) })
}

describe('validation of a tool call', () => {
  it('C149 a valid call is forwarded unchanged', async () => {
    const { call, made } = maker({})
    const args = { path: 'x', mode: 'a', lines: [1] }
    await call({ arguments: args })
    expect(made).toEqual([args])
  })

  it('C145 a call of an unknown tool is refused before it is sent', async () => {
    const entry = () => undefined
    expect(await refusal({ entry, params: { name: 'no.such' } })).toMatchObject({
      code: 'UNKNOWN_TOOL',
      rpc: -32602,
      message: 'Unknown tool: no.such',
      isResult: false,
    })
    for (const name of ['<script>', 'x'.repeat(65), 'a b']) {
      expect((await refusal({ entry, params: { name } })).message).toBe('Unknown tool')
    }
  })

  it.each([
    ['without a name', { name: undefined }],
    ['with a number as name', { name: 7 }],
    ['with a list as arguments', { arguments: [] }],
    ['with null as arguments', { arguments: null }],
    ['with a string as arguments', { arguments: 'x' }],
  ])('C144 a call %s is malformed', async (_what, params) => {
    expect(await refusal({ params })).toMatchObject({ code: 'INVALID_INPUT', rpc: -32602, isResult: false })
  })

  it.each([
    [{}, 'path', 'required', '"path" is required'],
    [{ path: 1 }, 'path', 'type', '"path" must be string'],
    [{ path: 'x', mode: 'c' }, 'mode', 'enum', '"mode" must be one of "a", "b"'],
    [{ path: 'x', lines: [1, 'y'] }, 'lines.1', 'type', '"lines.1" must be integer'],
    [{ path: 'x', other: 1 }, 'other', 'additionalProperties', '"other" is not an argument of this tool'],
  ])('C146 C187 a call with %o is refused with the corrections', async (args, field, reason, words) => {
    const error = await withArguments(args)
    expect(error).toMatchObject({
      code: 'INVALID_INPUT',
      isResult: true,
      message: `Invalid arguments: ${words}.`,
    })
    expect(error.data).toMatchObject({ field, reason, category: 'invalid_input', user_actionable: true })
  })

  it.each([
    [{ path: 'x', mode: null }],
    [{ path: 'x', lines: null, mode: null }],
    [{ path: 'x', mode: 'a', lines: [1], nested: { deep: null } }, true],
  ])(
    'a call with null for an optional argument is forwarded unchanged: %o',
    async (args, isNested = false) => {
      const lines: string[] = []
      const log: Log = { ...silentLog, warn: (event) => void lines.push(event) }
      const nested = { type: 'object', properties: { deep: { type: 'string' } } }
      const properties = { ...inputSchema.properties, ...(isNested && { nested }) }
      const { call, made } = maker({ definition: { inputSchema: { ...inputSchema, properties } }, log })
      await call({ arguments: args })
      await call({ arguments: args })
      expect(made).toEqual([args, args])
      expect(lines).toEqual(['validate.null_taken'])
    },
  )

  it.each([
    ['a required argument', { path: null }, 'path'],
    ['an unknown argument', { path: 'x', other: null }, 'other'],
    ['one argument and an invalid other one', { path: 'x', mode: null, lines: ['y'] }, 'mode'],
  ])('a call with null for %s is refused', async (_what, args, field) => {
    expect((await withArguments(args)).data).toMatchObject({ field })
  })

  it('C149 absent arguments are validated as an empty object', async () => {
    expect((await refusal({})).data).toMatchObject({ field: 'path', reason: 'required' })
  })

  it('a refusal lists several problems, but a limited number', async () => {
    const { message, data } = await withArguments({ lines: Array.from({ length: 50 }, () => 'x') })
    expect(message).toMatch(/"path" is required; "lines\.0" must be integer; .* \(and \d+ more\)\.$/)
    expect(message.length).toBeLessThan(500)
    expect(JSON.stringify(data).length).toBeLessThan(5000)
  })

  it('C186 a refusal does not repeat the argument values', async () => {
    const secret = 'ada@example.com'
    const error = await withArguments({ path: 1, mode: secret, [`${secret} ${secret}`]: secret })
    expect(error.message).not.toContain(secret)
  })

  it('C125 the default dialect is 2020-12', async () => {
    const schema = { properties: { pair: { prefixItems: [{ type: 'string' }] } } }
    expect((await withArguments({ pair: [1] }, { inputSchema: schema })).data.field).toBe('pair.0')
    const { call, made } = maker({
      definition: { inputSchema: { ...schema, $schema: 'http://json-schema.org/draft-07/schema#' } },
    })
    await call({ arguments: { pair: [1] } })
    expect(made).toHaveLength(1)
  })

  it('C126 a draft-07 schema is validated as draft-07', async () => {
    const inputSchema = {
      $schema: 'http://json-schema.org/draft-07/schema#',
      properties: { pair: { items: [{ type: 'string' }] } },
    }
    expect((await withArguments({ pair: [1] }, { inputSchema })).data.field).toBe('pair.0')
  })

  it('excessively nested arguments are refused', async () => {
    const deep = JSON.parse(`${'{"a":'.repeat(5000)}1${'}'.repeat(5000)}`)
    expect(await withArguments(deep, { inputSchema: {} })).toMatchObject({
      code: 'INVALID_INPUT',
      isResult: true,
    })
  })

  it.each([
    [
      'fails to list its tools',
      (): Promise<Descriptor> => Promise.reject(new GatewayError('SERVER_UNAVAILABLE', 'no')),
    ],
    [
      'fails synchronously',
      (): Descriptor => {
        throw new GatewayError('SERVER_UNAVAILABLE', 'no')
      },
    ],
  ])('a call is forwarded if its server %s', async (_what, entry) => {
    const { call, made } = maker({ entry })
    await call({ arguments: { any: 1 } })
    expect(made).toHaveLength(1)
  })

  it('a call waits until the tools are listed', async () => {
    const entry = () => Promise.resolve(entryOf({ inputSchema }))
    expect((await refusal({ entry })).code).toBe('INVALID_INPUT')
  })
})

describe('a tool with a required idempotency key argument', () => {
  const definition = {
    inputSchema: {
      type: 'object',
      properties: { path: { type: 'string' }, client_token: { type: 'string', maxLength: 10 } },
      required: ['path', 'client_token'],
    },
  }

  it('the idempotency key is filled in, so that the caller can omit the argument', async () => {
    const { call, made } = maker({ definition })
    await call({ arguments: { path: 'a' }, idempotency_key: 'k' })
    expect(made).toEqual([{ path: 'a' }])
  })

  it.each([
    ['without a key', {}, 'client_token', 'required'],
    [
      'with a key that does not match the schema',
      { idempotency_key: 'k'.repeat(11) },
      'client_token',
      'maxLength',
    ],
    ['with an invalid key', { idempotency_key: 'a b' }, 'idempotency_key', 'pattern'],
  ])('the tool is not called %s', async (_what, more, field, reason) => {
    const error = await refusal({ definition, params: { arguments: { path: 'a' }, ...more } })
    expect(error.data).toMatchObject({ code: 'INVALID_INPUT', field, reason })
  })

  it('the tool is not called if another argument is invalid', async () => {
    const error = await refusal({ definition, params: { arguments: { path: 1 }, idempotency_key: 'k' } })
    expect(error.data).toMatchObject({ field: 'path', reason: 'type' })
  })
})

describe('an unusable input schema', () => {
  it.each([
    ['C121 is invalid', { type: 'strnig' }],
    ['refers to another document', { $ref: 'https://example.com/schema' }],
    [
      'expands exponentially',
      { $ref: '#/$defs/a', $defs: { a: { allOf: [{ $ref: '#/$defs/a' }, { $ref: '#/$defs/a' }] } } },
    ],
  ])('every call is forwarded if the schema %s, with one warning', async (_what, schema) => {
    const told: string[] = []
    const log: Log = { ...silentLog, warn: (event) => told.push(event) }
    const { call, made } = maker({ definition: { inputSchema: schema }, log })
    await call({ arguments: { a: 'x' } })
    await call({ arguments: { a: 'x' } })
    expect(made).toHaveLength(2)
    expect(told).toEqual(['validate.schema_unusable'])
  })

  it.each(['^(?!x)', '(', '^\\Z', '[a-z&&[^b]]'])(
    'a pattern that is not checked refuses nothing: %s',
    async (pattern) => {
      const { call, made } = maker({ definition: { inputSchema: { properties: { a: { pattern } } } } })
      await call({ arguments: { a: 'x' } })
      expect(made).toEqual([{ a: 'x' }])
      expect(
        await withArguments({ a: 'x' }, { inputSchema: { properties: { a: { pattern } }, required: ['b'] } }),
      ).toMatchObject({ code: 'INVALID_INPUT' })
    },
  )

  it('a pattern cannot make validation run without bound', async () => {
    const start = performance.now()
    const error = await withArguments(
      { a: `${'a'.repeat(50_000)}!` },
      { inputSchema: { properties: { a: { pattern: '^(a+)+$' } } } },
    )
    expect(error.data).toMatchObject({ field: 'a', reason: 'pattern' })
    expect(performance.now() - start).toBeLessThan(2000)
  })
})

describe('validation of arbitrary arguments', () => {
  it('any arguments are either forwarded or refused', async () => {
    await fc.assert(
      fc.asyncProperty(fc.jsonValue(), async (args) => {
        const { call } = maker({})
        const ended = await call({ arguments: args }).catch((error: unknown) => error)
        if (ended instanceof GatewayError) expect(ended.code).toBe('INVALID_INPUT')
        else expect(ended).toMatchObject({ kind: 'result' })
      }),
    )
  })
})

describe('validation of a tool result', () => {
  const outputSchema = { type: 'object', properties: { n: { type: 'number' } }, required: ['n'] }
  const definition = { inputSchema: {}, outputSchema }
  const answer = (structuredContent?: unknown, more: object = {}) =>
    Payload.of({ content: [], ...(structuredContent !== undefined && { structuredContent }), ...more })

  async function watched(
    output: Given['output'],
    result: Payload,
  ): Promise<{ outcome: unknown; told: string[] }> {
    const told: string[] = []
    const log: Log = { ...silentLog, warn: (event) => told.push(event) }
    const { call } = maker({ definition, result, log, ...(output && { output }) })
    const first = await call({ arguments: {} }).catch((error: unknown) => error)
    const outcome = await call({ arguments: {} }).catch((error: unknown) => error)
    expect(outcome).toEqual(first)
    return { outcome, told }
  }

  it('C150 a valid result is returned', async () => {
    const result = answer({ n: 1 })
    expect(await watched('strict', result)).toEqual({ outcome: { kind: 'result', result }, told: [] })
  })

  it('C150 an invalid result is returned with one warning', async () => {
    for (const result of [answer({ n: 'x' }), answer()]) {
      expect(await watched('warn', result)).toEqual({
        outcome: { kind: 'result', result },
        told: ['validate.output'],
      })
    }
  })

  it('C150 an invalid result is an error if configured', async () => {
    for (const result of [answer({ n: 'x' }), answer()]) {
      expect((await watched('strict', result)).outcome).toMatchObject({
        code: 'UPSTREAM_ERROR',
        isResult: true,
      })
    }
  })

  it('a result is not validated if that is off or the tool failed', async () => {
    expect((await watched('off', answer({ n: 'x' }))).told).toEqual([])
    expect((await watched('strict', answer(undefined, { isError: true }))).told).toEqual([])
  })

  it('C148 a result without content receives an empty list', async () => {
    const { call } = maker({ definition: { inputSchema: {} }, result: Payload.text('{"x":1.0}') })
    const outcome = await call({})
    expect(outcome.kind === 'result' && outcome.result.text).toBe('{"x":1.0,"content":[]}')
  })

  it.each([
    ['structured content', { structuredContent: { n: 1 } }],
    ['a task', { task: { taskId: 'x' } }],
    ['a result of another resultType', { resultType: 'task' }],
  ])('a result is unchanged if it is %s', async (_what, fields) => {
    const result = Payload.of(fields)
    const { call } = maker({ definition: { inputSchema: {} }, result })
    expect(await call({})).toEqual({ kind: 'result', result })
  })
})

describe('validation of other methods', () => {
  it('other methods are not validated', () => {
    const policy = validate.create(() => ({ input: 'warn', output: 'warn' }), featureDeps()).calls?.middleware
    expect(policy?.({ method: 'prompts/get', upstream: 'one' })).toBeUndefined()
  })
})
