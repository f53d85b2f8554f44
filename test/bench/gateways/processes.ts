// The processes of a gateway: it may start others, which count as its own, but for the server behind it.
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync, readFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { childrenOf, cpuNanoseconds, peakMegabytes, residentMegabytes } from '../process-stats.ts'
import type { Command } from './gateway.ts'

/** A started command with all that it started. */
export class ProcessTree {
  readonly #child: ChildProcess
  readonly #log: string
  readonly #exited: Promise<unknown>

  /** What the processes print goes to the file. */
  constructor({ words: [file = '', ...args], env }: Command, folder: string) {
    this.#log = `${folder}/output.log`
    const output = openSync(this.#log, 'a')
    const options = { cwd: folder, env: { ...process.env, ...env } }
    this.#child = spawn(file, args, { ...options, stdio: ['ignore', output, output] })
    closeSync(output)
    this.#exited = once(this.#child, 'exit').catch(() => undefined)
  }

  get hasExited(): boolean {
    return this.#child.pid === undefined || this.#child.exitCode !== null || this.#child.signalCode !== null
  }

  /** The end of what it printed. */
  output(): string {
    return readFileSync(this.#log, 'utf8').slice(-2000)
  }

  /** The nanoseconds of CPU that each process of the gateway has used. */
  cpu(): Map<number, number> {
    return this.#each(cpuNanoseconds)
  }

  /** Resident megabytes of all processes of the gateway, and the sum of what each had at its peak. */
  memory(): { readonly resident: number; readonly peak: number } {
    const sum = (values: Map<number, number>) =>
      [...values.values()].reduce((total, value) => total + value, 0)
    return { resident: sum(this.#each(residentMegabytes)), peak: sum(this.#each(peakMegabytes)) }
  }

  /** Ends all processes by force, the server too if the gateway started it. */
  async kill(): Promise<void> {
    if (this.hasExited) return
    const all = this.#pids()
    for (const pid of all) signal(pid, 'SIGKILL')
    await this.#exited
  }

  async stop(): Promise<void> {
    if (this.hasExited) return
    const all = this.#pids()
    this.#child.kill('SIGTERM')
    await Promise.race([this.#exited, pause(5000)])
    for (const pid of all) signal(pid, 'SIGKILL')
    await this.#exited
  }

  #each(measure: (pid: number) => number): Map<number, number> {
    const found = new Map<number, number>()
    for (const pid of this.#pids()) {
      if (!isServer(pid)) found.set(pid, ifRuns(() => measure(pid)) ?? 0)
    }
    return found
  }

  #pids(): number[] {
    const found = this.#child.pid === undefined ? [] : [this.#child.pid]
    for (const pid of found) found.push(...(ifRuns(() => childrenOf(pid)) ?? []))
    return found
  }
}

/** Whether a process is a server of the benchmark that the gateway started. */
function isServer(pid: number): boolean {
  const [program, script = ''] = ifRuns(() => readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')) ?? []
  return program === process.execPath && /(upstream|effects-server)\.ts$/.test(script)
}

function signal(pid: number, name: NodeJS.Signals): void {
  ifRuns(() => process.kill(pid, name))
}

/** What is read of a process, unless it has ended meanwhile. */
function ifRuns<Value>(read: () => Value): Value | undefined {
  try {
    return read()
  } catch {
    return undefined
  }
}
