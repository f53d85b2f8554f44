// What becomes of calls whose gateway is killed: a client repeats each call whose connection breaks, with the same arguments
// and the same idempotency key, and the server counts how often each was carried out.
import { readFileSync, writeFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { parseJson } from '../../../src/core/json/read.ts'
import { callTool, NoResult, openSession, type Session } from './client.ts'
import { PLAIN_WRITE } from './effects.ts'
import type { Gateway } from './gateway.ts'
import { setUp, startServer, type RunningGateway } from './running.ts'

/** What kills of one gateway led to. Numbers are of calls, but for `kills`. */
export interface KillRow {
  readonly gateway: string
  readonly kills: number
  readonly calls: number
  /** Carried out more than once. */
  readonly repeated: number
  /** Answered with success, but never carried out. */
  readonly lost: number
  /** Answered with an error at last, such as that the outcome is not known. */
  readonly failed: number
  /** Of those, the ones that had been carried out. */
  readonly failedButDone: number
  /** The first of those errors. */
  readonly error?: string
}

const WORKERS = 8
const CALL_LIMIT_MS = 20_000
const RETRY_MS = 20
/** How often a call is repeated that is answered with an error of the protocol, as while a gateway connects to its server. */
const MAX_ERRORS = 100
/** How many answers a gateway gives between two kills. */
const ANSWERS_BETWEEN = 40
const MAX_WAIT_MS = 10_000
/** How long the last calls are repeated after the last kill. */
const END_LIMIT_MS = 60_000

type End = { readonly ok: true } | { readonly ok: false; readonly error: string }

/** Kills a gateway several times under load, and starts it again. */
export async function measureKills(gateway: Gateway, folder: string, kills: number): Promise<KillRow> {
  const { running, file, stop } = await startWithEffects(gateway, folder, [])
  const ends = new Map<string, End>()
  const until = new AbortController()
  const givenUp = new AbortController()
  try {
    const probe = 'read_file'
    await running.start(probe)
    let next = 0
    const worker = async (): Promise<void> => {
      const client = new RetryingClient(running, givenUp.signal)
      while (!until.signal.aborted) {
        const text = `note-${next++}`
        ends.set(text, await client.call(text))
      }
    }
    const workers = Promise.all(Array.from({ length: WORKERS }, worker))
    // What fails meanwhile is thrown below.
    workers.catch(() => undefined)
    for (let kill = 0; kill < kills; kill++) {
      const before = ends.size
      const limit = performance.now() + MAX_WAIT_MS
      while (ends.size < before + ANSWERS_BETWEEN && performance.now() < limit) await pause(1)
      await running.kill()
      await running.start(probe)
    }
    until.abort()
    const limit = setTimeout(() => givenUp.abort(), END_LIMIT_MS)
    await workers.finally(() => clearTimeout(limit))
  } finally {
    until.abort()
    givenUp.abort()
    await stop()
  }
  return rowOf(gateway.name, kills, ends, executions(file))
}

/** Starts a server with effects and sets up the gateway in front of it. Lines of the file are executions. */
export async function startWithEffects(gateway: Gateway, folder: string, args: readonly string[]) {
  const file = `${folder}-effects.jsonl`
  writeFileSync(file, '')
  const server = await startServer('gateways/effects-server.ts', [file, ...args], gateway.transport)
  const running = await setUp(gateway, folder, server.upstream, 'read_file').catch(async (error: unknown) => {
    await server.serving?.stop()
    throw error
  })
  const stop = async (): Promise<void> => {
    await running.stop()
    await server.serving?.stop()
  }
  return { running, file, stop }
}

/** What the server with effects has carried out. */
export function executions(
  file: string,
): { readonly tool: string; readonly arguments: Record<string, unknown> }[] {
  const lines = readFileSync(file, 'utf8').split('\n')
  return lines
    .filter((line) => line !== '')
    .map((line) => parseJson(line) as ReturnType<typeof executions>[number])
}

function rowOf(
  gateway: string,
  kills: number,
  ends: ReadonlyMap<string, End>,
  done: ReturnType<typeof executions>,
): KillRow {
  const times = new Map<unknown, number>()
  for (const { tool, arguments: args } of done) {
    if (tool === PLAIN_WRITE.name) times.set(args['text'], (times.get(args['text']) ?? 0) + 1)
  }
  const all = [...ends]
  const errors = all.flatMap(([text, end]) => (end.ok ? [] : [{ text, error: end.error }]))
  const [first] = errors
  return {
    gateway,
    kills,
    calls: all.length,
    repeated: all.filter(([text]) => (times.get(text) ?? 0) > 1).length,
    lost: all.filter(([text, { ok }]) => ok && !times.has(text)).length,
    failed: errors.length,
    failedButDone: errors.filter(({ text }) => times.has(text)).length,
    ...(first && { error: first.error.slice(0, 300) }),
  }
}

/** A client that repeats a call until it is answered, in a new session if need be. */
class RetryingClient {
  readonly #running: RunningGateway
  readonly #givenUp: AbortSignal
  #session: Session | undefined

  constructor(running: RunningGateway, givenUp: AbortSignal) {
    this.#running = running
    this.#givenUp = givenUp
  }

  async call(text: string): Promise<End> {
    for (let errors = 0; ; await pause(RETRY_MS)) {
      try {
        this.#session ??= await this.#open()
        const name = this.#session.toolName(PLAIN_WRITE.name)
        const params = { name, arguments: { text }, _meta: { idempotency_key: text } }
        const result = await callTool(this.#session, params, CALL_LIMIT_MS)
        return result['isError'] === true ? { ok: false, error: JSON.stringify(result) } : { ok: true }
      } catch (error) {
        if (!(error instanceof NoResult)) throw error
        this.#session = undefined
        if (error.status !== undefined) errors++
        if (errors > MAX_ERRORS || this.#givenUp.aborted) return { ok: false, error: error.message }
      }
    }
  }

  #open(): Promise<Session> {
    const address = this.#running.address()
    if (address === undefined) throw new NoResult('it has printed no port')
    return openSession(address, CALL_LIMIT_MS)
  }
}
