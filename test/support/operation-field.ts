import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Secret } from '../../src/core/text/secret.ts'
import type { StoreSettings } from '../../src/core/settings.ts'
import { isEnded, Operations, type StoredOperation } from '../../src/records/operations.ts'
import { openStore } from '../../src/store/open.ts'
import { startAll } from './crash-field.ts'
import { type Effect, effectsOf, startEffects } from './effects.ts'
import { type KillableGateways, killableGateways } from './planned-kills.ts'
import { silentLog } from './silent-log.ts'
import { steadyPort } from './steady-port.ts'

/** Gateways that share a store and are killed at planned writes, in front of servers that do and do not run tasks. */
export interface OperationField extends Pick<KillableGateways, 'gateways' | 'killing'> {
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
const verify = 'list_effects(key=$.args.key) -> $.result.effects[0]'
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
  const killable = await killableGateways(configFile, '/mcp')
  const settings: StoreSettings =
    redis === undefined ? { kind: 'folder', path } : { kind: 'redis', url: new Secret(redis) }
  const close = async (): Promise<void> => {
    await killable.kill()
    await Promise.all(servers.map((each) => each.kill()))
    rmSync(home, { recursive: true, force: true, maxRetries: 5 })
  }
  return {
    gateways: await startAll(killable.gateways, close),
    killing: killable.killing,
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
