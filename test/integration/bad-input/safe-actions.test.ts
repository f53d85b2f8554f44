import { request } from 'node:http'
import { describe, expect, it } from 'vitest'
import { bearer, peopleNamed } from '../../support/approving.ts'
import { post } from '../../support/client/raw.ts'
import type { FakeClient } from '../../support/fake-client.ts'
import { modern } from '../../support/fronts.ts'
import type { RunningGateway } from '../../support/gateway.ts'
import { clientOf, codeOf, folder, gatewayTo } from '../../support/journey.ts'
import { type Notes, notes } from '../../support/notes.ts'
import { isObject, type Json, objectAt } from '../../support/server/json.ts'

interface Field {
  readonly server: Notes
  readonly gateway: RunningGateway
  readonly client: FakeClient
}

async function field(config: Json = {}, server?: Notes): Promise<Field> {
  const there = server ?? (await notes())
  const gateway = await gatewayTo({ notes: there.upstream }, { config: { store: folder(), ...config } })
  return { server: there, gateway, client: await clientOf(gateway, { revision: '2026-07-28' }) }
}

const add = (text: string, more: Json = {}): Json => ({ name: 'add', arguments: { text }, ...more })

/** The gateway is alive, and makes the next keyed step of the next transaction. */
async function expectSound({ client, server, gateway }: Field): Promise<void> {
  const before = server.calls.length
  const transaction_id = `sound-${before}`
  expect((await client.request('transaction/begin', { transaction_id })).result).toMatchObject({
    status: 'begun',
  })
  const meta = { transaction_id, idempotency_key: `sound-${before}` }
  const { result } = await client.request('tools/call', add('sound', { _meta: meta }))
  expect(result).toMatchObject({ transaction: { step_id: 'step-1', status: 'ok' } })
  expect((await client.request('transaction/rollback', { transaction_id })).result).toMatchObject({
    status: 'rolled_back',
  })
  expect(server.calls.slice(before)).toEqual(['add sound', 'drop sound'])
  expect(gateway.log().filter(({ event }) => event === 'unhandled')).toEqual([])
}

const long = 'k'.repeat(65 * 1024)
const values = ['', ' ', 'a b', 'ключ', 'k'.repeat(129), long, 7, true, null, [], {}, ['k'], { k: 1 }]

describe('an idempotency key', () => {
  const places: readonly [string, (value: unknown) => Json][] = [
    ['_meta, with our prefix', (value) => ({ _meta: { 'dev.gatehouse/idempotency_key': value } })],
    ['_meta', (value) => ({ _meta: { idempotency_key: value } })],
    ['_meta, in camel case', (value) => ({ _meta: { idempotencyKey: value } })],
    ['params', (value) => ({ idempotency_key: value })],
    ['params, in camel case', (value) => ({ idempotencyKey: value })],
  ]

  it('is refused if it is invalid, wherever it is sent, and the call is not made', async () => {
    const place = await field()
    for (const [, put] of places) {
      for (const value of values) {
        const reply = await place.client.request('tools/call', add('never', put(value)))
        const told = JSON.stringify(reply.result ?? reply.error)
        expect([codeOf(reply), value]).toEqual(['INVALID_INPUT', value])
        expect(told.length).toBeLessThan(2000)
      }
    }
    expect(place.server.calls).toEqual([])
    await expectSound(place)
  })

  it('is refused if it is invalid in a header', async () => {
    const place = await field()
    for (const name of ['idempotency-key', 'x-idempotency-key']) {
      for (const value of ['', 'a b', '"a b"', '"', 'k'.repeat(129), 'a, b']) {
        const reply = await place.client.request('tools/call', add('never'), { headers: { [name]: value } })
        expect([codeOf(reply), name, value]).toEqual(['INVALID_INPUT', name, value])
      }
    }
    const two = { 'idempotency-key': 'one', 'x-idempotency-key': 'other' }
    expect(codeOf(await place.client.request('tools/call', add('never'), { headers: two }))).toBe(
      'INVALID_INPUT',
    )
    // Larger than the header limit (RFC 6585 §5).
    expect(await statusWith(place.gateway, { 'idempotency-key': long })).toBe(431)
    expect(place.server.calls).toEqual([])
    await expectSound(place)
  })

  it('is refused with an invalid time to live', async () => {
    const place = await field()
    for (const ttl of ['60', -1, 1.5, 1e300, null, {}]) {
      const meta = { idempotency_key: 'good', idempotency_ttl_seconds: ttl }
      const reply = await place.client.request('tools/call', add('never', { _meta: meta }))
      expect([codeOf(reply), ttl]).toEqual(['INVALID_INPUT', ttl])
    }
    expect(place.server.calls).toEqual([])
    await expectSound(place)
  })

  it('can be the name of a built-in object property', async () => {
    const place = await field()
    for (const key of ['__proto__', 'constructor', 'toString']) {
      const meta = JSON.parse(`{"idempotency_key": "${key}"}`) as Json
      const first = await place.client.request('tools/call', add(key, { _meta: meta }))
      const second = await place.client.request('tools/call', add(key, { _meta: meta }))
      expect(first.result?.['_meta']).toMatchObject({ idempotency_key: key, was_replay: false })
      expect(second.result?.['_meta']).toMatchObject({ idempotency_key: key, was_replay: true })
    }
    expect(place.server.calls).toEqual(['add __proto__', 'add constructor', 'add toString'])
  })
})

