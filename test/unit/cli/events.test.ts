import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { entryLine, entryView, Tail, type TailEntry } from '../../../src/cli/event-tail.ts'
import { jsonLine } from '../../../src/cli/output.ts'
import { loggedTypes, typeLines, typesView } from '../../../src/cli/event-types.ts'
import { storeAlone } from '../../../src/cli/config-file.ts'
import { run } from '../../../src/cli/run.ts'
import { openSharedStore } from '../../../src/gateway/offline.ts'
import { AppendLog } from '../../../src/durable/log.ts'
import {
  LISTENING_BEGAN,
  LOGGING_BEGAN,
  type LoggedEvent,
  openEventLog,
} from '../../../src/records/logged-events.ts'
import { MemoryStore } from '../../../src/store/memory.ts'
import type { Store } from '../../../src/store/store.ts'
import { memoryIo } from '../../support/memory-io.ts'
import { silentLog } from '../../support/silent-log.ts'

const at = Date.UTC(2026, 10, 21, 12)
const DAY_MS = 86_400_000

function event(id: string, given: Partial<LoggedEvent> = {}): LoggedEvent {
  return { id, name: 'add_note.succeeded', at, data: { text: id }, ...given }
}

const began = (given: Partial<LoggedEvent> = {}) =>
  event('began', { name: LISTENING_BEGAN, data: {}, ...given })

function logIn(store: Store, upstream: string | undefined) {
  return { upstream, log: openEventLog(store, upstream, { ttl: DAY_MS, isShared: true }) }
}

async function all(entries: AsyncIterable<TailEntry>): Promise<TailEntry[]> {
  const found: TailEntry[] = []
  for await (const entry of entries) found.push(entry)
  return found
}

function namesOf(entries: readonly TailEntry[]): string[] {
  return entries.map((entry) => (entry.kind === 'event' ? entry.event.id : entry.why))
}

describe('the tail of event logs', () => {
  it('has the events of all logs by time, and those of one log in their order', async () => {
    const store = new MemoryStore()
    const [one, two, own] = [logIn(store, 'one'), logIn(store, 'two'), logIn(store, undefined)]
    await one.log.append([event('a', { at: at + 1 }), event('b', { at: at + 5 }), event('c', { at: at + 4 })])
    await two.log.append([event('d', { at: at + 3 })])
    await own.log.append([event('e', { at: at + 2 })])
    const found = await all(new Tail([one, two, own]).entries())
    expect(namesOf(found)).toEqual(['a', 'e', 'd', 'b', 'c'])
    expect(found.map(({ upstream }) => upstream)).toEqual(['one', undefined, 'two', 'one', 'one'])
  })

  it('reads logs of many pages to the end, and past values that are no events', async () => {
    const store = new MemoryStore()
    const one = logIn(store, 'one')
    const ids = Array.from({ length: 450 }, (_each, index) => `e${index}`)
    for (const id of ids) await one.log.append([event(id)])
    await one.log.append(Array.from({ length: 201 }, () => ({ of: 'another program' })))
    await one.log.append([event('last')])
    expect(namesOf(await all(new Tail([one]).entries()))).toEqual([...ids, 'last'])
  })

  it('does not begin a log that no gateway uses', async () => {
    const store = new MemoryStore()
    const none = logIn(store, 'none')
    expect(await all(new Tail([none]).entries())).toEqual([])
    expect(await none.log.hasBegun()).toBe(false)
  })

  it('follows what is added, also to a log that begins later, and ends with the signal', async () => {
    const store = new MemoryStore()
    const [one, two] = [logIn(store, 'one'), logIn(store, 'two')]
    await one.log.append([event('a')])
    const stopping = new AbortController()
    const rounds = [
      () => two.log.append([event('b')]),
      () => one.log.append([event('c')]),
      async () => stopping.abort(),
    ]
    const found = await all(
      new Tail([one, two]).follow(stopping.signal, async () => void (await rounds.shift()?.())),
    )
    expect(namesOf(found)).toEqual(['a', 'b', 'c'])
    expect(rounds).toEqual([])
  })

  it('says where events were dropped before they could be read', async () => {
    const log = new AppendLog(new MemoryStore(), 'small', { maxEntries: 2, maxBytes: 10_000, ttl: DAY_MS })
    const stopping = new AbortController()
    await log.append([event('a')])
    const rounds = [
      async () => {
        for (const id of ['b', 'c', 'd', 'e']) await log.append([event(id, { at: at + 9 })])
      },
      async () => stopping.abort(),
    ]
    const tail = new Tail([{ upstream: 'one', log }])
    const found = await all(tail.follow(stopping.signal, async () => rounds.shift()?.()))
    expect(namesOf(found)).toEqual(['a', 'dropped', 'd', 'e'])
    expect(found[1]).toMatchObject({ at: at + 9 })
  })
})

