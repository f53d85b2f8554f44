import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  droppedLine,
  type ListedLetter,
  type ListedSubscription,
  letterLines,
  letterView,
  subscriptionLines,
  subscriptionView,
  withWaiting,
} from '../../../src/cli/event-subscriptions.ts'
import { storeAlone } from '../../../src/cli/config-file.ts'
import { run } from '../../../src/cli/run.ts'
import { openSharedStore } from '../../../src/gateway/offline.ts'
import { type DeadLetter, DeadLetters } from '../../../src/records/dead-letters.ts'
import {
  EventSubscriptions,
  NEVER,
  type SubscriptionKey,
  type SubscriptionRecord,
} from '../../../src/records/event-subscriptions.ts'
import { openEventLog } from '../../../src/records/logged-events.ts'
import { callerHash } from '../../../src/records/principal.ts'
import { MemoryStore } from '../../../src/store/memory.ts'
import type { Store } from '../../../src/store/store.ts'
import { memoryIo } from '../../support/memory-io.ts'
import { silentLog } from '../../support/silent-log.ts'

const at = Date.UTC(2026, 10, 21, 12)
const DAY_MS = 86_400_000
const url = 'https://hooks.example.com/in/7?token=a-secret-of-the-query'

const delivered: SubscriptionRecord = {
  id: 'sub_0123456789abcdef',
  upstream: 'notes',
  name: 'add_note.succeeded',
  arguments: { list: 'of the caller' },
  address: url,
  principal: { id: 'token:agent' },
  createdAt: at,
  expiresAt: at + DAY_MS,
  watermark: 'e.1.0',
  settled: [],
  delivery: { kept: 'of the delivery' },
  webhook: { secret: 'sealed-secret' },
}
const failing: SubscriptionRecord = {
  ...delivered,
  id: 'sub_failing',
  expiresAt: NEVER,
  hasGap: true,
  owner: 'process-1',
  webhook: {
    secret: 'sealed-secret',
    suspendedAt: at + 3000,
    lastDeliveryAt: at + 1000,
    lastError: 'http_5xx',
    failedSince: at + 2000,
  },
}
const { webhook: _webhook, upstream: _upstream, ...common } = delivered
const fetched: SubscriptionRecord = {
  ...common,
  id: '0b0f6c1e-4c6e-4f0e-9a58-3f2f6b1f0a11',
  name: '*',
  arguments: { events: ['notes.add_note.succeeded', 'server_down'], filter: { list: 'of the caller' } },
  address: 'client',
}

const listed: readonly ListedSubscription[] = [
  { record: delivered, waiting: 3 },
  { record: failing, waiting: 0 },
  { record: fetched, waiting: undefined },
]

const letter: DeadLetter = {
  id: 'dl_1',
  subscription: delivered.id,
  owner: 'ab',
  upstream: 'notes',
  name: 'add_note.succeeded',
  event: { id: 'evt_1', name: 'add_note.succeeded', at, data: { text: 'kept' } },
  failure: 'http_4xx',
  at: at + 60_000,
}