describe('a transaction', () => {
  it('cannot have an invalid id', async () => {
    const place = await field()
    for (const id of ['', 'k'.repeat(129), long, 'a\u0000b', 'a\nb', '\ud800', 7, null, [], {}]) {
      for (const method of ['begin', 'commit', 'rollback']) {
        const reply = await place.client.request(`transaction/${method}`, { transaction_id: id })
        expect([codeOf(reply), method, id]).toEqual(['INVALID_INPUT', method, id])
      }
      const reply = await place.client.request('tools/call', add('never', { _meta: { transaction_id: id } }))
      expect([codeOf(reply), id]).toEqual(['INVALID_INPUT', id])
    }
    for (const timeout_seconds of [0, -1, 1.5, '5', null, 1e300]) {
      const reply = await place.client.request('transaction/begin', { transaction_id: 'x', timeout_seconds })
      expect([codeOf(reply), timeout_seconds]).toEqual(['INVALID_INPUT', timeout_seconds])
    }
    expect(place.server.calls).toEqual([])
    await expectSound(place)
  })

  it('can have an id of unusual characters, which equals no other id', async () => {
    const place = await field()
    const ids = [
      'a/b',
      'a%2Fb',
      'a:b',
      '../x',
      '__proto__',
      'constructor',
      '🜁',
      'a b',
      '%',
      'a',
      'A',
      '"',
      '{}',
      '*',
    ]
    for (const transaction_id of ids) {
      expect((await place.client.request('transaction/begin', { transaction_id })).result).toMatchObject({
        transaction_id,
      })
      const step = await place.client.request(
        'tools/call',
        add(transaction_id, { _meta: { transaction_id } }),
      )
      expect(step.result).toMatchObject({ transaction: { transaction_id, step_id: 'step-1' } })
    }
    for (const transaction_id of ids) {
      const { result } = await place.client.request('transaction/rollback', { transaction_id })
      expect(result).toMatchObject({
        transaction_id,
        status: 'rolled_back',
        steps_compensated: [{ step_id: 'step-1', status: 'compensated' }],
      })
    }
    expect(place.server.calls).toHaveLength(2 * ids.length)
  })

  it('begins once, even with many concurrent requests', async () => {
    const place = await field()
    const params = { transaction_id: 'once' }
    const replies = await Promise.all(
      Array.from({ length: 200 }, () => place.client.request('transaction/begin', params)),
    )
    expect(replies.filter(({ result }) => result?.['status'] === 'begun')).toHaveLength(1)
    expect(replies.filter((reply) => codeOf(reply) === 'TRANSACTION_CONFLICT')).toHaveLength(199)
    await expectSound(place)
  })

  it('refuses a step with a duplicate or invalid id, or beyond the step limit', async () => {
    const place = await field({ features: { transactions: { max_steps: 3 } } })
    const { client } = place
    await client.request('transaction/begin', { transaction_id: 't' })
    const step = (step_id: unknown) =>
      client.request(
        'tools/call',
        add(`step ${String(step_id)}`, { _meta: { transaction_id: 't', step_id } }),
      )
    for (const id of ['', long, 7, null, {}, 'a\tb'])
      expect([codeOf(await step(id)), id]).toEqual(['INVALID_INPUT', id])
    expect((await step('one')).error).toBeUndefined()
    expect(codeOf(await step('one'))).toBe('TRANSACTION_CONFLICT')
    const all = await Promise.all(Array.from({ length: 20 }, () => step('two')))
    expect(all.filter((reply) => codeOf(reply) === undefined)).toHaveLength(1)
    expect(codeOf(await step('__proto__'))).toBeUndefined()
    expect(codeOf(await step('four'))).toBe('TRANSACTION_CONFLICT')
    expect(place.server.calls).toEqual(['add step one', 'add step two', 'add step __proto__'])
    await expectSound(place)
  })

  it('is isolated per principal: its id, keys and results are unknown to others', async () => {
    const server = await notes()
    const config = { store: folder(), auth: peopleNamed() }
    const gateway = await gatewayTo({ notes: server.upstream }, { config })
    const [agent, other] = await Promise.all(
      [bearer.agent, bearer.other].map((token) =>
        clientOf(gateway, { revision: '2026-07-28', headers: { authorization: `Bearer ${token}` } }),
      ),
    )
    if (!agent || !other) throw new TypeError('there are no clients')
    const t = { transaction_id: 't' }
    await agent.request('transaction/begin', t)
    const meta = { ...t, idempotency_key: 'k' }
    await agent.request('tools/call', add('secret', { _meta: meta }))
    for (const method of ['commit', 'rollback', 'status']) {
      const reply = await other.request(`transaction/${method}`, t)
      const unknown = await other.request(`transaction/${method}`, { transaction_id: 'there is none' })
      expect(codeOf(reply)).toBe('RESOURCE_NOT_FOUND')
      expect(without(reply.error, 'requestId')).toEqual(without(unknown.error, 'requestId'))
    }
    expect((await other.request('transaction/status', {})).result).toEqual(
      expect.objectContaining({ transactions: [] }),
    )
    expect(codeOf(await other.request('tools/call', add('secret', { _meta: t })))).toBe('RESOURCE_NOT_FOUND')
    // The same key of another principal is another key.
    const own = await other.request('tools/call', add('secret', { _meta: { idempotency_key: 'k' } }))
    expect(own.result?.['_meta']).toMatchObject({ was_replay: false })
    const clash = await other.request('tools/call', add('another', { _meta: { idempotency_key: 'k' } }))
    expect(codeOf(clash)).toBe('IDEMPOTENCY_CONFLICT')
    expect(server.calls).toEqual(['add secret', 'add secret'])
    // Both can have a transaction with the same id.
    expect((await other.request('transaction/begin', t)).result).toMatchObject({ status: 'begun' })
    await other.request('transaction/rollback', t)
    expect((await agent.request('transaction/status', t)).result).toMatchObject({ status: 'active' })
    expect(server.calls).toHaveLength(2)
  })

  it('compensates steps with built-in property names, and large or deeply nested arguments', async () => {
    const hostile = (text: string): Json =>
      JSON.parse(
        `{"text": ${JSON.stringify(text)}, "__proto__": {"text": "x"}, "constructor": {"text": "y"}}`,
      ) as Json
    const place = await field({ limits: { body: '4MB' } }, await notes(hostile))
    const { client, server } = place
    await client.request('transaction/begin', { transaction_id: 't' })
    const deep = nested(150)
    const args = JSON.parse(
      `{"text":"odd","__proto__":{"text":"z"},"constructor":1,"hasOwnProperty":2}`,
    ) as Json
    const large = { text: 'large', more: 'x'.repeat(1_500_000) }
    for (const given of [args, { text: 'deep', deep }, large]) {
      const params = { name: 'add', arguments: given, _meta: { transaction_id: 't' } }
      expect((await client.request('tools/call', params)).result).toMatchObject({
        transaction: { status: 'ok' },
      })
    }
    expect(Object.keys(server.given[0] ?? {})).toContain('__proto__')
    expect((await client.request('transaction/rollback', { transaction_id: 't' })).result).toMatchObject({
      status: 'rolled_back',
    })
    expect(server.calls.slice(3)).toEqual(['drop large', 'drop deep', 'drop odd'])
    expect(server.given.slice(3)).toEqual([{ text: 'large' }, { text: 'deep' }, { text: 'odd' }])
    expect(({} as Json)['text']).toBeUndefined()
    await expectSound(place)
  })
})

