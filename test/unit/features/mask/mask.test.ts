import { masking } from '../../../../src/features/offers.ts'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Call, Handler, Notification, Outcome } from '../../../../src/core/call.ts'
import type { Descriptor } from '../../../../src/core/descriptor.ts'
import { GatewayError } from '../../../../src/core/error.ts'
import { isObject } from '../../../../src/core/json/json.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { validator } from '../../../../src/core/schema/schema.ts'
import { mask } from '../../../../src/features/mask/mask.ts'
import type { RuleSettings } from '../../../../src/features/settings/upstream.ts'
import { featureDeps, withTool, offeredBy } from '../../../support/feature-deps.ts'
import { toolCall } from '../../../support/tool-call.ts'

const EMAIL = String.raw`[\w.+-]+@[\w-]+(?:\.[\w-]+)+`
const emails = [{ pattern: EMAIL }]

type Rule = Partial<RuleSettings>

interface Around {
  readonly rules?: readonly Rule[]
  readonly outputSchema?: object
  readonly method?: string
  readonly name?: string
  readonly given?: Partial<Call>
}

function chain(end: Handler, { rules = emails, outputSchema, method = 'tools/call', name = 't' }: Around) {
  const definition = { name: 't', ...(outputSchema && { outputSchema }) }
  const entry: Descriptor = {
    upstream: 'one',
    kind: 'tool',
    name: 't',
    definition,
    classification: { op: 'read', risk: 'safe', idempotent: true, evidence: [] },
  }
  const settings = { rules: rules.map((rule) => ({ replace: '***', ...rule })) }
  const deps = featureDeps({ entry: () => entry })
  const policy = withTool(
    mask.create(() => settings, deps),
    deps,
  ).calls?.middleware
  return policy?.({ method, upstream: 'one', name })?.(end)
}

function called(around: Around): Call {
  const { method = 'tools/call', name = 't', given } = around
  return toolCall({ method, target: { method, upstream: 'one', name }, ...given })
}

async function outcomeOf(outcome: Outcome, around: Around = {}): Promise<Outcome> {
  return (await chain(async () => outcome, around)?.(called(around))) ?? outcome
}

async function through(result: object, around: Around = {}): Promise<Payload> {
  const outcome = await outcomeOf({ kind: 'result', result: Payload.text(JSON.stringify(result)) }, around)
  if (outcome.kind !== 'result') throw new Error('no result')
  // The text is what is sent.
  expect(JSON.parse(outcome.result.text)).toEqual(outcome.result.value)
  return outcome.result
}

function failure(error: unknown, around: Around = {}): Promise<unknown> {
  const end = chain(() => Promise.reject(error), around)
  return end ? end(called(around)).catch((thrown: unknown) => thrown) : Promise.resolve(undefined)
}

const text = (words: string) => ({ type: 'text', text: words })
const countOf = ({ fields }: Payload): unknown =>
  isObject(fields['_meta']) ? fields['_meta']['dev.gatehouse/masked'] : undefined

describe('mask without rules', () => {
  it('C176 no middleware is created without rules', () => {
    expect(chain(async () => ({ kind: 'result', result: Payload.of({}) }), { rules: [] })).toBeUndefined()
    const rules = [{ pattern: 'x', tools: 'other_*' }]
    expect(chain(async () => ({ kind: 'result', result: Payload.of({}) }), { rules })).toBeUndefined()
  })
})

