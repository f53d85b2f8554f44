import { Ajv2020 } from 'ajv/dist/2020.js'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Call } from '../../../../src/core/call.ts'
import { Payload } from '../../../../src/core/payload.ts'
import type { ToolSettings } from '../../../../src/core/settings.ts'
import { mask } from '../../../../src/features/mask/mask.ts'
import { provenance } from '../../../../src/features/provenance/provenance.ts'
import type { ProvenanceSettings } from '../../../../src/features/settings/upstream.ts'
import { resultLimit } from '../../../../src/features/result-limit.ts'
import { structuredText } from '../../../../src/features/structured-text.ts'
import { answering, chain, fieldsOf, on } from '../../../support/chain.ts'
import { serverSettings } from '../../../support/server-settings.ts'
import { isObject, type Json, objectAt } from '../../../support/server/json.ts'
import { hasSchema, schemaText } from '../../../support/published-schemas.ts'

const KEY = 'dev.gatehouse/provenance'
const defaults: ProvenanceSettings = { always: true, hash: false, compat: true }
const hello = { content: [{ type: 'text', text: 'hello' }] }

interface Setup {
  readonly settings?: Partial<ProvenanceSettings>
  readonly tool?: ToolSettings
  readonly call?: Partial<Call>
  readonly params?: Json
}

async function stampedResult(result: Json, { settings, tool = {}, call, params }: Setup = {}): Promise<Json> {
  const server = () => serverSettings({ name: 'one', tools: { t: tool } })
  const make = chain([on(provenance, { ...defaults, ...settings })], answering(result), { server })
  return fieldsOf(await make(call, params))
}

async function stampOf(result: Json, setup: Setup = {}): Promise<Json> {
  return objectAt(objectAt(await stampedResult(result, setup), '_meta'), KEY)
}

describe('provenance of a result', () => {
  it('the source is the server and tool if the result states none', async () => {
    expect(await stampOf(hello)).toEqual({
      source: 'one:t',
      retrieved_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
      confidence: 'exact',
      attested_by: 'gatehouse',
    })
  })

  it.each<readonly [string, Json, Json]>([
    [
      'a link',
      { structuredContent: { url: 'https://a/1', sha: 'abc' } },
      { source: 'one:https://a/1', version: 'abc' },
    ],
    [
      'the most specific link',
      { structuredContent: { url: 'u', html_url: 'h', version: 3 } },
      { source: 'one:h', version: '3' },
    ],
    [
      'a short JSON text',
      { content: [{ type: 'text', text: '{"self":"s","etag":"e"}' }] },
      { source: 'one:s', version: 'e' },
    ],
    [
      'a resource',
      { content: [{ type: 'resource', resource: { uri: 'file:///a', text: '' } }] },
      { source: 'one:file:///a' },
    ],
    [
      'a link to a resource',
      { content: [{ type: 'resource_link', uri: 'file:///b', name: 'b' }] },
      { source: 'one:file:///b' },
    ],
  ])('the source is %s in the result', async (_what, result, expected) => {
    expect(await stampOf({ content: [], ...result })).toMatchObject(expected)
  })

  it.each<readonly [string, Json]>([
    ['is too long', { url: 'x'.repeat(501) }],
    ['is empty', { url: '' }],
    ['is not a string', { url: { a: 1 } }],
    ['is inherited', {}],
  ])('a source that %s is ignored', async (_what, structuredContent) => {
    expect(await stampOf({ content: [], structuredContent })).toMatchObject({ source: 'one:t' })
  })

  it('each resource has its own source with its location', async () => {
    const content = ['file:///a', 'file:///b'].map((uri) => ({
      type: 'resource',
      resource: { uri, text: '' },
    }))
    const { _meta: meta, provenance: beside } = await stampedResult({ content })
    expect(beside).toMatchObject([
      { source: 'one:file:///a', location: { json_path: '$.content[0]' } },
      { source: 'one:file:///b', location: { json_path: '$.content[1]' } },
    ])
    expect(isObject(meta) && meta[KEY]).toEqual(beside)
  })

  it('the configured source has precedence', async () => {
    const tool = { provenance: { source: 'file:{path}', version: '$.result.sha', jsonPath: '$.a' } }
    const params = { arguments: { path: '/x/y' } }
    expect(await stampOf({ content: [], structuredContent: { sha: 'abc' } }, { tool, params })).toMatchObject(
      {
        source: 'file:/x/y',
        version: 'abc',
        location: { json_path: '$.a' },
      },
    )
  })

  it('an absent configured source falls back to the derived one', async () => {
    const tool = { provenance: { source: 'file:{path}', version: '$.result.sha' } }
    expect(await stampOf(hello, { tool })).toMatchObject({ source: 'one:t' })
    expect(await stampOf(hello, { tool })).not.toHaveProperty('version')
  })

  it('the source contains no secret from the arguments', async () => {
    const tool = { provenance: { source: 'db:{password}@{host}' } }
    const params = { arguments: { password: 'hunter2', host: 'h' } }
    expect(await stampOf(hello, { tool, params })).toMatchObject({ source: 'db:***@h' })
  })
})

