// The load generator of the comparison, in a process of its own: orders come in, results go out. It differs from the one
// of the benchmark in that it takes event streams, other names of tools and other revisions than it asked for.
import { createHistogram } from 'node:perf_hooks'
import { Pool } from 'undici'
import type { LoadResult } from '../load-order.ts'
import { replyText } from '../reply.ts'
import { messageOf, openSession, type Address, type Session } from './client.ts'

/** One stretch of load. */
export interface Order extends Address {
  /** The server's name of the tool. */
  readonly tool: string
  readonly concurrency: number
  readonly bytes: number
  readonly seconds: number
  /** Each call has an idempotency key of its own. */
  readonly isKeyed: boolean
}

/** Every answer is checked for status, id and result; one in this many is parsed and compared as well. */
const FULL_CHECK_EVERY = 32
const OPEN_LIMIT_MS = 20_000
const ANSWER_LIMIT_MS = 20_000
const sessions = new Map<string, Promise<Session>>()
const run = Date.now().toString(36)
let nextId = 1

process.on('message', (order: Order) => {
  void obey(order).then(report, (error: unknown) =>
    report({ calls: 0, seconds: 0, p50: 0, p99: 0, errors: 1, firstError: String(error) }),
  )
})
process.on('disconnect', () => process.exit(0))

function report(result: LoadResult): void {
  process.send?.(result)
}

async function obey(order: Order): Promise<LoadResult> {
  // One session lasts the whole run, as a client's would.
  const opening = sessions.get(order.url) ?? openSession(order, OPEN_LIMIT_MS)
  sessions.set(order.url, opening)
  const session = await opening
  const pool = new Pool(new URL(order.url).origin, {
    connections: order.concurrency,
    pipelining: 1,
    headersTimeout: ANSWER_LIMIT_MS,
    bodyTimeout: ANSWER_LIMIT_MS,
  })
  try {
    return await load(pool, session, order)
  } finally {
    await pool.destroy()
  }
}

async function load(pool: Pool, session: Session, order: Order): Promise<LoadResult> {
  const latencies = createHistogram({ figures: 3 })
  const tool = session.toolName(order.tool)
  const started = performance.now()
  const deadline = started + order.seconds * 1000
  let calls = 0
  let errors = 0
  let firstError: string | undefined
  const worker = async (): Promise<void> => {
    while (performance.now() < deadline && errors < 100) {
      const asked = process.hrtime.bigint()
      const problem = await call(pool, session, { ...order, tool })
      latencies.record(process.hrtime.bigint() - asked)
      calls++
      if (problem === undefined) continue
      errors++
      firstError ??= problem
    }
  }
  await Promise.all(Array.from({ length: order.concurrency }, worker))
  const seconds = (performance.now() - started) / 1000
  const milliseconds = (percentile: number) => latencies.percentile(percentile) / 1e6
  const result = { calls, seconds, p50: milliseconds(50), p99: milliseconds(99), errors }
  return firstError === undefined ? result : { ...result, firstError }
}

/** Makes a call. The value says what is wrong with its answer, if anything. */
function call(pool: Pool, session: Session, order: Order): Promise<string | undefined> {
  const id = nextId++
  const { pathname: path, search } = new URL(session.url)
  const params = {
    name: order.tool,
    arguments: { bytes: order.bytes },
    ...(order.isKeyed && { _meta: { idempotency_key: `${run}-${id}` } }),
  }
  const body = JSON.stringify({ jsonrpc: '2.0', id, method: 'tools/call', params })
  const { promise, resolve } = Promise.withResolvers<string | undefined>()
  let status = 0
  const chunks: Buffer[] = []
  pool.dispatch(
    { path: path + search, method: 'POST', headers: { ...session.headers }, body },
    {
      onRequestStart() {},
      onResponseStart(_controller, code) {
        status = code
      },
      onResponseData(_controller, chunk) {
        chunks.push(chunk)
      },
      onResponseEnd() {
        const wanted = id % FULL_CHECK_EVERY === 0 ? replyText(order.bytes) : undefined
        resolve(complaint(id, status, Buffer.concat(chunks).toString(), wanted))
      },
      onResponseError(_controller, error) {
        resolve(String(error))
      },
    },
  )
  return promise
}

function complaint(id: number, status: number, text: string, wanted?: string): string | undefined {
  const excerpt = text.slice(0, 300)
  if (status !== 200) return `HTTP ${status}: ${excerpt}`
  const isOurs = [`"id":${id},`, `"id":${id}}`, `"id": ${id},`, `"id": ${id}}`].some((each) =>
    text.includes(each),
  )
  if (!isOurs || !text.includes('"result":') || /"isError": ?true/.test(text))
    return `not the result of ${id}: ${excerpt}`
  if (wanted === undefined) return undefined
  const result = messageOf(text, id)?.['result'] as { content?: readonly { text?: string }[] } | undefined
  return result?.content?.[0]?.text === wanted ? undefined : `not the text asked for: ${excerpt}`
}
