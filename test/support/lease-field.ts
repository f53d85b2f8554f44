/**
 * Processes that contend for one lease and append to one record under it, are stopped and killed, and whose clocks jump.
 * The record has the history of its writes, so what it may never be can be read from it.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import type { Store } from '../../src/store/store.ts'
import { seeded } from '../simulate/random.ts'
import { until } from './condition.ts'

const CHILD = join(import.meta.dirname, 'lease-child.ts')

/** The TTL of the lease, in milliseconds. */
const TTL_MS = 1000

/** The name of the lease, and the key of the record that is written under it. */
export const LEASE_NAME = 'field'
export const LEASED_RECORD = 'field:writes'

/** Successive writes of one holder: its token, its process, and how many. */
type Run = readonly [token: number, pid: number, count: number]

/** The record after one more write. */
export function appended(text: string | undefined, token: number, pid: number): string {
  const runs = [...runsOf(text)]
  const [last, by, count] = runs.at(-1) ?? [0, 0, 0]
  if (last === token && by === pid) runs.pop()
  runs.push([token, pid, last === token && by === pid ? count + 1 : 1])
  return JSON.stringify({ runs })
}

function runsOf(text: string | undefined): readonly Run[] {
  if (text === undefined) return []
  const { runs } = JSON.parse(text) as { readonly runs: readonly Run[] }
  return runs
}

interface FieldSettings {
  /** The folder of the store, or the URL of Redis. */
  readonly place: string
  readonly processes: number
  readonly rounds: number
  readonly seed: number
  /** Whether the clocks of the processes jump, each by its own. */
  readonly hasJumps: boolean
}

/** What became of the record. */
interface History {
  /** In their order. */
  readonly runs: readonly Run[]
  /** How many writes were promised, by process and token. */
  readonly promised: ReadonlyMap<string, number>
}

/** Stops and kills holders for some rounds. Rejects if after one of them nobody else writes. */
export async function contend(store: Store, settings: FieldSettings): Promise<History> {
  const random = seeded(settings.seed)
  const field = new Field(settings)
  try {
    for (let index = 0; index < settings.processes; index++) field.start()
    for (let round = 0; round < settings.rounds; round++) {
      const holder = await field.nextHolder(store)
      if (random.chance(0.5)) await field.kill(holder)
      else await field.stop(holder, TTL_MS * (1 + random.next()))
    }
    await field.nextHolder(store)
  } finally {
    await field.end()
  }
  return { runs: runsOf(await store.get(LEASED_RECORD)), promised: field.promised }
}

/** The processes of a field. */
class Field {
  readonly promised = new Map<string, number>()
  readonly #settings: FieldSettings
  readonly #children = new Map<number, ChildProcess>()
  #started = 0
  #lastToken = 0

  constructor(settings: FieldSettings) {
    this.#settings = settings
  }

  start(): void {
    const { place, seed, hasJumps } = this.#settings
    const jumps = hasJumps ? String(seed + ++this.#started) : '0'
    const child = spawn(process.execPath, [CHILD, place, String(TTL_MS), jumps], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const pid = child.pid ?? 0
    this.#children.set(pid, child)
    let rest = ''
    child.stdout.on('data', (chunk: Buffer) => {
      const lines = `${rest}${chunk.toString()}`.split('\n')
      rest = lines.pop() ?? ''
      for (const token of lines)
        this.promised.set(`${pid} ${token}`, (this.promised.get(`${pid} ${token}`) ?? 0) + 1)
    })
  }

  /** The process that writes under a token that is larger than before. */
  async nextHolder(store: Store): Promise<number> {
    return until(async () => {
      const [token, pid] = runsOf(await store.get(LEASED_RECORD)).at(-1) ?? [0, 0]
      if (token <= this.#lastToken) return undefined
      this.#lastToken = token
      return pid
    }, 'another holder to write')
  }

  /** Kills a process, and starts another one. */
  async kill(pid: number): Promise<void> {
    const child = this.#children.get(pid)
    if (!child) return
    this.#children.delete(pid)
    const exit = once(child, 'exit')
    child.kill('SIGKILL')
    await exit
    this.start()
  }

  /** Stops a process for longer than the TTL. A process that was stopped while it wrote may keep others from writing. */
  async stop(pid: number, forMs: number): Promise<void> {
    const child = this.#children.get(pid)
    child?.kill('SIGSTOP')
    await pause(forMs)
    child?.kill('SIGCONT')
  }

  async end(): Promise<void> {
    const ends = [...this.#children.values()].map(async (child) => {
      const exit = once(child, 'exit')
      child.kill('SIGKILL')
      await exit
    })
    await Promise.all(ends)
  }
}
