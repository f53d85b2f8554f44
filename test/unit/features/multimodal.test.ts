import { toolFacts } from '../../../src/features/offers.ts'
import { describe, expect, it } from 'vitest'
import type { Descriptor } from '../../../src/core/descriptor.ts'
import { inputsOf, inputTypes } from '../../../src/core/media-inputs.ts'
import type { ToolSettings } from '../../../src/core/settings.ts'
import {
  largestInput,
  matchesDeclared,
  dataUri,
  inBase64,
  detectType,
  multimodal,
} from '../../../src/features/multimodal.ts'
import { answering, chain, fieldsOf, on } from '../../support/chain.ts'
import { featureDeps, offeredBy } from '../../support/feature-deps.ts'
import { serverSettings } from '../../support/server-settings.ts'
import type { Json } from '../../support/server/json.ts'

const hello = { content: [{ type: 'text', text: 'hello' }] }
const png = Buffer.concat([Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'), Buffer.alloc(92)]).toString('base64')
const gif = Buffer.from('GIF89a'.padEnd(100, '\0')).toString('base64')
const text = { type: 'string' }

describe('media types a tool accepts', () => {
  it.each<readonly [string, Json, readonly string[]]>([
    ['image', { ...text, contentEncoding: 'base64', contentMediaType: 'image/png' }, ['image/png']],
    ['picture', { ...text, contentEncoding: 'base64' }, ['application/octet-stream']],
    ['body', { ...text, format: 'byte' }, ['application/octet-stream']],
    ['body', { ...text, format: 'data-url' }, ['application/octet-stream']],
    ['site', { ...text, format: 'uri' }, ['text/uri-list']],
    ['image', text, ['image/*']],
    ['imageData', text, ['image/*']],
    ['audio_base64', text, ['audio/*']],
    ['attachment', text, ['application/octet-stream']],
    ['images', { type: 'array', items: text }, ['image/*']],
    ['file', {}, ['application/octet-stream']],
    ['path', text, []],
    ['image_id', text, []],
    ['file_path', text, []],
    ['imageCount', { type: 'integer' }, []],
    ['image', { type: 'boolean' }, []],
    ['file', { ...text, enum: ['a', 'b'] }, []],
    ['constructor', text, []],
  ])('parameter %s %j accepts %j', (name, schema, types) => {
    expect(inputTypes(inputsOf({ type: 'object', properties: { [name]: schema } }))).toEqual(types)
  })

  it.each([[undefined], [{}], [{ properties: [] }], [{ properties: { a: true, b: null } }]])(
    'schema %j has no media parameters',
    (schema) => expect(inputsOf(schema)).toEqual([]),
  )
})

describe('base64 data', () => {
  it.each([0, 1, 2, 3, 4, 100])('the size is that of the decoded data: %d', (size) => {
    const padded = Buffer.alloc(size).toString('base64')
    expect([inBase64(padded).size, inBase64(padded.replaceAll('=', '')).size]).toEqual([size, size])
  })

  it('base64 data is found in data URIs', () => {
    expect(dataUri(`data:image/png;base64,${png}`)).toEqual({ size: 100, base64: png, declared: 'image/png' })
    expect(dataUri(`data:image/svg+xml;charset=utf-8;base64,AAAA`)).toMatchObject({
      declared: 'image/svg+xml',
      size: 3,
    })
    expect(dataUri('data:;base64,AAAA')).toEqual({ size: 3, base64: 'AAAA' })
    for (const other of [
      'data:text/plain,hello',
      'database',
      'data:',
      `data:${'x'.repeat(1000)};base64,AAAA`,
    ])
      expect(dataUri(other)).toBeUndefined()
  })

  it('the media type is detected by the first bytes', () => {
    expect([
      detectType(png),
      detectType(gif),
      detectType('JVBERi0xLjc='),
      detectType('AAAA'),
      detectType(''),
    ]).toEqual(['image/png', 'image/gif', 'application/pdf', undefined, undefined])
  })

  it.each([
    ['image/png', 'image/PNG', true],
    ['image/png', 'image/*', true],
    ['image/jpeg', 'image/jpg', true],
    ['application/zip', 'application/vnd.openxmlformats-officedocument.wordprocessingml.document', true],
    ['application/zip', 'image/png', false],
    ['image/gif', 'image/png', false],
    ['image/gif', 'application/octet-stream', true],
  ])('%s can be declared as %s: %s', (found, declared, expected) => {
    expect(matchesDeclared(found, declared)).toBe(expected)
  })
})

const multimodalSettings = { compat: true } as const

function bench(
  properties: Json,
  tool: ToolSettings = {},
  isReached: (value: true) => void = () => undefined,
  stated: Json = {},
) {
  const entry: Descriptor = {
    upstream: 'one',
    kind: 'tool',
    name: 't',
    definition: { name: 't', inputSchema: { type: 'object', properties }, ...stated },
    classification: { op: 'write', risk: 'reversible', idempotent: false, evidence: [] },
  }
  const settings = serverSettings({ name: 'one', tools: { t: tool } })
  const deps = { server: () => settings, entry: () => entry }
  const server: ReturnType<typeof answering> = (call) => {
    isReached(true)
    return answering(hello)(call)
  }
  const make = chain([on(multimodal, multimodalSettings)], server, deps)
  return {
    make: (given: Json) => make({}, { arguments: given }),
    facts: offeredBy(
      multimodal.create(() => multimodalSettings, featureDeps(deps)),
      toolFacts,
    )?.(entry, [entry]),
  }
}

const image = { ...text, contentEncoding: 'base64', contentMediaType: 'image/png' }

describe('oversized media', () => {
  it.each<readonly [string, Json, Json]>([
    ['base64', { image }, { image: png }],
    ['a data URI', {}, { anything: `data:image/png;base64,${png}` }],
    ['deeply nested', {}, { list: [{ a: `data:image/png;base64,${png}` }] }],
  ])('the decoded size is checked before the call is sent: %s', async (_what, properties, given) => {
    let isReached = false
    const { make } = bench(properties, { maxInput: 99 }, () => void (isReached = true))
    await expect(make(given)).rejects.toMatchObject({
      code: 'PAYLOAD_TOO_LARGE',
      extra: { details: { limit: 99, actual: 100 } },
    })
    expect(isReached).toBe(false)
    expect(fieldsOf(await bench(properties, { maxInput: 100 }).make(given))).toEqual(hello)
  })

  it('the size limit does not apply to text', async () => {
    const { make } = bench({ image, note: text }, { maxInput: 10 })
    expect(
      fieldsOf(await make({ note: 'x'.repeat(1000), image: 'https://example.com/an-image.png' })),
    ).toEqual(hello)
  })
})

describe('media of another type than declared', () => {
  it('a type mismatch is reported in the result and the call is sent', async () => {
    const result = fieldsOf(await bench({ image }).make({ image: gif }))
    expect(result).toEqual({
      ...hello,
      _meta: {
        'dev.gatehouse/multimodal': {
          details: [
            { argument: 'image', declared: 'image/png', found: 'image/gif', reason: 'media_type_mismatch' },
          ],
        },
      },
    })
  })

  it('no mismatch is reported without a declared type or for a matching one', async () => {
    expect(fieldsOf(await bench({ image }).make({ image: png }))).toEqual(hello)
    expect(fieldsOf(await bench({ image: text }).make({ image: gif }))).toEqual(hello)
  })
})

it('the facts contain accepted and returned media types, preferably as configured', () => {
  expect(bench({ image }).facts).toEqual({
    inputTypes: ['image/png'],
    maxInput: 774_144,
    mediaPlace: 'asked',
  })
  const owned = bench({ image }, { accepts: ['image/*'], returns: ['text/csv'], maxInput: 5 })
  expect(owned.facts).toMatchObject({ inputTypes: ['image/*'], outputTypes: ['text/csv'], maxInput: 5 })
})

it.each<readonly [string, number, Parameters<typeof bench>]>([
  ['bytes, which grow by a third in base64', 774_144, [{ image }]],
  ['bytes by what the server says', 774_144, [{}, {}, undefined, { input_types: ['image/png'] }]],
  ['bytes by configuration', 774_144, [{}, { accepts: ['image/png'] }]],
  ['text', 1_032_192, [{ note: text }]],
  ['more than a request has', 774_144, [{ image }, { maxInput: 5_000_000 }]],
])('the largest input is what fits into a call: %s', (_what, maxInput, given) => {
  expect(bench(...given).facts).toMatchObject({ maxInput })
})

it.each([1, 4, 100, 65_536, 1_048_576])(
  'in a request of %d bytes the largest input fits in base64',
  (request) => {
    const size = largestInput(request, true)
    expect(Buffer.alloc(size).toString('base64').length).toBeLessThan(request)
    expect(largestInput(request, false)).toBeLessThan(request)
  },
)
