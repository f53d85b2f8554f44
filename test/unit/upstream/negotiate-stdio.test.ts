import { describe, expect, it } from 'vitest'
import { GatewayError } from '../../../src/core/error.ts'
import { MemoryStore } from '../../../src/store/memory.ts'
import type { Store } from '../../../src/store/store.ts'
import { StdioNegotiator } from '../../../src/upstream/negotiate-stdio.ts'
import { ProbeNotes } from '../../../src/upstream/probe-notes.ts'
import type { Route } from '../../../src/upstream/negotiate.ts'
import { handshakeParams, LegacyConnection } from '../../../src/upstream/protocol/legacy.ts'
import { ModernConnection } from '../../../src/upstream/protocol/modern.ts'
import { proofFor } from '../../../src/upstream/protocol/gateway-proof.ts'
import { Redactor, secretsOf } from '../../../src/core/text/redactor.ts'
import { createMessageRedactor } from '../../../src/upstream/transport/redactor.ts'
import type { OpenTransport, TransportReceiver } from '../../../src/upstream/transport/transport.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { serverSettings } from '../../support/server-settings.ts'
import { silentLog } from '../../support/silent-log.ts'

const pass = fakeClock()

type Message = Readonly<Record<string, unknown>> & { readonly id?: number; readonly method?: string }
type Body = Readonly<Record<string, unknown>> | 'end' | undefined

/** One process of a server: what it was sent, and what ends it. */
interface Instance {
  readonly sent: Message[]
  isStopped: boolean
  receiver: TransportReceiver
  say(body: Readonly<Record<string, unknown>>): void
}

interface Server {
  /** How long each process takes to read its input, in milliseconds. */
  readonly startsIn?: number
  /** The body of the answer to a message; `end` ends the process. */
  answer(message: Message, process: Instance): Body | Promise<Body>
}

const START_TIMEOUT_MS = 30_000
const settings = serverSettings({ startTimeout: START_TIMEOUT_MS })
const { reach } = settings
if (reach.kind !== 'command') throw new TypeError('a server that is started is needed')

const discovered = { result: { supportedVersions: ['2026-07-28'], capabilities: {}, resultType: 'complete' } }
const greeted = {
  result: { protocolVersion: '2025-06-18', capabilities: {}, serverInfo: { name: 'a', version: '1' } },
}
const unknown = { error: { code: -32601, message: 'Method not found' } }
const silent = undefined

function isProbe({ method }: Message): boolean {
  return method === 'server/discover'
}

/** An older server that answers the probe in this way. */
function older(probed: Body, more: Partial<Server> = {}): Server {
  return {
    answer: (message) => (isProbe(message) ? probed : message.method === 'initialize' ? greeted : undefined),
    ...more,
  }
}

function started(
  server: Server,
  store: Pick<Store, 'get' | 'put' | 'delete'> = new MemoryStore(),
  revision = 'follow',
) {
  const processes: Instance[] = []
  const connect: OpenTransport = async (receiver) => {
    const { startsIn } = server
    const isReady =
      startsIn === undefined ? Promise.resolve() : new Promise((resolve) => setTimeout(resolve, startsIn))
    const instance: Instance = {
      sent: [],
      isStopped: false,
      receiver,
      say: (body) => receiver.receive(JSON.stringify({ jsonrpc: '2.0', ...body })),
    }
    processes.push(instance)
    let turn: Promise<unknown> = isReady
    return {
      hasProvenance: false,
      send: (text) => {
        const message = JSON.parse(text) as Message
        instance.sent.push(message)
        turn = turn.then(async () => {
          if (instance.isStopped) return
          const body = await server.answer(message, instance)
          if (body === 'end') {
            instance.isStopped = true
            receiver.closed(new Error("The server's process exited with code 1."))
          } else if (body && message.id !== undefined) instance.say({ id: message.id, ...body })
        })
        return undefined
      },
      close: () => {
        instance.isStopped = true
        return Promise.resolve()
      },
    }
  }
  const stepTimeout = (): AbortSignal => {
    const controller = new AbortController()
    setTimeout(() => controller.abort(new DOMException('late', 'TimeoutError')), START_TIMEOUT_MS)
    return controller.signal
  }
  const notes = new ProbeNotes(store, reach as never, silentLog)
  const negotiator = new StdioNegotiator(
    { ...settings, revision },
    { connect, notes, stepTimeout, log: silentLog },
  )
  let counted = 0
  const pinned = revision === 'follow' ? {} : { revision }
  const negotiate = (capabilities = {}): Promise<Route> =>
    negotiator.negotiate(handshakeParams({ capabilities, ...pinned }), (start) => {
      counted++
      return start()
    })
  const open = (route: Route, capabilities = {}) => {
    const known = new Redactor()
    known.learn(secretsOf(settings))
    const redactor = createMessageRedactor(known)
    const context = {
      connect: route.connect,
      stepTimeout,
      redactor,
      log: silentLog,
      revision: route.revision,
    }
    const proof = proofFor(settings)
    return route.era === 'modern'
      ? ModernConnection.open({ ...context, mirrors: false, proof })
      : LegacyConnection.open({ ...context, capabilities, proof: () => proof })
  }
  return { processes, negotiate, open, store, counted: () => counted }
}

