// What is refused, and what is left when something fails: through a gateway, with data of a server that means no good.
import { execFileSync } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { describe, expect, it, onTestFinished } from 'vitest'
import { References } from '../../../src/records/references.ts'
import { LmdbStore } from '../../../src/store/lmdb/store.ts'
import { knownCallers } from '../../support/auth/callers.ts'
import { folder } from '../../support/journey.ts'
import { type LocalGateway, localGateway } from '../../support/local-gateway.ts'
import { scriptedServer } from '../../support/scripted-server.ts'
import { isObject, type Json, objectAt } from '../../support/server/json.ts'
import { silentLog } from '../../support/silent-log.ts'
import { type Answer, StatelessClient } from '../../support/stateless-client.ts'

const tools = [
  { name: 'get', inputSchema: { type: 'object' } },
  { name: 'send', inputSchema: { type: 'object', properties: { text: { type: 'string' } } } },
].map((tool) => ({ ...tool, annotations: { readOnlyHint: true, openWorldHint: false } }))

/** A server whose tool `get` returns what the test says, and whose tool `send` takes a text. */
async function server() {
  const sent: unknown[] = []
  const state: { content: readonly Json[] } = { content: [] }
  const started = await scriptedServer(
    { tools: {} },
    {
      'tools/list': () => ({ tools }),
      'tools/call': ({ params }) => {
        if (params['name'] === 'get') return { content: state.content }
        sent.push(objectAt(params, 'arguments')['text'])
        return { content: [{ type: 'text', text: 'sent' }] }
      },
    },
  )
  onTestFinished(() => started.close())
  return { url: started.url, sent, give: (...content: readonly Json[]) => void (state.content = content) }
}

const text = (size: number): Json => ({ type: 'text', text: 'x'.repeat(size) })

interface World extends Awaited<ReturnType<typeof server>> {
  /** The folder of the store. */
  readonly store: string
  readonly gateways: readonly LocalGateway[]
  /** A client of one of the gateways, with a token if the gateway knows this caller. */
  client(caller?: string, gateway?: number): StatelessClient
}

/** Gateways with one store, which know these callers. */
async function world(
  references: Json = {},
  {
    callers = [],
    count = 1,
    store = join(folder(), 'store'),
  }: { callers?: readonly string[]; count?: number; store?: string } = {},
): Promise<World> {
  const one = await server()
  const { auth, token } = knownCallers(callers)
  const config = {
    store,
    ...(callers.length > 0 && { auth }),
    limits: { concurrency: 'off', rate: 'off' },
    features: { references, confirm: 'off' },
    upstreams: { one: { url: one.url, revision: '2025-11-25', trust: true } },
  }
  const gateways: LocalGateway[] = []
  onTestFinished(async () => void (await Promise.all(gateways.map((each) => each.close()))))
  for (let index = 0; index < count; index++) gateways.push(await localGateway(config))
  const client = (caller?: string, gateway = 0): StatelessClient =>
    new StatelessClient({
      url: `${gateways[gateway]?.url}/one`,
      ...(caller !== undefined && { token: token(caller) }),
    })
  return { ...one, store, gateways, client }
}

function referenceOf({ meta }: Answer): Json {
  return objectAt(meta, 'dev.gatehouse/data_reference')
}

function uriOf(answer: Answer): string {
  const { ref_id: id } = referenceOf(answer)
  if (typeof id !== 'string') throw new Error(`Nothing was kept: ${JSON.stringify(answer.meta)}`)
  return `ref://${id}`
}

function notKept({ meta }: Answer): unknown {
  return objectAt(meta, 'dev.gatehouse/not_kept')['code']
}

/** The code and the message of an error, in whichever form it came. */
function refusalOf({ error, fields, meta }: Answer): readonly unknown[] {
  const { code, message } = error ? fields : objectAt(meta, 'dev.gatehouse/error')
  return [code, message]
}

