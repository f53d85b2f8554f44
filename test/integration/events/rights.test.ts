import { randomBytes } from 'node:crypto'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { tokenHash } from '../../support/auth/token-hash.ts'
import { until } from '../../support/condition.ts'
import { startEffects } from '../../support/effects.ts'
import { insist, pollEvents, streamEvents, type Subscriber } from '../../support/event-client.ts'
import { EventReceivers } from '../../support/event-receiver.ts'
import { startGateway } from '../../support/gateway.ts'
import type { Json } from '../../support/server/json.ts'
import { steadyPort } from '../../support/steady-port.ts'

const tool = 'add_blind_effect'
const filter = { name: `${tool}.succeeded`, arguments: {} }
const all = ['read:effects', 'write:effects', 'delete:effects']

function tokenOf(id: string): string {
  return `the-token-of-${id}-${'x'.repeat(32)}`
}

/** A gateway in front of a server of effects, whose callers have the given scopes. */
async function startWorld() {
  const home = mkdtempSync(join(tmpdir(), 'gatehouse-events-'))
  const server = await startEffects(join(home, 'effects.log'), await steadyPort(), ['--slow', '1'])
  const receivers = await EventReceivers.start()
  const store = join(home, 'store')
  const config = (scopes: Readonly<Record<string, readonly string[]>>): Json => ({
    store,
    auth: {
      opaque: {
        tokens: Object.entries(scopes).map(([id, own]) => ({
          id,
          hash: tokenHash(tokenOf(id)),
          scopes: own,
        })),
      },
    },
    features: {
      confirm: 'off',
      idempotency: 'off',
      transactions: 'off',
      undo: 'off',
      // A slow call would be kept with its arguments, to be resumed.
      progress: 'off',
      events: { writes: 'all', webhooks: { allow: [receivers.origin] } },
      mask: { rules: [{ pattern: 'masked-[0-9a-f]+' }] },
    },
    upstreams: { effects: { url: server.url, revision: '2025-11-25', trust: true } },
  })
  const gateway = await startGateway(config({ ada: all, bob: all, carol: all }))
  onTestFinished(async () => {
    await gateway.close()
    await Promise.all([server.kill(), receivers.close()])
    rmSync(home, { recursive: true, force: true, maxRetries: 5 })
  })
  const addressOf = (id: string) => ({ urls: [`${gateway.url}/effects`], token: tokenOf(id) })
  const subscribe = async (id: string) => {
    const address = addressOf(id)
    const subscribers = [
      pollEvents(address, filter, 100),
      streamEvents(address, filter),
      await receivers.subscribe({ address, filter }),
    ] as const
    await Promise.all(subscribers.map((each) => each.ready))
    onTestFinished(async () => void (await Promise.all(subscribers.map((each) => each.close()))))
    return subscribers
  }
  const write = async (key: string, more: Json = {}): Promise<void> => {
    const given = { name: tool, arguments: { key, value: 'x', ...more } }
    const response = await insist(addressOf('ada'), 'tools/call', given)
    expect(response).toMatchObject({ kind: 'result' })
  }
  return { gateway, store, receivers, config, subscribe, write }
}

async function arrives(key: string, subscribers: readonly Subscriber[]): Promise<void> {
  const isThere = (): boolean => subscribers.every(({ arrived }) => arrived.some((each) => each.key === key))
  await until(isThere, `${key} to arrive`)
}

function keysOf(subscribers: readonly Subscriber[]): readonly (readonly string[])[] {
  return subscribers.map(({ arrived }) => arrived.map(({ key }) => key))
}

test.each([
  ['whose scope is taken away', { ada: all, bob: ['read:effects'], carol: all }, ['-32023', '-32023']],
  ['whose token is removed', { ada: all, carol: all }, []],
])('a caller %s gets no further event by poll, stream and webhook', async (_title, changed, faults) => {
  const { gateway, config, subscribe, write } = await startWorld()
  const [bob, carol] = [await subscribe('bob'), await subscribe('carol')]
  await write('before')
  await arrives('before', [...bob, ...carol])
  gateway.configure(config(changed))
  await gateway.logged(({ event }) => event === 'config.reloaded')
  await write('after')
  await arrives('after', carol)
  expect(keysOf(carol)).toEqual([
    ['before', 'after'],
    ['before', 'after'],
    ['before', 'after'],
  ])
  expect(keysOf(bob)).toEqual([['before'], ['before'], ['before']])
  // The client learns of it on each face.
  const [poll, stream, webhook] = bob
  // Without credentials, polls and streams are refused before they are about events.
  for (const [at, fault] of faults.entries())
    await until(() => [poll, stream][at]?.faults.some((each) => each.includes(fault)), 'why there are none')
  await until(() => webhook.faults.some((fault) => fault.includes('terminated')), 'the end of the webhook')
})

test('neither secrets nor masked values leave the gateway with an event, or are in its store and its log', async () => {
  const { gateway, store, receivers, subscribe, write } = await startWorld()
  const [poll, stream, webhook] = await subscribe('carol')
  const canaries = {
    masked: `masked-${randomBytes(12).toString('hex')}`,
    secret: randomBytes(12).toString('hex'),
    token: `ghp_${randomBytes(18).toString('hex')}`,
  }
  const { masked, secret, token } = canaries
  await write('canary', { value: `x ${masked} ${token} y`, password: secret })
  await arrives('canary', [poll, stream, webhook])
  const places = {
    poll: poll.received(),
    stream: stream.received(),
    webhook: receivers.received(),
    log: `${gateway.stdout()}${gateway.stderr()}`,
    store: readdirSync(store, { withFileTypes: true })
      .filter((each) => each.isFile())
      .map(({ name }) => readFileSync(join(store, name)).toString('latin1'))
      .join(''),
  }
  for (const [place, text] of Object.entries(places)) {
    const found = Object.entries(canaries).filter(([, value]) => text.includes(value))
    expect(found, `in ${place}`).toEqual([])
    // What is not masked is there.
    if (place !== 'log') expect(text, `in ${place}`).toContain('canary')
  }
})
