import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import {
  CallToolResultSchema,
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
} from '@modelcontextprotocol/sdk/types.js'
import {
  answers,
  contentsOf,
  firstRoot,
  type Heard,
  httpOptions,
  linksOf,
  type PeerClient,
  textOf,
  type Way,
} from './client.ts'

/** Connects a client of the official SDK 1.x. */
export async function connectSdk1(way: Way): Promise<PeerClient> {
  const asked: string[] = []
  const heard: Heard[] = []
  let root = firstRoot
  const client = answeringClient(asked, () => root)
  client.fallbackNotificationHandler = async ({ method, params }) => void heard.push({ method, params })
  await client.connect(sdk1Transport(way))
  return {
    server: client.getServerVersion()?.name,
    asked,
    heard,
    tools: async () => (await client.listTools()).tools.map(({ name }) => name),
    prompts: async () => (await client.listPrompts()).prompts.map(({ name }) => name),
    resources: async () => (await client.listResources()).resources.map(({ uri }) => uri),
    templates: async () =>
      (await client.listResourceTemplates()).resourceTemplates.map(({ uriTemplate }) => uriTemplate),
    call: async (name, args = {}, onProgress) => {
      const onprogress = onProgress && (({ progress }: { progress: number }) => onProgress(progress))
      const options = onprogress ? { onprogress } : {}
      const result = await client.callTool({ name, arguments: args }, CallToolResultSchema, options)
      const { content, isError, structuredContent } = CallToolResultSchema.parse(result)
      return { text: textOf(content), isError: isError === true, structured: structuredContent }
    },
    links: async (name, args = {}) =>
      linksOf(CallToolResultSchema.parse(await client.callTool({ name, arguments: args })).content),
    prompt: async (name, args = {}) => {
      const { messages } = await client.getPrompt({ name, arguments: args })
      return textOf(messages.map(({ content }) => content))
    },
    read: async (uri) => contentsOf((await client.readResource({ uri })).contents),
    complete: async (ref, argument, context) => {
      const { completion } = await client.complete({
        ref,
        argument,
        ...(context && { context: { arguments: context } }),
      })
      return completion.values
    },
    subscribe: async (uri) => void (await client.subscribeResource({ uri })),
    log: async (level) => void (await client.setLoggingLevel(level)),
    move: async (to) => {
      root = to
      await client.sendRootsListChanged()
    },
    close: () => client.close(),
  }
}

function answeringClient(asked: string[], root: () => string): Client {
  const capabilities = { sampling: {}, elicitation: { form: {}, url: {} }, roots: { listChanged: true } }
  const client = new Client({ name: 'peer', version: '1.0.0' }, { capabilities })
  client.setRequestHandler(ElicitRequestSchema, ({ method, params }) => {
    asked.push(method)
    return params.mode === 'url' ? answers.url : answers.form
  })
  client.setRequestHandler(CreateMessageRequestSchema, ({ method }) => {
    asked.push(method)
    return answers.sampled
  })
  client.setRequestHandler(ListRootsRequestSchema, ({ method }) => {
    asked.push(method)
    return { roots: [{ uri: root() }] }
  })
  return client
}

/** The transport of a way, not started yet. */
export function sdk1Transport(way: Way): Transport {
  if (way.transport === 'stdio') {
    const [command = '', ...args] = way.command
    return new StdioClientTransport({ command, args, stderr: 'ignore' })
  }
  const url = new URL(way.url)
  if (way.transport === 'sse') return new SSEClientTransport(url)
  return new StreamableHTTPClientTransport(url, httpOptions(way))
}