/** Lets time pass until a promise is settled: its value or its error, and after how many seconds. */
async function settled<Value>(
  promise: Promise<Value>,
): Promise<{ value?: Value; error?: string; after: number }> {
  let found: { value?: Value; error?: string } | undefined
  promise.then(
    (value) => void (found = { value }),
    (error: unknown) => void (found = { error: String(error) }),
  )
  for (let after = 0; after < 200; after += 0.25) {
    await pass(250)
    if (found) return { ...found, after }
  }
  throw new Error('it is not settled after 200 s')
}

describe('a server that is started', () => {
  it.each<[string, Server, 'legacy' | 'modern']>([
    ['refuses the probe', older(unknown), 'legacy'],
    [
      'refuses the probe without an id',
      older(silent, {
        answer: ({ method }, { say }) => {
          if (method === 'initialize') return greeted
          if (method === 'server/discover') say({ id: null, ...unknown })
          return undefined
        },
      }),
      'legacy',
    ],
    ['ignores the probe', older(silent), 'legacy'],
    [
      'answers the probe with older revisions',
      older({ result: { supportedVersions: ['2025-11-25'] } }),
      'legacy',
    ],
    ['answers the probe with something else', older({ result: {} }), 'legacy'],
    ['answers the probe with null', older({ result: null }), 'legacy'],
    ['answers the probe', { answer: () => discovered }, 'modern'],
    [
      'answers the probe with an error of 2026-07-28',
      {
        answer: (message, { sent }) =>
          sent.length > 1
            ? discovered
            : isProbe(message)
              ? { error: { code: -32022, message: '?', data: { supported: ['2026-07-28'] } } }
              : undefined,
      },
      'modern',
    ],
    ...[2, 10, 17, 25, 29].flatMap((seconds): [string, Server, 'legacy' | 'modern'][] => {
      const startsIn = seconds * 1000
      return [
        [`starts in ${seconds} s and refuses the probe`, older(unknown, { startsIn }), 'legacy'],
        [`starts in ${seconds} s and ignores the probe`, older(silent, { startsIn }), 'legacy'],
        [
          `starts in ${seconds} s and answers the probe`,
          { startsIn, answer: (message) => (isProbe(message) ? discovered : unknown) },
          'modern',
        ],
        [
          `starts in ${seconds} s and speaks both eras`,
          { startsIn, answer: (message) => (isProbe(message) ? discovered : greeted) },
          'modern',
        ],
      ]
    }),
    [
      'answers the probe after the handshake',
      {
        startsIn: 5000,
        answer: async (message) => {
          if (!isProbe(message)) return unknown
          await Promise.resolve()
          return discovered
        },
      },
      'modern',
    ],
  ])('that %s has one process, which serves its first connection', async (_what, server, era) => {
    const { processes, negotiate, open } = started(server)
    const { value: route, error } = await settled(negotiate())
    expect([error, route?.era]).toEqual([undefined, era])
    if (!route) return
    const connection = await open(route)
    expect([connection.era, processes.length]).toEqual([era, 1])
    const methods = processes[0]?.sent.map(({ method }) => method)
    // The handshake is not made twice.
    expect(methods?.filter((method) => method === 'initialize').length).toBeLessThan(2)
    await pass(100_000)
    expect([connection.isClosed, processes[0]?.isStopped]).toEqual([false, false])
  })

  it('gets a process of its own for each further connection', async () => {
    const { processes, negotiate, open } = started(older(unknown))
    const route = await negotiate()
    await open(route)
    await open(route)
    expect(processes.map(({ sent }) => sent.map(({ method }) => method))).toEqual([
      ['server/discover', 'initialize', 'notifications/initialized'],
      ['initialize', 'notifications/initialized'],
    ])
  })

  it('gets another process if it was greeted for another client', async () => {
    const { processes, negotiate, open } = started(older(unknown))
    const connection = await open(await negotiate(), { sampling: {} })
    expect(processes.map(({ isStopped }) => isStopped)).toEqual([true, false])
    expect(processes[1]?.sent[0]).toMatchObject({ params: { capabilities: { sampling: {} } } })
    expect(connection.isClosed).toBe(false)
  })

  it('is stopped if no connection takes it over in time', async () => {
    const { processes, negotiate } = started(older(unknown))
    await negotiate()
    await pass(START_TIMEOUT_MS)
    expect(processes[0]?.isStopped).toBe(true)
  })

  it('may answer the probe while its connection is open', async () => {
    const { processes, negotiate, open } = started(older(silent))
    const { value: route } = await settled(negotiate())
    const connection = await open(route as Route)
    const probe = processes[0]?.sent.find(isProbe)
    processes[0]?.say({ id: probe?.id, ...unknown })
    expect([connection.isClosed, connection.isBusy]).toEqual([false, false])
  })

  it('may send messages before its connection', async () => {
    const ping = { id: 'p', method: 'ping' }
    const log = { method: 'notifications/message', params: { level: 'info', data: 'hello' } }
    const { processes, negotiate, open } = started({
      answer: (message, { say }) => {
        if (message.method === 'initialize') {
          say(ping)
          say(log)
        }
        return older(unknown).answer(message, processes[0] as Instance)
      },
    })
    await open(await negotiate())
    expect(processes[0]?.sent).toContainEqual({ jsonrpc: '2.0', id: 'p', result: {} })
  })
})