describe('events as text', () => {
  const logged: TailEntry = { kind: 'event', upstream: 'notes', event: event('evt_1', { by: 'ab12' }) }
  const entries: readonly TailEntry[] = [
    logged,
    { kind: 'event', upstream: undefined, event: event('evt_2', { name: 'server_down', data: {} }) },
    { kind: 'gap', upstream: 'notes', why: 'dropped', at },
    { kind: 'gap', upstream: 'notes', why: 'dropped', at: undefined },
    { kind: 'gap', upstream: 'notes', why: 'not_wanted', at },
    { kind: 'gap', upstream: 'notes', why: 'not_listening', at },
    { kind: 'gap', upstream: 'notes', why: 'not_listening', at, uri: 'note:1' },
  ]

  it('each event and each gap is one line', () => {
    expect(entries.map(entryLine)).toEqual([
      '2026-11-21T12:00:00Z  notes  add_note.succeeded  {"text":"evt_1"}',
      '2026-11-21T12:00:00Z  gateway  server_down  {}',
      '2026-11-21T12:00:00Z  notes  -- events before this were dropped before they could be read',
      'from now on  notes  -- events before this were dropped before they could be read',
      '2026-11-21T12:00:00Z  notes  -- no client requested events before this: they were not kept',
      '2026-11-21T12:00:00Z  notes  -- listening began: changes of lists that the server notified before this may be missing',
      '2026-11-21T12:00:00Z  notes  -- listening began: updates of note:1 that the server notified before this may be missing',
    ])
  })

  it('the JSON has all of each', () => {
    const time = '2026-11-21T12:00:00.000Z'
    const type = 'add_note.succeeded'
    expect(entries.map((entry): unknown => JSON.parse(jsonLine(entryView(entry))))).toEqual([
      { server: 'notes', id: 'evt_1', type, at: time, by: 'ab12', data: { text: 'evt_1' } },
      { server: null, id: 'evt_2', type: 'server_down', at: time, data: {} },
      { server: 'notes', gap: 'dropped', at: time },
      { server: 'notes', gap: 'dropped' },
      { server: 'notes', gap: 'not_wanted', at: time },
      { server: 'notes', gap: 'not_listening', at: time },
      { server: 'notes', gap: 'not_listening', at: time, uri: 'note:1' },
    ])
  })

  it('long data is cut on a line, and whole in JSON', () => {
    const long: TailEntry = { ...logged, event: event('x'.repeat(5000)) }
    expect(entryLine(long).length).toBeLessThan(600)
    expect(entryLine(long)).toContain('characters)')
    expect(jsonLine(entryView(long))).toContain('x'.repeat(5000))
  })

  it('text of callers and servers never starts a line of its own', () => {
    const hostile = 'x\n\u001b[2Kall is well\u202e'
    const bad: TailEntry = {
      kind: 'event',
      upstream: hostile,
      event: event('e', { name: hostile, data: { [hostile]: hostile } }),
    }
    const gap: TailEntry = { kind: 'gap', upstream: hostile, why: 'not_listening', at, uri: hostile }
    for (const entry of [bad, gap])
      for (const text of [entryLine(entry), jsonLine(entryView(entry))]) expect(text).not.toMatch(/\p{C}/u)
  })

  it('types are listed with their source, their delivery and what is in the store', async () => {
    const store = new MemoryStore()
    const notes = logIn(store, 'notes')
    await notes.log.append([
      event('a'),
      event('b', { at: at + 60_000 }),
      event('c', { name: 'gone.succeeded' }),
      began(),
    ])
    const logged = await loggedTypes([notes])
    const type = { description: 'Added.', source: 'writes', delivery: ['poll', 'push'] }
    const offered = {
      upstream: 'notes',
      types: [
        { ...type, name: 'add_note.succeeded' },
        { ...type, name: 'tools_changed', source: 'notifications' },
      ],
    }
    expect(typeLines(offered, logged)).toEqual([
      'notes',
      '  type                source                delivery    logged  last',
      '  add_note.succeeded  writes                poll, push  2       2026-11-21T12:01:00Z',
      '  tools_changed       notifications         poll, push  0       -',
      '  gone.succeeded      not offered any more  -           1       2026-11-21T12:00:00Z',
    ])
    expect(typeLines(offered, undefined)[1]).toBe('  type                source         delivery')
    expect(typesView(offered, logged)).toEqual({
      server: 'notes',
      types: [
        {
          ...type,
          name: 'add_note.succeeded',
          is_offered: true,
          logged: 2,
          last_at: '2026-11-21T12:01:00.000Z',
        },
        { ...type, name: 'tools_changed', source: 'notifications', is_offered: true, logged: 0 },
        { name: 'gone.succeeded', is_offered: false, logged: 1, last_at: '2026-11-21T12:00:00.000Z' },
      ],
    })
  })

  it('the gateway itself is left out of the text if it has no events', () => {
    const none = { upstream: undefined, types: [] }
    expect(typeLines(none, undefined)).toEqual([])
    expect(typeLines({ upstream: 'notes', types: [], problem: 'it is\ndown' }, undefined)).toEqual([
      'notes',
      String.raw`  it is\ndown`,
    ])
  })
})

