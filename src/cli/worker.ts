/**
 * A worker: one of several processes that serve as one gateway, started by a supervisor (`supervisor.ts`). It is told its place by a
 * variable of its environment, and exchanges messages with the supervisor over the channel of `node:cluster`, which also hands
 * it the connections of the shared port. Without its supervisor it ends at once: Node.js does that.
 */
import { writeSync } from 'node:fs'
import { createServer } from 'node:net'
import { Writable } from 'node:stream'
import { isObject, readJson } from '../core/json/json.ts'
import { within } from '../core/time/waiting.ts'
import type { Collected, OtherWorkers, Snapshot } from '../observability/worker-metrics.ts'
import { batched, type Bound, type Io, type Place, type Worker } from './io.ts'

/** The variable of its environment by which a worker is told its place. */
export const PLACE_VARIABLE = 'GATEHOUSE_WORKER'

/** What a supervisor tells a worker. */
export type ToWorker =
  | { readonly type: 'stop' }
  /** Asks what it counts. */
  | { readonly type: 'collect'; readonly id: number }
  /** What the others count, as it asked. */
  | ({ readonly type: 'collected'; readonly id: number } & Collected)

/** What a worker tells its supervisor. */
export type FromWorker =
  | { readonly type: 'serving'; readonly bound: Bound }
  | { readonly type: 'collect'; readonly id: number; readonly own: Snapshot }
  | { readonly type: 'snapshot'; readonly id: number; readonly snapshot: Snapshot }

/** How long a worker waits for what the others count, in milliseconds: longer than its supervisor waits for them. */
const COLLECT_TIMEOUT_MS = 3000

/** The process of a command as a worker, if it is one. */
export function workerIo(io: Io): (Io & { readonly worker: Worker }) | undefined {
  const place = placeIn(io.env[PLACE_VARIABLE])
  if (!place || !process.send) return undefined
  const { [PLACE_VARIABLE]: _place, ...env } = io.env
  const channel = new Channel(place.count)
  const worker: Worker = {
    ...place,
    metrics: channel,
    freePort,
    serving: (bound) => channel.send({ type: 'serving', bound }),
    leave: async () => {
      const { default: cluster } = await import('node:cluster')
      cluster.worker?.disconnect()
    },
  }
  return Object.create(io, {
    env: { value: env },
    worker: { value: worker },
    log: { value: batched((lines) => inPieces(lines).forEach((piece) => writeSync(STDERR, piece))) },
    ...(!place.isFirst && { stdout: { value: nowhere() } }),
    untilStopped: {
      value: (onHangUp?: boolean) => Promise.race([io.untilStopped(onHangUp), channel.stopped]),
    },
  })
}

function placeIn(text: string | undefined): Place | undefined {
  const place = text === undefined ? undefined : readJson(text)
  if (!isObject(place)) return undefined
  const { number, count, isFirst, bound } = place
  if (typeof number !== 'number' || typeof count !== 'number') return undefined
  const isBound = isObject(bound) && typeof bound.host === 'string' && typeof bound.port === 'number'
  return {
    number,
    count,
    isFirst: isFirst === true,
    ...(isBound && { bound: { host: String(bound.host), port: Number(bound.port) } }),
  }
}

/** Finds a port that is free. @throws the system error if the host is not an address of this machine */
function freePort(host: string): Promise<number> {
  const server = createServer()
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    // Exclusive: of this process alone, without its supervisor.
    server.listen({ host, port: 0, exclusive: true }, () => {
      const address = server.address()
      const port = typeof address === 'object' && address ? address.port : 0
      server.close(() => resolve(port))
    })
  })
}

/** The messages with the supervisor. */
class Channel implements OtherWorkers {
  /** Resolves when the supervisor requests the end. */
  readonly stopped: Promise<void>
  readonly #waiting = new Map<number, (collected: Collected) => void>()
  #asked = 0
  #snapshot: (() => Promise<Snapshot>) | undefined
  /** What was collected last, for when the supervisor does not answer. */
  #known: Collected

  constructor(count: number) {
    this.#known = { answers: [], past: [], silent: count - 1 }
    this.stopped = new Promise((resolve) => {
      // Both ends of the channel are of this program.
      process.on('message', (message: ToWorker) => {
        if (message.type === 'stop') resolve()
        else if (message.type === 'collect') this.#answer(message.id)
        else this.#waiting.get(message.id)?.(message)
      })
    })
  }

  async collect(own: Snapshot): Promise<Collected> {
    const id = ++this.#asked
    const collected = new Promise<Collected>((resolve) => this.#waiting.set(id, resolve))
    this.send({ type: 'collect', id, own })
    const found = await within(collected, COLLECT_TIMEOUT_MS, this.#known)
    this.#waiting.delete(id)
    const { answers, past, silent } = found
    const sums = answers.map((each) => each.sums)
    this.#known = { answers: [], past: [...sums, ...past], silent: silent + answers.length }
    return found
  }

  answerWith(snapshot: () => Promise<Snapshot>): void {
    this.#snapshot = snapshot
  }

  send(message: FromWorker): void {
    // Without a supervisor, the process is about to end.
    if (process.connected) process.send?.(message, undefined, undefined, () => undefined)
  }

  #answer(id: number): void {
    this.#snapshot?.().then(
      (snapshot) => this.send({ type: 'snapshot', id, snapshot }),
      // It counts as one that did not answer.
      () => undefined,
    )
  }
}

const STDERR = 2
/** What one write to a pipe puts there in one piece, in bytes, also while others write to it (PIPE_BUF). */
const MAX_PIECE_BYTES = 4096

/** Splits lines into texts that are written in one piece, so that lines of other workers are never in the middle of one. */
export function inPieces(lines: string): readonly string[] {
  const pieces: string[] = []
  let piece = ''
  let size = 0
  for (const line of lines.split(/(?<=\n)/)) {
    const length = Buffer.byteLength(line)
    if (size > 0 && size + length > MAX_PIECE_BYTES) {
      pieces.push(piece)
      piece = ''
      size = 0
    }
    piece += line
    size += length
  }
  return piece === '' ? pieces : [...pieces, piece]
}

/** What further workers would print: the first one printed it. */
function nowhere(): Writable {
  return new Writable({ write: (_chunk, _encoding, done) => done() })
}
