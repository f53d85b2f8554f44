import { describe, expect, it } from 'vitest'
import { serverArguments } from '../../../src/core/tool-call.ts'
import type { Call, Outcome } from '../../../src/core/call.ts'
import type { Descriptor } from '../../../src/core/descriptor.ts'
import { Payload } from '../../../src/core/payload.ts'
import type { Reserved } from '../../../src/features/offers.ts'
import { injectArguments } from '../../../src/features/inject-arguments.ts'
import { extensionOf } from '../../../src/protocol/meta-keys.ts'
import { featureDeps, type ServiceStubs, withTool } from '../../support/feature-deps.ts'
import { toolCall } from '../../support/tool-call.ts'

const key: Reserved = {
  argument: '_key',
  value: 'key',
  schema: { type: 'string' },
  isFor: ({ classification }) => classification.op !== 'read',
}
const flag: Reserved = { argument: 'flag', value: 'flag' }

function entryOf(definition: Record<string, unknown>): Descriptor {
  const op = definition['name'] === 'reads' ? 'read' : 'write'
  const classification = { op, risk: 'safe', idempotent: false, evidence: [] } as const
  return {
    upstream: 'one',
    kind: 'tool',
    name: String(definition['name']),
    definition,
    classification: classification,
  }
}

function policyFor(method: string, deps: ServiceStubs = {}, settings: object | false = {}) {
  const whole = featureDeps({
    reserved: () => [key, flag],
    listed: (_upstream, definition) => entryOf(definition),
    entry: () => entryOf({ name: 't', inputSchema: { properties: { own: {} } } }),
    ...deps,
  })
  return withTool(
    injectArguments.create(() => settings, whole),
    whole,
  ).calls?.middleware({ method, upstream: 'one', name: 't' })
}

/** The call that the next feature receives, for arguments given as text. */
async function passedOn(given: string, more: Partial<Call> = {}, deps?: ServiceStubs): Promise<Call> {
  let seen: Call | undefined
  const params = Payload.text(`{"name":"t","arguments":${given}}`)
  const handler = policyFor(
    'tools/call',
    deps,
  )?.(async (call) => {
    seen = call
    return { kind: 'result', result: Payload.of({}) }
  })
  await handler?.(toolCall({ params, ...more }))
  if (!seen) throw new Error('nothing was passed on')
  return seen
}

