// Two gateways with one store, of which an operator pauses the writes: what is refused, what goes on, and what is left for later.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Approvals } from '../../../src/records/approvals.ts'
import { Pause } from '../../../src/records/pause.ts'
import { MemoryStore } from '../../../src/store/memory.ts'
import type { Reply } from '../../support/client/options.ts'
import { until } from '../../support/condition.ts'
import { connect, type FakeClient } from '../../support/fake-client.ts'
import { codeOf } from '../../support/journey.ts'
import { type LocalGateway, localGateway } from '../../support/local-gateway.ts'
import { scriptedServer, type ScriptedServer } from '../../support/scripted-server.ts'
import { type Json, objectAt } from '../../support/server/json.ts'
import { plainFeatures } from '../../support/undescribed.ts'

const store = new MemoryStore()
const pauses = new Pause(store)
/** The keys of the records of calls with a key. */
const keyed: string[] = []
const claim = store.setIfAbsent.bind(store)
store.setIfAbsent = (key, ...given) => {
  if (key.startsWith('call:')) keyed.push(key)
  return claim(key, ...given)
}

const KEY = 'dev.gatehouse/idempotency_key'
const reason = 'a <b>leak</b> \u202e'

/** What the server was told to do, such as `add a`. */
const done: string[] = []
const waiting: (() => void)[] = []
let server: ScriptedServer
let gateways: readonly LocalGateway[] = []

const revisions = ['2025-11-25', '2026-07-28'] as const
type Revision = (typeof revisions)[number]
const clients = new Map<Revision, FakeClient>()
/** Calls that began before the pause. */
const running = new Map<Revision, Promise<Reply>>()
const asked = new Map<Revision, Promise<Reply>>()
let step: Promise<Reply>

function request(revision: Revision, method: string, params: Json): Promise<Reply> {
  return clients.get(revision)?.request(method, params) ?? expect.fail(`there is no client of ${revision}`)
}

function call(revision: Revision, name: string, text: string, meta: Json = {}): Promise<Reply> {
  return request(revision, 'tools/call', { name, arguments: { text }, _meta: meta })
}

function doneWith(text: string): readonly string[] {
  return done.filter((each) => each.endsWith(` ${text}`))
}

async function begun(transaction: string): Promise<void> {
  const { result } = await request('2025-11-25', 'transaction/begin', { transaction_id: transaction })
  if (result?.['status'] !== 'begun')
    throw new Error(`the transaction did not begin: ${JSON.stringify(result)}`)
}

function status(transaction: string): Promise<Reply> {
  return request('2025-11-25', 'transaction/status', { transaction_id: transaction })
}

async function untilPaused(isPaused: boolean): Promise<void> {
  for (const revision of revisions)
    await until(async () => {
      const { result } = await call(revision, 'add', 'probe', { 'dev.gatehouse/dry_run': true })
      return 'writes_paused' in objectAt(objectAt(result, '_meta'), 'dev.gatehouse/dry_run') === isPaused
    }, 'the gateways to know')
}

beforeAll(async () => {
  const tool = (name: string, annotations?: Json) => ({
    name,
    inputSchema: { type: 'object', properties: { text: { type: 'string' } } },
    ...(annotations && { annotations }),
  })
  const tools = [
    tool('add'),
    tool('drop'),
    tool('look', { readOnlyHint: true }),
    tool('wipe', { destructiveHint: true }),
    tool('frobnicate', { readOnlyHint: 'yes' }),
  ]
  server = await scriptedServer(
    { tools: {} },
    {
      'tools/list': () => ({ tools }),
      'acme/run': () => ({ ran: true }),
      'tools/call': ({ params, finish }) => {
        const { text } = objectAt(params, 'arguments')
        done.push(`${String(params['name'])} ${String(text)}`)
        const answer = { content: [{ type: 'text', text: 'done' }], structuredContent: { text } }
        if (!String(text).startsWith('slow')) return answer
        waiting.push(() => finish(answer))
        return undefined
      },
    },
  )
  const undo = { add: { undo: 'drop(text=$.result.text)' }, wipe: { undo: 'add(text=$.args.text)' } }
  const config = {
    features: plainFeatures({ confirm: { wait: '50s' }, transactions: { on_step_failure: 'rollback' } }),
    upstreams: { notes: { url: server.url, revision: '2025-11-25', trust: true, tools: undo } },
  }
  gateways = await Promise.all(revisions.map(() => localGateway(config, store)))
  for (const [index, revision] of revisions.entries()) {
    const url = gateways[index]?.url ?? ''
    clients.set(revision, await connect({ transport: 'http', url, revision }))
  }
  await call('2026-07-28', 'add', 'kept', { [KEY]: 'kept' })
  for (const transaction of ['undone', 'committed', 'asked']) await begun(transaction)
  await call('2025-11-25', 'add', 'step', { transaction_id: 'undone' })
  await call('2025-11-25', 'add', 'stays', { transaction_id: 'committed' })
  for (const revision of revisions) {
    running.set(revision, call(revision, 'add', `slow ${revision}`))
    asked.set(revision, call(revision, 'wipe', `approved ${revision}`))
  }
  step = call('2025-11-25', 'wipe', 'approved step', { transaction_id: 'asked' })
  await until(async () => waiting.length === 2 && (await pending()).length === 3, 'the calls to begin')
  await pauses.pause({ by: 'ada', reason })
  await untilPaused(true)
})