/** What three ways to use a reference say. */
async function threeWays(client: StatelessClient, uri: string): Promise<readonly (readonly unknown[])[]> {
  return [
    refusalOf(await client.call('read_reference', { ref: uri })),
    refusalOf(await client.send('resources/read', { uri })),
    refusalOf(await client.call('send', { text: uri })),
  ]
}

function blobsIn(store: string): readonly string[] {
  const path = join(store, 'blobs')
  return existsSync(path) ? readdirSync(path) : []
}

describe('a reference is refused', () => {
  it('to another caller in the same words as an unknown one, and one that has expired', async () => {
    const { give, client, sent } = await world({ ttl: '3s' }, { callers: ['ada', 'bob'] })
    give(text(100_000))
    const kept = await client('ada').call('get')
    const uri = uriOf(kept)
    const unknown = await threeWays(client('bob'), `ref://ref_${'0'.repeat(32)}`)
    expect(unknown.map(([code]) => code)).toEqual(unknown.map(() => 'RESOURCE_NOT_FOUND'))
    expect(await threeWays(client('bob'), uri)).toEqual(unknown)
    expect(sent).toEqual([])
    expect((await client('ada').call('send', { text: uri })).texts).toEqual(['sent'])
    await pause(Date.parse(String(referenceOf(kept)['expires_at'])) - Date.now() + 50)
    expect(await threeWays(client('ada'), uri)).toEqual(unknown)
    expect(sent).toHaveLength(1)
  })

  it.each([
    ['#/nothing', 'is not JSON'],
    ['#nothing', 'slash'],
    ['?rows=9', 'no row 9'],
    ['?rows=0', 'range'],
    ['?bytes=9-1', 'range'],
    ['?pages=1', 'pages'],
    ['?rows=1&bytes=2', 'several ranges'],
  ])('if its part %s is not there, with the reason, and the server is not called', async (part, reason) => {
    const { give, client, sent } = await world()
    give(text(100_000))
    const uri = uriOf(await client().call('get'))
    for (const [code, message] of [
      refusalOf(await client().send('resources/read', { uri: `${uri}${part}` })),
      refusalOf(await client().call('send', { text: `${uri}${part}` })),
    ]) {
      expect(code).toBe('INVALID_INPUT')
      expect(message).toContain(reason)
    }
    expect(sent).toEqual([])
  })

  it('if the data has changed in the store, and the server is not called', async () => {
    const { give, client, sent, store } = await world()
    give(text(100_000))
    const uri = uriOf(await client().call('get'))
    const [blob = ''] = blobsIn(store)
    const path = join(store, 'blobs', blob)
    const before = readFileSync(path)
    const whole = async (): Promise<readonly unknown[]> => [
      refusalOf(await client().send('resources/read', { uri }))[0],
      refusalOf(await client().call('send', { text: uri }))[0],
    ]
    writeFileSync(path, Buffer.from(before).fill('y', 50_000))
    expect(await whole()).toEqual(['CONFLICT', 'CONFLICT'])
    truncateSync(path, 99_999)
    expect(await whole()).toEqual(['CONFLICT', 'CONFLICT'])
    expect(refusalOf(await client().call('send', { text: `${uri}?bytes=99990-99999` }))[0]).toBe('CONFLICT')
    rmSync(path)
    symlinkSync('/etc/passwd', path)
    expect(await whole()).toEqual(['RESOURCE_NOT_FOUND', 'RESOURCE_NOT_FOUND'])
    expect(sent).toEqual([])
    rmSync(path)
    writeFileSync(path, before)
    expect((await client().call('send', { text: uri })).texts).toEqual(['sent'])
  })

  it('not at all inside of a text: it stays as it is', async () => {
    const { give, client, sent } = await world()
    give(text(100_000))
    const uri = uriOf(await client().call('get'))
    const texts = [`see ${uri}`, ` ${uri}`, `${uri}\n`, `[${uri}](${uri})`, `REF://${uri.slice(6)}`]
    for (const each of texts) await client().call('send', { text: each })
    expect(sent).toEqual(texts)
  })
})