describe('subscriptions as text', () => {
  it('each is a row with its status, caller, type, address, and what is left to deliver', () => {
    expect(subscriptionLines(listed).map((line) => line.split(/ {2,}/))).toEqual([
      ['id', 'status', 'caller', 'server', 'type', 'address', 'waiting', 'expires', 'last error'],
      [
        delivered.id,
        'active',
        'token:agent',
        'notes',
        'add_note.succeeded',
        'https://hooks.example.com/in/7',
        '3',
        '2026-11-22T12:00:00Z',
      ],
      [
        'sub_failing',
        'suspended',
        'token:agent',
        'notes',
        'add_note.succeeded',
        'https://hooks.example.com/in/7',
        '0',
        'never',
        'http_5xx, since 2026-11-21T12:00:02Z',
      ],
      [
        fetched.id,
        'active',
        'token:agent',
        'all',
        'notes.add_note.succeeded, server_down',
        'client',
        '-',
        '2026-11-22T12:00:00Z',
      ],
    ])
    expect(subscriptionLines([])).toEqual(['No subscriptions.'])
    expect(droppedLine(fetched)).toBe(
      `Dropped ${fetched.id} of token:agent: notes.add_note.succeeded, server_down of all servers.`,
    )
  })

  it('the JSON has the same and more', () => {
    expect(listed.map(subscriptionView)).toEqual([
      {
        id: delivered.id,
        status: 'active',
        caller: 'token:agent',
        server: 'notes',
        types: ['add_note.succeeded'],
        argument_names: ['list'],
        kind: 'webhook',
        address: 'https://hooks.example.com/in/7',
        created_at: '2026-11-21T12:00:00.000Z',
        expires_at: '2026-11-22T12:00:00.000Z',
        waiting: 3,
      },
      expect.objectContaining({
        status: 'suspended',
        expires_at: null,
        waiting: 0,
        has_gap: true,
        owner: 'process-1',
        suspended_at: '2026-11-21T12:00:03.000Z',
        last_delivery_at: '2026-11-21T12:00:01.000Z',
        last_error: 'http_5xx',
        failing_since: '2026-11-21T12:00:02.000Z',
      }),
      expect.objectContaining({
        kind: 'client',
        server: null,
        types: ['notes.add_note.succeeded', 'server_down'],
      }),
    ])
    const unsuspended = { ...failing, webhook: { secret: 's', failedSince: at, lastError: 'timeout' } }
    expect(subscriptionView({ record: unsuspended, waiting: 1 })).toMatchObject({ status: 'failing' })
  })

  it('neither secrets, arguments, nor the query and credentials of a URL are printed', () => {
    const secret = {
      ...delivered,
      address: 'https://user:password-in-url@hooks.example.com/in?key=in-the-query#part',
    }
    const all = [...listed, { record: secret, waiting: 1 }]
    const texts = [...subscriptionLines(all), JSON.stringify(all.map(subscriptionView))].join('\n')
    for (const kept of ['secret', 'of the caller', 'of the delivery', 'in-the-query', 'password-in-url'])
      expect(texts).not.toContain(kept)
    expect(texts).toContain('https://hooks.example.com/in')
  })

  it('text of callers and servers never starts a line of its own', () => {
    const hostile = 'x\n\u001b[2Kall is well\u202e'
    const record = {
      ...fetched,
      id: hostile,
      name: hostile,
      upstream: hostile,
      address: hostile,
      principal: { id: hostile },
    }
    const bad: ListedLetter = {
      letter: { ...letter, subscription: hostile, name: hostile, failure: hostile, event: { id: hostile } },
      subscription: record,
    }
    const lines = [...subscriptionLines([{ record, waiting: 1 }]), droppedLine(record), ...letterLines([bad])]
    for (const line of lines) expect(line).not.toMatch(/\p{C}/u)
  })

  it('dead letters are listed with the failure, and say whether their subscription has ended', () => {
    const letters = [
      { letter, subscription: delivered },
      { letter: { ...letter, id: 'dl_2', at: at + 120_000 }, subscription: undefined },
    ]
    expect(letterLines(letters).map((line) => line.split(/ {2,}/))).toEqual([
      ['given up', 'subscription', 'event', 'server', 'type', 'failure', 'caller'],
      [
        '2026-11-21T12:01:00Z',
        delivered.id,
        'evt_1',
        'notes',
        'add_note.succeeded',
        'http_4xx',
        'token:agent',
      ],
      [
        '2026-11-21T12:02:00Z',
        delivered.id,
        'evt_1',
        'notes',
        'add_note.succeeded',
        'http_4xx',
        'subscription ended',
      ],
    ])
    expect(letters.map(letterView)[0]).toEqual({
      id: 'dl_1',
      subscription: delivered.id,
      is_ended: false,
      caller: 'token:agent',
      server: 'notes',
      type: 'add_note.succeeded',
      event: { id: 'evt_1', at: '2026-11-21T12:00:00.000Z', data: { text: 'kept' } },
      failure: 'http_4xx',
      given_up_at: '2026-11-21T12:01:00.000Z',
    })
    expect(letterLines([])).toEqual(['No dead letters.'])
  })
})

