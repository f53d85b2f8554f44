import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Secret } from '../../src/core/text/secret.ts'
import type { StoreSettings } from '../../src/core/settings.ts'
import { isEnded, Operations, type StoredOperation } from '../../src/records/operations.ts'
import { openStore } from '../../src/store/open.ts'
import { mortal, type MortalGateway, startAll } from './crash-field.ts'
import { type Effect, effectsOf, startEffects } from './effects.ts'
import type { KillPoint } from './kill-plan.ts'
import { silentLog } from './silent-log.ts'
import { steadyPort } from './steady-port.ts'

/** Gateways that share a store and are killed at planned writes, in front of servers that do and do not run tasks. */
export interface OperationField {
  readonly gateways: readonly [MortalGateway, ...MortalGateway[]]
  /** Has gateways die at the planned points and starts them again, until `stop`. Resolves with the points left. */
  killing(plan: readonly KillPoint[]): {
    readonly isOver: () => boolean
    stop(): Promise<readonly KillPoint[]>
  }
  /** What was done and not undone. */
  effects(): readonly Effect[]
  /** The file the effects are lines of. */
  readonly log: string
  /** The operations that have not ended, as the store says. */
  unended(): Promise<readonly StoredOperation[]>
  /** Resolves once the servers have done what was begun. */
  settled(): Promise<void>
  close(): Promise<void>
}

const program = (name: string): string => fileURLToPath(new URL(name, import.meta.url))

/** Longest call, and longest silence of one that is no task, in seconds: after a crash a read is believed after that. */
const limits = { max_timeout: '6s', timeout: '2s', concurrency: 'off', rate: 'off' }
const verify = 'list_effects(value=$.args.value) -> $.result.effects[0]'
const tools = { add_effect: { verify, undo: 'remove_effect(id=$.result.id)' } }

/** Starts the servers and two gateways; `redis` is the URL of their store, a folder of their own where it is absent. */
export async function startOperationField(redis: string | undefined): Promise<OperationField> {
  const home = mkdtempSync(join(tmpdir(), 'gatehouse-operations-'))
  const log = join(home, 'effects.log')
  const slow = ['--slow', '400']
  const servers = await Promise.all([
    startEffects(log, await steadyPort(), slow),
    startEffects(log, await steadyPort(), [...slow, '--tasks']),
  ])
  const [plain, tasked] = servers
  const asking = { command: [process.execPath, program('../fixtures/task-server/main.ts')] }
  const common = { trust: true }
  const path = join(home, 'store')
  const config = {
    store: redis ?? path,
    limits,
    features: {
      breaker: { pause: '250ms' },
      confirm: 'off',
      progress: { tasks: { after: '100ms' } },
      transactions: { max_active: 1000 },
    },
    upstreams: {
      effects: { ...common, url: plain.url, revision: '2025-11-25', tools },
      tasked: { ...common, url: tasked.url, revision: '2025-11-25', tools },
      asking: { ...common, ...asking, env: { MODE: 'plain' } },
      modern: { ...common, ...asking, env: { MODE: 'extension' } },
    },
  }
  const configFile = join(home, 'gateway.config.yaml')
  writeFileSync(configFile, JSON.stringify(config))
  const next: (KillPoint | undefined)[] = [undefined, undefined]
  const made = await Promise.all(
    next.map((_none, index) =>
      mortal(configFile, '/mcp', () => ({
        program: [process.execPath, program('gateway-with-kills.ts')],
        env: { KILL_AT: JSON.stringify(next[index] ?? {}) },
      })),
    ),
  )
  const settings: StoreSettings =
    redis === undefined ? { kind: 'folder', path } : { kind: 'redis', url: new Secret(redis) }
  const close = async (): Promise<void> => {
    await Promise.all(made.map((each) => each.kill()))
    await Promise.all(servers.map((each) => each.kill()))
    rmSync(home, { recursive: true, force: true, maxRetries: 5 })
  }
  const gateways = await startAll(made, close)
  return {
    gateways,
    killing: (plan) => {
      const left = [...plan]
      let isStopped = false
      const stopping = Promise.withResolvers<undefined>()
      const keep = async (gateway: MortalGateway, index: number): Promise<void> => {
        while (!isStopped) {
          const kill = left.shift()
          next[index] = kill
          // One that is not to die is left as it is once it has been started without a plan.
          await gateway.kill()
          await gateway.start()
          const ended = await Promise.race([gateway.ended().then(() => true), stopping.promise])
          if (kill && !ended) left.push(kill)
        }
        next[index] = undefined
        await gateway.kill()
        await gateway.start()
      }
      const keeping = Promise.all(made.map(keep))
      const stop = async (): Promise<readonly KillPoint[]> => {
        isStopped = true
        stopping.resolve(undefined)
        await keeping
        return left
      }
      return { isOver: () => left.length === 0 && next.every((kill) => kill === undefined), stop }
    },
    effects: () => effectsOf(log),
    log,
    unended: async () => {
      const store = openStore(settings, silentLog)
      try {
        await store.opened?.()
        const all = await new Operations(store, Date.now).all()
        return all.filter(({ record }) => !isEnded(record))
      } finally {
        await store.close()
      }
    },
    settled: async () => void (await Promise.all(servers.map((each) => each.settled()))),
    close,
  }
}