describe('injected arguments of a call', () => {
  it('an injected argument is removed, and the other arguments keep their JSON text', async () => {
    const call = await passedOn('{"n":12345678901234567890,"_key":"k","x":1.0,"flag":true}')
    expect(call.params.at('arguments')?.text).toBe('{"n":12345678901234567890,"x":1.0}')
    expect(extensionOf(call, 'key')).toBe('k')
    expect(extensionOf(call, 'flag')).toBe(true)
  })

  it('an empty injected argument is ignored', async () => {
    const call = await passedOn('{"_key":null,"flag":""}')
    expect(call.params.at('arguments')?.text).toBe('{}')
    expect([extensionOf(call, 'key'), extensionOf(call, 'flag')]).toEqual([undefined, undefined])
  })

  it('an injected argument that contradicts the request metadata is refused', async () => {
    const same = await passedOn('{"_key":"k"}', { meta: { key: 'k' } })
    expect(extensionOf(same, 'key')).toBe('k')
    const other = await passedOn('{"_key":"k"}', { meta: { key: 'another' } })
    expect(() => extensionOf(other, 'key')).toThrow('set twice')
  })

  it.each([
    ['among its properties', { properties: { _key: {} } }],
    ['among the properties of a subschema', { allOf: [{ properties: { _key: {} } }] }],
    [
      'among the properties of a definition',
      { $ref: '#/$defs/A', $defs: { A: { properties: { _key: {} } } } },
    ],
    ['as required', { anyOf: [{ required: ['_key'] }, {}] }],
  ])('an argument stays with the server if its schema names it %s', async (_where, inputSchema) => {
    const entry = (): Descriptor => entryOf({ name: 't', inputSchema })
    const call = await passedOn('{"_key":"k"}', {}, { entry })
    expect(call.params.text).toBe('{"name":"t","arguments":{"_key":"k"}}')
    expect(extensionOf(call, 'key')).toBeUndefined()
  })

  it('an injected argument that is not a string is refused by name', async () => {
    const refusal = passedOn('{"_key":7}')
    await expect(refusal).rejects.toMatchObject({ code: 'INVALID_INPUT', extra: { field: '_key' } })
  })

  it('an injected argument that violates its schema is refused by name in a tool result', async () => {
    const shaped: Reserved = { ...key, schema: { type: 'string', pattern: '^[a-z]{1,9}$' } }
    const given = toolCall({ params: Payload.of({ name: 't', arguments: { _key: 'a b' } }) })
    const refusal = policyFor('tools/call', { reserved: () => [shaped] })?.(() => {
      throw new Error('it was passed on')
    })(given)
    await expect(refusal).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      isResult: true,
      extra: { field: '_key', reason: 'pattern' },
    })
  })

  it('the audit digest of arguments excludes injected arguments', async () => {
    const given = toolCall({ params: Payload.of({ name: 't', arguments: { x: 1, _key: 'k' } }) })
    await policyFor('tools/call')?.(async () => ({ kind: 'result', result: Payload.of({}) }))(given)
    expect(serverArguments(given)).toEqual({ x: 1 })
    expect(serverArguments(toolCall({ params: Payload.of({ arguments: { y: 1 } }) }))).toEqual({ y: 1 })
  })

  it('an injected argument is recognized after the tools are requested from the server', async () => {
    const call = await passedOn('{"_key":"k"}', {}, { entry: async () => entryOf({ name: 't' }) })
    expect(extensionOf(call, 'key')).toBe('k')
  })

  it('an injected argument is removed from calls of unknown tools and kept in internal calls', async () => {
    const unknown = await passedOn('{"_key":"k"}', {}, { entry: () => undefined })
    expect(unknown.params.text).not.toContain('_key')
    expect(extensionOf(unknown, 'key')).toBe('k')
    const own = await passedOn('{"_key":"k"}', { internal: 'compensate' })
    expect(own.params.text).toContain('_key')
  })
})

describe('injected arguments in a list of tools', () => {
  const text = JSON.stringify({
    tools: [
      { name: 'writes', inputSchema: { type: 'object', properties: { a: {} }, additionalProperties: false } },
      { name: 'bare', inputSchema: { type: 'object' } },
      { name: 'reads', inputSchema: { type: 'object' } },
      { name: 'own', inputSchema: { type: 'object', properties: { _key: { type: 'number' } } } },
      { name: 'anything', inputSchema: true },
    ],
  })

  async function shown(): Promise<Outcome | undefined> {
    const result = Payload.text(text)
    return policyFor('tools/list')?.(async () => ({ kind: 'result', result }))(toolCall())
  }

  it('the schema of each tool lists the injected arguments intended for models', async () => {
    const outcome = await shown()
    const tools = outcome?.kind === 'result' ? outcome.result.fields['tools'] : undefined
    expect(tools).toEqual([
      {
        name: 'writes',
        inputSchema: {
          type: 'object',
          properties: { a: {}, _key: { type: 'string' } },
          additionalProperties: false,
        },
      },
      { name: 'bare', inputSchema: { type: 'object', properties: { _key: { type: 'string' } } } },
      { name: 'reads', inputSchema: { type: 'object' } },
      { name: 'own', inputSchema: { type: 'object', properties: { _key: { type: 'number' } } } },
      { name: 'anything', inputSchema: { type: 'object', properties: { _key: { type: 'string' } } } },
    ])
  })
})

it('no middleware is created if inject_arguments is off or no feature uses it', () => {
  for (const method of ['tools/call', 'tools/list']) {
    expect(policyFor(method, {}, false)).toBeUndefined()
    expect(policyFor(method, { reserved: () => [] })).toBeUndefined()
  }
})
