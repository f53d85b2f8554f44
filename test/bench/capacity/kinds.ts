// The kinds of calls whose cost is measured.
import { setTimeout as pause } from 'node:timers/promises'
import { Agent, request } from 'undici'
import { enveloped, mirrorHeaders } from '../../support/client/modern-request.ts'
import { open, usual } from '../../support/client/raw.ts'
import { SseParser } from '../../support/client/sse-parser.ts'
import { streamEvents } from '../../support/event-client.ts'
import type { HeaderMap } from '../../support/server/journal.ts'
import { isObject, type Json, objectAt, parse } from '../../support/server/json.ts'
import { REVISIONS } from '../reply.ts'

/** Gateways that share a store, without the last part of the addresses of their servers. */
export interface Gateways {
  readonly url: string
  readonly other: string
}

/** The tokens of a caller, and of a person who approves. */
export const tokens = {
  caller: 'the-token-of-the-caller-of-32-chars-and-more',
  approver: 'the-token-of-the-approver-of-32-chars-and-more',
}

/** One kind of call that can be made again and again, by several workers at once. */
interface Prepared {
  /** Makes one, and waits for all that follows from it. @throws if the answer is not the right one */
  call(worker: number): Promise<unknown>
  close?(): Promise<unknown>
}

/** How a kind is measured. */
export interface Kind {
  /** What it is, as a row of a table says it. */
  readonly title: string
  prepare(gateways: Gateways): Prepared | Promise<Prepared>
  /** How many are counted one after the other, how many are made at once, and how many in all at most. */
  readonly counted?: number
  readonly atOnce?: number
  readonly most?: number
}

export type KindName = keyof typeof kinds

/** In this order: a server whose events somebody followed has events from then on. */
export const kinds = {
  read: {
    title: 'a read',
    prepare: ({ url }) => ({ call: () => callTool(`${url}/plain`, 'get_text') }),
  },
  limited: {
    title: 'a read with a limit of rate',
    prepare: ({ url }) => ({ call: () => callTool(`${url}/limited`, 'get_text') }),
  },
  write: {
    title: 'a write, with its undo in the history',
    prepare: ({ url }) => ({ call: () => callTool(`${url}/plain`, 'write') }),
  },
  unrecorded: {
    title: 'a write with `undo: { history: off }`',
    prepare: ({ url }) => ({ call: () => callTool(`${url}/unrecorded`, 'write') }),
  },
  keyed: {
    title: 'a write with an idempotency key',
    prepare: ({ url }) => ({ call: () => callTool(`${url}/plain`, 'write', { idempotency_key: nextKey() }) }),
  },
  replay: {
    title: 'its repetition',
    prepare: async ({ url }) => {
      const _meta = { idempotency_key: nextKey() }
      await callTool(`${url}/plain`, 'write', _meta)
      return { call: () => callTool(`${url}/plain`, 'write', _meta) }
    },
  },
  step: {
    title: 'a step of a transaction of 25, with its share of begin and commit',
    counted: 50,
    prepare: ({ url }) => transactions(`${url}/plain`),
  },
  asked: {
    title: 'a write that is confirmed in a form of the client',
    prepare: ({ url }) => ({ call: () => confirmed(`${url}/asked`) }),
  },
  approved: {
    title: 'a write that another person approves',
    counted: 50,
    atOnce: 8,
    prepare: ({ url }) => ({ call: () => approved(`${url}/approved`) }),
  },
  task: {
    title: 'a read of a second, as a task with its result',
    counted: 8,
    atOnce: 100,
    prepare: async ({ url }) => {
      const session = await openSession(`${url}/slow`)
      return { call: () => task(`${url}/slow`, session) }
    },
  },
  session: {
    title: 'a new session of an older client',
    most: 700,
    prepare: ({ url }) => ({ call: () => openSession(`${url}/plain`) }),
  },
  'session-read': {
    title: 'a read in a session, at its gateway',
    prepare: async ({ url }) => {
      const session = await openSession(`${url}/plain`)
      return { call: () => callInSession(`${url}/plain`, session) }
    },
  },
  forwarded: {
    title: 'a read in a session, at another gateway',
    prepare: async ({ url, other }) => {
      const session = await openSession(`${url}/plain`)
      return { call: () => callInSession(`${other}/plain`, session) }
    },
  },
  event: {
    title: 'a write whose event a stream at its gateway gets',
    prepare: ({ url }) => followed(`${url}/followed`, [`${url}/followed`]),
  },
  'event-kept': {
    title: 'the same when no stream is open any more',
    prepare: ({ url }) => ({ call: () => callTool(`${url}/followed`, 'write') }),
  },
  'event-elsewhere': {
    title: 'a write whose event a stream at another gateway gets',
    prepare: ({ url, other }) => followed(`${url}/elsewhere`, [`${other}/elsewhere`]),
  },
} satisfies Record<string, Kind>