describe('masking by pattern', () => {
  it('C176 C231 a match is masked in every text of a result, and the result states the number of matches', async () => {
    const found = await through({
      content: [
        text('Ask ann@example.com or bob@example.org.'),
        { type: 'image', data: 'YW5uQGV4YW1wbGUuY29t', mimeType: 'image/png' },
        { type: 'resource', resource: { uri: 'mail://ann@example.com', text: 'of ann@example.com' } },
        { type: 'resource_link', uri: 'it://1', name: 'ann@example.com', description: 'ann@example.com' },
      ],
      structuredContent: { to: 'ann@example.com', n: 12345678901234567890n.toString() },
      _meta: { theirs: 'ann@example.com' },
    })
    expect(found.text).not.toContain('example.')
    expect(found.value).toMatchObject({
      content: [
        text('Ask *** or ***.'),
        { data: 'YW5uQGV4YW1wbGUuY29t', mimeType: 'image/png' },
        { resource: { uri: 'mail://***', text: 'of ***' } },
        { uri: 'it://1', name: '***', description: '***' },
      ],
      structuredContent: { to: '***' },
      _meta: { theirs: '***' },
    })
    expect(countOf(found)).toBe(8)
  })

  it('C176 JSON text without a match is preserved', async () => {
    const given = '{"content":[], "structuredContent":{"a":1.0,"b":12345678901234567890,"c":"x"}}'
    const untouched = Payload.text(given)
    const outcome = await outcomeOf({ kind: 'result', result: untouched })
    expect(outcome.kind === 'result' && outcome.result).toBe(untouched)
    const more = Payload.text(given.replace('"x"', '["ann@example.com",1.0]'))
    const masked = await outcomeOf({ kind: 'result', result: more })
    expect(masked.kind === 'result' && masked.result.text).toContain(
      '"structuredContent":{"a":1.0,"b":12345678901234567890,"c":["***",1.0]}',
    )
  })

  it('C231 matches are found in escaped JSON, numbers, member names and binary text', async () => {
    const found = await through(
      {
        content: [text(String.raw`{"to":"ann\u0040example.com","phone":5551234567}`)],
        structuredContent: { 'ann@example.com': { phone: 5551234567 }, 'bob@example.com': { phone: 1 } },
        contents: [{ uri: 'it://1', blob: Buffer.from('name,ann@example.com').toString('base64') }],
      },
      { rules: [...emails, { pattern: String.raw`\d{10}`, replace: '[phone]' }] },
    )
    expect(found.value).toMatchObject({
      content: [text('{"to":"***","phone":"[phone]"}')],
      structuredContent: { '***': { phone: '[phone]' }, '*** 2': { phone: 1 } },
      contents: [{ blob: Buffer.from('name,***').toString('base64') }],
    })
  })

  it.each(['725653563933458433', '725653563933458433.0', '7.25653563933458433E+17', '"725653563933458433"'])(
    'matches are found in the digits of a number that is written as %s',
    async (number) => {
      const rules = [{ pattern: String.raw`^\d{18}$`, replace: '***' }]
      const result = Payload.text(`{"content":[],"structuredContent":{"id":${number},"n":7.25e17}}`)
      const outcome = await outcomeOf({ kind: 'result', result }, { rules })
      expect(outcome.kind === 'result' && outcome.result.at('structuredContent')?.text).toBe(
        '{"id":"***","n":"***"}',
      )
    },
  )

  it('C176 a rule applies to the tools it names, and to tasks of unknown tools', async () => {
    const rules = [{ pattern: EMAIL, tools: ['get_*', 'find'] }]
    const result = { content: [text('ann@example.com')] }
    const has = async (around: Around): Promise<boolean> =>
      (await through(result, { rules, ...around })).text.includes('ann@')
    expect(await has({ name: 'get_it' })).toBe(false)
    expect(await has({ name: 'find' })).toBe(false)
    expect(await has({ name: 'list' })).toBe(true)
    expect(await has({ method: 'tasks/result' })).toBe(false)
    expect(await has({ method: 'prompts/get' })).toBe(true)
  })

  it('C176 matches are masked in resources, prompts and completions', async () => {
    const params = Payload.of({ uri: 'it://ann@example.com' })
    const read = await through(
      { contents: [{ uri: 'it://ann@example.com', text: 'ann@example.com' }] },
      { method: 'resources/read', given: { params } },
    )
    // The value is from the caller.
    expect(read.value).toMatchObject({ contents: [{ uri: 'it://ann@example.com', text: '***' }] })
    const messages = [{ role: 'user', content: text('to ann@example.com') }]
    const prompt = await through({ messages, description: 'ann@example.com' }, { method: 'prompts/get' })
    expect(prompt.value).toMatchObject({
      messages: [{ role: 'user', content: text('to ***') }],
      description: '***',
    })
    const completed = await through(
      { completion: { values: ['ann@example.com'] } },
      { method: 'completion/complete' },
    )
    expect(completed.value).toMatchObject({ completion: { values: ['***'] } })
  })

  it('lists are not masked, because calls refer to their names', async () => {
    const list = { resources: [{ uri: 'it://ann@example.com', name: 'ann@example.com' }] }
    expect((await through(list, { method: 'resources/list' })).value).toEqual(list)
  })

  it('C231 matches are masked in errors, including those of the server', async () => {
    const relayed = Payload.of({
      code: -32000,
      message: 'no ann@example.com',
      data: { who: 'ann@example.com' },
    })
    const error = new GatewayError('UPSTREAM_ERROR', 'no ann@example.com', {
      relayed,
      suggestion: 'Ask ann@example.com.',
      details: { who: ['ann@example.com'] },
      body: 'from ann@example.com',
    })
    const told = await failure(error)
    expect(told).toMatchObject({ code: 'UPSTREAM_ERROR', message: 'no ***', rpc: -32000 })
    if (!(told instanceof GatewayError)) throw new Error('no error')
    expect(JSON.stringify([told.data, told.extra.relayed, told.extra.body])).not.toContain('ann@')
    expect(told.extra).toMatchObject({ suggestion: 'Ask ***.', details: { who: ['***'] }, body: 'from ***' })
    expect(told.extra.relayed?.fields).toMatchObject({ message: 'no ***', data: { who: '***' } })
    const other = new GatewayError('SERVER_UNAVAILABLE', 'gone')
    expect(await failure(other)).toBe(other)
    const bug = new TypeError('ann@example.com')
    expect(await failure(bug)).toBe(bug)
  })

  it('C231 matches are masked in progress, log messages and input requests', async () => {
    const heard: Notification[] = []
    const notes: Notification[] = [
      { method: 'notifications/progress', params: Payload.of({ progressToken: 'a@b.c', message: 'a@b.c' }) },
      {
        method: 'notifications/message',
        params: Payload.of({ level: 'info', data: { 'a@b.c': { blob: 'a@b.c', type: 'a@b.c' } } }),
      },
      { method: 'notifications/resources/updated', params: Payload.of({ uri: 'it://a@b.c' }) },
    ]
    const questions = {
      q: {
        method: 'elicitation/create',
        params: Payload.of({
          message: 'Write to a@b.c?',
          url: 'https://example.com/?a@b.c',
          requestedSchema: { properties: { to: { title: 'a@b.c', enum: ['a@b.c'] } } },
        }),
      },
    }
    const end: Handler = async (call) => {
      for (const note of notes) call.emit(note)
      return { kind: 'input_required', inputRequests: questions, requestState: { secret: 'a@b.c' } }
    }
    const outcome = await chain(end, {})?.(called({ given: { emit: (note) => void heard.push(note) } }))
    expect(heard.map(({ params }) => params?.value)).toEqual([
      { progressToken: 'a@b.c', message: '***' },
      { level: 'info', data: { '***': { blob: '***', type: '***' } } },
      { uri: 'it://a@b.c' },
    ])
    expect(outcome?.kind === 'input_required' && outcome.inputRequests['q']?.params?.value).toEqual({
      message: 'Write to ***?',
      url: 'https://example.com/?a@b.c',
      requestedSchema: { properties: { to: { title: '***', enum: ['a@b.c'] } } },
    })
    expect(outcome).toMatchObject({ requestState: { secret: 'a@b.c' } })
  })

  it('C231 input requests without a match are unchanged', async () => {
    const questions = { q: { method: 'roots/list', params: Payload.text('{"n":9007199254740993}') } }
    const end: Handler = () =>
      Promise.resolve({ kind: 'input_required', inputRequests: questions, requestState: {} })
    const outcome = await chain(end, {})?.(called({}))
    expect(outcome?.kind === 'input_required' && outcome.inputRequests['q']?.params?.text).toBe(
      '{"n":9007199254740993}',
    )
  })

  it('text beyond the search limit is masked completely', async () => {
    const long = 'x'.repeat(1_999_999)
    const found = await through({ content: [text(long), text('and more'), text('ann@example.com')] })
    expect(found.value).toMatchObject({ content: [text(long), text('***'), text('***')] })
  })

  it('C231 no match remains in any text of any result', async () => {
    const rules = [
      { pattern: 'ab+c' },
      { pattern: '[0-9]{3}', replace: '#' },
      { pattern: 'x#y', replace: '' },
    ]
    const words = fc.string({ unit: fc.constantFrom(...Array.from('abc0x#y"{}[]:,\\ ')), maxLength: 30 })
    const value = fc.letrec((tie) => ({
      value: fc.oneof(
        { maxDepth: 3 },
        words,
        fc.integer(),
        fc.boolean(),
        fc.constant(null),
        fc.array(tie('value'), { maxLength: 4 }),
        fc.dictionary(words, tie('value'), { maxKeys: 4 }),
      ),
    })).value
    const results = fc.record({
      content: fc.array(
        fc.oneof(
          words.map(text),
          value.map((each) => text(JSON.stringify(each))),
        ),
      ),
      structuredContent: value,
      _meta: fc.dictionary(fc.constantFrom('p', 'q'), words),
    })
    const matches = /ab+c|[0-9]{3}|x#y/
    await fc.assert(
      fc.asyncProperty(results, async (result) => {
        const { _meta, ...found } = (await through(result, { rules })).fields
        const { 'dev.gatehouse/masked': _count, ...others } = isObject(_meta) ? _meta : {}
        expect(stringsOf([found, others]).filter((each) => matches.test(each))).toEqual([])
      }),
      { numRuns: 300 },
    )
  })
})

