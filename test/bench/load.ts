// The load generator: orders come in, results go out; a process of its own, so its CPU time is nobody else's.
import { createHistogram } from 'node:perf_hooks'
import { Pool } from 'undici'
import { connect, type Client } from './client.ts'
import type { LoadOrder, LoadResult } from './load-order.ts'

// Every answer is checked for status, id and result; one in this many is parsed and compared as well.
const FULL_CHECK_EVERY = 32
const clients = new Map<string, Promise<Client>>()

process.on('message', (order: LoadOrder) => {
  void obey(order).then(report, (error: unknown) => report(failed(String(error))))
})
process.on('disconnect', () => process.exit(0))

function report(result: LoadResult): void {
  process.send?.(result)
}

function failed(firstError: string): LoadResult {
  return { calls: 0, seconds: 0, p50: 0, p99: 0, errors: 1, firstError }
}

async function obey(order: LoadOrder): Promise<LoadResult> {
  const client = await clientFor(order)
  const pool = new Pool(new URL(order.url).origin, { connections: order.concurrency, pipelining: 1 })
  try {
    return await load(pool, client, order)
  } finally {
    await pool.destroy()
  }
}

// One session per target lasts the whole run, as a client's would.
function clientFor({ url, era, bytes, tool, token, isKeyed }: LoadOrder): Promise<Client> {
  const key = `${era} ${bytes} ${url}`
  const client = clients.get(key) ?? connect(url, era, { bytes, tool, token, isKeyed })
  clients.set(key, client)
  return client
}

async function load(pool: Pool, client: Client, order: LoadOrder): Promise<LoadResult> {
  const latencies = createHistogram({ figures: 3 })
  const path = new URL(order.url).pathname
  const started = performance.now()
  const deadline = started + order.seconds * 1000
  let calls = 0
  let errors = 0
  let firstError: string | undefined
  const settle = (problem: string | undefined) => {
    calls++
    if (problem === undefined) return
    errors++
    firstError ??= problem
  }
  const oneAfterAnother = (done: () => void) => {
    const next = () => {
      if (performance.now() >= deadline || errors > 100) return done()
      const asked = process.hrtime.bigint()
      ask(pool, path, client, (problem) => {
        latencies.record(process.hrtime.bigint() - asked)
        settle(problem)
        next()
      })
    }
    next()
  }
  await Promise.all(Array.from({ length: order.concurrency }, () => new Promise<void>(oneAfterAnother)))
  const seconds = (performance.now() - started) / 1000
  const milliseconds = (percentile: number) => latencies.percentile(percentile) / 1e6
  const result = { calls, seconds, p50: milliseconds(50), p99: milliseconds(99), errors }
  return firstError === undefined ? result : { ...result, firstError }
}

let nextId = 1

function ask(pool: Pool, path: string, client: Client, done: (problem?: string) => void): void {
  const id = nextId++
  let status = 0
  let chunks: Buffer[] = []
  pool.dispatch(
    { path, method: 'POST', headers: client.headers, body: client.body(id) },
    {
      onRequestStart() {},
      onResponseStart(_controller, code) {
        status = code
        chunks = []
      },
      onResponseData(_controller, chunk) {
        chunks.push(chunk)
      },
      onResponseEnd() {
        const text = Buffer.concat(chunks).toString()
        done(client.complain(id, status, text, id % FULL_CHECK_EVERY === 0))
      },
      onResponseError(_controller, error) {
        done(String(error))
      },
    },
  )
}