describe('a process that the probe spoils', () => {
  it.each<[string, Server]>([
    ['ends', older('end')],
    ['ends after a slow start', older('end', { startsIn: 25_000 })],
    [
      'refuses the handshake then',
      {
        answer: (message, { sent }) => (isProbe(message) ? unknown : sent.some(isProbe) ? unknown : greeted),
      },
    ],
    [
      'refuses the handshake then, and is slow',
      {
        startsIn: 25_000,
        answer: (message, { sent }) => (isProbe(message) ? silent : sent.some(isProbe) ? unknown : greeted),
      },
    ],
    [
      'ends at the handshake then',
      { answer: (message, { sent }) => (isProbe(message) ? unknown : sent.some(isProbe) ? 'end' : greeted) },
    ],
  ])(
    'because it %s is followed by one that is not probed, which has the whole time; the store remembers it',
    async (_what, server) => {
      const store = new MemoryStore()
      for (const expected of [2, 1, 1]) {
        const { processes, negotiate, open } = started(server, store)
        const { value: route, error } = await settled(negotiate())
        expect([error, route?.era]).toEqual([undefined, 'legacy'])
        await open(route as Route)
        expect([processes.length, processes.at(-1)?.sent.some(isProbe)]).toEqual([expected, false])
      }
      // A later version of the server may be probed again.
      await pass(8 * 86_400_000)
      const { processes, negotiate } = started(server, store)
      await settled(negotiate())
      expect(processes).toHaveLength(2)
    },
  )

  it('is not remembered where its server ends anyway', async () => {
    const store = new MemoryStore()
    const { error } = await settled(started({ answer: () => 'end' }, store).negotiate())
    expect(error).toContain('exited with code 1')
    const { value } = await settled(started({ answer: () => discovered }, store).negotiate())
    expect(value?.era).toBe('modern')
  })

  it('is forgotten when its server refuses the handshake', async () => {
    const store = new MemoryStore()
    await settled(started(older('end'), store).negotiate())
    const now = started({ answer: (message) => (isProbe(message) ? discovered : unknown) }, store)
    await settled(now.negotiate())
    expect((await settled(now.negotiate())).value?.era).toBe('modern')
  })

  it('is probed in spite of a record of another version, or one that is damaged', async () => {
    for (const record of [
      '{"version":2,"spoiled":true}',
      'null',
      '[]',
      '{',
      '{"version":1,"spoiled":"yes"}',
      '""',
    ]) {
      const store = { get: async () => record, put: async () => undefined, delete: async () => true }
      const { processes, negotiate } = started({ answer: () => discovered }, store)
      await settled(negotiate())
      expect(processes[0]?.sent.some(isProbe)).toBe(true)
    }
  })

  it.each([
    ['fails', () => Promise.reject(new GatewayError('SERVER_UNAVAILABLE', 'The store is away.'))],
    ['never answers', () => new Promise<never>(() => undefined)],
  ])('is started all the same where the store %s', async (_what, act) => {
    const { negotiate } = started(older('end'), { get: act, put: act, delete: act })
    expect((await settled(negotiate())).value?.era).toBe('legacy')
  })
})

