/**
 * Clients of the official SDKs, unchanged, that subscribe to events by a method where they can send one, else by a tool.
 * What they receive outside of responses is kept.
 */
import {
  Client as NewClient,
  SSEClientTransport as NewSse,
  StreamableHTTPClientTransport as NewHttp,
  type VersionNegotiationMode,
} from '@modelcontextprotocol/client'
import { StdioClientTransport as NewStdio } from '@modelcontextprotocol/client/stdio'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { z } from 'zod'
import { type Json, objectAt } from '../server/json.ts'
import type { Way } from './client.ts'

/** A client that subscribes to events. */
export interface EventClient {
  /** What it received outside of responses, oldest first. */
  readonly received: readonly { readonly method: string; readonly params: Json }[]
  /** Subscribes, and has the events sent where that needs another request. */
  subscribe(params: Json): Promise<Json>
  /** Calls a tool; resolves with its structured content, or its whole result. */
  call(name: string, args: Json): Promise<Json>
  close(): Promise<void>
}

/** The filter of `subscriptions/listen` with these subscriptions. */
const listenFilter = (id: unknown): Json => ({ 'dev.gatehouse/events': [id] })

/** Connects a client; `token` authenticates it over HTTP. */
type Connect = (way: Way, token?: string) => Promise<EventClient>

/** The SDK 1.x. */
export const eventSdk1: Connect = async (way, token) => {
  const client = new Client({ name: 'peer', version: '1.0.0' }, { capabilities: {} })
  const received: { method: string; params: Json }[] = []
  client.fallbackNotificationHandler = async ({ method, params }) =>
    void received.push({ method, params: { ...params } })
  const options = { requestInit: requestInit(token) }
  if (way.transport === 'stdio') {
    const [command = '', ...args] = way.command
    await client.connect(new StdioClientTransport({ command, args, stderr: 'ignore' }))
  } else {
    const url = new URL(way.url)
    await client.connect(
      way.transport === 'sse'
        ? new SSEClientTransport(url, options)
        : new StreamableHTTPClientTransport(url, options),
    )
  }
  return {
    received,
    subscribe: (params) => client.request({ method: 'event/subscribe', params }, z.looseObject({})),
    call: async (name, args) => structuredIn({ ...(await client.callTool({ name, arguments: args })) }),
    close: () => client.close(),
  }
}

/** The SDK 2.x in the revisions with a handshake, or in 2026-07-28. */
export const eventSdk2 =
  (isModern: boolean): Connect =>
  async (way, token) => {
    const mode: VersionNegotiationMode = isModern ? { pin: '2026-07-28' } : 'legacy'
    const client = new NewClient({ name: 'peer', version: '1.0.0' }, { versionNegotiation: { mode } })
    const received: { method: string; params: Json }[] = []
    client.fallbackNotificationHandler = async ({ method, params }) =>
      void received.push({ method, params: { ...params } })
    await client.connect(newTransport(way, token))
    const call = async (name: string, args: Json): Promise<Json> =>
      structuredIn({ ...(await client.callTool({ name, arguments: args })) })
    return {
      received,
      call,
      subscribe: async (params) => {
        const answer = await call('subscribe_events', params)
        if (isModern) await client.listen(listenFilter(answer['subscription_id']))
        return answer
      },
      close: () => client.close(),
    }
  }

function newTransport(way: Way, token: string | undefined): NewHttp | NewSse | NewStdio {
  if (way.transport === 'stdio') {
    const [command = '', ...args] = way.command
    return new NewStdio({ command, args, stderr: 'ignore' })
  }
  const options = { requestInit: requestInit(token) }
  return way.transport === 'sse'
    ? new NewSse(new URL(way.url), options)
    : new NewHttp(new URL(way.url), options)
}

function requestInit(token: string | undefined): RequestInit {
  return token === undefined ? {} : { headers: { authorization: `Bearer ${token}` } }
}

function structuredIn(result: Json): Json {
  return result['structuredContent'] === undefined ? result : objectAt(result, 'structuredContent')
}