describe('the provenance stamp of a result', () => {
  it('all other JSON text of the result is preserved', async () => {
    const text = '{ "content": [], "structuredContent": {"id": 9007199254740993, "rate": 1.0} }'
    const make = chain([on(provenance, defaults)], async () => ({
      kind: 'result',
      result: Payload.text(text),
    }))
    const outcome = await make()
    const { text: told } = outcome.kind === 'result' ? outcome.result : { text: '' }
    expect(told.startsWith(text.slice(0, -2))).toBe(true)
  })

  it('the stamp is in _meta only if configured', async () => {
    const result = await stampedResult({ ...hello, _meta: { own: 1 } }, { settings: { compat: false } })
    expect(Object.keys(result)).toEqual(['content', '_meta'])
    expect(result['_meta']).toMatchObject({ own: 1, [KEY]: { source: 'one:t' } })
  })

  it('the stamp contains a content hash if configured', async () => {
    const stamp = await stampOf(hello, { settings: { hash: true } })
    expect(stamp['content_hash']).toMatch(/^sha256:[\da-f]{64}$/)
    const other = await stampOf({ content: [] }, { settings: { hash: true } })
    expect(other['content_hash']).not.toBe(stamp['content_hash'])
  })

  it.each<readonly [string, Json]>([
    ['a failure', { ...hello, isError: true }],
    ['a result that is a task', { resultType: 'task', taskId: 'a' }],
  ])('there is no stamp on %s', async (_what, result) => {
    expect(await stampedResult(result)).toEqual(result)
  })

  it('there is no stamp on internal calls', async () => {
    expect(await stampedResult(hello, { call: { internal: 'read' } })).toEqual(hello)
  })

  it('each content of a resource is stamped', async () => {
    const contents = [
      { uri: 'a:1', text: 'x' },
      { uri: 'a:2', text: 'y' },
    ]
    const call = {
      method: 'resources/read',
      target: { method: 'resources/read', upstream: 'one', name: 'a:1' },
      params: Payload.of({ uri: 'a:1' }),
    }
    const result = await stampedResult({ contents }, { call })
    expect(result).toMatchObject({
      contents: [{ _meta: { [KEY]: { source: 'one:a:1' } } }, { _meta: { [KEY]: { source: 'one:a:2' } } }],
    })
    expect(result).not.toHaveProperty('provenance')
  })
})

describe('provenance of a changed result', () => {
  const big = { content: [{ type: 'text', text: 'x'.repeat(5000) }] }
  const rule = { pattern: 'secret', replace: '***' }

  it.each([
    ['shortened', on(resultLimit, { result: 3000 }), big, 'shortened to the limit of results'],
    [
      'masked',
      on(mask, { rules: [rule] }),
      { content: [{ type: 'text', text: 'a secret' }] },
      'personal data was masked',
    ],
    [
      'supplemented with text',
      on(structuredText, {}),
      { content: [], structuredContent: { a: 1 } },
      'the structured content was added as text',
    ],
  ])('the confidence is derived if the result is %s', async (_what, part, result, transformation) => {
    const changed = fieldsOf(await chain([on(provenance, defaults), part], answering(result))())
    expect(changed['provenance']).toMatchObject({ confidence: 'derived', transformation })
    const small = { content: [{ type: 'text', text: 'small' }] }
    const kept = fieldsOf(await chain([on(provenance, defaults), part], answering(small))())
    expect(kept['provenance']).toMatchObject({ confidence: 'exact' })
    expect(kept['provenance']).not.toHaveProperty('transformation')
  })
})