describe('a server that never answers', () => {
  it('fails after the start timeout, with one process', async () => {
    const { processes, negotiate } = started({ answer: () => silent })
    const { error, after } = await settled(negotiate())
    expect(error).toContain('did not respond in time')
    expect(Math.round(after)).toBe(30)
    expect(processes.map(({ isStopped }) => isStopped)).toEqual([true])
  })

  it('is not probed at the next attempt, as the probe may be the reason', async () => {
    const { processes, negotiate } = started({
      answer: (_message, { sent }) => (sent.some(isProbe) ? silent : greeted),
    })
    await settled(negotiate())
    expect((await settled(negotiate())).value?.era).toBe('legacy')
    expect(processes).toHaveLength(2)
  })
})

describe('a server that prints text in place of messages', () => {
  const verdict = new GatewayError('SERVER_UNAVAILABLE', 'The server does not speak MCP.')

  it('fails at once, and is heard when it answers later', async () => {
    const { processes, negotiate, open, counted } = started(older(unknown, { startsIn: 17_000 }))
    const first = negotiate()
    const told = first.catch(String)
    await pass(5000)
    processes[0]?.receiver.speaksNoJson?.(verdict)
    expect(await told).toContain('does not speak MCP')
    await expect(negotiate()).rejects.toThrow('does not speak MCP')
    await pass(12_500)
    const connection = await open(await negotiate())
    expect([connection.isClosed, processes.length, counted()]).toEqual([false, 1, 1])
  })

  it('is started again once it had the whole time', async () => {
    const { processes, negotiate } = started({ answer: () => silent })
    const first = negotiate()
    const told = first.catch(String)
    await pass(5000)
    processes[0]?.receiver.speaksNoJson?.(verdict)
    expect(await told).toContain('does not speak MCP')
    await pass(26_000)
    expect(processes[0]?.isStopped).toBe(true)
    void negotiate().catch(() => undefined)
    await pass(0)
    expect(processes).toHaveLength(2)
  })

  it('is not started a second time when it ends', async () => {
    const { processes, negotiate } = started({
      answer: (_message, { receiver }) => {
        receiver.speaksNoJson?.(verdict)
        return 'end'
      },
    })
    expect((await settled(negotiate())).error).toContain('does not speak MCP')
    await pass(1000)
    expect(processes).toHaveLength(1)
  })
})

describe('a server of a configured older revision', () => {
  const pinned = (server: Server) => started(server, new MemoryStore(), '2025-06-18')

  it('is not probed, and serves the connection with the process that was greeted', async () => {
    const { processes, negotiate, open } = pinned(older('end'))
    const connection = await open(await negotiate())
    expect([connection.revision, processes.length]).toEqual(['2025-06-18', 1])
    expect(processes[0]?.sent.map(({ method }) => method)).toEqual([
      'initialize',
      'notifications/initialized',
    ])
    expect(processes[0]?.sent[0]?.['params']).toMatchObject({ protocolVersion: '2025-06-18' })
  })

  it('fails at once if it prints text in place of messages', async () => {
    const { processes, negotiate } = pinned({ answer: () => silent })
    const told = negotiate().catch(String)
    await pass(1000)
    processes[0]?.receiver.speaksNoJson?.(new GatewayError('SERVER_UNAVAILABLE', 'It does not speak MCP.'))
    expect(await told).toContain('does not speak MCP')
    expect(processes[0]?.sent.map(({ method }) => method)).toEqual(['initialize'])
  })
})

it('the record of a spoiled process is read as it was written by version 1', async () => {
  const kept = new Map([
    ['probe:0zYv4YsnyjjsFVgIiXn_aY2_aEYqhV8brVcet4UKo0A', '{"version":1,"spoiled":true}'],
  ])
  const store = {
    get: async (key: string) => kept.get(key),
    put: async (key: string, value: string) => void kept.set(key, value),
    delete: async (key: string) => kept.delete(key),
  }
  const { processes, negotiate } = started(older('end'), store)
  await settled(negotiate())
  expect([processes.length, kept.size]).toEqual([1, 1])
  kept.clear()
  await settled(started(older('end'), store).negotiate())
  expect([...kept.values()]).toEqual(['{"version":1,"spoiled":true}'])
})
