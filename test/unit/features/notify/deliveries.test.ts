import { describe, expect, it, onTestFinished } from 'vitest'
import { noProxy } from '../../../../src/core/proxy.ts'
import { Secret } from '../../../../src/core/text/secret.ts'
import { NoticeDeliveries } from '../../../../src/features/notify/deliveries.ts'
import { type Accepted, type Channel, createChannels } from '../../../../src/features/notify/channels.ts'
import type { Message } from '../../../../src/features/notify/message.ts'
import { QuietHours } from '../../../../src/features/notify/quiet-hours.ts'
import type { ChannelSettings, QuietSettings } from '../../../../src/features/settings/notify.ts'
import { type Approval, type ApprovalRequest, Approvals } from '../../../../src/records/approvals.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { until } from '../../../support/condition.ts'
import { featureDeps } from '../../../support/feature-deps.ts'
import { httpSite } from '../../../support/http-site.ts'
import { idle, ManualClock } from '../../../support/webhooks.ts'

const MINUTE = 60_000
const done: Accepted = { kind: 'done' }
const busy: Accepted = { kind: 'later', failure: 'http_503' }

interface Told {
  readonly process: string
  readonly channel: string
  /** Minutes since the beginning. */
  readonly at: number
  readonly message: Message
}

type Answer = (told: Told, signal: AbortSignal) => Accepted | Promise<Accepted>

interface Process {
  readonly channels?: Readonly<Record<string, Partial<ChannelSettings>>>
  readonly quiet?: readonly QuietSettings[]
  readonly escalate?: { readonly afterMs: number; readonly to: readonly string[] }
  readonly answer?: Answer
  readonly isOn?: (upstream: string) => boolean
}

/** The outcome of an attempt that only the end of its process ends. */
function untilAborted(signal: AbortSignal): Promise<Accepted> {
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(busy)))
}

/** Gateways with one store, and channels that answer as told. It begins at a time of a Wednesday in UTC. */
class Field {
  readonly clock: ManualClock
  readonly store: MemoryStore
  readonly approvals: Approvals
  readonly told: Told[] = []
  readonly outcomes: string[] = []
  readonly logged: unknown[] = []
  readonly #start: number

