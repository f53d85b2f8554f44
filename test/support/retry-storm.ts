/**
 * Clients of the official SDKs that give up early, and repeat what they got no answer to: without a key, or each time with a
 * new one. Their server counts the effects of each call.
 */
import { request } from 'node:http'
import {
  Client as ModernClient,
  StreamableHTTPClientTransport as ModernHttp,
} from '@modelcontextprotocol/client'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { type AnsweringServer, answeringServer } from './answering-server.ts'
import { tokenHash } from './auth/token-hash.ts'
import { type LocalGateway, localGateway } from './local-gateway.ts'
import { isObject, type Json, objectAt, parse } from './server/json.ts'

/** When clients give up what the server does not answer, in milliseconds. */
const IMPATIENT_MS = 200
const PATIENT_MS = 60_000

/** A server with the tool `charge`, and the gateway in front of it, which knows some callers. */
export interface ChargingField {
  readonly gateway: LocalGateway
  /** How often each call took effect, by its `id`. */
  readonly effects: ReadonlyMap<string, number>
  /** What calls wait for before and after their effect, by their `id`. */
  readonly held: Map<string, Held>
  close(): Promise<void>
}

interface Held {
  readonly before?: PromiseWithResolvers<void>
  readonly after?: PromiseWithResolvers<void>
}

/** The token of a caller. */
export function tokenOf(caller: string): string {
  return `${caller}-token-of-at-least-32-characters`
}

/** Starts them. */
export async function chargingField(callers: readonly string[]): Promise<ChargingField> {
  const effects = new Map<string, number>()
  const held = new Map<string, Held>()
  const server = await chargingServer(effects, held)
  const tokens = callers.map((id) => ({ id, hash: tokenHash(tokenOf(id)) }))
  const gateway = await localGateway({
    ...(callers.length > 0 && { auth: { opaque: { tokens } } }),
    listen: { legacy_sse: true },
    limits: { concurrency: 'off', rate: 'off' },
    features: { confirm: 'off' },
    upstreams: { one: { url: server.url, revision: '2025-11-25' } },
  })
  return {
    gateway,
    effects,
    held,
    close: async () => {
      await gateway.close()
      await server.close()
    },
  }
}

function chargingServer(
  effects: Map<string, number>,
  held: ReadonlyMap<string, Held>,
): Promise<AnsweringServer> {
  const tool = {
    name: 'charge',
    description: 'Charges a card',
    inputSchema: { type: 'object', properties: { id: {}, note: { type: 'string' } } },
  }
  return answeringServer(async (method, params) => {
    if (method === 'initialize')
      return {
        protocolVersion: '2025-11-25',
        capabilities: { tools: {} },
        serverInfo: { name: 'charges', version: '1' },
      }
    if (method === 'tools/list') return { tools: [tool] }
    if (method !== 'tools/call') return undefined
    const given = objectAt(params, 'arguments')['id']
    const id = String(given)
    const { before, after } = held.get(id) ?? {}
    await before?.promise
    effects.set(id, (effects.get(id) ?? 0) + 1)
    await after?.promise
    return { content: [{ type: 'text', text: `charged ${id}` }] }
  })
}

/** What a client makes of one attempt: the result, or that it gave up. */
type Attempt = (args: Json, timeoutMs: number, meta: Json | undefined) => Promise<Json | undefined>

interface StormClient {
  /** Makes a request that the gateway answers once it has seen what the client did before. */
  sync(): Promise<unknown>
  readonly attempt: Attempt
  close(): Promise<void>
}

/** The kinds of clients. */
export const stormClients = {
  'SDK 1.x': sdk1,
  'SDK 2.x': (field: ChargingField, caller: string) => sdk2(field, caller, { pin: '2026-07-28' }),
  'SDK 2.x in an older revision': (field: ChargingField, caller: string) => sdk2(field, caller, 'legacy'),
  'a client whose connection is cut': cutting,
} as const

type Kind = keyof typeof stormClients

/** Makes calls that all take several attempts. Returns how many attempts got no answer. */
export async function storm(
  field: ChargingField,
  { kind, caller, calls }: { readonly kind: Kind; readonly caller: string; readonly calls: number },
): Promise<number> {
  const client = await stormClients[kind](field, caller)
  let lost = 0
  for (let index = 0; index < calls; index++) {
    const losses = 1 + (index % 2)
    await attemptUntilAnswered(field, client, { id: `${caller} ${index}`, index, losses })
    lost += losses
  }
  await client.close()
  return lost
}

/** Makes a call whose first answers are lost. */
async function attemptUntilAnswered(
  field: ChargingField,
  client: StormClient,
  { id, index, losses }: { readonly id: string; readonly index: number; readonly losses: number },
): Promise<void> {
  // It takes effect once its clients have given up, or before that.
  const hold = Promise.withResolvers<void>()
  field.held.set(id, index % 4 < 2 ? { before: hold } : { after: hold })
  // The same arguments in another order, and for every third call a new key in each attempt.
  const attempt = (number: number, timeoutMs: number): Promise<Json | undefined> => {
    const args = number % 2 === 0 ? { id, note: 'n' } : { note: 'n', id }
    const key = { 'dev.gatehouse/idempotency_key': `${index}-${number}` }
    return client.attempt(args, timeoutMs, index % 3 < 2 ? undefined : key)
  }
  for (let number = 0; number < losses; number++) {
    const result = await attempt(number, IMPATIENT_MS)
    if (result !== undefined) throw new Error(`${id} was answered: ${JSON.stringify(result)}`)
    await client.sync()
    await client.sync()
  }
  hold.resolve()
  checkCharged((await attempt(losses, PATIENT_MS)) ?? {}, id)
}

