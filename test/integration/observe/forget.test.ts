// `gatehouse forget`: everything of one person is erased, in the store and in the audit logs of two running gateways, and what is of
// others stays.
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Issuer, startIssuer } from '../../support/auth/issuer.ts'
import { until } from '../../support/condition.ts'
import { runCommandProcess } from '../../support/gateway-process.ts'
import { runCommand, type RunningGateway, startGateway } from '../../support/gateway.ts'
import { needsRedis, startRedis } from '../../support/redis-server.ts'
import { alone } from '../../support/scattered.ts'
import { scriptedServer, type ScriptedServer } from '../../support/scripted-server.ts'
import type { Json } from '../../support/server/json.ts'
import { StatelessClient } from '../../support/stateless-client.ts'
import { storeFixture } from '../../support/store-fixture.ts'
import { Secret } from '../../../src/core/text/secret.ts'
import { AppendLog } from '../../../src/durable/log.ts'
import { erase, isEmpty, survey } from '../../../src/records/forgetting.ts'
import { callerHash, windowsOf } from '../../../src/records/principal.ts'
import { RedisStore } from '../../../src/store/redis/store.ts'
import { silentLog } from '../../support/silent-log.ts'

const sub = 'cn=Änna "O\'Neil\\", ou=<b>*🦊'
const anna = `user:${sub}`
const SECRET = 'what anna wrote'

let issuer: Issuer
let shop: ScriptedServer
/** Answers the calls that wait. */
let release = (): void => undefined

beforeAll(async () => {
  issuer = await startIssuer()
  shop = await scriptedServer(
    { tools: {} },
    {
      'tools/list': () => ({
        tools: ['put', 'drop'].map((name) => ({ name, inputSchema: { type: 'object' } })),
      }),
      'tools/call': ({ params, finish }) => {
        const result = { content: [{ type: 'text', text: JSON.stringify(params['arguments']) }] }
        if (!JSON.stringify(params).includes('held')) return result
        const before = release
        release = () => {
          before()
          finish(result)
        }
        return undefined
      },
    },
  )
})

afterAll(async () => {
  await shop.close()
  await issuer.close()
})

function config(store: string, audit: string): Json {
  return {
    store,
    auth: { jwt: { issuer: issuer.url, audience: 'gateway' } },
    observe: { audit: { file: audit }, calls: { keep: 'results' } },
    features: { confirm: false, cost: { budget: { units: 1000, per: 'day' } } },
    upstreams: {
      shop: {
        url: shop.url,
        tools: {
          put: { undo: 'drop(id=$.args.id)', scopes: [], cost: { category: 'metered', units: 1 } },
          drop: { scopes: [] },
        },
      },
    },
  }
}

