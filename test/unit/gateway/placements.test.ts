// Who runs a server that runs in one of several processes, in virtual time.
import { EventEmitter } from 'node:events'
import { Readable } from 'node:stream'
import { beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import type { Call, Handler } from '../../../src/core/call.ts'
import { GatewayError } from '../../../src/core/error.ts'
import { Payload } from '../../../src/core/payload.ts'
import type { OwnRequest } from '../../../src/downstream/http/hop/forwarder.ts'
import type { LineReceiver } from '../../../src/downstream/http/hop/request.ts'
import { createMembership } from '../../../src/durable/members.ts'
import { Placements } from '../../../src/gateway/placements.ts'
import { ownCall } from '../../../src/protocol/lift.ts'
import { MemoryStore } from '../../../src/store/memory.ts'
import { encodeCall, type Line, readLine } from '../../../src/upstream/placement/messages.ts'
import type { PlacedServer, Placement } from '../../../src/upstream/placement/placement.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { serverSettings } from '../../support/server-settings.ts'
import { silentLog } from '../../support/silent-log.ts'

const pass = fakeClock()
const settings = serverSettings({
  reach: { kind: 'command', command: 'x', args: [], env: {} },
  isPlacedOnce: true,
})

/** What one process did with the server, in the order of all processes. */
let history: string[] = []
let processes = new Map<string, Process>()
let store = new MemoryStore()
beforeEach(() => {
  history = []
  processes = new Map()
  store = new MemoryStore()
})

interface Process {
  readonly placements: Placements
  readonly placement: Placement
  readonly id: string
  server: { inFlight: number; relayed: Handler }
  /** Cut off, it reaches nobody, and nobody reaches it. */
  isCut: boolean
}

/** The response to another process, as far as placements use it. */
class Outgoing extends EventEmitter {
  headersSent = false
  destroyed = false
  writableLength = 0
  status = 0
  readonly #receiver: LineReceiver
  constructor(receiver: LineReceiver) {
    super()
    this.#receiver = receiver
  }
  writeHead(status: number): this {
    this.headersSent = true
    this.status = status
    return this
  }
  flushHeaders(): void {}
  write(text: string): void {
    this.#receiver.line(text.trimEnd())
  }
  end(): void {
    if (!this.destroyed) this.#receiver.ended(this.status === 200 ? 'answered' : 'moved')
    this.destroyed = true
  }
  destroy(): void {
    if (this.destroyed) return
    this.destroyed = true
    this.#receiver.ended('lost')
    this.emit('close')
  }
}

async function startProcess(name: string): Promise<Process> {
  const fleet = createMembership(() => store)
  const details = { version: '1', host: name, pid: 1, since: 0, state: 'serving' } as const
  await fleet.describe({ ...details, address: 'unix:/x' })
  const ask = (to: { readonly id: string }, request: OwnRequest, receiver: LineReceiver): (() => void) => {
    const target = processes.get(to.id)
    if (!target || target.isCut || self.isCut) {
      receiver.ended('unreached')
      return () => undefined
    }
    const outgoing = new Outgoing(receiver)
    const incoming = Readable.from([Buffer.from(request.body)])
    type Serve = Parameters<Placements['serve']>
    const [given, answer] = [incoming, outgoing] as unknown as Serve
    target.placements.serve(given, answer, request.decision)
    return () => outgoing.destroy()
  }
  const forwarder = { ask, close: async () => undefined }
  const placements = new Placements({ store: () => store, fleet, forwarder, log: silentLog })
  const placement = placements.of(settings) ?? expect.unreachable()
  const relayed: Handler = async () => ({ kind: 'result', result: Payload.of({ from: name }) })
  const self: Process = {
    placements,
    placement,
    id: fleet.id,
    server: { inFlight: 0, relayed },
    isCut: false,
  }
  const server: PlacedServer = {
    relayed: (call) => self.server.relayed(call),
    get inFlight() {
      return self.server.inFlight
    },
    leave: async (isByForce) => void history.push(`${name} ${isByForce ? 'kills' : 'ends'} it`),
    follow: async () => {
      const { kind } = await placement.find()
      history.push(`${name}: ${kind}`)
    },
    restart: async () => void history.push(`${name} restarts it`),
    onChanged: () => undefined,
  }
  const release = placement.serve(server)
  processes.set(fleet.id, self)
  onTestFinished(async () => {
    await placements.close()
    await release()
    await fleet.close()
  })
  return self
}

/** Has a process send a call to where the server is. */
async function called({ placement }: Process): Promise<readonly Line[] | string> {
  const place = await placement.find()
  if (place.kind === 'here') return 'here'
  const call: Call = ownCall({ method: 'tools/call', target: { upstream: 'one', method: 'tools/call' } })
  const lines: Line[] = []
  return new Promise((resolve) => {
    place.send(
      { principal: call.principal, requestId: call.requestId, text: encodeCall(call), isLasting: false },
      {
        line: (text) => void lines.push(readLine(text) ?? expect.unreachable()),
        ended: (how) => resolve(how === 'answered' ? lines : how),
      },
      new AbortController().signal,
    )
  })
}

describe('a server that runs in one process', () => {
  it('runs where it is needed first; calls of the others are answered there', async () => {
    const [one, other] = [await startProcess('one'), await startProcess('other')]
    expect(await called(one)).toBe('here')
    expect(await called(other)).toMatchObject([
      { kind: 'outcome', outcome: { kind: 'result', result: { fields: { from: 'one' } } } },
    ])
    expect(other.placement.current).toMatchObject({ kind: 'there', process: one.id })
  })

  it('is found by processes that look for it at the same time', async () => {
    const all = [await startProcess('one'), await startProcess('two'), await startProcess('three')]
    const places = await Promise.all(all.map(({ placement }) => placement.find()))
    expect(places.map(({ kind }) => kind).toSorted()).toEqual(['here', 'there', 'there'])
  })

  it('is found by a process that reads the claim before the one that made it knows', async () => {
    const [one, other] = [await startProcess('one'), await startProcess('other')]
    const isRead = Promise.withResolvers<void>()
    const real = store.setIfAbsent.bind(store)
    vi.spyOn(store, 'setIfAbsent').mockImplementationOnce(async (...given) => {
      const written = await real(...given)
      await isRead.promise
      return written
    })
    const finding = [one, other].map(({ placement }) => placement.find())
    await pass(100)
    isRead.resolve()
    expect((await Promise.all(finding)).map(({ kind }) => kind)).toEqual(['here', 'there'])
  })

  it('is not asked for in the store by calls', async () => {
    const [one, other] = [await startProcess('one'), await startProcess('other')]
    await one.placement.find()
    await other.placement.find()
    const reads = vi.spyOn(store, 'get')
    for (let index = 0; index < 5; index++) await called(other)
    expect(reads).not.toHaveBeenCalled()
  })

  it('is killed by a process that cannot renew its lease before another one can start it', async () => {
    const [one, other] = [await startProcess('one'), await startProcess('other')]
    await one.placement.find()
    await other.placement.find()
    one.isCut = true
    const real = store.compareAndSwap.bind(store)
    vi.spyOn(store, 'compareAndSwap').mockImplementation((key, ...rest) =>
      key.startsWith('lease-alive:') && history.length === 0
        ? Promise.reject(new GatewayError('SERVER_UNAVAILABLE', 'away'))
        : real(key, ...rest),
    )
    await pass(20_000)
    const [kills, starts] = ['one kills it', 'other: here'].map((each) => history.indexOf(each))
    expect(kills).toBeGreaterThan(-1)
    expect(starts).toBeGreaterThan(kills ?? 0)
    expect(one.placement.current?.kind).not.toBe('here')
  })

  it('moves at once when its process leaves, after the calls in progress', async () => {
    const [one, other] = [await startProcess('one'), await startProcess('other')]
    await one.placement.find()
    await other.placement.find()
    one.server.inFlight = 1
    const leaving = one.placements.leave()
    await pass(1000)
    expect(await called(other)).toBe('moved')
    await expect(other.placement.find()).rejects.toMatchObject({ extra: { isUnsent: true } })
    expect(history).not.toContain('other: here')
    one.server.inFlight = 0
    await pass(100)
    await leaving
    await pass(1000)
    const [ends, starts] = ['one ends it', 'other: here'].map((each) => history.indexOf(each))
    expect(ends).toBeGreaterThan(-1)
    expect(starts).toBeGreaterThan(ends ?? 0)
  })

  it('does not wait longer for a call in progress than a gateway may take to end', async () => {
    const one = await startProcess('one')
    await one.placement.find()
    one.server.inFlight = 1
    const leaving = one.placements.leave()
    await pass(10_100)
    await leaving
    expect(history).toContain('one ends it')
  })

  it('is restarted where it runs', async () => {
    const [one, other] = [await startProcess('one'), await startProcess('other')]
    await one.placement.find()
    const place = await other.placement.find()
    if (place.kind !== 'there') return expect.unreachable()
    await place.restart()
    expect(history).toEqual(['one restarts it'])
  })

  it('is nowhere while the store does not answer, and who asks learns that in time', async () => {
    const one = await startProcess('one')
    vi.spyOn(store, 'get').mockImplementation(() => new Promise(() => undefined))
    const finding = one.placement.find().catch((error: unknown) => error)
    await pass(5001)
    expect(await finding).toMatchObject({ code: 'SERVER_UNAVAILABLE', extra: { isUnsent: true } })
  })

  it('gets nothing that is no call', async () => {
    const [one, other] = [await startProcess('one'), await startProcess('other')]
    await one.placement.find()
    const place = await other.placement.find()
    if (place.kind !== 'there') return expect.unreachable()
    const ended = await new Promise((resolve) => {
      const message = { principal: { id: 'a' }, requestId: 'r', text: 'null', isLasting: false }
      const receiver = { line: () => expect.unreachable(), ended: resolve }
      place.send(message, receiver, new AbortController().signal)
    })
    expect(ended).toBe('moved')
    const { isPlacedOnce: _once, ...usual } = settings
    expect(one.placements.of(usual)).toBeUndefined()
  })
})