function checkCharged(result: Json, id: string): void {
  if (!JSON.stringify(result['content']).includes(`charged ${id}`))
    throw new Error(`the result of ${id} is ${JSON.stringify(result)}`)
}

function headersOf(caller: string): Record<string, string> {
  return { authorization: `Bearer ${tokenOf(caller)}` }
}

async function sdk1(field: ChargingField, caller: string): Promise<StormClient> {
  const client = new Client({ name: 'storm', version: '1' })
  const { fetch, sent } = tracked()
  const requestInit = { headers: headersOf(caller) }
  const url = new URL(`${field.gateway.url}/one`)
  const transport = new StreamableHTTPClientTransport(url, { requestInit, fetch })
  await client.connect(transport)
  return ofSdk({
    sync: () => client.listTools().then(sent),
    call: (args, timeout, meta) =>
      client.callTool({ name: 'charge', arguments: args, ...(meta && { _meta: meta }) }, undefined, {
        timeout,
      }),
    close: () => client.close(),
  })
}

async function sdk2(
  field: ChargingField,
  caller: string,
  mode: 'legacy' | { readonly pin: string },
): Promise<StormClient> {
  const client = new ModernClient({ name: 'storm', version: '1' }, { versionNegotiation: { mode } })
  const { fetch, sent } = tracked()
  const requestInit = { headers: headersOf(caller) }
  await client.connect(new ModernHttp(new URL(`${field.gateway.url}/one`), { requestInit, fetch }))
  return ofSdk({
    sync: () => client.listTools().then(sent),
    call: (args, timeout, meta) =>
      client.callTool({ name: 'charge', arguments: args, ...(meta && { _meta: meta }) }, { timeout }),
    close: () => client.close(),
  })
}

/** A `fetch`, and a wait until the gateway has accepted all cancellations that it sent. */
function tracked(): { readonly fetch: typeof globalThis.fetch; sent(): Promise<unknown> } {
  const cancelling: Promise<unknown>[] = []
  return {
    fetch: (url, init) => {
      const response = globalThis.fetch(url, init)
      if (String(init?.body).includes('notifications/cancelled')) cancelling.push(response)
      return response
    },
    sent: () => Promise.allSettled(cancelling.splice(0)),
  }
}

function ofSdk({
  call,
  ...client
}: Omit<StormClient, 'attempt'> & {
  call(args: Json, timeout: number, meta: Json | undefined): Promise<unknown>
}): StormClient {
  return {
    ...client,
    attempt: async (args, timeout, meta) => {
      try {
        return Object(await call(args, timeout, meta))
      } catch (error) {
        if (/timed out/i.test(String(error))) return undefined
        throw error
      }
    },
  }
}

/** A client of 2025-11-25 that cuts the connection of a request, which cancels nothing. */
async function cutting({ gateway }: ChargingField, caller: string): Promise<StormClient> {
  const url = `${gateway.url}/one`
  let session: string | undefined
  const post = (message: Json, timeoutMs = PATIENT_MS): Promise<Json | undefined> =>
    new Promise((resolve, reject) => {
      // With a connection of its own each, the gateway sees the end of one before the next request.
      const sent = request(url, {
        method: 'POST',
        agent: false,
        headers: {
          ...headersOf(caller),
          'content-type': 'application/json',
          accept: 'application/json',
          ...(session !== undefined && { 'mcp-session-id': session }),
        },
      })
      const timer = setTimeout(() => sent.destroy(), timeoutMs)
      const cut = (error: Error): void => (timeoutMs < PATIENT_MS ? resolve(undefined) : reject(error))
      sent.on('error', cut)
      sent.on('response', (response) => {
        session ??= response.headers['mcp-session-id']?.toString()
        let text = ''
        response.on('data', (chunk: Buffer) => (text += chunk.toString()))
        response.on('error', cut)
        response.on('end', () => {
          clearTimeout(timer)
          const value = text === '' ? {} : parse(text)
          resolve(isObject(value) ? value : {})
        })
      })
      sent.end(JSON.stringify({ jsonrpc: '2.0', ...message }))
    })
  await post({
    id: 0,
    method: 'initialize',
    params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'cut', version: '1' } },
  })
  await post({ method: 'notifications/initialized' })
  let id = 0
  return {
    sync: () => post({ id: ++id, method: 'ping' }),
    attempt: async (args, timeoutMs, meta) => {
      const params = { name: 'charge', arguments: args, ...(meta && { _meta: meta }) }
      const answer = await post({ id: ++id, method: 'tools/call', params }, timeoutMs)
      return answer && objectAt(answer, 'result')
    },
    close: async () => undefined,
  }
}

/** Makes equal calls that are all meant, with one client: so many at a time. */
export async function meantTwice(
  field: ChargingField,
  { kind, caller, calls, together }: { kind: Kind; caller: string; calls: number; together: number },
): Promise<void> {
  const client = await stormClients[kind](field, caller)
  const make = async (): Promise<void> => {
    const result = await client.attempt({ id: caller, note: 'n' }, PATIENT_MS, undefined)
    checkCharged(result ?? {}, caller)
  }
  for (let done = 0; done < calls; done += together)
    await Promise.all(Array.from({ length: Math.min(together, calls - done) }, make))
  await client.close()
}
