import { fileURLToPath } from 'node:url'
import { mortal, type MortalGateway } from './crash-field.ts'
import type { KillPoint } from './kill-plan.ts'

/** Gateways that can be killed at their writes to the store. */
export interface KillableGateways {
  readonly gateways: readonly [MortalGateway, ...MortalGateway[]]
  /** Has gateways die at the planned points and starts them again, until `stop`. Resolves with the points left. */
  killing(plan: readonly KillPoint[]): {
    readonly isOver: () => boolean
    stop(): Promise<readonly KillPoint[]>
  }
  /** Starts all of them. */
  start(): Promise<void>
  /** Kills all of them. */
  kill(): Promise<void>
}

const program = fileURLToPath(new URL('gateway-with-kills.ts', import.meta.url))

/** Two gateways with one configuration file that are not yet started; `path` is that of their endpoint. */
export async function killableGateways(configFile: string, path: string): Promise<KillableGateways> {
  const next: (KillPoint | undefined)[] = [undefined, undefined]
  const made = await Promise.all(
    next.map((_none, index) =>
      mortal(configFile, path, () => ({
        program: [process.execPath, program],
        env: { KILL_AT: JSON.stringify(next[index] ?? {}) },
      })),
    ),
  )
  const [first, ...others] = made
  if (!first) throw new TypeError('There is a gateway at least')
  return {
    gateways: [first, ...others],
    start: async () => void (await Promise.all(made.map((each) => each.start()))),
    kill: async () => void (await Promise.all(made.map((each) => each.kill()))),
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
  }
}