afterAll(async () => {
  await Promise.all([...clients.values()].map((client) => client.close()))
  await Promise.all(gateways.map((gateway) => gateway.close()))
  await server.close()
})

function pending() {
  return new Approvals(store, Date.now).pending()
}

describe.each(revisions)('while writes are paused, for a client of %s', (revision) => {
  it.each(['add', 'drop', 'wipe', 'frobnicate'])(
    'a call of %s is refused, with what its model has to know',
    async (name) => {
      const { result } = await call(revision, name, 'refused')
      expect(objectAt(objectAt(result, '_meta'), 'dev.gatehouse/error')).toMatchObject({
        code: 'WRITES_PAUSED',
        category: 'permanent',
        user_actionable: false,
      })
      const text = JSON.stringify(result?.['content'])
      expect(text).toContain('an operator of this gateway stopped them at 20')
      expect(text).toContain('The reason given: “a <b>leak</b> \\\\u202e”.')
      expect(text).toContain('Calls that only read still work. Do not repeat this call in a loop')
      expect(text).not.toContain('ada')
      expect(doneWith('refused')).toEqual([])
    },
  )

  it('reads go on', async () => {
    expect((await call(revision, 'look', `notes of ${revision}`)).result?.['isError']).not.toBe(true)
    expect(doneWith(`notes of ${revision}`)).toEqual([`look notes of ${revision}`])
  })

  it('a dry run says so', async () => {
    const { result } = await call(revision, 'add', 'tried', { 'dev.gatehouse/dry_run': true })
    expect(objectAt(objectAt(result, '_meta'), 'dev.gatehouse/dry_run')).toMatchObject({
      would_run: false,
      writes_paused: { since: expect.any(String) },
    })
    expect(JSON.stringify(result?.['content'])).toContain(
      'The call would be refused, because writes are paused since 20',
    )
  })

  it('a call with a key is refused and leaves no record', async () => {
    const records = keyed.length
    for (let time = 0; time < 2; time++)
      expect(codeOf(await call(revision, 'add', `later-${revision}`, { [KEY]: `later-${revision}` }))).toBe(
        'WRITES_PAUSED',
      )
    expect(await Promise.all(keyed.slice(records).map((key) => store.get(key)))).toEqual([
      undefined,
      undefined,
    ])
  })

  it('the outcome of a finished call with a key is given again', async () => {
    const { result } = await call(revision, 'add', 'kept', { [KEY]: 'kept' })
    expect(result).toMatchObject({ _meta: { was_replay: true } })
    expect(doneWith('kept')).toEqual(['add kept'])
  })

  it('no transaction begins, by a tool or by a method', async () => {
    const params = { transaction_id: `new ${revision}` }
    expect(codeOf(await request(revision, 'transaction/begin', params))).toBe('WRITES_PAUSED')
    const asTool = { name: 'begin_transaction', arguments: params }
    expect(codeOf(await request(revision, 'tools/call', asTool))).toBe('WRITES_PAUSED')
  })

  it('a method of a vendor is refused', async () => {
    expect(codeOf(await request(revision, 'acme/run', {}))).toBe('WRITES_PAUSED')
  })
})

