/**
 * What keeps Redis from losing data: replicas that confirm writes, which a failover to one of them would lose otherwise, and the
 * settings of the server.
 */
import type { RedisClientType } from '@redis/client'
import type { RedisLocation } from '../../core/redis-url.ts'

/** How long a write waits for replicas, in milliseconds. Everything sent behind it waits too. */
const CONFIRM_TIMEOUT_MS = 500
/** The same for a trial, and while replicas are known to be missing. */
const TRIAL_TIMEOUT_MS = 50

/** Redis has made a write that too few replicas have. */
export class UnconfirmedError extends Error {}

/**
 * The replicas that confirm writes of one connection. Writes that are sent while others are waited for share the next wait, which
 * is sent behind them, so it takes no round trip of its own.
 */
export class Replicas {
  readonly #demanded: number | 'auto'
  /** How many replicas are connected and up to date enough to follow. */
  #online = 0
  readonly #waits = new WeakMap<RedisClientType, Waits>()
  /** Whether the user of Redis may wait for replicas. */
  mayWait = true
  /** Why they confirm nothing; undefined while they do. */
  problem: string | undefined

  constructor({ kind, replicas }: Pick<RedisLocation, 'kind' | 'replicas'>) {
    this.#demanded = replicas ?? (kind === 'server' ? 'auto' : 1)
  }

  /** How many have to confirm a write. With `auto` none is demanded, so a user who may not wait is no problem there. */
  get needed(): number {
    if (this.#demanded !== 'auto') return this.#demanded
    return this.mayWait ? Math.min(this.#online, 1) : 0
  }

  /** Waits until enough replicas have what was written on this connection so far. @throws UnconfirmedError if they do not in time */
  async confirm(client: RedisClientType): Promise<void> {
    const { needed } = this
    if (needed === 0) return
    const count = await this.#wait(client, needed)
    if (count >= needed) return
    this.problem = lagging(count, needed)
    throw new UnconfirmedError(this.problem)
  }

  /**
   * Learns of the replicas by `INFO replication`, which is empty where it is not permitted, and tries whether they confirm what was
   * written on this connection so far; returns whether they do.
   */
  async look(client: RedisClientType, info: string): Promise<boolean> {
    if (info !== '') this.#online = [...info.matchAll(/^slave\d+:.*state=online/gm)].length
    const count = this.needed === 0 ? 0 : await permitted(client.wait(this.needed, TRIAL_TIMEOUT_MS))
    this.mayWait &&= count !== undefined
    const { needed } = this
    const isConfirmed = needed === 0 || (count ?? 0) >= needed
    if (isConfirmed) this.problem = undefined
    else this.problem = count === undefined ? MAY_NOT_WAIT : lagging(count, needed)
    return isConfirmed
  }

  #wait(client: RedisClientType, needed: number): Promise<number> {
    const waits = this.#waits.get(client) ?? {}
    this.#waits.set(client, waits)
    const { current } = waits
    if (!current) return this.#send(client, waits, needed)
    const follow = (): Promise<number> => {
      delete waits.next
      return this.#wait(client, needed)
    }
    return (waits.next ??= current.then(follow, follow))
  }

  #send(client: RedisClientType, waits: Waits, needed: number): Promise<number> {
    const end = (): void => void delete waits.current
    const current = client.wait(needed, this.problem === undefined ? CONFIRM_TIMEOUT_MS : TRIAL_TIMEOUT_MS)
    waits.current = current
    current.then(end, end)
    return current
  }
}

/** The waits of one connection: what is sent, and what is sent behind it. */
interface Waits {
  current?: Promise<number>
  next?: Promise<number>
}

const MAY_NOT_WAIT =
  'the Redis user may not use WAIT, so no replica confirms writes, and a failover loses the latest calls, which may run again: permit it with `+wait`'

function lagging(count: number, needed: number): string {
  const who = needed === 1 ? 'no replica of Redis has' : `only ${count} of ${needed} replicas of Redis have`
  return `${who} confirmed a write, and a failover would lose it`
}

/** What in the settings of a server can lose data that it has accepted, and the lines of redis.conf that change that. */
export async function weaknessesOf(
  client: RedisClientType,
  location: RedisLocation,
  { needed, mayWait }: Replicas,
): Promise<readonly string[]> {
  const [persistence, replication, fsync] = await Promise.all([
    permitted(client.info('persistence')),
    permitted(client.info('replication')),
    permitted(client.configGet('appendfsync')),
  ])
  const found: string[] = []
  if (persistence === undefined || replication === undefined)
    found.push(
      'the Redis user may not use INFO, so it cannot be seen whether Redis keeps what it accepts: permit it with `+info`',
    )
  if (/^aof_enabled:0/m.test(persistence ?? ''))
    found.push(
      'Redis keeps no append-only file, so a restart loses calls that were done, and they may run again: set `appendonly yes` and `appendfsync always` in redis.conf',
    )
  else if (needed === 0 && (fsync?.['appendfsync'] ?? 'always') !== 'always')
    found.push(
      'Redis does not write to disk before it answers, so a crash of its machine loses calls that were done, and they may run again: set `appendfsync always` in redis.conf',
    )
  const hasReplicas = location.kind !== 'server' || /^connected_slaves:[1-9]/m.test(replication ?? '')
  if (hasReplicas && replication !== undefined && !replication.includes('min_slaves_good_slaves'))
    found.push(
      'a Redis that is cut off from its replicas continues to accept writes, which a failover loses: set `min-replicas-to-write 1` and `min-replicas-max-lag 10` in redis.conf',
    )
  if (hasReplicas && location.replicas === 0)
    found.push(
      'no replica has to confirm writes (`replicas=0`), so a failover loses the latest calls, and they may run again: remove the parameter',
    )
  if (!mayWait) found.push(MAY_NOT_WAIT)
  return found
}

/** A reply; undefined if the command is refused. */
async function permitted<Reply>(reply: Promise<Reply>): Promise<Reply | undefined> {
  return reply.catch((error: unknown) => {
    if (error instanceof Error && error.message.startsWith('NOPERM')) return undefined
    // Providers rename or remove commands.
    if (error instanceof Error && /^ERR unknown command/i.test(error.message)) return undefined
    throw error
  })
}