describe('what is left to deliver', () => {
  async function world() {
    const store = new MemoryStore()
    const [notes, other] = ['notes', 'other'].map((upstream) => ({
      upstream,
      log: openEventLog(store, upstream, { ttl: DAY_MS, isShared: true }),
    }))
    if (!notes || !other) throw new TypeError('there are two')
    const event = (name: string) => ({ id: 'e', name, at, data: {} })
    const start = await notes.log.end()
    const cursors: string[] = []
    for (const name of ['add_note.succeeded', 'tools_changed', 'add_note.succeeded', 'add_note.succeeded'])
      cursors.push(await notes.log.append([event(name)]))
    await other.log.append([event('add_note.succeeded'), event('add_note.succeeded')])
    const waitingOf = async (record: SubscriptionRecord, hasAllLogs = true) => {
      const [found] = await withWaiting([record], { logs: [notes, other], hasAllLogs })
      return found?.waiting
    }
    const waiting = (record: Partial<SubscriptionRecord>, hasAllLogs?: boolean) =>
      waitingOf({ ...delivered, ...record }, hasAllLogs)
    return { start, cursors, waiting, waitingOf }
  }

  it('counts the events of the type behind the watermark that are not settled, at any place', async () => {
    const { start, cursors, waiting } = await world()
    expect(await waiting({ watermark: start })).toBe(3)
    expect(await waiting({ watermark: cursors[0] ?? '' })).toBe(2)
    expect(await waiting({ watermark: cursors[0] ?? '', settled: [cursors[3] ?? ''] })).toBe(1)
    expect(await waiting({ watermark: cursors[3] ?? '' })).toBe(0)
  })

  it('finds the log of a subscription to all servers by the name of the type', async () => {
    const { start, cursors, waiting } = await world()
    const all = { upstream: undefined, watermark: cursors[1] ?? '' }
    expect(await waiting({ ...all, name: 'notes.add_note.succeeded' })).toBe(2)
    expect(await waiting({ ...all, name: 'notes_add_note_succeeded', watermark: start })).toBe(3)
    expect(await waiting({ ...all, name: 'another.add_note.succeeded' })).toBe(0)
    expect(await waiting({ ...all, name: 'notes.add_note.succeeded' }, false)).toBeUndefined()
  })

  it('is not known of subscriptions whose clients fetch the events', async () => {
    const { waitingOf } = await world()
    expect(await waitingOf({ ...fetched, upstream: 'notes' })).toBeUndefined()
  })
})

