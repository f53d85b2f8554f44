// A store that is lost while a gateway uses it, or between two starts. No answered call runs again at any gateway,
// until an operator accepts the loss.
import { copyFileSync, cpSync, mkdirSync, renameSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { until } from '../../support/condition.ts'
import type { GatewayProcess } from '../../support/gateway-process.ts'
import { type Finished, runCommand } from '../../support/gateway.ts'
import { clientOf, codeOf, folder, gatewayProcessTo } from '../../support/journey.ts'
import { type Notes, notes } from '../../support/notes.ts'
import type { Json } from '../../support/server/json.ts'
import { variantsOf } from '../../support/soak.ts'

const add = (text: string, key?: string): Json => ({
  name: 'add',
  arguments: { text },
  ...(key !== undefined && { idempotency_key: key }),
})

interface Field {
  readonly server: Notes
  readonly store: string
  /** The state folder of the user. */
  readonly env: NodeJS.ProcessEnv
  start(): Promise<GatewayProcess>
  run(...words: string[]): Promise<Finished>
}

/** A notes server, and a store that gateways and commands share. */
async function field(): Promise<Field> {
  const [server, home] = [await notes(), folder()]
  const store = join(home, 'store')
  const env = { XDG_STATE_HOME: join(home, 'state') }
  const file = join(home, 'gateway.config.yaml')
  writeFileSync(file, JSON.stringify({ store, features: 'none', upstreams: { notes: server.upstream } }))
  return {
    server,
    store,
    env,
    start: () => gatewayProcessTo({ notes: server.upstream }, { config: { store }, env }),
    run: (...words) => runCommand([...words, '--config', file], { env }),
  }
}

async function answered(gateway: GatewayProcess, key: string): Promise<void> {
  const client = await clientOf(gateway)
  const { result } = await client.request('tools/call', add(key, key))
  expect(result?.['_meta']).toMatchObject({ was_replay: false })
}

async function storeCheck({ origin }: GatewayProcess): Promise<unknown> {
  const response = await fetch(`${origin}/ready`)
  const { checks } = (await response.json()) as { readonly checks: Json }
  return [response.status, checks['store']]
}

const commands = [['serve', '--port', '0'], ['stdio'], ['check'], ['store', 'info']]

/** No command starts with the store as it is, and each reports its path. In the ordinary run, two of them for each reason. */
async function expectRefused({ run, store }: Field, reason: string): Promise<void> {
  const turn = reason.length % 2
  for (const words of variantsOf(commands, (_words, index) => index % 2 === turn)) {
    const { code, signal, stdout, stderr } = await run(...words)
    expect([code, signal, words, `${stdout}${stderr}`]).toEqual([
      1,
      null,
      words,
      expect.stringContaining(reason),
    ])
    expect(`${stdout}${stderr}`).toContain(store)
  }
}

/** What can happen to a folder in use. */
const losses: readonly (readonly [string, (store: string) => void, string])[] = [
  ['is removed', (store) => rmSync(store, { recursive: true }), 'the folder was removed'],
  ['is moved away', (store) => renameSync(store, `${store}-away`), 'the folder was removed'],
  [
    'is replaced by an empty folder',
    (store) => {
      rmSync(store, { recursive: true })
      mkdirSync(store)
    },
    'the folder was replaced',
  ],
  [
    'is replaced by a copy',
    (store) => {
      renameSync(store, `${store}-away`)
      cpSync(`${store}-away`, store, { recursive: true })
    },
    'the folder was replaced',
  ],
  ['loses its data file', (store) => rmSync(join(store, 'data.mdb')), 'data.mdb was removed'],
  [
    'gets another data file',
    (store) => {
      copyFileSync(join(store, 'data.mdb'), join(store, 'other'))
      renameSync(join(store, 'other'), join(store, 'data.mdb'))
    },
    'data.mdb was replaced',
  ],
  ['loses its lock file', (store) => rmSync(join(store, 'lock.mdb')), 'lock.mdb was removed'],
]

describe('a store in a folder that, while a gateway uses it,', () => {
  it.each(losses)('%s: no key is accepted, and recorded results are kept', async (_what, lose, reason) => {
    const place = await field()
    const { server, store } = place
    const gateway = await place.start()
    await answered(gateway, 'before')
    const client = await clientOf(gateway)
    lose(store)
    // Even before the loss is detected.
    expect(codeOf(await client.request('tools/call', add('at once', 'at-once')))).toBe('SERVER_UNAVAILABLE')
    const { reason: told } = await gateway.logged(({ event }) => event === 'store.away')
    expect(told).toContain(reason)
    expect(await storeCheck(gateway)).toEqual([200, 'failing'])
    const again = await client.request('tools/call', add('before', 'before'))
    expect(again.result?.['_meta']).toMatchObject({ was_replay: true })
    expect(codeOf(await client.request('transaction/begin', { transaction_id: 't' }))).toBe(
      'SERVER_UNAVAILABLE',
    )
    expect((await client.request('tools/call', add('bare'))).result?.['isError']).not.toBe(true)
    expect(server.calls).toEqual(['add before', 'add bare'])
  })

  it('is removed: the loss is detected without any call, and another gateway does not start afresh', async () => {
    const place = await field()
    const gateway = await place.start()
    await answered(gateway, 'before')
    rmSync(place.store, { recursive: true })
    await until(async () => String(await storeCheck(gateway)) === '200,failing', 'the loss to be noticed')
    await expectRefused(place, 'gatehouse store accept')
    await gateway.close()
    expect(await place.run('store', 'accept')).toMatchObject({ code: 0 })
    await answered(await place.start(), 'after')
    expect(place.server.calls).toEqual(['add before', 'add after'])
  })

  it('is moved away and back: it continues where it was', async () => {
    const place = await field()
    const gateway = await place.start()
    await answered(gateway, 'before')
    renameSync(place.store, `${place.store}-away`)
    await until(async () => String(await storeCheck(gateway)) === '200,failing', 'the loss to be noticed')
    renameSync(`${place.store}-away`, place.store)
    await until(async () => String(await storeCheck(gateway)) === '200,ok', 'the store to be back')
    await answered(gateway, 'after')
    const client = await clientOf(gateway)
    const again = await client.request('tools/call', add('before', 'before'))
    expect(again.result?.['_meta']).toMatchObject({ was_replay: true })
  })

  it('is emptied: no unrecordable call runs, and no gateway starts afresh', async () => {
    const place = await field()
    const gateway = await place.start()
    await answered(gateway, 'before')
    const client = await clientOf(gateway)
    truncateSync(join(place.store, 'data.mdb'), 0)
    // The memory-mapped pages are gone: the gateway reports it, or its process ends.
    const reply = await client.request('tools/call', add('after', 'after')).catch(() => undefined)
    if (reply) expect(codeOf(reply)).toBe('SERVER_UNAVAILABLE')
    gateway.signal('SIGKILL')
    await expectRefused(place, 'data.mdb is empty')
    expect(place.server.calls).toEqual(['add before'])
  })
})

/** What can happen to a folder between two starts, and the message for it. */
const betweens: readonly (readonly [string, (store: string) => void, string])[] = [
  ['was removed', (store) => rmSync(store, { recursive: true }), 'it is gone'],
  [
    'was emptied',
    (store) => {
      rmSync(store, { recursive: true })
      mkdirSync(store)
    },
    'its data is gone',
  ],
  ['has no data file', (store) => rmSync(join(store, 'data.mdb')), 'data.mdb is gone'],
  ['has an empty data file', (store) => truncateSync(join(store, 'data.mdb'), 0), 'data.mdb is empty'],
  [
    'was emptied except for an empty data file',
    (store) => {
      rmSync(store, { recursive: true })
      mkdirSync(store)
      writeFileSync(join(store, 'data.mdb'), '')
    },
    'data.mdb is empty',
  ],
  [
    'has the generation of another store',
    (store) => writeFileSync(join(store, 'generation'), 'another\n'),
    'it contains a different store than before',
  ],
]

describe('a store in a folder with records that, before the next start,', () => {
  it.each(betweens)('%s: it is refused until the loss is accepted', async (_what, lose, reason) => {
    const place = await field()
    const first = await place.start()
    await answered(first, 'before')
    await first.close()
    lose(place.store)
    await expectRefused(place, reason)
    expect(await place.run('store', 'accept')).toMatchObject({ code: 0 })
    const second = await place.start()
    await answered(second, 'after')
    await second.close()
    expect(await place.run('store', 'accept')).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('nothing was changed'),
    })
    expect(place.server.calls).toEqual(['add before', 'add after'])
  })

  it('was replaced by the store of another gateway: it is refused', async () => {
    const [place, other] = [await field(), await field()]
    for (const each of [place, other]) {
      const gateway = await each.start()
      await answered(gateway, 'before')
      await gateway.close()
    }
    rmSync(place.store, { recursive: true })
    renameSync(other.store, place.store)
    await expectRefused(place, 'it contains a different store than before')
  })
})

describe('a store in a folder without records', () => {
  it('can be removed between two starts, and is created again', async () => {
    const place = await field()
    const gateway = await place.start()
    const client = await clientOf(gateway)
    expect((await client.request('tools/call', add('bare'))).result?.['isError']).not.toBe(true)
    await gateway.close()
    rmSync(place.store, { recursive: true })
    await answered(await place.start(), 'after')
  })
})
