/** Several Redis servers that replace each other: a master with replicas under sentinels, and a cluster. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { until } from './condition.ts'
import { freePort } from './child-process.ts'
import { needs } from './needs.ts'
import { PROGRAM, REDIS, redisReply } from './redis-server.ts'

const CLI = '/usr/bin/redis-cli'

/** The options of tests with a cluster. */
export const needsCluster = needs(REDIS, { program: CLI, get: 'apt-get install redis-tools' })

/** One process of Redis, with data or as a sentinel. */
export interface RedisNode {
  readonly port: number
  kill(): Promise<void>
  /** Removes its files. */
  remove(): void
  start(): Promise<void>
  freeze(): void
  thaw(): void
  /** What it answers to a command, as it is on the wire. */
  tell(command: string): Promise<string>
}

const LOOPBACK = '127.0.0.1'

/** Starts one with these lines in its configuration, at this address of the machine and on loopback. */
export async function redisNode(
  lines: readonly string[],
  isSentinel = false,
  host = LOOPBACK,
): Promise<RedisNode> {
  const port = await freePort()
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-test-'))
  const file = join(folder, 'redis.conf')
  const at = host === LOOPBACK ? [`bind ${host}`] : [`bind ${LOOPBACK} ${host}`, 'protected-mode no']
  writeFileSync(file, [`port ${port}`, ...at, `dir ${folder}`, ...lines, ''].join('\n'))
  let child: ChildProcess | undefined
  const tell = async (command: string): Promise<string> => (await redisReply(port, command)) ?? ''
  const start = async (): Promise<void> => {
    child = spawn(PROGRAM, [file, ...(isSentinel ? ['--sentinel'] : [])], { stdio: 'ignore' })
    // One with passwords answers too.
    await until(async () => (await tell('PING')) !== '', 'Redis to answer')
  }
  const kill = async (): Promise<void> => {
    if (!child || child.exitCode !== null || child.signalCode !== null) return
    const exit = once(child, 'exit')
    child.kill('SIGKILL')
    await exit
  }
  const remove = (): void => rmSync(folder, { recursive: true, force: true })
  await start()
  return {
    port,
    start,
    kill,
    remove,
    tell,
    freeze: () => void child?.kill('SIGSTOP'),
    thaw: () => void child?.kill('SIGCONT'),
  }
}

async function stopAll(nodes: readonly RedisNode[]): Promise<void> {
  for (const { kill, remove } of nodes) {
    await kill()
    remove()
  }
}

const DURABLE = ['save ""', 'appendonly yes', 'appendfsync always', 'repl-diskless-sync-delay 0']

export interface RedisFleet {
  readonly url: string
  readonly nodes: readonly RedisNode[]
  /** The node that is the master at present, as far as the others know. */
  master(): Promise<RedisNode>
  stop(): Promise<void>
}

interface SentinelOptions {
  /** Further lines of the servers with data, and of the sentinels. */
  readonly data?: readonly string[]
  readonly sentinel?: readonly string[]
  readonly replicas?: number
  /** The address at which all of them are reached, and know each other; that of loopback where absent. */
  readonly host?: string
}

/** A master with replicas, and three sentinels that replace it a second after it is gone. */
export async function startSentinels(options: SentinelOptions = {}): Promise<RedisFleet> {
  const { data = [], sentinel = [], replicas = 2, host = LOOPBACK } = options
  const own = [...DURABLE, ...data, `replica-announce-ip ${host}`]
  const first = await redisNode(own, false, host)
  const following = [...own, `replicaof ${host} ${first.port}`]
  const others = await Promise.all(Array.from({ length: replicas }, () => redisNode(following, false, host)))
  const nodes = [first, ...others]
  const lines = [
    `sentinel announce-ip ${host}`,
    `sentinel monitor mymaster ${host} ${first.port} 2`,
    'sentinel down-after-milliseconds mymaster 1000',
    'sentinel failover-timeout mymaster 3000',
    ...sentinel,
  ]
  const sentinels = await Promise.all([1, 2, 3].map(() => redisNode(lines, true, host)))
  const login = data.find((line) => line.startsWith('masterauth'))
  const isReady = async ({ tell }: RedisNode): Promise<boolean> =>
    login !== undefined || new RegExp(`connected_slaves:${replicas}`).test(await tell('INFO replication'))
  await until(() => isReady(first), 'the replicas to follow')
  const knows = async ({ tell }: RedisNode): Promise<boolean> => {
    const text = await tell('SENTINEL MASTER mymaster')
    return (
      /num-slaves\r\n\$\d+\r\n(\d+)/.exec(text)?.[1] === String(replicas) &&
      /num-other-sentinels\r\n\$1\r\n2/.test(text)
    )
  }
  if (sentinel.length === 0)
    await until(async () => (await Promise.all(sentinels.map(knows))).every(Boolean), 'the sentinels')
  const hosts = sentinels.map(({ port }) => `${host}:${port}`).join(',')
  return {
    url: `redis+sentinel://${hosts}/mymaster`,
    nodes,
    master: async () => {
      const reply = (await sentinels[0]?.tell('SENTINEL GET-MASTER-ADDR-BY-NAME mymaster')) ?? ''
      const found = nodes.find(({ port }) => reply.includes(`\r\n${port}\r\n`))
      if (!found) throw new Error(`there is no master: ${reply}`)
      return found
    },
    stop: () => stopAll([...sentinels, ...nodes]),
  }
}

/** Three masters of a cluster with a replica each, and the slots between them. */
export async function startCluster(): Promise<RedisFleet> {
  const lines = [
    ...DURABLE,
    'cluster-enabled yes',
    'cluster-node-timeout 1000',
    'cluster-config-file nodes.conf',
  ]
  const buses = await Promise.all([1, 2, 3, 4, 5, 6].map(() => freePort()))
  const nodes = await Promise.all(buses.map((bus) => redisNode([...lines, `cluster-port ${bus}`])))
  const places = nodes.map(({ port }, index) => `127.0.0.1:${port}@${buses[index]}`)
  const create = ['--cluster', 'create', ...places, '--cluster-replicas', '1', '--cluster-yes']
  execFileSync(CLI, create, { stdio: 'ignore' })
  const isReady = async ({ tell }: RedisNode): Promise<boolean> =>
    (await tell('CLUSTER INFO')).includes('cluster_state:ok')
  await until(async () => (await Promise.all(nodes.map(isReady))).every(Boolean), 'the cluster')
  return {
    url: `redis+cluster://${places
      .slice(0, 3)
      .map((place) => place.replace(/@.*/, ''))
      .join(',')}`,
    nodes,
    master: () =>
      Promise.any(
        nodes.map(async (node) => {
          const reply = await node.tell('GET {gatehouse}:generation')
          if (!reply.startsWith('$')) throw new Error(`it has not the slot: ${reply}`)
          return node
        }),
      ),
    stop: () => stopAll(nodes),
  }
}