describe('gatehouse events', () => {
  let folder: string
  let config: string

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'gatehouse-events-'))
    config = join(folder, 'gateway.config.yaml')
    mkdirSync(join(folder, 'store'))
    const audit = join(folder, 'audit.jsonl')
    const settings = {
      store: join(folder, 'store'),
      observe: { audit: { file: audit } },
      upstreams: { notes: { command: 'x' } },
    }
    writeFileSync(config, JSON.stringify(settings))
  })

  afterEach(() => {
    rmSync(folder, { recursive: true })
  })

  async function withStore<Result>(use: (store: Store) => Promise<Result>): Promise<Result> {
    const opened = await openSharedStore(storeAlone(join(folder, 'store'), memoryIo()), silentLog)
    try {
      return await use(opened)
    } finally {
      await opened.close()
    }
  }

  /** Subscribes callers; resolves with the ids. */
  function subscribe(...callers: string[]): Promise<readonly string[]> {
    return withStore(async (store) => {
      const ids: string[] = []
      for (const id of callers) {
        const key: SubscriptionKey = {
          upstream: 'notes',
          name: 'add_note.succeeded',
          arguments: {},
          address: url,
        }
        const webhook = () => ({ secret: 'sealed-secret' })
        const watermark = await openEventLog(store, 'notes', { ttl: DAY_MS, isShared: true }).end()
        const grant = { expiresAt: Date.now() + DAY_MS, delivery: {}, watermark, webhook }
        const record = await new EventSubscriptions(store).subscribe({ id }, key, grant)
        ids.push(record?.id ?? '')
      }
      return ids
    })
  }

  function giveUp(subscription: string, caller: string, ...events: string[]): Promise<void> {
    return withStore((store) =>
      new DeadLetters(store).add(
        events.map((id) => ({
          ...letter,
          id: DeadLetters.idOf(subscription, id),
          subscription,
          owner: callerHash(caller),
          event: { ...letter.event, id },
        })),
      ),
    )
  }

  const requested = () =>
    withStore(async (store) =>
      (await new DeadLetters(store).requested()).map(({ event }) => String(event['id'])),
    )

  async function runEvents(...words: string[]): Promise<{ readonly code: number; readonly text: string }> {
    const io = memoryIo()
    const code = await run(['events', ...words, '--config', config], io)
    return { code, text: io.written.stdout + io.written.stderr }
  }

  function auditLines(): Record<string, unknown>[] {
    const text = readFileSync(join(folder, 'audit.jsonl'), 'utf8')
    return text
      .split('\n')
      .filter((line) => line.includes('"event":"order"'))
      .map((line) => JSON.parse(line))
  }

  it('subscriptions lists those of all callers or of one, and drop ends one of them, by a part of its id', async () => {
    const [ada = '', bob = ''] = await subscribe('ada', 'bob')
    await withStore((store) =>
      openEventLog(store, 'notes', { ttl: DAY_MS, isShared: true }).append([
        { id: 'e', name: 'add_note.succeeded', at, data: {} },
      ]),
    )
    const json = JSON.parse((await runEvents('subscriptions', '--json')).text)
    const callers = json.subscriptions.map(({ caller, waiting }: Record<string, unknown>) => [
      caller,
      waiting,
    ])
    // Both may have begun in one millisecond.
    expect(callers.toSorted()).toEqual([
      ['ada', 1],
      ['bob', 1],
    ])
    expect((await runEvents('subscriptions', '--principal', 'bob')).text).not.toContain(ada)
    expect(await runEvents('subscriptions', 'drop', ada.slice(0, 12))).toEqual({
      code: 0,
      text: `Dropped ${ada} of ada: add_note.succeeded of notes.\n`,
    })
    const left = await withStore((store) => new EventSubscriptions(store).all())
    expect(left.map(({ id }) => id)).toEqual([bob])
    expect(auditLines()).toEqual([
      expect.objectContaining({
        order: 'unsubscribe',
        subscription: ada,
        caller: 'ada',
        via: 'command_line',
      }),
    ])
  })

  it('drop refuses an id that is unknown, too short, or of several', async () => {
    const [ada = ''] = await subscribe('ada', 'bob')
    const unknown = await runEvents('subscriptions', 'drop', 'sub_nothing_at_all')
    expect(unknown.code).toBe(1)
    expect(unknown.text).toContain('no such subscription: "sub_nothing_at_all"')
    expect((await runEvents('subscriptions', 'drop', ada.slice(0, 9))).code).toBe(1)
    expect((await runEvents('subscriptions', 'drop', ada, '--principal', 'bob')).code).toBe(1)
    expect(await withStore((store) => new EventSubscriptions(store).all())).toHaveLength(2)
  })

  it('redeliver requests one event, those of a subscription, or all, and says which cannot be delivered', async () => {
    const [ada = '', bob = ''] = await subscribe('ada', 'bob')
    await giveUp(ada, 'ada', 'evt_1', 'evt_2')
    await giveUp(bob, 'bob', 'evt_3')
    await giveUp('sub_that_has_ended', 'bob', 'evt_4')
    expect((await runEvents('dead-letters')).text.match(/evt_\d/g)).toHaveLength(4)
    expect((await runEvents('dead-letters', ada)).text.match(/evt_\d/g)?.toSorted()).toEqual([
      'evt_1',
      'evt_2',
    ])
    const one = await runEvents('redeliver', ada, 'evt_2')
    expect([one.code, one.text]).toEqual([
      0,
      expect.stringContaining('Redelivery of 1 event requested: a running gateway begins within seconds.'),
    ])
    expect(await requested()).toEqual(['evt_2'])
    expect((await runEvents('redeliver', ada)).text).toContain('2 events')
    expect((await requested()).toSorted()).toEqual(['evt_1', 'evt_2'])
    const all = await runEvents('redeliver', '--all', '--json')
    expect(all.code).toBe(1)
    expect(JSON.parse(all.text)).toEqual({
      requested: expect.arrayContaining(['evt_1', 'evt_2', 'evt_3']),
      not_requested: 1,
    })
    expect((await requested()).toSorted()).toEqual(['evt_1', 'evt_2', 'evt_3'])
    expect(auditLines()[0]).toMatchObject({
      order: 'redeliver',
      subscription: ada,
      event_id: 'evt_2',
      caller: 'ada',
    })
  })

  it('redeliver refuses what is no dead letter', async () => {
    const [ada = ''] = await subscribe('ada')
    await giveUp(ada, 'ada', 'evt_1')
    const event = await runEvents('redeliver', ada, 'evt_9')
    expect([event.code, event.text]).toEqual([1, expect.stringContaining('no such dead letter: "evt_9"')])
    const subscription = await runEvents('redeliver', 'sub_nothing_at_all')
    expect([subscription.code, subscription.text]).toEqual([1, expect.stringContaining('no dead letters of')])
    expect(await requested()).toEqual([])
  })

  it.each([
    [['subscriptions', 'list'], 'use events subscriptions, or events subscriptions drop ID'],
    [['subscriptions', 'drop'], 'drop needs the id of a subscription'],
    [['redeliver'], 'give a subscription'],
    [['redeliver', 'sub_1', '--all'], 'give a subscription'],
    [['redeliver', 'a', 'b', 'c'], 'unexpected argument "c"'],
    [['dead-letters', '--all'], '--all is not an option of events dead-letters'],
  ])('%j is wrong usage', async (words, message) => {
    const { code, text } = await runEvents(...words)
    expect([code, text]).toEqual([2, expect.stringContaining(message)])
  })
})
