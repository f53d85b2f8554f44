// Receivers of webhooks in a process of their own, which can be killed. What it accepted is in a file.
import { closeSync, openSync, readSync } from 'node:fs'
import { join } from 'node:path'
import { type ArrivedEvent, arrival, insist, type Subscriber } from '../support/event-client.ts'
import { secret, type Subscription } from '../support/event-receiver.ts'
import { isObject, objectAt, parse } from '../support/server/json.ts'
import { steadyPort } from '../support/steady-port.ts'
import { launchScript, type Serving } from './launch.ts'

interface Hook {
  readonly arrived: ArrivedEvent[]
  readonly faults: string[]
}

/** Receivers at one origin. */
export class KillableReceivers {
  readonly origin: string
  readonly #port: number
  readonly #log: string
  readonly #hooks = new Map<string, Hook>()
  #process: Serving
  /** How much of the log was read, and the beginning of a line whose end was not written yet. */
  #read = 0
  #rest = ''

  private constructor(port: number, log: string, process: Serving) {
    this.#port = port
    this.#log = log
    this.#process = process
    this.origin = `http://127.0.0.1:${port}`
  }

  /** `folder` is where the log is kept. */
  static async start(folder: string): Promise<KillableReceivers> {
    const port = await steadyPort()
    const log = join(folder, 'received.log')
    closeSync(openSync(log, 'a'))
    return new KillableReceivers(port, log, await launchReceiver(port, log))
  }

  /** Kills the process by force, and starts another one at the same port. */
  async kill(): Promise<void> {
    await this.close()
    this.#process = await launchReceiver(this.#port, this.#log)
  }

  close(): Promise<void> {
    return this.#process.kill()
  }

  /** Subscribes; what arrives is known after `readLog`. */
  async subscribe({ address, filter }: Subscription): Promise<Subscriber> {
    const hook: Hook = { arrived: [], faults: [] }
    const path = `/hooks/${this.#hooks.size}`
    this.#hooks.set(path, hook)
    const delivery = { mode: 'webhook', url: `${this.origin}${path}`, secret }
    const subscribed = await insist(address, 'events/subscribe', { ...filter, delivery, ttlMs: null })
    if (subscribed.kind === 'failed') hook.faults.push(subscribed.text)
    const ready = Promise.resolve()
    return { kind: 'webhook', filter, ...hook, rounds: 1, ready, close: async () => undefined }
  }

  /** Reads what was accepted since the last time. */
  readLog(): void {
    const file = openSync(this.#log, 'r')
    const chunk = Buffer.alloc(1024 * 1024)
    try {
      for (let size = -1; size !== 0; this.#read += size) {
        size = readSync(file, chunk, 0, chunk.length, this.#read)
        const lines = (this.#rest + chunk.toString('latin1', 0, size)).split('\n')
        this.#rest = lines.pop() ?? ''
        for (const line of lines) this.#take(Buffer.from(line, 'latin1').toString())
      }
    } finally {
      closeSync(file)
    }
  }

  #take(line: string): void {
    const entry = parse(line)
    if (!isObject(entry)) return
    const message = objectAt(entry, 'message')
    const hook = this.#hooks.get(String(entry['path']))
    if (typeof message['type'] === 'string') hook?.faults.push(`it got ${line.slice(0, 200)}`)
    else hook?.arrived.push({ ...arrival(message), arrivedAt: Number(entry['at']) })
  }
}

function launchReceiver(port: number, log: string): Promise<Serving> {
  return launchScript('receiver.ts', [String(port), log])
}
