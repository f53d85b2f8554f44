// What gateways and their Redis did between two moments, for each call.
import { createClient, type RedisClientType } from '@redis/client'
import { cpuNanoseconds } from '../process-stats.ts'

/** What Redis and the gateways did, as totals or for each call or second. */
export interface Usage {
  /** Times that Redis read from a connection: commands that are sent together count once. */
  readonly roundTrips: number
  /** Commands that Redis carried out, with those of scripts. */
  readonly commands: number
  /** Bytes that Redis received and sent. */
  readonly bytesIn: number
  readonly bytesOut: number
  /** Microseconds of CPU time of the thread of Redis that carries out commands, and of all gateways together. */
  readonly redisCpu: number
  readonly gatewayCpu: number
  /** By how many bytes the memory of Redis grew. */
  readonly memory: number
}

const names = [
  ...['roundTrips', 'commands', 'bytesIn', 'bytesOut', 'redisCpu', 'gatewayCpu', 'memory'],
] as readonly (keyof Usage)[]

/** Reads the counters of a Redis server and of processes, and leaves out what reading them costs. */
export class Meter {
  readonly #client: RedisClientType
  #own: Usage | undefined

  private constructor(client: RedisClientType) {
    this.#client = client
  }

  static async open({ url }: { readonly url: string }): Promise<Meter> {
    const client: RedisClientType = createClient({ url })
    await client.connect()
    return new Meter(client)
  }

  /** The version of the server. */
  async version(): Promise<string> {
    return valueIn(await this.#client.info('server'), 'redis_version')
  }

  /** How many keys there are. */
  keys(): Promise<number> {
    return this.#client.dbSize()
  }

  /** What was used while the work was done, by Redis and by these gateways, together with its seconds. */
  async during(
    gateways: readonly { readonly pid: number }[],
    work: () => Promise<unknown>,
  ): Promise<{ readonly used: Usage; readonly seconds: number }> {
    const pids = gateways.map(({ pid }) => pid)
    this.#own ??= minus(...(await this.#twice(pids)))
    const before = await this.#totals(pids)
    const began = performance.now()
    await work()
    const seconds = (performance.now() - began) / 1000
    const after = await this.#totals(pids)
    const own = { ...this.#own, redisCpu: 0, gatewayCpu: 0, memory: 0 }
    return { used: minus(minus(after, before), own), seconds }
  }

  close(): Promise<void> {
    return this.#client.close()
  }

  async #twice(pids: readonly number[]): Promise<[Usage, Usage]> {
    // The first one opens what later ones use.
    await this.#totals(pids)
    const before = await this.#totals(pids)
    return [await this.#totals(pids), before]
  }

  async #totals(pids: readonly number[]): Promise<Usage> {
    const text = await this.#client.sendCommand(['INFO', 'stats', 'memory', 'cpu'])
    const value = (name: string): number => Number(valueIn(String(text), name))
    return {
      roundTrips: value('total_reads_processed'),
      commands: value('total_commands_processed'),
      bytesIn: value('total_net_input_bytes'),
      bytesOut: value('total_net_output_bytes'),
      redisCpu: (value('used_cpu_user_main_thread') + value('used_cpu_sys_main_thread')) * 1e6,
      gatewayCpu: pids.reduce((sum, pid) => sum + cpuNanoseconds(pid) / 1000, 0),
      memory: value('used_memory'),
    }
  }
}

function valueIn(info: string, name: string): string {
  const found = new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(info)?.[1]
  if (found === undefined) throw new Error(`Redis does not tell ${name}`)
  return found
}

/** What one has beyond the other. */
function minus(one: Usage, other: Usage): Usage {
  return combined((name) => one[name] - other[name])
}

/** For each call, or each second, beyond what happens in the background in a second. */
export function perUnit(
  { used, seconds }: { readonly used: Usage; readonly seconds: number },
  units: number,
  background?: Usage,
): Usage {
  return combined((name) => (used[name] - (background?.[name] ?? 0) * seconds) / units)
}

function combined(value: (name: keyof Usage) => number): Usage {
  return Object.fromEntries(names.map((name) => [name, value(name)])) as unknown as Usage
}
