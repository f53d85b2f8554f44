// Outside of the profile corporate a server judges itself what it takes. Calls that do not fit the schema are passed on as
// they are, unless a rule of the gateway has to know what does not fit.
import { describe, expect, it } from 'vitest'
import type { Call } from '../../../../src/core/call.ts'
import { dryRunSlot } from '../../../../src/core/dry-run.ts'
import type { Descriptor } from '../../../../src/core/descriptor.ts'
import { GatewayError } from '../../../../src/core/error.ts'
import type { Log } from '../../../../src/core/log.ts'
import { Payload } from '../../../../src/core/payload.ts'
import type { UpstreamSettings } from '../../../../src/core/settings.ts'
import { validate } from '../../../../src/features/validate/validate.ts'
import { featureDeps, withTool } from '../../../support/feature-deps.ts'
import { serverSettings } from '../../../support/server-settings.ts'
import { silentLog } from '../../../support/silent-log.ts'
import { toolCall } from '../../../support/tool-call.ts'

const schema = {
  type: 'object',
  properties: {
    id: { type: 'integer' },
    amount: { type: 'number', default: 1 },
    to: { type: 'string', pattern: '^[a-z]+$' },
    options: { type: 'object', properties: { token: { type: 'string', format: 'password' } } },
    filter: { type: 'object' },
    mode: { enum: ['list', 'delete'] },
  },
  required: ['id', 'amount'],
  additionalProperties: false,
}

interface Given {
  readonly input?: 'off' | 'warn' | 'strict'
  readonly inputSchema?: unknown
  readonly settings?: Partial<UpstreamSettings>
  readonly call?: Partial<Call>
  readonly isKeyed?: boolean
}

async function ended(params: string, { input = 'warn', inputSchema = schema, ...given }: Given = {}) {
  const logged: (readonly [string, unknown])[] = []
  const log: Log = { ...silentLog, warn: (event, fields) => void logged.push([event, fields]) }
  const classification = { op: 'write', risk: 'safe', idempotent: false, evidence: [] } as const
  const entry: Descriptor = {
    upstream: 'one',
    kind: 'tool',
    name: 't',
    definition: { name: 't', inputSchema },
    classification,
  }
  const settings = serverSettings({ name: 'one', ...given.settings })
  const deps = featureDeps({ entry: () => entry, log, server: () => settings, isOn: () => true })
  const middleware = withTool(
    validate.create(() => ({ input, output: 'warn' }), deps),
    deps,
  ).calls?.middleware
  let sent: Call | undefined
  const result = Payload.text('{"content":[],"x":1.0}')
  const handler = middleware?.({ method: 'tools/call', upstream: 'one', name: 't' })?.(async (call) => {
    sent = call
    return { kind: 'result', result }
  })
  const text = `{"name":"t"${params === '' ? '' : `,${params}`}}`
  const run = async (): Promise<unknown> =>
    handler?.(toolCall({ params: Payload.text(text), ...given.call })).catch((error: unknown) => error)
  const outcome = await run()
  await run()
  if (outcome instanceof GatewayError) return { error: outcome, logged, sent }
  expect(outcome).toEqual({ kind: 'result', result })
  expect(sent?.params.text).toBe(text)
  return { sent, logged }
}

const unfit = [
  ['a number as text', '"arguments":{"id":"7", "amount":1}'],
  ['a number as text that is no integer', '"arguments":{"id":"7.0","amount":"1e3"}'],
  ['JSON as text', String.raw`"arguments":{"id":1,"amount":1,"filter":"{\"a\":1}"}`],
  ['a default left out though it is required', '"arguments":{"id":1}'],
  ['nothing', ''],
  ['null in the place of arguments', '"arguments":null'],
  [
    'what n8n adds',
    '"arguments":{"id":1,"amount":1,"toolCallId":"c","action":"a","sessionId":"s","chatInput":""}',
  ],
  ['a text that does not match the pattern', '"arguments":{"id":1,"amount":1,"to":"Ä"}'],
  ['a value that is not listed', '"arguments":{"id":1,"amount":1,"mode":"LIST"}'],
  ['null for a required argument', '"arguments":{"id":null,"amount":1.0}'],
  ['a number beyond 2^53 as text', '"arguments":{"id":"725653563933458433","amount":1}'],
  ['a list of one', '"arguments":{"id":[1],"amount":1}'],
  ['lone surrogates and markup', String.raw`"arguments":{"id":"\ud800<b>‮","amount":1}`],
] as const