describe('while writes are paused', () => {
  it('calls that were sent before finish', async () => {
    for (const finish of waiting) finish()
    for (const reply of running.values()) expect((await reply).result?.['isError']).not.toBe(true)
  })

  it('a rollback and a commit go on', async () => {
    const rolled = await request('2025-11-25', 'transaction/rollback', { transaction_id: 'undone' })
    expect(rolled.result).toMatchObject({ status: 'rolled_back' })
    expect(doneWith('step')).toContain('drop step')
    const committed = await request('2025-11-25', 'transaction/commit', { transaction_id: 'committed' })
    expect(committed.result).toMatchObject({ status: 'committed' })
  })

  it('a call that waited for its approval is refused, and its approval stays', async () => {
    for (const { id } of await pending())
      await new Approvals(store, Date.now).decide(id, {
        by: 'ada',
        via: 'command_line',
        verdict: 'approved',
      })
    for (const reply of [...asked.values(), step]) expect(codeOf(await reply)).toBe('WRITES_PAUSED')
    expect(done.filter((each) => each.startsWith('wipe'))).toEqual([])
    const approvals = await new Approvals(store, Date.now).list()
    expect(approvals.map((each) => each.status)).toEqual(['approved', 'approved', 'approved'])
  })

  it('the transaction of a step that is refused goes on', async () => {
    expect((await status('asked')).result).toMatchObject({ status: 'active', steps: [] })
  })

  it('the front page, the readiness, the metrics and the log say so', async () => {
    for (const { origin, lines } of gateways) {
      const page = await (await fetch(origin)).text()
      expect(page).toMatch(/Writes are paused since <time datetime="20[^"]+Z">20/)
      expect(page).toContain('Paused by <bdi>ada</bdi>: <bdi>a &#60;b&#62;leak&#60;/b&#62; \\u202e</bdi></p>')
      const ready = await fetch(`${origin}/ready`)
      expect([ready.status, await ready.json()]).toEqual([
        200,
        { status: 'ready', checks: expect.anything(), writes: 'paused' },
      ])
      expect(await (await fetch(`${origin}/metrics`)).text()).toMatch(/^gatehouse_writes_paused 1$/m)
      expect(lines.filter(({ event }) => event === 'writes.paused')).toEqual([
        {
          level: 'info',
          event: 'writes.paused',
          by: 'ada',
          since: expect.any(String),
          reason: reason.trim(),
        },
      ])
    }
  })
})

describe('once writes are resumed', () => {
  beforeAll(async () => {
    await pauses.resume({ by: 'ada' })
    await untilPaused(false)
  })

  it.each(revisions)('a refused call with a key runs, once, for a client of %s', async (revision) => {
    for (const isReplay of [false, true])
      expect(
        (await call(revision, 'add', `later-${revision}`, { [KEY]: `later-${revision}` })).result,
      ).toMatchObject({ _meta: { was_replay: isReplay } })
    expect(doneWith(`later-${revision}`)).toEqual([`add later-${revision}`])
  })

  it.each(revisions)(
    'an approved call runs without another question, for a client of %s',
    async (revision) => {
      expect((await call(revision, 'wipe', `approved ${revision}`)).result?.['isError']).not.toBe(true)
      expect(doneWith(`approved ${revision}`)).toEqual([`wipe approved ${revision}`])
    },
  )

  it('a transaction goes on with the step that was refused', async () => {
    await call('2025-11-25', 'wipe', 'approved step', { transaction_id: 'asked' })
    expect(doneWith('approved step')).toEqual(['wipe approved step'])
    expect((await status('asked')).result).toMatchObject({ status: 'active', steps: [{ status: 'ok' }] })
  })

  it('nothing speaks of a pause', async () => {
    for (const { origin, lines } of gateways) {
      expect(await (await fetch(origin)).text()).not.toContain('Writes are paused')
      expect(await (await fetch(`${origin}/ready`)).json()).not.toHaveProperty('writes')
      expect(await (await fetch(`${origin}/metrics`)).text()).toMatch(/^gatehouse_writes_paused 0$/m)
      expect(lines.filter(({ event }) => event === 'writes.resumed')).toHaveLength(1)
    }
  })
})
