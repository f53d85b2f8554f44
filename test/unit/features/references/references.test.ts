// Results that are kept, and references as arguments: what a client gets, and what a server gets.
import { createHash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import type { Call } from '../../../../src/core/call.ts'
import { isPageSlot } from '../../../../src/core/spool.ts'
import type { Descriptor } from '../../../../src/core/descriptor.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { largeResults } from '../../../../src/features/references/keep.ts'
import { references } from '../../../../src/features/references/references.ts'
import { References } from '../../../../src/records/references.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { chain, fieldsOf, on } from '../../../support/chain.ts'
import { featureDeps, type ServiceStubs } from '../../../support/feature-deps.ts'
import { type Json, objectAt } from '../../../support/server/json.ts'
import { ada, referenceSettings as settings } from '../../../support/reference-world.ts'
import { toolCall } from '../../../support/tool-call.ts'
import { bytesOf } from '../../../support/bytes-of.ts'

const bob = { id: 'bob' }

function tool(definition: Json): Descriptor {
  return { upstream: 'one', name: 't', definition: { name: 't', ...definition } } as unknown as Descriptor
}

/** Both features around a server that returns `result` and remembers the arguments that it got. */
function world({
  result = {},
  definition = {},
  ...given
}: { result?: Json; definition?: Json } & ServiceStubs = {}) {
  const store = given.store ?? new MemoryStore()
  const got: unknown[] = []
  const run = chain(
    [on(references, settings), on(largeResults, settings)],
    async ({ params }) => {
      got.push(params.fields['arguments'])
      return { kind: 'result', result: Payload.of(result) }
    },
    { store, servers: () => ['one'], entry: () => tool(definition), ...given },
  )
  const kept = new References(store, settings)
  const keep = async (text: string | Buffer, type: string, principal = ada) => {
    const facts = { server: 'one', name: 'data', type, ttl: 60_000 }
    return `ref://${(await kept.add(principal, facts, bytesOf(text))).id}`
  }
  const call = async (args: Json = {}, more: Partial<Call> = {}): Promise<Json> =>
    fieldsOf(await run({ principal: ada, ...more }, { arguments: args }))
  return { store, got, call, keep, kept, deps: featureDeps({ store, servers: () => ['one'], ...given }) }
}

function blocksOf(result: Json): Json[] {
  return result['content'] as Json[]
}

function referenceOf(result: Json): Json {
  return objectAt(objectAt(result, '_meta'), 'dev.gatehouse/data_reference')
}

const schemaOf = (property: Json): Json => ({
  inputSchema: { type: 'object', properties: { value: property } },
})

describe('a large result', () => {
  it('becomes a link, a preview and a data reference', async () => {
    const text = `first line\n${'x'.repeat(5000)}`
    const { call } = world({
      result: {
        content: [
          { type: 'text', text: 'small' },
          { type: 'text', text },
        ],
      },
    })
    const result = await call()
    const [small, link, preview] = blocksOf(result)
    expect(small).toEqual({ type: 'text', text: 'small' })
    expect(referenceOf(result)).toEqual({
      ref_id: expect.stringMatching(/^ref_[0-9a-f]{32}$/),
      origin_server: 'one',
      mime_type: 'text/plain',
      size_bytes: text.length,
      expires_at: expect.stringMatching(/^\d{4}-/),
      checksum: { algorithm: 'sha256', value: createHash('sha256').update(text).digest('hex') },
    })
    const uri = `ref://${String(referenceOf(result)['ref_id'])}`
    expect(link).toMatchObject({ type: 'resource_link', uri, mimeType: 'text/plain', size: text.length })
    expect(String(preview?.['text'])).toMatch(
      /^\[Kept by the gateway as ref:.*\nRead parts .*\]\nfirst line\nx+…$/,
    )
    expect(String(preview?.['text']).length).toBeLessThan(1200)
  })

  it('is left as it is below the size, and if it is an error', async () => {
    const small = { content: [{ type: 'text', text: 'x'.repeat(900) }] }
    expect(await world({ result: small }).call()).toEqual(small)
    const failed = { content: [{ type: 'text', text: 'x'.repeat(9000) }], isError: true }
    expect(await world({ result: failed }).call()).toEqual(failed)
  })

  it('is kept below the size if the caller requests it, under the id that it chose', async () => {
    const { call, kept, got } = world({ result: { content: [{ type: 'text', text: 'hello' }] } })
    const meta = { 'dev.gatehouse/as_reference': true, 'dev.gatehouse/ref_id': 'greeting' }
    const result = await call({}, { meta })
    expect(referenceOf(result)).toMatchObject({ ref_id: 'greeting', size_bytes: 5 })
    expect(await kept.find(ada, 'greeting')).toMatchObject({ server: 'one', tool: 't', size: 5 })
    await expect(call({}, { meta })).rejects.toMatchObject({ code: 'CONFLICT' })
    const invalid = { ...meta, 'dev.gatehouse/ref_id': '../x' }
    await expect(call({}, { meta: invalid })).rejects.toMatchObject({ code: 'INVALID_INPUT' })
    expect(got).toHaveLength(1)
  })

  it('keeps the bytes of an image', async () => {
    const bytes = Buffer.alloc(3000, 7)
    const image = { type: 'image', data: bytes.toString('base64'), mimeType: 'image/png' }
    const { call, kept } = world({ result: { content: [image] } })
    const found = await kept.find(ada, String(referenceOf(await call())['ref_id']))
    expect(found).toMatchObject({ type: 'image/png', size: 3000, name: 'image.png' })
  })

  it('has structured content that still matches the schema of the tool', async () => {
    const rows = Array.from({ length: 500 }, (_none, id) => ({ id, name: `name ${id}` }))
    const outputSchema = {
      type: 'object',
      properties: { rows: { type: 'array', items: { type: 'object' } } },
      required: ['rows'],
    }
    const structuredContent = { rows }
    const content = [{ type: 'text', text: JSON.stringify(structuredContent) }]
    const { call } = world({ result: { content, structuredContent }, definition: { outputSchema } })
    const result = await call()
    const { rows: left } = objectAt(result, 'structuredContent')
    expect(left).toEqual(rows.slice(0, (left as Json[]).length))
    expect(JSON.stringify(left).length).toBeLessThan(3000)
    const blocks = blocksOf(result)
    expect(blocks.map(({ type }) => type)).toEqual(['resource_link', 'text'])
    expect(String(blocks[1]?.['text'])).toContain('rows has 500 rows with id, name')
    expect(referenceOf(result)).toMatchObject({ mime_type: 'application/json' })
  })

  it('is left as it is if nothing shorter matches the schema of the tool', async () => {
    const structuredContent = { key: 'x'.repeat(5000) }
    const outputSchema = { type: 'object', properties: { key: { type: 'string', minLength: 5000 } } }
    const result = { content: [], structuredContent }
    expect(await world({ result, definition: { outputSchema } }).call()).toEqual(result)
  })
})

describe('a large result that cannot be kept', () => {
  const large = { content: [{ type: 'text', text: 'x'.repeat(5000) }] }

  it('is passed on with the reason, since the call was made', async () => {
    const { call, keep, store } = world({ result: large })
    await keep('x'.repeat(249_000), 'text/plain')
    const result = await call()
    expect(result['content']).toEqual(large.content)
    expect(result['_meta']).toEqual({
      'dev.gatehouse/not_kept': {
        code: 'QUOTA_EXHAUSTED',
        message: expect.stringContaining('room for 1000'),
      },
    })
    expect(await store.blobs.list()).toHaveLength(1)
  })

  it('is passed on to callers that may not read it, and as a page of a collection', async () => {
    const { call } = world({ result: large, isPermitted: async () => false })
    expect(await call()).toEqual(large)
    expect(await world({ result: large }).call({}, { slots: isPageSlot.put(true) })).toEqual(large)
  })
})

describe('structured content beside texts', () => {
  const rows = Array.from({ length: 300 }, (_none, id) => ({ id, name: `name ${id}` }))

  it('is kept once if a text says the same, in any notation', async () => {
    const content = [
      { type: 'text', text: 'Found 300 rows' },
      { type: 'text', text: JSON.stringify({ rows }, null, 2) },
    ]
    const { call, store } = world({ result: { content, structuredContent: { rows } } })
    const result = await call()
    expect(blocksOf(result).map(({ type }) => type)).toEqual(['resource_link', 'text', 'text'])
    expect(result['structuredContent']).toBeUndefined()
    expect(await store.blobs.list()).toHaveLength(1)
  })

  it('is kept as the text that is nearly all of it', async () => {
    const text = 'x'.repeat(5000)
    const result = { content: [{ type: 'text', text }], structuredContent: { content: text, ok: true } }
    const found = await world({ result }).call()
    expect(referenceOf(found)).toMatchObject({ mime_type: 'text/plain', size_bytes: 5000 })
    expect(found['structuredContent']).toMatchObject({ content: expect.stringMatching(/^x+…$/), ok: true })
  })

  it('is kept whole if a text is only a part of it', async () => {
    const message = 'Found 300 rows'
    const result = { content: [{ type: 'text', text: message }], structuredContent: { message, rows } }
    const { call, kept } = world({ result })
    const found = await kept.find(ada, String(referenceOf(await call())['ref_id']))
    expect(found?.size).toBe(JSON.stringify({ message, rows }).length)
  })

  it('has a media type and a name within limits, whatever the server sends', async () => {
    const data = Buffer.alloc(3000).toString('base64')
    const strange = { type: { toString: 1 }, data, mimeType: `image/${'x'.repeat(10_000)}` }
    const result = await world({ result: { content: [strange] } }).call()
    expect(blocksOf(result)[0]).toMatchObject({ mimeType: 'application/octet-stream', name: 'data.bin' })
  })
})

describe('a reference as an argument', () => {
  it('keeps the text of numbers, in the data and beside it', async () => {
    const store = new MemoryStore()
    const { keep } = world({ store })
    const uri = await keep('{"id":9007199254740993,"list":[1.0,2.50]}', 'application/json')
    const texts: unknown[] = []
    const run = chain(
      [on(references, settings)],
      async ({ params }) => {
        texts.push(params.at('arguments')?.text)
        return { kind: 'result', result: Payload.of({}) }
      },
      { store, servers: () => ['one'], entry: () => tool({}) },
    )
    const params = Payload.text(
      `{"name":"t","arguments":{"n":12345678901234567890,"a":["${uri}","${uri}?rows=2#/list"]}}`,
    )
    await run({ principal: ada, params })
    expect(texts).toEqual([
      '{"n":12345678901234567890,"a":[{"id":9007199254740993,"list":[1.0,2.50]},[2.50]]}',
    ])
  })

  const png = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0xff])

  it.each<[what: string, property: Json, data: string | Buffer, type: string, expected: unknown]>([
    ['text', { type: 'string' }, 'hello ✓', 'text/plain', 'hello ✓'],
    ['JSON as text', { type: 'string' }, '{"a":1}', 'application/json', '{"a":1}'],
    ['an object', { type: 'object' }, '{"a":1}', 'application/json', { a: 1 }],
    ['an array or null', { type: ['array', 'null'] }, '[1,2]', 'text/plain', [1, 2]],
    ['a value of any type', {}, '[1,2]', 'application/json', [1, 2]],
    ['a text of any type', {}, '[1,2]', 'text/plain', '[1,2]'],
    ['base64', { type: 'string', contentEncoding: 'base64' }, png, 'image/png', png.toString('base64')],
    ['base64 by format', { type: 'string', format: 'byte' }, 'hi', 'text/plain', 'aGk='],
    [
      'base64 by its description',
      { type: 'string', description: 'Base64-encoded image' },
      png,
      'image/png',
      'iVBORw=='.slice(0, 4) + 'R/8=',
    ],
    [
      'a data URI',
      { type: 'string', description: 'A data: URI' },
      'hi',
      'text/plain',
      'data:text/plain;base64,aGk=',
    ],
    ['an alternative', { anyOf: [{ type: 'array' }, { type: 'null' }] }, '[1]', 'text/plain', [1]],
  ])('becomes %s', async (...[, property, data, type, expected]) => {
    const { call, keep, got } = world({ definition: schemaOf(property) })
    const uri = await keep(data, type)
    await call({ value: uri })
    await call({ value: { $ref_id: uri.slice('ref://'.length) } })
    expect(got).toEqual([{ value: expected }, { value: expected }])
  })

  it('is resolved in lists and by references inside of the schema', async () => {
    const definition = {
      inputSchema: {
        $defs: { File: { type: 'object', properties: { data: { type: 'string', format: 'byte' } } } },
        properties: { files: { type: 'array', items: { $ref: '#/$defs/File' } } },
      },
    }
    const { call, keep, got } = world({ definition })
    const uri = await keep('hi', 'text/plain')
    await call({ files: [{ data: uri }, { data: 'as it is' }] })
    expect(got).toEqual([{ files: [{ data: 'aGk=' }, { data: 'as it is' }] }])
  })

  it('is resolved with a schema that contains itself in many ways, and among many arguments', async () => {
    const itself = Array.from({ length: 12 }, () => ({ $ref: '#/$defs/Node' }))
    const definition = {
      inputSchema: {
        $defs: { Node: { anyOf: [...itself, { type: 'string', format: 'byte' }] } },
        properties: { value: { $ref: '#/$defs/Node' } },
      },
    }
    const { call, keep, got } = world({ definition })
    const many = Object.fromEntries(Array.from({ length: 20_000 }, (_none, index) => [`a${index}`, 'x']))
    await call({ ...many, value: await keep('hi', 'text/plain') })
    expect(got).toEqual([{ ...many, value: 'aGk=' }])
  })

  it('is permitted once it is used, and small results cost no check', async () => {
    let checks = 0
    const isPermitted = async (): Promise<boolean> => {
      checks++
      return true
    }
    const { call, keep } = world({ result: { content: [] }, isPermitted })
    await call({ value: 'no reference' })
    expect(checks).toBe(0)
    await call({ value: await keep('hi', 'text/plain') })
    expect(checks).toBe(1)
  })

  it('selects a part of the data', async () => {
    const { call, keep, got } = world({ definition: schemaOf({}) })
    const json = await keep(JSON.stringify({ 'a/b': [{ n: 1 }, { n: 2 }, { n: 3 }] }), 'application/json')
    const lines = await keep('one\ntwo\nthree', 'text/plain')
    for (const value of [
      `${json}#/a~1b/1`,
      `${json}?rows=2-3#/a~1b`,
      `${lines}?rows=2-3`,
      `${lines}?bytes=0-2`,
    ])
      await call({ value })
    expect(got).toEqual([
      { value: { n: 2 } },
      { value: [{ n: 2 }, { n: 3 }] },
      { value: 'two\nthree' },
      { value: 'one' },
    ])
  })

  it('selects lines with the bytes that they have', async () => {
    const { call, keep, got } = world({ definition: schemaOf({}) })
    const lines = await keep(Buffer.from('\ufeffone\r\nzw\u00f6lf\n', 'utf8'), 'text/plain')
    const latin = await keep(Buffer.from('one\nzw\u00f6lf\n{"a":"\u00f6"}', 'latin1'), 'text/plain')
    await call({ value: `${lines}?rows=1` })
    await call({ value: `${latin}?rows=2&as=base64` })
    expect(got).toEqual([
      { value: '\ufeffone\r\n' },
      { value: Buffer.from('zw\u00f6lf\n', 'latin1').toString('base64') },
    ])
    const invalid = { code: 'INVALID_INPUT' }
    await expect(call({ value: `${latin}?rows=2` })).rejects.toMatchObject(invalid)
    await expect(call({ value: `${latin}?rows=3&as=json` })).rejects.toMatchObject(invalid)
    const json = await keep(Buffer.from('{"a":"\u00f6"}', 'latin1'), 'application/json')
    await expect(call({ value: `${json}#/a` })).rejects.toMatchObject(invalid)
  })

  it('is no reference inside of a text, in a name, or with another id', async () => {
    const { call, got } = world({ definition: schemaOf({ type: 'string' }) })
    const args = { value: 'see ref://ref_1', 'ref://ref_1': 1, other: 'ref://', more: { $ref_id: 'a', b: 1 } }
    await call(args)
    expect(got).toEqual([args])
  })

  it.each<[what: string, value: (uri: string) => unknown, property: Json, code: string]>([
    ['is unknown', () => 'ref://ref_0', {}, 'RESOURCE_NOT_FOUND'],
    ['is no JSON', (uri) => uri, { type: 'object' }, 'INVALID_INPUT'],
    ['has no such value', (uri) => `${uri}#/a`, {}, 'INVALID_INPUT'],
    ['has no such row', (uri) => `${uri}?rows=9`, {}, 'INVALID_INPUT'],
    ['has a range that cannot be read', (uri) => `${uri}?rows=2-1`, {}, 'INVALID_INPUT'],
    ['selects bytes behind its end', (uri) => `${uri}?bytes=50-60`, {}, 'INVALID_INPUT'],
    ['has two ranges', (uri) => `${uri}?rows=1&bytes=1`, {}, 'INVALID_INPUT'],
  ])('is refused before the server is called if it %s', async (_what, value, property, code) => {
    const { call, keep, got } = world({ definition: schemaOf(property) })
    const uri = await keep('just text', 'text/plain')
    await expect(call({ value: value(uri) })).rejects.toMatchObject({ code })
    expect(got).toEqual([])
  })

  it('is refused if the data is binary and the argument is text, or if it is too large', async () => {
    const { call, keep, got } = world({ definition: schemaOf({ type: 'string' }) })
    const image = await keep(png, 'image/png')
    await expect(call({ value: image })).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      extra: { field: 'value' },
    })
    const half = await keep('x'.repeat(60_000), 'text/plain')
    await expect(call({ value: half, other: half })).rejects.toMatchObject({ code: 'PAYLOAD_TOO_LARGE' })
    expect(got).toEqual([])
  })

  it('is unknown to other callers, and to those who lost the right to read from its server', async () => {
    let isPermitted = true
    const { call, keep } = world({ isPermitted: async () => isPermitted })
    const uri = await keep('secret', 'text/plain')
    const unknown = { code: 'RESOURCE_NOT_FOUND', message: 'There is no such reference, or it has expired.' }
    await expect(call({ value: uri }, { principal: bob })).rejects.toMatchObject(unknown)
    await call({ value: uri })
    isPermitted = false
    await expect(call({ value: uri })).rejects.toMatchObject(unknown)
  })
})

