// Makes the two durable writes of keyed calls, and nothing else, as fast as the store takes them.
// Usage: commit-load.ts STORE CONCURRENCY…, a folder or the URL of a Redis. It prints the port it listens on, and answers a
// request with what it measured then: `Commits[]`.
import { randomUUID } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Secret } from '../../src/core/text/secret.ts'
import { callKey, type CallRecord, encodeCall } from '../../src/records/calls.ts'
import { openStore } from '../../src/store/open.ts'
import { silentLog } from '../support/silent-log.ts'
import { Payload } from '../../src/core/payload.ts'
import type { Commits } from './ceiling.ts'
import { cpuNanoseconds } from './process-stats.ts'
import { replyText } from './reply.ts'

const WARM_UP_MS = 1500
const MEASURED_MS = 1000
const TTL_MS = 60_000

const [, , address = '', ...concurrencies] = process.argv
const store = openStore(
  address.startsWith('redis:')
    ? { kind: 'redis', url: new Secret(address) }
    : { kind: 'folder', path: address },
  silentLog,
)
await store.opened?.()
const result = Payload.of({ content: [{ type: 'text', text: replyText(1024) }] })

const server = createServer((_request, response) => {
  void measureAll().then(
    (commits) => response.end(JSON.stringify(commits)),
    (error: unknown) => response.writeHead(500).end(String(error)),
  )
})
server.listen(0, '127.0.0.1', () => {
  process.stdout.write(`${(server.address() as AddressInfo).port}\n`)
})
process.once('SIGTERM', () => void store.close().then(() => process.exit(0)))

async function measureAll(): Promise<Commits[]> {
  const all: Commits[] = []
  for (const concurrency of concurrencies.map(Number)) {
    await load(concurrency, WARM_UP_MS)
    const [before, started] = [cpuNanoseconds(process.pid), performance.now()]
    const calls = await load(concurrency, MEASURED_MS)
    const seconds = (performance.now() - started) / 1000
    const cpu = (cpuNanoseconds(process.pid) - before) / 1000 / calls
    all.push({ concurrency, rate: calls / seconds, cpu })
  }
  return all
}

/** So many calls at once for some time; resolves with how many there were. */
async function load(concurrency: number, milliseconds: number): Promise<number> {
  const until = performance.now() + milliseconds
  let calls = 0
  const oneAfterAnother = async (): Promise<void> => {
    for (; performance.now() < until; calls++) await writeCall()
  }
  await Promise.all(Array.from({ length: concurrency }, oneAfterAnother))
  return calls
}

async function writeCall(): Promise<void> {
  const id = randomUUID()
  const now = Date.now()
  const begun: CallRecord = {
    expiresAt: now + TTL_MS,
    fingerprint: id.repeat(2),
    tool: 'write',
    state: 'executing',
    owner: id,
    attempt: id,
    startedAt: now,
    attemptedAt: now,
  }
  const key = callKey('bench', 'bench', id)
  const text = encodeCall(begun)
  if ((await store.setIfAbsent(key, text, TTL_MS)) !== undefined) throw new Error(`${key} exists`)
  const done = encodeCall({ ...begun, state: 'done', result })
  if (!(await store.compareAndSwap(key, text, done, TTL_MS))) throw new Error(`${key} has changed`)
}
