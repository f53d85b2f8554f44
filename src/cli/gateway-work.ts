/**
 * Work of commands that a running gateway with the same store does, because some servers may be reachable only from there, or one
 * that is started in this process.
 */
import { setTimeout as pause } from 'node:timers/promises'
import type { Gateway } from '../gateway/gateway.ts'
import { openAudit } from '../gateway/offline.ts'
import type { Audit } from '../observability/audit/audit.ts'
import { openLog } from '../observability/log.ts'
import type { ConfigOptions } from './config-file.ts'
import type { Io } from './io.ts'

interface GatewayWorkOptions extends ConfigOptions {
  /** The settings of the audit log. */
  readonly settings: Parameters<typeof openAudit>[0]
  readonly io: Io
}

/** How long nothing may happen until the gateway that began is considered gone, in milliseconds. */
const MAX_SILENCE_MS = 15_000
/** The total time for all work, and the polling interval, in milliseconds. */
const WORK_TIMEOUT_MS = 600_000
const POLL_INTERVAL_MS = 100

/** Runs a command with what a gateway does for it. */
export async function withGatewayWork<Result>(
  options: GatewayWorkOptions,
  act: (work: GatewayWork) => Promise<Result>,
): Promise<Result> {
  const work = new GatewayWork(options)
  try {
    return await act(work)
  } finally {
    await work.close()
  }
}

/** What a gateway does for a command: the store says what is to be done, and how far it has got. */
export class GatewayWork {
  readonly #options: GatewayWorkOptions
  #audit: Promise<Audit | undefined> | undefined
  #gateway: Gateway | undefined

  constructor(options: GatewayWorkOptions) {
    this.#options = options
  }

  /** The audit log, if there is one. @throws Error if it cannot be opened */
  audit(): Promise<Audit | undefined> {
    const { settings, io } = this.#options
    this.#audit ??= openAudit(settings, openLog('warn', io))
    return this.#audit
  }

  /**
   * Waits until something is done, and starts a gateway here if none begins within `takeoverMs`. `stateOf` says how far it has
   * got; what was found last is returned at the timeout. @throws what starting a gateway throws
   */
  async done<Found>(
    find: () => Promise<Found>,
    takeoverMs: number,
    stateOf: (found: Found) => 'requested' | 'done' | number,
  ): Promise<Found> {
    const until = performance.now() + WORK_TIMEOUT_MS
    let [last, since]: [unknown, number] = [undefined, 0]
    for (;;) {
      const found = await find()
      const state = stateOf(found)
      const now = performance.now()
      if (state === 'done' || now > until) return found
      if (state !== last) [last, since] = [state, now]
      if (now - since > (state === 'requested' ? takeoverMs : MAX_SILENCE_MS)) await this.#start()
      await pause(POLL_INTERVAL_MS)
    }
  }

  async close(): Promise<void> {
    await this.#gateway?.close()
    await (await this.#audit?.catch(() => undefined))?.close()
  }

  async #start(): Promise<void> {
    if (this.#gateway) return
    const { config, envFile, io } = this.#options
    const audit = await this.audit()
    const { openGateway, readSource } = await import('./source.ts')
    const { settings } = readSource({ config, envFile }, io)
    this.#gateway = openGateway(settings, { io, log: openLog('warn', io), ...(audit && { audit }) })
    await this.#gateway.start()
  }
}