describe('masking by path', () => {
  const items = [
    { id: 1, email: 'ann@example.com' },
    { id: 2, email: null },
  ]
  const rules = [{ path: '$.items[*].email' }]

  it('C176 a path is masked in structured content and in JSON text', async () => {
    const found = await through(
      { content: [text(JSON.stringify({ items })), text('{ no JSON')], structuredContent: { items } },
      { rules },
    )
    const masked = {
      items: [
        { id: 1, email: '***' },
        { id: 2, email: null },
      ],
    }
    expect(found.value).toMatchObject({
      content: [text(JSON.stringify(masked)), text('{ no JSON')],
      structuredContent: masked,
    })
    expect(countOf(found)).toBe(2)
  })

  it.each([
    ['$', '***'],
    ['$.a', { a: '***', b: [[1], { a: 2 }] }],
    ['$.b[0]', { a: { a: true }, b: ['***', { a: 2 }] }],
    ['$.b[0][*]', { a: { a: true }, b: [['***'], { a: 2 }] }],
    ['$.*.a', { a: { a: '***' }, b: [[1], { a: 2 }] }],
    ['$.b.*.a', { a: { a: true }, b: [[1], { a: '***' }] }],
    ['$.none.a[7]', { a: { a: true }, b: [[1], { a: 2 }] }],
  ])('C176 path %s selects only its own values', async (path, structuredContent) => {
    const given = { a: { a: true }, b: [[1], { a: 2 }] }
    const found = await through({ structuredContent: given }, { rules: [{ path }] })
    expect(found.fields['structuredContent']).toEqual(structuredContent)
  })

  const age = (schema: object, more: object = {}): object => ({
    type: 'object',
    properties: {
      people: { type: 'array', items: { type: 'object', properties: { age: schema }, ...more } },
    },
  })

  it.each([
    ['a string', age({}), [{ age: '***' }, { age: '***' }]],
    [
      'a string',
      age({ type: ['integer', 'string'] }, { required: ['age'] }),
      [{ age: '***' }, { age: '***' }],
    ],
    ['null', age({ type: ['integer', 'null'] }, { required: ['age'] }), [{ age: null }, { age: null }]],
    ['nothing', age({ type: 'integer' }), [{}, {}]],
  ])('C176 a masked value becomes %s if the schema requires it', async (_what, outputSchema, people) => {
    const structuredContent = { people: [{ age: 41 }, { age: 42 }] }
    const found = await through({ structuredContent }, { rules: [{ path: '$.people[*].age' }], outputSchema })
    expect(found.fields['structuredContent']).toEqual({ people })
    expect(validator(outputSchema as Record<string, unknown>)(found.fields['structuredContent'])).toEqual([])
  })

  it('C176 C231 the whole result is refused if no masked value fits the schema', async () => {
    const outputSchema = age({ type: 'integer' }, { required: ['age'] })
    const result = Payload.of({ content: [text('41')], structuredContent: { people: [{ age: 41 }] } })
    const around = { rules: [{ path: '$.people[*].age' }], outputSchema }
    const told = await outcomeOf({ kind: 'result', result }, around).catch((thrown: unknown) => thrown)
    expect(told).toMatchObject({ code: 'UPSTREAM_ERROR', isResult: true })
    expect(JSON.stringify((told as GatewayError).data)).not.toContain('41')
  })

  it('C176 a result that already violated its schema is still masked', async () => {
    const outputSchema = { ...age({ type: 'integer' }), required: ['total'] }
    const found = await through(
      { structuredContent: { people: [{ age: 41, name: 'Ann' }] } },
      { rules: [{ path: '$.people[*].age' }], outputSchema },
    )
    expect(found.fields['structuredContent']).toEqual({ people: [{ name: 'Ann' }] })
  })

  it('C176 a failed result is masked without regard to the schema', async () => {
    const outputSchema = age({ type: 'integer' }, { required: ['age'] })
    const found = await through(
      { isError: true, content: [], structuredContent: { people: [{ age: 41 }] } },
      { rules: [{ path: '$.people[*].age' }], outputSchema },
    )
    expect(found.fields['structuredContent']).toEqual({ people: [{ age: '***' }] })
  })

  it('C176 a match is masked by a value that fits the schema', async () => {
    const to = { type: ['string', 'null'], pattern: '@' }
    const outputSchema = { type: 'object', properties: { to }, required: ['to'] }
    const found = await through({ structuredContent: { to: 'ann@example.com' } }, { outputSchema })
    expect(found.fields['structuredContent']).toEqual({ to: null })
  })
})

function stringsOf(value: unknown): string[] {
  if (typeof value === 'string') return [value]
  if (typeof value !== 'object' || value === null) return []
  const names = Array.isArray(value) ? [] : Object.keys(value)
  return [...names, ...Object.values(value).flatMap(stringsOf)]
}

describe('values that other features publish', () => {
  it('are masked by the rules for responses of their target, completely if a rule names the whole', () => {
    const masked = (rule: Rule, value: unknown, name = 't'): unknown => {
      const instance = mask.create(() => ({ rules: [{ replace: '***', ...rule }] }), featureDeps())
      return offeredBy(instance, masking)?.(value, { method: 'tools/call', upstream: 'one', name })
    }
    const value = { to: 'ada@example.org', card: { number: 4111 }, n: 1 }
    expect(masked({ pattern: EMAIL }, value)).toEqual({ ...value, to: '***' })
    expect(masked({ path: '$.card.number', tools: 't*' }, value)).toEqual({
      ...value,
      card: { number: '***' },
    })
    expect(masked({ path: '$.card.number', tools: 'x' }, value)).toBe(value)
    expect(masked({ path: '$' }, value)).toBe('***')
  })
})
