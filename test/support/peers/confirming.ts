import {
  Client as ModernClient,
  StreamableHTTPClientTransport as ModernHttp,
  type Transport as ModernTransport,
} from '@modelcontextprotocol/client'
import { StdioClientTransport as ModernStdio } from '@modelcontextprotocol/client/stdio'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import { onTestFinished } from 'vitest'
import type { Json } from '../server/json.ts'
import type { Way } from './client.ts'

/** What the person at a client says to a question, given its params. */
export type Person = (params: Json) => Said

type Said = {
  readonly action: 'accept' | 'decline' | 'cancel'
  readonly content?: Record<string, string | number | boolean>
}

/** A client of the official SDK, maybe with a person at it. */
export interface ConfirmingClient {
  /** What the server says it can do. */
  readonly capabilities: Json
  /** The params of the questions the person was asked. */
  readonly asked: readonly Json[]
  call(name: string, args: Json, meta?: Json, onProgress?: (message: unknown) => void): Promise<Json>
  /** The list of tools; with what else is asked for in its `_meta`. */
  tools(meta?: Json): Promise<readonly Json[]>
  close(): Promise<void>
}

/** Connects a client; without a person it declares that no one can be asked. */
export type Connect = (
  way: Way,
  person?: Person,
  headers?: Record<string, string>,
) => Promise<ConfirmingClient>

/** A client without a person at a gateway, until the test is over. */
export async function connected(
  { gateway }: { readonly gateway: { readonly url: string } },
  connect: Connect = connectLegacy,
): Promise<ConfirmingClient> {
  const client = await connect({ transport: 'http', url: gateway.url })
  onTestFinished(() => client.close())
  return client
}

/** Connects a client of the SDK 1.x, which is asked by `elicitation/create`. */
export const connectLegacy: Connect = async (way, person, headers = {}) => {
  const asked: Json[] = []
  const capabilities = person ? { elicitation: {} } : {}
  const client = new Client({ name: 'peer', version: '1.0.0' }, { capabilities })
  if (person)
    client.setRequestHandler(ElicitRequestSchema, ({ params }) => answer({ ...params }, asked, person))
  await client.connect(legacyTransport(way, headers))
  return {
    capabilities: { ...client.getServerCapabilities() },
    asked,
    call: async (name, args, meta, onProgress) =>
      Object(
        await client.callTool(
          { name, arguments: args, ...(meta && { _meta: meta }) },
          undefined,
          onProgress && { onprogress: ({ message }) => onProgress(message) },
        ),
      ),
    tools: async (meta) =>
      (await client.listTools(meta && { _meta: meta })).tools.map((tool) => ({ ...tool })),
    close: () => client.close(),
  }
}

/** Connects a client of the SDK 2.x, which is asked by `input_required` results. */
export const connectModern: Connect = (way, person, headers) =>
  connectTwo({ pin: '2026-07-28' }, way, person, headers)

/** Connects a client of the SDK 2.x as one of an older revision. */
export const connectFallenBack: Connect = (way, person, headers) => connectTwo('legacy', way, person, headers)

async function connectTwo(
  mode: 'legacy' | { readonly pin: string },
  ...[way, person, headers = {}]: Parameters<Connect>
): Promise<ConfirmingClient> {
  const asked: Json[] = []
  const capabilities = person ? { elicitation: { form: {} } } : {}
  const versionNegotiation = { mode }
  const client = new ModernClient({ name: 'peer', version: '1.0.0' }, { capabilities, versionNegotiation })
  if (person)
    client.setRequestHandler('elicitation/create', ({ params }) => answer({ ...params }, asked, person))
  await client.connect(modernTransport(way, headers))
  return {
    capabilities: { ...client.getServerCapabilities() },
    asked,
    call: async (name, args, meta, onProgress) =>
      Object(
        await client.callTool(
          { name, arguments: args, ...(meta && { _meta: meta }) },
          onProgress && { onprogress: ({ message }) => onProgress(message) },
        ),
      ),
    tools: async (meta) =>
      (await client.listTools(meta && { _meta: meta })).tools.map((tool) => ({ ...tool })),
    close: () => client.close(),
  }
}

/** A client of each era. */
export const eras: readonly { readonly title: string; readonly connect: Connect }[] = [
  { title: 'SDK 1.x', connect: connectLegacy },
  { title: 'SDK 2.x', connect: connectModern },
]

function answer(params: Json, asked: Json[], person: Person): Said {
  asked.push(params)
  return person(params)
}

function legacyTransport(way: Way, headers: Record<string, string>): Transport {
  if (way.transport === 'stdio') return new StdioClientTransport(commandOf(way.command))
  return new StreamableHTTPClientTransport(new URL(way.url), { requestInit: { headers } })
}

function modernTransport(way: Way, headers: Record<string, string>): ModernTransport {
  if (way.transport === 'stdio') return new ModernStdio(commandOf(way.command))
  return new ModernHttp(new URL(way.url), { requestInit: { headers } })
}

function commandOf([command = '', ...args]: readonly string[]): {
  command: string
  args: string[]
  stderr: 'ignore'
} {
  return { command, args, stderr: 'ignore' }
}