describe('names of data', () => {
  const names = [
    ['../../../../etc/cron.d/job', 'job'],
    ['..\\..\\windows\\system.ini', 'system.ini'],
    ['a\0b\r\nset-cookie: x=y', 'a b set-cookie  x=y'],
    ['invoice\u{202E}fdp.exe', 'invoice fdp.exe'],
    ['CON.txt', '_CON.txt'],
    [`${'long'.repeat(2000)}.txt`, 'long'.repeat(50)],
    ['...', 'data'],
  ] as const

  it.each(names)(
    'that a server chose never leave the folder, and are shown plainly: %j',
    async (name, plain) => {
      const { give, client, store } = await world()
      give({ type: 'resource', resource: { uri: `file:///x/${name}`, text: 'x'.repeat(100_000) } })
      const answer = await client().call('get')
      const [link] = Array.isArray(answer.fields['content']) ? answer.fields['content'].filter(isObject) : []
      expect(link).toMatchObject({ type: 'resource_link', name: plain })
      expect(blobsIn(store)).toEqual([expect.stringMatching(/^[0-9a-f]{32}$/)])
      expect(readdirSync(join(store, '..'))).toEqual(['store'])
    },
  )

  it.each(['../x', 'a/b', 'a\0', '\u{202E}x', 'a'.repeat(65), '.', ''])(
    'that a caller chose as an id are refused if they are none: %j',
    async (id) => {
      const { give, client, store } = await world()
      give(text(100_000))
      const answer = await client().call('get', {}, { _meta: { 'dev.gatehouse/ref_id': id } })
      expect(refusalOf(answer)[0]).toBe('INVALID_INPUT')
      expect(blobsIn(store)).toEqual([])
    },
  )
})

describe('a result that cannot be kept', () => {
  it('is passed on as it is if the disk is full, and nothing of it is left', async ({ skip }) => {
    const store = join(folder(), 'store')
    const blobs = join(store, 'blobs')
    mkdirSync(blobs, { recursive: true, mode: 0o700 })
    try {
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'none', blobs], { stdio: 'pipe' })
    } catch (error) {
      process.stderr.write(`A test with a disk of its own is left out: ${String(error)}\n`)
      return skip()
    }
    onTestFinished(() => void execFileSync('umount', ['-l', blobs]))
    const { give, client } = await world({}, { store })
    give(text(700_000))
    const first = await client().call('get')
    const size = referenceOf(first)['size_bytes']
    expect(size).toBe(700_000)
    give(text(800_000))
    const full = await client().call('get')
    expect(notKept(full)).toBe('QUOTA_EXHAUSTED')
    expect(full.texts[0]).toHaveLength(800_000)
    expect(blobsIn(store)).toHaveLength(1)
    expect(await recordedIn(store)).toBe(700_000)
    give(text(200_000))
    expect(referenceOf(await client().call('get'))['size_bytes']).toBe(200_000)
    expect((await client().call('send', { text: uriOf(first) })).texts).toEqual(['sent'])
    expect(await recordedIn(store)).toBe(900_000)
  })

  it('is passed on as it is if there is no room, for one caller or for all, and nothing else is removed', async () => {
    const callers = ['a', 'b', 'c', 'd', 'e', 'f']
    const { give, client, store } = await world({ total: '1MB' }, { callers })
    give(text(200_000))
    const answers = new Map<string, Answer>()
    for (const caller of callers) answers.set(caller, await client(caller).call('get'))
    // A quarter of 1 MB is the share of one, and five times 200 KB is nearly all.
    expect(callers.map((caller) => notKept(answers.get(caller) ?? expect.fail()))).toEqual([
      ...Array.from({ length: 5 }, () => undefined),
      'QUOTA_EXHAUSTED',
    ])
    const again = await client('a').call('get')
    expect([notKept(again), again.texts[0]?.length]).toEqual(['QUOTA_EXHAUSTED', 200_000])
    for (const [caller, answer] of answers)
      if (notKept(answer) === undefined)
        expect((await client(caller).call('send', { text: uriOf(answer) })).texts).toEqual(['sent'])
    expect(blobsIn(store)).toHaveLength(5)
  })

  it('is passed on as it is if a link has taken the place of the store, and nothing goes where it leads', async () => {
    const { give, client, store } = await world()
    give(text(100_000))
    const uri = uriOf(await client().call('get'))
    const elsewhere = join(store, '../elsewhere')
    mkdirSync(elsewhere)
    renameSync(store, `${store}.moved`)
    symlinkSync(elsewhere, store)
    const answer = await client().call('get')
    expect([notKept(answer), answer.texts[0]?.length]).toEqual(['SERVER_UNAVAILABLE', 100_000])
    expect(readdirSync(elsewhere)).toEqual([])
    rmSync(store)
    renameSync(`${store}.moved`, store)
    expect((await client().call('send', { text: uri })).texts).toEqual(['sent'])
  })

  it('is passed on as it is if a link has taken the place of the folder of the data', async () => {
    const { give, client, store } = await world()
    const elsewhere = join(store, '../elsewhere')
    mkdirSync(elsewhere)
    writeFileSync(join(elsewhere, 'notes'), 'mine')
    symlinkSync(elsewhere, join(store, 'blobs'))
    give(text(100_000))
    expect(notKept(await client().call('get'))).toBe('SERVER_UNAVAILABLE')
    expect(readdirSync(elsewhere)).toEqual(['notes'])
  })
})

