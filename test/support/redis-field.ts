/** Gateways with a store in Redis, before a server that counts its calls. */
import { setTimeout as pause } from 'node:timers/promises'
import { until } from './condition.ts'
import type { FakeClient } from './fake-client.ts'
import type { GatewayProcess } from './gateway-process.ts'
import { clientOf, codeOf, folder, gatewayProcessTo } from './journey.ts'
import { type Notes, notes } from './notes.ts'
import type { Json } from './server/json.ts'

/** A server, and how gateways for it are started. */
export interface RedisField {
  readonly server: Notes
  start(): Promise<GatewayProcess>
}

/** The field of a test. `url` is that of the store. */
export async function redisField(url: string): Promise<RedisField> {
  const [server, home] = [await notes(), folder()]
  const options = { config: { store: url }, env: { XDG_STATE_HOME: home } }
  return { server, start: () => gatewayProcessTo({ notes: server.upstream }, options) }
}

/** The parameters of a call of its tool. */
export function add(text: string, meta: Json = {}): Json {
  return { name: 'add', arguments: { text }, _meta: meta }
}

/** The same with a key, which is the text too. */
export function keyed(key: string): Json {
  return add(key, { idempotency_key: key })
}

/** Repeats a call until it is answered; the codes with which it was refused before. */
export async function answered(client: FakeClient, key: string): Promise<readonly unknown[]> {
  const refusals: unknown[] = []
  await until(async () => {
    const code = codeOf(await client.request('tools/call', keyed(key)))
    if (code === undefined) return true
    refusals.push(code)
    await pause(50)
    return false
  }, `the answer to ${key}`)
  return refusals
}

/** A client that may call before it has a session. */
export function modern(gateway: { readonly url: string }): Promise<FakeClient> {
  return clientOf(gateway, { revision: '2026-07-28' })
}