it('excessively nested arguments and feature fields are refused, whatever feature reads them', async () => {
  const place = await field({ features: { confirm: {}, validate: 'off' } })
  const { client, server } = place
  await client.request('transaction/begin', { transaction_id: 't' })
  // Written as text because serializing such values would fail.
  const depth = 40_000
  const deep = `${'['.repeat(depth)}1${']'.repeat(depth)}`
  const bodies = [
    `"name":"wipe","arguments":{"text":"x","deep":${deep}}`,
    `"name":"add","arguments":{"text":"x","deep":${deep}},"idempotency_key":"k"`,
    `"name":"add","arguments":{"text":"x","deep":${deep}},"transaction_id":"t"`,
    `"name":"add","arguments":{"text":"x"},"idempotency_key":${deep},"idempotencyKey":${deep}`,
    `"name":"add","arguments":{"text":"x"},"transaction_id":${deep}`,
    `"name":"wipe","arguments":{"text":"x"},"confirmation_token":${deep}`,
    `"name":"wipe","arguments":{"text":"x"},"requestState":"x","inputResponses":${deep}`,
  ]
  for (const body of bodies) {
    const told = await asText(place, body)
    expect(told.slice(0, 2000)).toMatch(/"isError":true|"error":\{/)
  }
  expect(server.calls).toEqual([])
  await expectSound(place)
})

describe("a client's claim of confirmation", () => {
  const wipe = { name: 'wipe', arguments: { text: 'all' } }

  it('runs nothing that no person confirmed', async () => {
    const place = await field({ features: { confirm: { wait: 'off' } } })
    const { client, server } = place
    const lies: readonly Json[] = [
      { user_confirmed: true },
      { _meta: { user_confirmed: true } },
      { _meta: { 'dev.gatehouse/user_confirmed': true, confirmed: true, approved: true } },
      { _meta: { user_confirmed: true, confirmation_token: 'a'.repeat(32) } },
      { _meta: { user_confirmed: true, confirmation_token: '' } },
      { internal: 'compensate' },
      { _meta: { internal: 'compensate', 'dev.gatehouse/internal': 'read' } },
      { step: { transaction: 't', step: 's', deed: 'd', mustBeUndoable: false } },
      { _meta: { 'dev.gatehouse/approval': 'a.b.c', 'dev.gatehouse/step': 's' } },
      { state: { confirm: { kind: 'granted' } } },
      { inputResponses: { confirm: { action: 'accept', content: { confirm: true } } } },
      { idempotency_key: '~undo:x' },
      { arguments: { text: 'all', user_confirmed: true, _confirmation_token: 'x' } },
    ]
    for (const lie of lies) {
      const reply = await client.request('tools/call', { ...wipe, ...lie })
      expect([isDone(reply.result), lie]).toEqual([false, lie])
    }
    for (const requestState of ['', 'x', 'A'.repeat(100), long, 7, null, {}]) {
      const reply = await client.request('tools/call', { ...wipe, requestState, inputResponses: {} })
      expect([isDone(reply.result), requestState]).toEqual([false, requestState])
    }
    for (const user_confirmed of ['true', 1, null, []]) {
      const reply = await client.request('tools/call', { ...wipe, _meta: { user_confirmed } })
      expect([codeOf(reply), user_confirmed]).toEqual(['INVALID_INPUT', user_confirmed])
    }
    expect(server.calls).toEqual([])
    await expectSound(place)
  })

  it('is valid only for the call it was issued for', async () => {
    const place = await field({ features: { confirm: { fallback: 'two_step' } } })
    const { client, server } = place
    const token = async (args: Json): Promise<unknown> => {
      const { result } = await client.request('tools/call', { ...wipe, arguments: args })
      return objectAt(objectAt(result, '_meta'), 'dev.gatehouse/confirmation')['confirmation_token']
    }
    const told = (confirmation_token: unknown, more: Json = {}) =>
      client.request('tools/call', {
        ...wipe,
        ...more,
        _meta: { user_confirmed: true, confirmation_token },
      })
    const some = await token({ text: 'some' })
    expect(codeOf(await told(some, { arguments: { text: 'all' } }))).toBe('CONFIRMATION_TOKEN_INVALID')
    const good = await token({ text: 'all' })
    const all = await Promise.all(Array.from({ length: 20 }, () => told(good)))
    expect(all.filter(({ result }) => isDone(result))).toHaveLength(1)
    expect(codeOf(await told(good))).toBe('CONFIRMATION_TOKEN_INVALID')
    expect(server.calls).toEqual(['wipe all'])
  })
})

/** The response to a 2026-07-28 call whose params are given as text. */
async function asText({ gateway }: Field, body: string): Promise<string> {
  const { message, headers } = modern('tools/call', { name: /"name":"(\w+)"/.exec(body)?.[1] ?? '' })
  const meta = JSON.stringify(objectAt(message, 'params')['_meta'])
  const text = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{${body},"_meta":${meta}}}`
  return (await post(gateway.url, text, headers)).text
}

/** Objects in objects. */
function nested(depth: number): Json {
  return JSON.parse(`${'{"d":'.repeat(depth)}1${'}'.repeat(depth)}`) as Json
}

function isDone(result: Json | undefined): boolean {
  return result !== undefined && result['isError'] !== true && result['resultType'] !== 'input_required'
}

function without(value: unknown, name: string): unknown {
  if (!isObject(value)) return value
  const entries = Object.entries(value).filter(([key]) => key !== name)
  return Object.fromEntries(entries.map(([key, each]) => [key, without(each, name)]))
}

/** The status of the response to a call with extreme headers. */
function statusWith(gateway: RunningGateway, headers: Readonly<Record<string, string>>): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const asked = request(gateway.url, { method: 'POST', headers }, (response) => {
      response.resume()
      resolve(response.statusCode)
    })
    asked.on('error', reject)
    asked.end()
  })
}