describe('kept data', () => {
  it('expires', async () => {
    let now = 0
    const { call, keep } = world({ store: new MemoryStore(() => now) })
    const uri = await keep('data', 'text/plain')
    await call({ value: uri })
    now = 60_001
    await expect(call({ value: uri })).rejects.toMatchObject({ code: 'RESOURCE_NOT_FOUND' })
  })

  it('is refused over the share of a caller, and leaves nothing', async () => {
    const { store, keep } = world()
    await keep('x'.repeat(200_000), 'text/plain')
    await expect(keep('x'.repeat(60_000), 'text/plain')).rejects.toMatchObject({ code: 'QUOTA_EXHAUSTED' })
    await keep('x'.repeat(60_000), 'text/plain', bob)
    expect((await store.blobs.list()).map(({ size }) => size)).toEqual([200_000, 60_000])
  })

  it('is deleted once it has expired, and not while its record is about to be written', async () => {
    let now = Date.now()
    const store = new MemoryStore(() => now)
    const { keep } = world({ store })
    await keep('data', 'text/plain')
    const kept = new References(store, settings, () => now)
    now += 120_000
    await kept.sweep()
    expect(await store.blobs.list()).toHaveLength(1)
    now += 600_000
    await kept.sweep()
    expect(await store.blobs.list()).toEqual([])
  })

  it('is not deleted while it has a record', async () => {
    let now = Date.now()
    const store = new MemoryStore()
    const { keep } = world({ store })
    await keep('data', 'text/plain')
    now += 700_000
    await new References(store, settings, () => now).sweep()
    expect(await store.blobs.list()).toHaveLength(1)
  })
})

