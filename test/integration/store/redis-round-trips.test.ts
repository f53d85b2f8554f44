import { connect } from 'node:net'
import { describe, expect, it, onTestFinished } from 'vitest'
import { until } from '../../support/condition.ts'
import { localGateway } from '../../support/local-gateway.ts'
import { type ConfirmingClient, connected } from '../../support/peers/confirming.ts'
import { needsRedis, startRedis } from '../../support/redis-server.ts'
import { openRoom } from '../../support/room.ts'

/** What a client sends to Redis about calls, their transactions and their actions. */
const ABOUT_CALLS =
  /^\+\S+ \[0 \d[^\]]*\] "(?!GET" "gatehouse:generation).*(?:call:|\{transaction\}|transaction-steps:|\{deed\})/
/** The end of the record of an action, which is written after the answer. */
const ACTION_ENDED = /EVALSHA.*\{deed\}.*endedAt/

/** The commands that a Redis gets, each as a line. */
async function monitor(url: string): Promise<readonly string[]> {
  const lines: string[] = []
  const socket = connect(Number(new URL(url).port), '127.0.0.1', () => socket.write('MONITOR\r\n'))
  onTestFinished(() => void socket.destroy())
  let rest = ''
  socket.on('data', (data) => {
    const parts = (rest + data.toString()).split('\r\n')
    rest = parts.pop() ?? ''
    lines.push(...parts)
  })
  await until(() => lines.length > 0, 'Redis to report commands')
  return lines
}

interface World {
  readonly client: ConfirmingClient
  /** Makes a call, and returns what it sent to Redis, one command in each round trip. */
  sent(text: string, meta?: Record<string, string>): Promise<readonly string[]>
}

async function world(): Promise<World> {
  const redis = await startRedis()
  onTestFinished(() => redis.stop())
  const room = await openRoom()
  const gateway = await localGateway({
    store: redis.url,
    features: { confirm: 'off' },
    upstreams: {
      room: {
        url: room.url,
        revision: '2025-11-25',
        tools: { send: { undo: 'unsend(text=$.result.text)' } },
      },
    },
  })
  onTestFinished(() => gateway.close())
  const client = await connected({ gateway })
  const lines = await monitor(redis.url)
  const sent = async (text: string, meta: Record<string, string> = {}): Promise<readonly string[]> => {
    const start = lines.length
    await client.call('send', { text }, meta)
    expect(room.messages).toContain(text)
    const made = (): readonly string[] => lines.slice(start).filter((line) => ABOUT_CALLS.test(line))
    await until(() => made().some((line) => ACTION_ENDED.test(line)), 'the action to be recorded')
    return made()
  }
  // Scripts are loaded, and the caller's records are counted.
  await sent('first', { idempotency_key: 'first' })
  return { client, sent }
}

describe('what a call sends to Redis', needsRedis, () => {
  it('a write takes one round trip, and with an idempotency key three', async () => {
    const { sent } = await world()
    expect(await sent('plain')).toHaveLength(1)
    expect(await sent('keyed', { idempotency_key: 'k' })).toHaveLength(3)
  })

  it('a step takes at most eight round trips, and as many bytes in a long transaction as in a short one', async () => {
    const { client, sent } = await world()
    await client.call('begin_transaction', { transaction_id: 't' })
    const sizes: number[] = []
    const counts: number[] = []
    for (let step = 0; step < 32; step++) {
      const lines = await sent(`step ${step + 100}`, {
        transaction_id: 't',
        idempotency_key: `key-${step + 100}`,
      })
      counts.push(lines.length)
      sizes.push(lines.join('').length)
    }
    // What Redis reports may arrive with the next step, and every eighth step writes a page.
    const eightFrom = (list: readonly number[], start: number): number =>
      list.slice(start, start + 8).reduce((total, each) => total + each, 0)
    expect(eightFrom(counts, 24)).toBeLessThanOrEqual(8 * 8)
    expect(eightFrom(sizes, 24)).toBeLessThan(1.1 * eightFrom(sizes, 8))
  })
})