describe('forgetting a person', () => {
  alone('it is about the audit logs of two gateways')
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-forget-'))
  const audit = join(folder, 'audit.jsonl')
  const gateways: RunningGateway[] = []

  beforeAll(async () => {
    const settings = config(join(folder, 'store'), audit)
    gateways.push(...(await Promise.all([startGateway(settings), startGateway(settings)])))
  })

  afterAll(async () => {
    await Promise.all(gateways.map((each) => each.close()))
    rmSync(folder, { recursive: true, force: true })
  })

  async function call(index: number, who: string, given: Json, key: string): Promise<Json> {
    const token = await issuer.sign({ sub: who })
    const client = new StatelessClient({ url: gateways[index]?.url ?? '', token })
    return (await client.call('put', given, { _meta: { 'dev.gatehouse/idempotency_key': key } })).fields
  }

  async function gatehouse(...words: readonly string[]) {
    return runCommand([...words, '--config', gateways[0]?.configFile ?? ''])
  }

  async function logged(query: string): Promise<number> {
    const { stdout } = await gatehouse('log', query, '--json')
    return stdout.split('\n').filter((line) => line.startsWith('{')).length
  }

  /** The values in the store, without the order itself, which has a hash of the person. */
  async function exported(): Promise<string> {
    const { stdout } = await gatehouse('store', 'export')
    return stdout
      .split('\n')
      .filter((line) => !line.includes('"forget/'))
      .join('\n')
  }

  it('erases what is of the person, and nothing of others', async () => {
    for (const index of [0, 1]) {
      await call(index, sub, { id: index, text: SECRET }, `key-${index}`)
      await call(index, 'ben', { id: index, text: 'of ben' }, `key-${index}`)
    }
    await until(async () => (await logged('tool:put')) === 4, 'the calls in the log')
    const text = `held ${folder}`
    const held = call(0, sub, { id: 3, text }, 'key-held')
    await until(() => shop.seen.some((each) => JSON.stringify(each).includes(text)), 'the call that waits')
    const refused = await gatehouse('forget', anna, '--yes')
    expect(refused.stderr).toContain('nothing was erased, because it is in use')
    expect(refused.code).toBe(1)
    release()
    await held
    await until(async () => (await logged('tool:put')) === 5, 'the call that waited in the log')

    const listed = await gatehouse('forget', anna, '--dry-run', '--json')
    const found = JSON.parse(listed.stdout) as { records: Json; audit_logs: readonly Json[] }
    expect(found.records).toMatchObject({
      actions: 3,
      budgets: 1,
      'calls in the log': 3,
      'calls with an idempotency key': 3,
      'contents of calls': 3,
    })
    expect(found.audit_logs).toMatchObject([{ lines: 2 }, { lines: 1 }])
    expect(await exported()).toContain(SECRET)
    expect((await gatehouse('forget', anna)).code).toBe(2)
    const unknown = await gatehouse('forget', 'ann*', '--yes')
    expect(unknown).toMatchObject({ code: 1, stderr: expect.stringContaining('nothing of "ann*"') as string })

    const erased = await gatehouse('forget', anna, '--yes')
    expect(erased).toMatchObject({ code: 0, stdout: expect.stringContaining('Not reached') as string })
    const after = await exported()
    for (const text of [SECRET, JSON.stringify(anna).slice(1, -1), callerHash(anna)])
      expect(after).not.toContain(text)
    expect(after).toContain('of ben')
    expect((await gatehouse('forget', anna, '--dry-run')).code).toBe(1)
    expect([await logged('user:user:ben'), await logged('tool:put')]).toEqual([2, 2])

    const logs = [audit, join(folder, 'audit.2.jsonl')]
    for (const file of logs)
      expect(readFileSync(file, 'utf8')).not.toContain(JSON.stringify(sub).slice(1, -1))
    await call(0, 'ben', { id: 9 }, 'key-9')
    for (const gateway of gateways.splice(0)) await gateway.close()
    const files = [...logs, join(folder, 'audit.3.jsonl')].filter((file) => existsSync(file))
    const verified = await runCommand(['audit', 'verify', ...files, '--json'])
    const verdict = JSON.parse(verified.stdout) as { ok: boolean; logs: readonly Json[] }
    expect(verdict).toMatchObject({ ok: true, logs: [{ forgotten: 2 }, { forgotten: 1 }, { forgotten: 0 }] })
    const orders = files.flatMap((file) => readFileSync(file, 'utf8').match(/"order":"forget".*/g) ?? [])
    expect(orders).toHaveLength(3)
    expect(orders.at(-1)).toContain('"records":')
  })
})

describe('forgetting a person in Redis', needsRedis, () => {
  it('erases values, entries of logs and rate limit windows', async () => {
    const redis = await startRedis()
    const store = new RedisStore(new Secret(redis.url), silentLog)
    await store.opened()
    const person = { id: anna }
    const window = (id: string) => ({
      key: `${windowsOf(id)}}:upstream:60000:shop/a`,
      limit: 5,
      window: 60_000,
    })
    await store.put(`budget:${callerHash(anna)}:all:1`, '1', 60_000)
    await store.put(`budget:${callerHash('user:ben')}:all:1`, '1', 60_000)
    const events = new AppendLog(store, 'events shop', { maxEntries: 9, maxBytes: 9999, ttl: 60_000 })
    await events.append([{ by: callerHash(anna) }, { by: callerHash('user:ben') }])
    for (const id of [anna, 'user:ben']) await store.takeTokens([window(id)])
    const found = await survey(store, person)
    expect(Object.fromEntries(found.counts)).toEqual({ budgets: 1, events: 1, 'rate limits': 1 })
    const { erased, left } = await erase(store, person, found)
    expect(erased).toEqual(found.counts)
    expect(isEmpty(left)).toBe(true)
    const { entries } = await events.read(undefined, 9)
    expect(entries.map(({ value }) => value)).toEqual([{ by: callerHash('user:ben') }])
    expect(isEmpty(await survey(store, { id: 'user:ben' }))).toBe(false)
    expect((await store.peekTokens([window(anna), window('user:ben')])).remaining).toEqual([5, 4])
    await store.close()
    await redis.stop()
  })
})

describe('forgetting the caller of a store with every kind of record', () => {
  const {
    folder,
    config: file,
    env,
  } = storeFixture('store-every-record', '2026-11-29T14:33:22Z', {
    'blob.gz': 'blobs/a57f11227d7300f6f9a72a3e5629bdee',
  })
  afterAll(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }))

  it('finds each kind', async () => {
    const listed = await runCommandProcess(['forget', 'token:ada', '--dry-run', '--json', '--config', file], {
      env,
    })
    expect(JSON.parse(listed.stdout)).toMatchObject({
      records: {
        actions: 5,
        approvals: 2,
        'calls with an idempotency key': 3,
        'dead letters': 1,
        events: 7,
        'kept data': 1,
        operations: 2,
        'session states': 1,
        'subscriptions to events': 2,
        transactions: 2,
        'verified receivers of webhooks': 2,
      },
      in_use: { 'transactions that are open or rolled back, which gatehouse tx rollback ends': 1 },
    })
  })
})