/** The servers of the configuration: the same one, under a name for each way to treat it. */
export function upstreamsOf(url: string, slowUrl: string): Json {
  const plain = { url, trust: true }
  const question = { confirm: 'Write {bytes} bytes?' }
  return {
    plain: { ...plain, tools: { write: { undo: 'write(bytes=$.args.bytes)' } } },
    unrecorded: { ...plain, features: { undo: { history: 'off' } } },
    limited: { ...plain, limits: { rate: '1000000/second' } },
    asked: { ...plain, tools: { write: question } },
    approved: { ...plain, tools: { write: { ...question, approval: 'out_of_band' } } },
    followed: plain,
    elsewhere: plain,
    slow: { url: slowUrl, trust: true },
  }
}

const dispatcher = new Agent({ connections: 256, keepAliveTimeout: 60_000 })
const BYTES = 1024
let made = 0

/** A key that no call had before. */
function nextKey(): string {
  return `key-${process.pid}-${made++}`
}

interface Reply {
  readonly result: Json
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
}

/** Posts a message. @throws if the answer is not a result, or the result of a tool is an error */
async function send(url: string, message: Json, headers: HeaderMap): Promise<Reply> {
  const reply = await request(url, {
    method: 'POST',
    headers: { ...usual, ...headers, authorization: `Bearer ${tokens.caller}` },
    body: JSON.stringify(message),
    dispatcher,
  })
  const text = await reply.body.text()
  if (message['id'] === undefined && reply.statusCode === 202) return { result: {}, headers: reply.headers }
  const data = text.startsWith('{') ? text : new SseParser().push(text).at(-1)?.data
  const result = objectAt(parse(data ?? ''), 'result')
  if (reply.statusCode !== 200 || Object.keys(result).length === 0)
    throw new Error(`${String(message['method'])} at ${url}: HTTP ${reply.statusCode}: ${text.slice(0, 400)}`)
  return { result, headers: reply.headers }
}

/** Makes a request of a client without sessions. */
async function ask(url: string, method: string, given: Json, capabilities: Json = {}): Promise<Json> {
  const params = enveloped(given, REVISIONS.modern, capabilities)
  const headers = mirrorHeaders(method, params, new Map())
  return (await send(url, { jsonrpc: '2.0', id: 1, method, params }, headers)).result
}

async function callTool(url: string, name: string, _meta: Json = {}, args: Json = {}): Promise<void> {
  const params = { name, arguments: { bytes: BYTES, ...args }, _meta }
  mustSucceed(await ask(url, 'tools/call', params))
}

function mustSucceed(result: Json): void {
  if (result['isError'] === true || !Array.isArray(result['content']))
    throw new Error(`not the result of a call: ${JSON.stringify(result).slice(0, 400)}`)
}

/** Begins a session of an older client; the value is the headers of its requests. */
export async function openSession(url: string): Promise<HeaderMap> {
  const params = {
    protocolVersion: REVISIONS.legacy,
    capabilities: {},
    clientInfo: { name: 'bench', version: '1' },
  }
  const { headers } = await send(url, { jsonrpc: '2.0', id: 0, method: 'initialize', params }, {})
  const session = {
    'mcp-session-id': String(headers['mcp-session-id']),
    'mcp-protocol-version': REVISIONS.legacy,
  }
  await send(url, { jsonrpc: '2.0', method: 'notifications/initialized' }, session)
  return session
}

async function callInSession(url: string, session: HeaderMap): Promise<void> {
  const params = { name: 'get_text', arguments: { bytes: BYTES } }
  const message = { jsonrpc: '2.0', id: made++, method: 'tools/call', params }
  mustSucceed((await send(url, message, session)).result)
}

async function task(url: string, session: HeaderMap): Promise<void> {
  const inSession = async (method: string, params: Json): Promise<Json> =>
    (await send(url, { jsonrpc: '2.0', id: made++, method, params }, session)).result
  const begun = await inSession('tools/call', { name: 'wait', arguments: {}, task: {} })
  const { taskId } = objectAt(begun, 'task')
  mustSucceed(await inSession('tasks/result', { taskId }))
}