describe('provenance stated by a server', () => {
  const forged = { source: 'the truth', confidence: 'exact', attested_by: 'gatehouse' }

  it.each([
    ['in _meta', { ...hello, _meta: { [KEY]: forged } }],
    ['in the result', { ...hello, provenance: forged }],
    ['in both places', { ...hello, provenance: forged, _meta: { [KEY]: [forged] } }],
  ])("a server's provenance %s is kept in its place, under its own name", async (_where, result) => {
    for (const [compat, always] of [true, false].flatMap(
      (one) =>
        [
          [one, true],
          [one, false],
        ] as const,
    )) {
      const told = await stampedResult(result, { settings: { compat, always } })
      const both = [
        { ...forged, attested_by: 'one' },
        { source: 'one:t', attested_by: 'gatehouse' },
      ]
      expect(objectAt(told, '_meta')[KEY]).toMatchObject(both)
      if ('provenance' in result) expect(told['provenance']).toEqual(both[0])
      else if (compat && always) expect(told['provenance']).toMatchObject(both)
    }
  })

  it('a claim in the name of the gateway is found at any depth', async () => {
    const told = await stampedResult({ ...hello, provenance: [[forged], 'a'] })
    expect(told['provenance']).toEqual([[{ ...forged, attested_by: 'one' }], 'a'])
  })

  it.each([
    ['an object', { source: 'invoice_v2.pdf', location: { page: 3 } }],
    ['a list', [{ source: 'a' }, { source: 'b' }]],
    ['a text', 'a book'],
  ])("a server's provenance that is %s stays exactly as it is, with any setting", async (_what, own) => {
    for (const compat of [false, true, 'always'] as const) {
      const told = await stampedResult({ ...hello, provenance: own }, { settings: { compat } })
      expect(told['provenance']).toEqual(own)
      expect([objectAt(told, '_meta')[KEY]].flat().at(-1)).toMatchObject({ attested_by: 'gatehouse' })
    }
  })

  it('with compat: always every result has the stamp and its content beside it', async () => {
    const settings = { always: false, compat: 'always' } as const
    const text = await stampedResult({ content: [{ type: 'text', text: '{"n":1}' }] }, { settings })
    expect(text).toMatchObject({ result: { n: 1 }, provenance: { source: 'one:t' } })
    const structuredContent = { revenue_q3: 4_200_000 }
    expect(await stampedResult({ content: [], structuredContent }, { settings })).toMatchObject({
      result: structuredContent,
      provenance: { attested_by: 'gatehouse' },
    })
    const own = await stampedResult({ ...hello, result: null }, { settings })
    expect(own['result']).toBeNull()
    const failed = await stampedResult({ ...hello, isError: true }, { settings })
    expect(failed).not.toHaveProperty('result')
  })

  it('the provenance of a failed result is attributed to the server', async () => {
    const told = await stampedResult({ ...hello, isError: true, _meta: { [KEY]: forged } })
    expect(objectAt(told, '_meta')[KEY]).toEqual({ ...forged, attested_by: 'one' })
  })

  it('no provenance of a server is attributed to the gateway', async () => {
    const value = fc.oneof(
      fc.jsonValue(),
      fc.constant(forged),
      fc.array(fc.constant(forged), { maxLength: 3 }),
    )
    await fc.assert(
      fc.asyncProperty(value, value, fc.boolean(), async (inMeta, beside, isError) => {
        const result = { ...hello, provenance: beside, _meta: { [KEY]: inMeta }, ...(isError && { isError }) }
        const told = await stampedResult(result)
        const ours = (said: unknown): unknown[] =>
          [said].flat(5).filter((each) => isObject(each) && each['attested_by'] === 'gatehouse')
        expect(ours(objectAt(told, '_meta')[KEY])).toHaveLength(isError ? 0 : 1)
        if (beside !== null) expect(ours(told['provenance'])).toEqual([])
      }),
    )
  })
})