describe('reading', () => {
  const read = async ({ deps }: ReturnType<typeof world>, args: Json, principal = ada): Promise<Json> => {
    const [reader] = references.create(() => settings, deps).builtins?.tools ?? []
    const call = toolCall({ principal, params: Payload.of({ name: 'read_reference', arguments: args }) })
    if (!reader) throw new TypeError('there is no tool')
    return fieldsOf(await reader.handle(call))
  }
  const textOf = (result: Json): string => String(blocksOf(result)[0]?.['text'])

  it('returns the beginning, a value, rows, bytes, or the lines with a text', async () => {
    const here = world()
    const lines = await here.keep(
      Array.from({ length: 1000 }, (_none, index) => `line ${index + 1}`).join('\n'),
      'text/plain',
    )
    const json = await here.keep(JSON.stringify({ rows: [{ a: 1 }, { a: 2 }] }), 'application/json')
    expect(textOf(await read(here, { ref: lines, max_bytes: 13 }))).toBe(
      'line 1\nline 2\n[Bytes 0 to 12 of 8892.]',
    )
    expect(textOf(await read(here, { ref: lines, rows: '999-1005' }))).toBe('line 999\nline 1000')
    expect(textOf(await read(here, { ref: `${lines}?rows=2` }))).toBe('line 2\n')
    expect(textOf(await read(here, { ref: lines, bytes: '5-5' }))).toBe('1')
    expect(textOf(await read(here, { ref: lines, search: 'line 99' }))).toMatch(
      /^99: line 99\n990: line 990\n/,
    )
    expect(textOf(await read(here, { ref: lines, search: 'line', max_bytes: 100 }))).toMatch(
      /\[99\d more lines contain it\.\]$/,
    )
    expect(textOf(await read(here, { ref: lines, search: 'absent' }))).toBe('[No line contains "absent".]')
    const long = await here.keep(`${'error '.repeat(300)}\nerror`, 'text/plain')
    expect(textOf(await read(here, { ref: long, search: 'error', max_bytes: 50 }))).toMatch(
      /^1: error .*\n\[1 more lines contain it\.\]$/,
    )
    expect(textOf(await read(here, { ref: json, pointer: '/rows/1/a' }))).toBe('2')
    expect(textOf(await read(here, { ref: json, pointer: '/rows', rows: '1' }))).toBe('[{"a":1}]')
  })

  it('never splits a character, and says of binary data what it is', async () => {
    const here = world()
    const text = await here.keep('€'.repeat(10), 'text/plain')
    expect(textOf(await read(here, { ref: text, bytes: '1-7' }))).toBe('€')
    const image = await here.keep(Buffer.alloc(100, 0xff), 'image/png')
    expect(textOf(await read(here, { ref: image }))).toMatch(/^\[image\/png, 100 bytes: not text\./)
  })

  it('answers in the same words whatever keeps a caller from reading it', async () => {
    const here = world()
    const uri = await here.keep('secret', 'text/plain')
    const texts = [
      await read(here, { ref: uri }, bob),
      await read(here, { ref: 'ref://ref_00' }),
      await read(here, { ref: 'ref://../etc/passwd' }),
      await read(world({ store: here.store, isPermitted: async () => false }), { ref: uri }),
    ].map(textOf)
    expect(new Set(texts)).toEqual(
      new Set([
        'There is no such reference, or it has expired. Make the call again that returned it, with another idempotency key if it had one.',
      ]),
    )
  })

  it('is possible as a resource', async () => {
    const here = world()
    const [resource] = references.create(() => settings, here.deps).builtins?.resources?.('one') ?? []
    const text = await here.keep('hello', 'text/plain')
    const image = await here.keep(Buffer.from([0xff, 0xfe]), 'image/png')
    const readResource = async (uri: string): Promise<unknown> => {
      const call = toolCall({ principal: ada, params: Payload.of({ uri }) })
      return resource && fieldsOf(await resource.handle(call))['contents']
    }
    expect(resource?.matches?.(text)).toBe(true)
    expect(await readResource(text)).toEqual([{ uri: text, mimeType: 'text/plain', text: 'hello' }])
    expect(await readResource(`${text}?bytes=1-2`)).toEqual([
      { uri: `${text}?bytes=1-2`, mimeType: 'text/plain', text: 'el' },
    ])
    expect(await readResource(image)).toEqual([{ uri: image, mimeType: 'image/png', blob: '//4=' }])
  })
})