  constructor(start = '2026-01-14T12:00:00Z') {
    this.#start = Date.parse(start)
    this.clock = new ManualClock(this.#start)
    this.store = new MemoryStore(() => this.clock.now())
    this.approvals = new Approvals(this.store, () => this.clock.now())
  }

  /** Starts a gateway, whose deliveries it returns. */
  async process(name: string, given: Process = {}): Promise<NoticeDeliveries> {
    const { channels = { ops: {} }, quiet = [], escalate, answer = () => done, isOn = () => true } = given
    const log = {
      debug: () => undefined,
      info: (event: string, fields?: object) => void this.logged.push({ event, ...fields }),
      warn: (event: string, fields?: object) => void this.logged.push({ event, ...fields }),
      error: (event: string, fields?: object) => void this.logged.push({ event, ...fields }),
    }
    const deps = featureDeps({
      store: this.store,
      log,
      notified: (channel, outcome) => void this.outcomes.push(`${channel} ${outcome}`),
    })
    const deliveries = new NoticeDeliveries({
      deps,
      channels: Object.entries(channels).map(([channel, settings]): Channel => ({
        name: channel,
        kind: 'webhook',
        markup: 'plain',
        settings: { arguments: false, decided: false, ...settings },
        send: async (message, signal) => {
          const told = { process: name, channel, at: (this.clock.now() - this.#start) / MINUTE, message }
          this.told.push(told)
          return answer(told, signal)
        },
      })),
      quiet: new QuietHours(quiet),
      ...(escalate && { escalate }),
      isOn,
      clock: this.clock,
      random: () => 1,
    })
    onTestFinished(() => deliveries.close())
    await deliveries.start()
    await idle()
    return deliveries
  }

  /** A call that waits from now on, for an hour. */
  async request(change: Partial<ApprovalRequest> = {}): Promise<Approval> {
    const { approval } = await this.approvals.request({
      kind: 'out_of_band',
      caller: 'user:anna',
      upstream: 'disks',
      tool: 'wipe',
      arguments: {},
      digest: 'd',
      risk: 'destructive',
      message: 'Run wipe?',
      needed: 1,
      approvers: [],
      ttl: 60 * MINUTE,
      ...change,
    })
    return approval
  }

  async decide(id: string, verdict: 'approved' | 'denied' = 'approved'): Promise<void> {
    await this.approvals.decide(id, { by: 'user:ben', via: 'password', verdict })
  }

  /** Who was told when, in minutes. */
  get times(): readonly (readonly [channel: string, minute: number])[] {
    return this.told.map(({ channel, at }) => [channel, Math.round(at * 10) / 10] as const)
  }
}

describe('notices', () => {
  it('tell each channel once, at once', async () => {
    const field = new Field()
    const deliveries = await field.process('a', { channels: { ops: {}, phone: {} } })
    const { id } = await field.request()
    await deliveries.requested(id)
    await field.clock.advance(30 * MINUTE)
    expect(field.times).toEqual([
      ['ops', 0],
      ['phone', 0],
    ])
    expect(field.told[0]?.message).toMatchObject({
      type: 'approval.pending',
      link: `http://127.0.0.1:8900/confirm/${id}`,
    })
    expect(field.outcomes).toEqual(['ops sent', 'phone sent'])
  })

  it('are for the calls that the channel is for', async () => {
    const field = new Field()
    await field.process('a', {
      channels: {
        all: {},
        harm: { only: 'destructive' },
        others: { only: ['out_of_band'] },
        both: { only: ['out_of_band', 'destructive'] },
        disks: { servers: 'disks' },
        mail: { servers: ['mail', 'chat'] },
      },
      isOn: (upstream) => upstream !== 'quiet',
    })
    await field.request({ digest: '1', risk: 'reversible', kind: 'page' })
    await field.request({ digest: '2', upstream: 'chat' })
    await field.request({ digest: '3', upstream: 'quiet' })
    await field.request({ digest: '4', kind: 'page', isByHost: true })
    await field.clock.advance(MINUTE)
    const calls = field.told.map(({ channel, message }) => `${channel} ${String(message.data['server'])}`)
    expect(calls.toSorted()).toEqual([
      'all chat',
      'all disks',
      'both chat',
      'disks disks',
      'harm chat',
      'mail chat',
      'others chat',
    ])
  })

  it('are sent again until they are accepted, under the same id', async () => {
    const field = new Field()
    let attempts = 0
    const deliveries = await field.process('a', { answer: () => (++attempts < 4 ? busy : done) })
    await deliveries.requested((await field.request()).id)
    await field.clock.advance(30 * MINUTE)
    expect(field.times).toEqual([
      ['ops', 0],
      ['ops', 0.1],
      ['ops', 0.3],
      ['ops', 1.1],
    ])
    expect(new Set(field.told.map(({ message }) => message.id)).size).toBe(1)
    expect(field.outcomes).toEqual(['ops retried', 'ops retried', 'ops retried', 'ops sent'])
    expect(field.logged).toContainEqual(
      expect.objectContaining({ event: 'notify.failed', channel: 'ops', failure: 'http_503', attempts: 1 }),
    )
  })

  it('reach a receiver that fails, is gone for a while, and recovers', async () => {
    const field = new Field()
    const site = await httpSite(() => ({ status: site.requests.length < 3 ? 500 : 204 }))
    const slack = { url: new Secret(`${site.origin}/hook`) }
    const [real] = createChannels({ ops: { arguments: false, decided: false, slack } }, noProxy)
    const gone: Accepted = { kind: 'later', failure: 'connection' }
    const deliveries = await field.process('a', {
      answer: ({ message, at }, signal) =>
        at > 0.2 && at < 5 ? gone : (real?.send(message, signal) ?? gone),
    })
    await deliveries.requested((await field.request()).id)
    while (!field.outcomes.includes('ops sent')) {
      await field.clock.advance(MINUTE)
      await until(() => field.outcomes.length === field.told.length, 'the outcome of each attempt')
    }
    expect(site.requests.map(({ body }) => JSON.parse(body).text)).toEqual(
      Array.from({ length: 3 }, () => expect.stringContaining('Approval needed: wipe on disks')),
    )
    expect(field.outcomes.filter((each) => each === 'ops sent')).toHaveLength(1)
  })

  it('that a receiver refuses for good are given up', async () => {
    const field = new Field()
    const deliveries = await field.process('a', { answer: () => ({ kind: 'never', failure: 'http_410' }) })
    await deliveries.requested((await field.request()).id)
    await field.clock.advance(30 * MINUTE)
    expect(field.told).toHaveLength(1)
    expect(field.outcomes).toEqual(['ops refused'])
    expect(field.logged).toContainEqual(
      expect.objectContaining({ event: 'notify.given_up', channel: 'ops', failure: 'http_410' }),
    )
  })

  it('are not sent again once the call was decided', async () => {
    const field = new Field()
    const deliveries = await field.process('a', { answer: () => busy })
    const { id } = await field.request()
    await deliveries.requested(id)
    await field.clock.advance(MINUTE)
    const before = field.told.length
    await field.decide(id, 'denied')
    await field.clock.advance(30 * MINUTE)
    expect(field.told).toHaveLength(before)
    expect(field.outcomes.at(-1)).toBe('ops dropped')
  })

  it('are not sent again once the approval expired, and nothing of them is left', async () => {
    const field = new Field()
    const deliveries = await field.process('a', { answer: () => busy })
    await deliveries.requested((await field.request({ ttl: 2 * MINUTE })).id)
    await field.clock.advance(60 * MINUTE)
    expect(Math.max(...field.told.map(({ at }) => at))).toBeLessThan(2)
    expect([...(await field.store.scan('notice')).keys()]).toEqual([])
  })

  it('by a channel that does not answer hold up no other channel, nor more than four at once', async () => {
    const field = new Field()
    const deliveries = await field.process('a', {
      channels: { hangs: {}, ops: {} },
      answer: ({ channel }, signal) => (channel === 'hangs' ? untilAborted(signal) : done),
    })
    for (let n = 0; n < 10; n++) await deliveries.requested((await field.request({ digest: `${n}` })).id)
    await field.clock.advance(MINUTE)
    expect(field.told.filter(({ channel }) => channel === 'ops')).toHaveLength(10)
    expect(field.told.filter(({ channel }) => channel === 'hangs')).toHaveLength(4)
  })
})

describe('notices and the processes that share a store', () => {
  it('are sent by one of them', async () => {
    const field = new Field()
    const processes = [await field.process('a'), await field.process('b')]
    for (let n = 0; n < 20; n++) {
      const { id } = await field.request({ digest: `${n}` })
      await Promise.all(processes.map((each) => each.requested(id)))
    }
    await field.clock.advance(5 * MINUTE)
    const told = field.told.map(({ message }) => message.id)
    expect(told).toHaveLength(20)
    expect(new Set(told).size).toBe(20)
  })

  it('are made of an approval whose gateway ended at once', async () => {
    const field = new Field()
    await field.request()
    await field.process('a')
    await field.clock.advance(MINUTE)
    expect(field.times).toEqual([['ops', 0]])
  })

  it('are made of an approval that a gateway without channels requested', async () => {
    const field = new Field()
    await field.process('a')
    await field.request()
    await field.clock.advance(2 * MINUTE)
    expect(field.told).toHaveLength(1)
    expect(field.told[0]?.at).toBeLessThanOrEqual(0.6)
  })

  it('are sent by the next one after a process that could not send them', async () => {
    const field = new Field()
    const first = await field.process('a', { answer: () => busy })
    await first.requested((await field.request()).id)
    await field.clock.advance(MINUTE)
    await first.close()
    await field.process('b')
    await field.clock.advance(10 * MINUTE)
    expect(field.told.filter(({ process }) => process === 'b')).toHaveLength(1)
    expect(new Set(field.told.map(({ message }) => message.id)).size).toBe(1)
  })

  it('that were sent are not sent again after a restart', async () => {
    const field = new Field()
    const first = await field.process('a')
    await first.requested((await field.request()).id)
    await field.clock.advance(1000)
    await first.close()
    await field.process('b')
    await field.clock.advance(30 * MINUTE)
    expect(field.told).toHaveLength(1)
  })

  it('of a channel that only another gateway has are left to it', async () => {
    const field = new Field()
    const first = await field.process('a', { channels: { ops: {} } })
    const { id } = await field.request()
    await first.requested(id)
    await first.close()
    await field.process('b', { channels: { phone: {} } })
    await field.clock.advance(5 * MINUTE)
    expect(field.told.map(({ process, channel }) => `${process} ${channel}`)).toEqual(['a ops', 'b phone'])
  })

  it('are read as this version writes them', async () => {
    const field = new Field()
    const { id } = await field.request()
    const time = '"requestedAt":1768392000000,"expiresAt":1768395600000'
    const common = `"approval":"${id}","risk":"destructive",${time},"settled":[],"owner":"0a.1.there/0b"`
    const texts = {
      ops: `{"id":"${id}.ops","channel":"ops",${common},"watermark":"0"}`,
      boss: `{"id":"${id}.boss","channel":"boss","isEscalated":true,${common},"watermark":"0"}`,
      told: `{"id":"${id}.told","channel":"told",${common},"watermark":"1","isTold":true}`,
    }
    for (const [channel, text] of Object.entries(texts))
      await field.store.put(`notice/${id}.${channel}`, text, 60 * MINUTE)
    await field.process('a', {
      channels: { ops: {}, boss: {}, told: {} },
      escalate: { afterMs: 10 * MINUTE, to: ['boss'] },
    })
    await field.clock.advance(20 * MINUTE)
    expect(field.told.map(({ channel, message }) => `${channel} ${message.type}`)).toEqual([
      'ops approval.pending',
      'boss approval.escalated',
    ])
  })

  it.each([
    ['no record', 'no JSON'],
    ['null', 'null'],
    ['without its members', '{"id":"x"}'],
    ['with others', '{"id":1,"approval":null,"channel":[],"risk":{},"watermark":0,"settled":{}}'],
    [
      'a time without a date',
      '{"id":"x.ops","approval":"x","channel":"ops","isEscalated":true,"risk":"safe","requestedAt":1e300,"expiresAt":1e300,"watermark":"0","settled":[]}',
    ],
  ])('%s under a key of one is left alone', async (_title, text) => {
    const field = new Field()
    await field.store.put('notice/x.ops', text, 60 * MINUTE)
    const quiet = [{ from: '22:00', to: '07:00', time_zone: 'UTC', pass: 'none' as const }]
    await field.request()
    await field.process('a', { quiet })
    await field.clock.advance(MINUTE)
    expect(field.told).toHaveLength(1)
  })
})

it('an approval that nothing can be said about holds up no other one', async () => {
  const field = new Field()
  const deliveries = await field.process('a')
  const [odd, sound] = [await field.request({ digest: '1' }), await field.request({ digest: '2' })]
  const damaged = { ...odd, expiresAt: 1e300, decisions: [null], approvers: [null, {}] }
  await field.store.put(`approval/${odd.id}`, JSON.stringify(damaged), 60 * MINUTE)
  for (const { id } of [odd, sound]) await deliveries.requested(id)
  await field.clock.advance(10 * MINUTE)
  expect(field.told.map(({ message }) => message.data['approval'])).toEqual([sound.id])
  expect(field.logged).toContainEqual(
    expect.objectContaining({ event: 'notify.unreadable', approval: odd.id }),
  )
})

describe('quiet hours', () => {
  const night: QuietSettings = { from: '22:00', to: '07:00', time_zone: 'Europe/Berlin', pass: 'none' }

  it('hold messages until they end, if the call still waits then', async () => {
    const field = new Field('2026-01-15T05:00:00Z')
    const deliveries = await field.process('a', { quiet: [night] })
    const [waits, decided, expired] = [
      await field.request({ digest: '1', ttl: 180 * MINUTE }),
      await field.request({ digest: '2', ttl: 180 * MINUTE }),
      await field.request({ digest: '3', ttl: 30 * MINUTE }),
    ]
    for (const { id } of [waits, decided, expired]) await deliveries.requested(id)
    await field.clock.advance(20 * MINUTE)
    await field.decide(decided.id)
    await field.clock.advance(39 * MINUTE)
    expect(field.told).toEqual([])
    await field.clock.advance(5 * MINUTE)
    expect(field.told.map(({ message }) => message.data['approval'])).toEqual([waits.id])
    expect(field.told[0]?.at).toBeCloseTo(60, 0)
  })

  it('let through what they are configured to', async () => {
    const field = new Field('2026-01-14T22:00:00Z')
    const deliveries = await field.process('a', { quiet: [{ ...night, pass: 'destructive' }] })
    const harmless = await field.request({ digest: '1', risk: 'reversible' })
    const harm = await field.request({ digest: '2' })
    for (const { id } of [harmless, harm]) await deliveries.requested(id)
    await field.clock.advance(30 * MINUTE)
    expect(field.told.map(({ message }) => message.data['approval'])).toEqual([harm.id])
  })

  it('that begin hold what was not accepted until then', async () => {
    const field = new Field('2026-01-14T20:59:00Z')
    const deliveries = await field.process('a', {
      quiet: [{ ...night, to: '22:30' }],
      answer: ({ at }) => (at < 10 ? busy : done),
    })
    await deliveries.requested((await field.request()).id)
    await field.clock.advance(30 * MINUTE)
    expect(Math.max(...field.told.map(({ at }) => at))).toBeLessThanOrEqual(1)
    await field.clock.advance(10 * MINUTE)
    expect(field.outcomes.at(-1)).toBe('ops sent')
  })
})

describe('an escalation', () => {
  const escalate = { afterMs: 10 * MINUTE, to: ['boss'] }
  const channels = { ops: {}, boss: {} }
  const night: QuietSettings = { from: '22:00', to: '07:00', time_zone: 'UTC', pass: 'none' }

  it('tells others if nobody decided in time', async () => {
    const field = new Field()
    const deliveries = await field.process('a', { channels, escalate })
    await deliveries.requested((await field.request()).id)
    await field.clock.advance(30 * MINUTE)
    expect(field.times).toEqual([
      ['ops', 0],
      ['boss', 10],
    ])
    expect(field.told[1]?.message).toMatchObject({
      type: 'approval.escalated',
      title: 'Still undecided: wipe on disks',
    })
  })

  it('tells nobody else of what was decided in time', async () => {
    const field = new Field()
    const deliveries = await field.process('a', { channels, escalate })
    const { id } = await field.request()
    await deliveries.requested(id)
    await field.clock.advance(9 * MINUTE)
    await field.decide(id)
    await field.clock.advance(30 * MINUTE)
    expect(field.times).toEqual([['ops', 0]])
  })

  it('goes on after a restart, from when the call began to wait', async () => {
    const field = new Field()
    const first = await field.process('a', { channels, escalate })
    await first.requested((await field.request()).id)
    await field.clock.advance(6 * MINUTE)
    await first.close()
    await field.process('b', { channels, escalate })
    await field.clock.advance(30 * MINUTE)
    expect(field.told.map(({ process, channel }) => `${process} ${channel}`)).toEqual(['a ops', 'b boss'])
    expect(field.told[1]?.at).toBeCloseTo(10, 0)
  })

  it('waits in quiet hours, and after them until the first people had their time', async () => {
    const field = new Field('2026-01-14T06:55:00Z')
    const deliveries = await field.process('a', { channels, escalate, quiet: [night] })
    await deliveries.requested((await field.request()).id)
    await field.clock.advance(30 * MINUTE)
    expect(field.times).toEqual([
      ['ops', 5],
      ['boss', 15],
    ])
  })

  it('passes quiet hours that let it through, counted from the request', async () => {
    const field = new Field('2026-01-14T06:30:00Z')
    const quiet = [{ ...night, pass: 'escalated' as const }]
    const deliveries = await field.process('a', { channels, escalate, quiet })
    await deliveries.requested((await field.request()).id)
    await field.clock.advance(40 * MINUTE)
    expect(field.times).toEqual([
      ['boss', 10],
      ['ops', 30],
    ])
  })
})

describe('a decision', () => {
  const channels = { ops: { decided: true }, silent: {} }

  it('is told to whoever was told that the call waits, and wants to know', async () => {
    const field = new Field()
    const deliveries = await field.process('a', { channels })
    const { id } = await field.request()
    await deliveries.requested(id)
    await field.clock.advance(5 * MINUTE)
    await field.decide(id)
    await field.clock.advance(20 * MINUTE)
    expect(field.told.map(({ channel, message }) => `${channel} ${message.type}`)).toEqual([
      'ops approval.pending',
      'silent approval.pending',
      'ops approval.decided',
    ])
    expect(field.told[2]?.message.text).toContain('approved by user:ben')
    expect(field.told[2]?.message.id).not.toBe(field.told[0]?.message.id)
  })

  it('is told after a restart', async () => {
    const field = new Field()
    const first = await field.process('a', { channels })
    const { id } = await field.request()
    await first.requested(id)
    await field.clock.advance(1000)
    await first.close()
    await field.decide(id, 'denied')
    await field.process('b', { channels })
    await field.clock.advance(MINUTE)
    expect(field.told.at(-1)).toMatchObject({ process: 'b', message: { type: 'approval.decided' } })
    expect(field.told).toHaveLength(3)
  })

  it('is not told to those who were not told that the call waits', async () => {
    const field = new Field()
    const deliveries = await field.process('a', { channels, answer: () => busy })
    const { id } = await field.request()
    await deliveries.requested(id)
    await field.decide(id)
    await field.clock.advance(20 * MINUTE)
    expect(field.told.every(({ message }) => message.type === 'approval.pending')).toBe(true)
  })

  it('is told of an approval that expired as little as any other end', async () => {
    const field = new Field()
    const deliveries = await field.process('a', { channels })
    await deliveries.requested((await field.request({ ttl: MINUTE })).id)
    await field.clock.advance(20 * MINUTE)
    expect(field.told).toHaveLength(2)
    expect(field.logged.filter((each) => JSON.stringify(each).includes('given_up'))).toEqual([])
  })
})