describe('a call that does not fit the schema', () => {
  it.each(unfit)('is sent on byte for byte, with one log line for its tool: %s', async (_what, params) => {
    const { sent, logged } = await ended(params)
    expect(sent).toBeDefined()
    expect(logged).toEqual([['validate.input', { upstream: 'one', tool: 't', reason: expect.any(String) }]])
    expect(JSON.stringify(logged)).not.toContain('725653563933458433')
  })

  it.each(unfit)('is sent on without a word if that is off: %s', async (_what, params) => {
    const { sent, logged } = await ended(params, { input: 'off' })
    expect([sent !== undefined, logged]).toEqual([true, []])
  })

  it.each(unfit)('is refused if that is strict: %s', async (_what, params) => {
    const { error, sent, logged } = await ended(params, { input: 'strict' })
    expect(error).toMatchObject({ code: 'INVALID_INPUT' })
    expect([sent, logged]).toEqual([undefined, []])
  })

  it('is refused by any setting where it is no call: its arguments are a list or a text', async () => {
    for (const input of ['off', 'warn', 'strict'] as const)
      for (const params of ['"arguments":[]', '"arguments":"x"', '"arguments":7'])
        expect((await ended(params, { input })).error).toMatchObject({ rpc: -32602, isResult: false })
  })

  it.each([[true], [{}], [null], [{ type: 'object' }], ['none']])(
    'cannot be there if the schema is %j',
    async (inputSchema) => {
      const params = '"arguments":{"any":1,"transaction_id":"x"}'
      for (const input of ['off', 'warn', 'strict'] as const)
        expect((await ended(params, { input, inputSchema })).logged).toEqual([])
    },
  )
})

type Ruled = readonly [rule: string, settings: Partial<UpstreamSettings>]
const rules: readonly Ruled[] = [
  ['upstreams.one.deny.t.id', { deny: { t: { id: '7' } } }],
  ['upstreams.one.deny."*".ID', { deny: { '*': { ID: '7' }, other: { to: 'x' } } }],
  ['upstreams.one.allow.t.id', { allow: { t: { id: '*' }, '*': true } }],
  ['upstreams.one.tools.t.verify', { tools: { t: { verify: 'find(id=$.args.id) -> $.result' } } }],
  ['upstreams.one.tools.t.verify', { tools: { t: { verify: 'find(by={"all": [$.args]}) -> $.result' } } }],
  ['upstreams.one.tools.t.undo', { tools: { t: { undo: 'drop(id=$.args.id, to=$.result.to)' } } }],
  ['upstreams.one.tools."*".undo', { tools: { '*': { undo: { call: 'drop(id=$.args.id[0].of)' } } } }],
  [
    'upstreams.one.tools.t.undo',
    { tools: { t: { undo: { snapshot: 'read(id=$.args.id)', restore: 'write(to=$.snapshot.to)' } } } },
  ],
  [
    'upstreams.one.tools.t.undo',
    { tools: { t: { undo: { snapshot: 'read()', restore: 'write()', absent: 'drop(id=$.args.id)' } } } },
  ],
]

describe('a call with an argument that a rule has to know', () => {
  it.each(rules)('is refused if the argument does not fit, with %s in the reason', async (rule, settings) => {
    for (const input of ['off', 'warn'] as const)
      for (const id of ['"id":"7.0",', '"id":[7],', '"id":null,', '']) {
        const { error, sent } = await ended(`"arguments":{${id}"amount":1}`, { input, settings })
        expect(error).toMatchObject({ code: 'INVALID_INPUT', isResult: true })
        expect(error?.message).toContain(`The call was not made, because ${rule} depends on "id".`)
        expect(error?.data).toMatchObject({ field: 'id', details: { rule } })
        expect(sent).toBeUndefined()
      }
  })

  it.each(rules.filter(([, settings]) => !JSON.stringify(settings).includes('$.args]')))(
    'is sent on if only others do not fit, whatever %s says',
    async (_rule, settings) => {
      expect((await ended('"arguments":{"id":1,"to":"Ä","more":2}', { settings })).sent).toBeDefined()
    },
  )

  it('is refused as a dry run, which does not ask the server', async () => {
    const { error } = await ended('"arguments":{"id":"7","amount":1}', {
      call: { slots: dryRunSlot.put({ by: 'caller' }) },
    })
    expect(error?.message).toBe(
      'Invalid arguments: "id" must be integer. The call was not made, because a dry run without the server depends on the arguments.',
    )
  })

  it('is refused if a text is in the place of an object with secrets, which would not be masked', async () => {
    const text = String.raw`"options":"{\"token\":\"s3cret\"}"`
    const { error } = await ended(`"arguments":{"id":1,"amount":1,${text}}`, {
      inputSchema: { ...schema, properties: { ...schema.properties, note: { type: 'object' } } },
    })
    expect(error?.message).toContain('because the masking of secret arguments depends on "options"')
    expect(JSON.stringify([error?.message, error?.data])).not.toContain('s3cret')
    const others = ['"options":{"token":7}', '"options":{"more":1},"id":"x"', '"note":"{}"']
    for (const other of others)
      expect((await ended(`"arguments":{"id":1,"amount":1,${other}}`)).sent).toBeDefined()
  })
})