/** The size of all data that has a record. */
async function recordedIn(path: string): Promise<number> {
  const store = new LmdbStore(path, silentLog)
  try {
    const records = [...(await store.scan('reference')).values()].map((each) => JSON.parse(each) as Json)
    return records.reduce((sum, { size }) => sum + Number(size), 0)
  } finally {
    await store.close()
  }
}

describe('several gateways with one store', () => {
  it('keep no more than the limit together, however many calls come at once', async () => {
    const { give, client, store } = await world({ total: '1MB' }, { count: 2 })
    give(text(150_000))
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_none, index) => client(undefined, index % 2).call('get')),
    )
    const kept = answers.filter((answer) => notKept(answer) === undefined)
    // Six have room; the last two may refuse each other.
    expect([5, 6]).toContain(kept.length)
    for (const answer of answers)
      if (!kept.includes(answer)) {
        expect(notKept(answer)).toBe('QUOTA_EXHAUSTED')
        expect(answer.texts[0]).toHaveLength(150_000)
      }
    for (const answer of kept)
      expect((await client(undefined, 1).call('send', { text: uriOf(answer) })).texts).toEqual(['sent'])
    const sizes = blobsIn(store).map((name) => statSync(join(store, 'blobs', name)).size)
    expect(sizes).toEqual(kept.map(() => 150_000))
    expect(await recordedIn(store)).toBe(kept.length * 150_000)
    // What was refused uses no room.
    const later = await client().call('get')
    expect(notKept(later)).toBe(kept.length < 6 ? undefined : 'QUOTA_EXHAUSTED')
  })

  it('sweep at the same time, and delete what has no record, and nothing else', async () => {
    const { give, client, store } = await world()
    give(text(100_000))
    const uri = uriOf(await client().call('get'))
    const old = new Date(Date.now() - 3_600_000)
    const names = Array.from({ length: 200 }, (_none, index) => index.toString(16).padStart(32, '0'))
    for (const name of [...names, `${names[0]}.0123456789ab.part`])
      writeFileSync(join(store, 'blobs', name), 'old')
    for (const name of blobsIn(store)) utimesSync(join(store, 'blobs', name), old, old)
    const stores = Array.from({ length: 3 }, () => new LmdbStore(store, silentLog))
    onTestFinished(async () => void (await Promise.all(stores.map((each) => each.close()))))
    await Promise.all(stores.map((each) => new References(each, { total: 1 }).sweep()))
    expect(blobsIn(store)).toHaveLength(1)
    expect((await client().call('send', { text: uri })).texts).toEqual(['sent'])
  })
})