describe('provenance by default', () => {
  const settings = { always: false }
  const inMeta = [KEY, 'attested_by']

  it.each<readonly [string, Json]>([
    ['a text', hello],
    ['an address', { content: [], structuredContent: { url: 'https://a/1', sha: 'abc' } }],
    ['a resource', { content: [{ type: 'resource', resource: { uri: 'file:///a', text: '' } }] }],
    ['a failure', { ...hello, isError: true }],
  ])('a result that is %s is not stamped', async (_what, result) => {
    expect(await stampedResult(result, { settings })).toEqual(result)
  })

  it('the JSON text of resource contents is preserved', async () => {
    const text = '{ "contents": [ {"uri": "a:1", "text": "x"} ] }'
    const make = chain([on(provenance, { ...defaults, ...settings })], async () => ({
      kind: 'result',
      result: Payload.text(text),
    }))
    const call = {
      method: 'resources/read',
      target: { method: 'resources/read', upstream: 'one', name: 'a:1' },
    }
    const outcome = await make({ ...call, params: Payload.of({ uri: 'a:1' }) })
    expect(outcome.kind === 'result' && outcome.result.text).toBe(text)
  })

  it.each<readonly [string, Setup]>([
    ['a source is configured', { tool: { provenance: { source: 'a book' } } }],
    ['a content hash is configured', { settings: { ...settings, hash: true } }],
  ])('the stamp is in _meta only if %s', async (_where, setup) => {
    const result = await stampedResult(hello, { settings, ...setup })
    expect(result['_meta']).toHaveProperty(inMeta, 'gatehouse')
    expect(result).not.toHaveProperty('provenance')
  })

  it('a changed result is stamped', async () => {
    const parts = [
      on(provenance, { ...defaults, ...settings }),
      on(mask, { rules: [{ pattern: 'll', replace: '' }] }),
    ]
    const result = fieldsOf(await chain(parts, answering(hello))())
    expect(objectAt(objectAt(result, '_meta'), KEY)).toMatchObject({ confidence: 'derived' })
    expect(result).not.toHaveProperty('provenance')
  })

  const client = {
    era: 'modern',
    revision: '2026-07-28',
    capabilities: { extensions: { [KEY]: {} } },
  } as const
  it.each<readonly [string, Partial<Call>]>([
    ['declares it', { client }],
    ['requests it', { meta: { [KEY]: true } }],
  ])('the stamp is in both places for a client that %s', async (_what, call) => {
    const result = await stampedResult(hello, { settings, call })
    expect(objectAt(result, '_meta')[KEY]).toMatchObject({ source: 'one:t', confidence: 'exact' })
    expect(result['provenance']).toEqual(objectAt(result, '_meta')[KEY])
    const bare = await stampedResult(hello, { settings: { ...settings, compat: false }, call })
    expect(bare).not.toHaveProperty('provenance')
  })

  it('the request for provenance is not forwarded to the server', async () => {
    let seen: Json = {}
    const make = chain([on(provenance, { ...defaults, ...settings })], async ({ meta, params }) => {
      seen = { meta, params: params.value }
      return { kind: 'result', result: Payload.of(hello) }
    })
    await make({ meta: { [KEY]: true, other: 1 } }, { _meta: { [KEY]: true, other: 1 } })
    expect(seen).toEqual({ meta: { other: 1 }, params: { name: 't', arguments: {}, _meta: { other: 1 } } })
  })
})

const schemaFile = 'proposals/provenance.schema.json'

describe.skipIf(!hasSchema(schemaFile))('the provenance schema', () => {
  it('every stamp is valid for the schema', async () => {
    const schema: Json = JSON.parse(schemaText(schemaFile))
    const ajv = new Ajv2020({ strict: false, validateFormats: false })
    const check = ajv.addSchema(schema).compile({ $ref: `${String(schema['$id'])}#/$defs/ProvenanceWrapper` })
    const results: readonly Json[] = [
      hello,
      { content: [], structuredContent: { url: 'u', sha: 's' } },
      { ...hello, provenance: { source: 'a book' } },
      { ...hello, _meta: { [KEY]: 'a book' } },
    ]
    for (const settings of [{}, { hash: true }]) {
      for (const result of results) {
        const { provenance: told } = await stampedResult(result, { settings })
        expect([told, check({ result: {}, provenance: told })]).toEqual([told, true])
      }
    }
    expect(check({ result: {}, provenance: { confidence: 'sure' } })).toBe(false)
  })
})