const STEPS = 25

/** Each worker has a transaction at a time. */
function transactions(url: string): Prepared {
  const begun = new Map<number, { readonly transaction_id: string; steps: number }>()
  return {
    call: async (worker) => {
      let own = begun.get(worker)
      if (!own) {
        own = { transaction_id: nextKey(), steps: 0 }
        begun.set(worker, own)
        await ask(url, 'transaction/begin', { transaction_id: own.transaction_id })
      }
      const { transaction_id } = own
      await callTool(url, 'write', { transaction_id, step_id: `${++own.steps}` })
      if (own.steps < STEPS) return
      begun.delete(worker)
      await ask(url, 'transaction/commit', { transaction_id })
    },
  }
}

/** A transaction of one step, from begin to commit. */
export async function oneTransaction(url: string): Promise<void> {
  const transaction_id = nextKey()
  await ask(url, 'transaction/begin', { transaction_id })
  await callTool(url, 'write', { transaction_id, step_id: '1' })
  await ask(url, 'transaction/commit', { transaction_id })
}

/** A call whose client shows a form, which its user accepts. */
async function confirmed(url: string): Promise<void> {
  const params = { name: 'write', arguments: { bytes: BYTES } }
  const capabilities = { elicitation: { form: {} } }
  const { inputRequests, requestState } = await ask(url, 'tools/call', params, capabilities)
  const names = isObject(inputRequests) ? Object.keys(inputRequests) : []
  const answer = { action: 'accept', content: { confirm: true } }
  const inputResponses = Object.fromEntries(names.map((name) => [name, answer]))
  mustSucceed(await ask(url, 'tools/call', { ...params, inputResponses, requestState }, capabilities))
}

/** A call that somebody else approves, and that is then repeated. */
async function approved(url: string): Promise<void> {
  // Equal calls would share an approval.
  const params = { name: 'write', arguments: { bytes: BYTES, key: nextKey() } }
  const refused = await ask(url, 'tools/call', params)
  const page = objectAt(refused['_meta'], 'dev.gatehouse/confirmation')['url']
  if (typeof page !== 'string') throw new Error(`no page: ${JSON.stringify(refused).slice(0, 400)}`)
  const decided = await request(page, {
    method: 'POST',
    headers: {
      accept: 'application/json',
      'content-type': 'application/json',
      authorization: `Bearer ${tokens.approver}`,
    },
    body: JSON.stringify({ verdict: 'approved' }),
    dispatcher,
  })
  const text = await decided.body.text()
  if (decided.statusCode !== 200) throw new Error(`not approved: ${text.slice(0, 400)}`)
  mustSucceed(await ask(url, 'tools/call', params))
}

/** Opens a stream of events, on a connection of its own; the returned function closes it. */
export async function openEventStream(url: string): Promise<() => void> {
  const params = enveloped({ ...followedEvents, cursor: null }, REVISIONS.modern, {})
  const headers = { ...usual, ...mirrorHeaders('events/stream', params, new Map()) }
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'events/stream', params })
  const authorization = `Bearer ${tokens.caller}`
  const reply = await open(url, { method: 'POST', headers: { ...headers, authorization }, body })
  const { value } = await reply.events().next()
  if (!String(value?.data).includes('notifications/events/'))
    throw new Error(`no stream of events: HTTP ${reply.status}: ${String(value?.data).slice(0, 400)}`)
  return reply.destroy
}

const followedEvents = { name: 'write.succeeded', arguments: {} }

/** Writes whose events a stream at one of these addresses gets. */
async function followed(url: string, urls: readonly string[]): Promise<Prepared> {
  const stream = streamEvents({ urls, token: tokens.caller }, followedEvents)
  await stream.ready
  const arrived = new Set<string>()
  let seen = 0
  return {
    call: async () => {
      const key = nextKey()
      await callTool(url, 'write', {}, { key })
      for (const deadline = performance.now() + 10_000; !arrived.has(key); await pause(1)) {
        for (; seen < stream.arrived.length; seen++) arrived.add(stream.arrived[seen]?.key ?? '')
        if (performance.now() > deadline) throw new Error(`no event of ${key}: ${stream.faults.join()}`)
      }
    },
    close: () => stream.close(),
  }
}