describe('gatehouse events', () => {
  let folder: string
  let store: string

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'gatehouse-events-'))
    store = join(folder, 'store')
    mkdirSync(store)
  })

  afterEach(() => {
    rmSync(folder, { recursive: true })
  })

  async function append(upstream: string | undefined, events: readonly LoggedEvent[]): Promise<void> {
    const opened = await openSharedStore(storeAlone(store, memoryIo()), silentLog)
    await openEventLog(opened, upstream, { ttl: DAY_MS, isShared: true }).append(events)
    await opened.close()
  }

  async function runEvents(...words: string[]): Promise<{ readonly code: number; readonly text: string }> {
    const io = memoryIo()
    const code = await run(['events', ...words], io)
    return { code, text: io.written.stdout + io.written.stderr }
  }

  function config(more = ''): string {
    const file = join(folder, 'gateway.config.yaml')
    writeFileSync(file, `store: ${store}\n${more}upstreams: { one: { command: x }, two: { command: x } }\n`)
    return file
  }

  it('tail prints the events of one server, or of all and of the gateway', async () => {
    await append('one', [event('a', { at: at + 1 })])
    await append('two', [event('b', { at: at + 2 })])
    await append(undefined, [event('c', { at: at + 3 })])
    const file = config()
    const idsIn = (text: string): unknown[] => text.match(/(?<="text":")\w+/g) ?? []
    const everything = await runEvents('tail', '--config', file)
    expect(everything.code).toBe(0)
    expect(idsIn(everything.text)).toEqual(['a', 'b', 'c'])
    expect(idsIn((await runEvents('tail', 'two', '--config', file)).text)).toEqual(['b'])
    expect(idsIn((await runEvents('tail', 'two', '--store', store)).text)).toEqual(['b'])
    const json = (await runEvents('tail', '--json', '--config', file)).text.trim().split('\n')
    expect(json.map((line) => JSON.parse(line).id)).toEqual(['a', 'b', 'c'])
  })

  it('tail takes a type with *, and a time', async () => {
    const now = Date.now()
    await append('one', [
      event('old', { at: now - 3_600_000 }),
      event('new', { at: now - 1000 }),
      event('other', { at: now - 500, name: 'tools_changed', data: {} }),
      began({ at: now - 3_600_000 }),
      event('wanted', { name: LOGGING_BEGAN, at: now - 3_600_000 }),
    ])
    const of = async (...words: string[]) => (await runEvents('tail', 'one', '--store', store, ...words)).text
    expect((await of('--type', '*.succeeded')).match(/"text":"\w+"/g)).toEqual([
      '"text":"old"',
      '"text":"new"',
    ])
    const withGaps = await of('--type', '*.succeeded')
    expect(withGaps).toContain('-- listening began')
    expect(withGaps).toContain('-- no client requested events')
    expect((await of('--since', '10m')).match(/\w+(?=  \{)/g)).toEqual(['succeeded', 'tools_changed'])
    expect(await of('--since', '10m', '--type', 'nothing')).toBe('No events.\n')
    expect(await of('--since', '10m', '--type', 'nothing', '--json')).toBe('')
  })

  it('tail prints the events of a server that was removed from the configuration, and refuses an unknown one', async () => {
    await append('removed', [event('a')])
    const file = config()
    expect((await runEvents('tail', 'removed', '--config', file)).text).toContain('"text":"a"')
    expect(await runEvents('tail', 'tow', '--config', file)).toEqual({
      code: 2,
      text: 'gatehouse: no server is named "tow"; did you mean two?; there are one, two. Run gatehouse events --help\n',
    })
    expect(await runEvents('tail', 'one', '--config', file)).toEqual({ code: 0, text: 'No events.\n' })
  })

  it('a store in memory is not read', async () => {
    const file = join(folder, 'memory.yaml')
    writeFileSync(file, 'store: memory\nupstreams: { a: { command: x } }\n')
    const { code, text } = await runEvents('tail', '--config', file)
    expect(code).toBe(1)
    expect(text).toContain('store: memory exists only inside the process of the gateway')
  })

  it.each([
    [[], 'use gatehouse events list, tail, subscriptions, dead-letters or redeliver'],
    [['tial'], 'dead-letters or redeliver; did you mean tail?'],
    [['list', '--follow'], '--follow is not an option of events list'],
    [['list', 'a', 'b'], 'unexpected argument "b"'],
    [['tail', '--store', 'x'], 'with --store, give the name of a server'],
    [['tail', '--store', 'x', '--config', 'y'], 'give either --config or --store'],
    [['tail', '--since', 'soon'], '--since must be a duration such as 10m'],
    [['tail', '--since', '2999-01-01'], '--since is in the future'],
    [['tail', '--typ', 'x'], "Unknown option '--typ'; did you mean --type?"],
  ])('%j is wrong usage', async (words, message) => {
    mkdirSync(join(folder, 'x'))
    const { code, text } = await runEvents(...words.map((word) => (word === 'x' ? join(folder, 'x') : word)))
    expect([code, text]).toEqual([2, expect.stringContaining(message)])
  })
})
