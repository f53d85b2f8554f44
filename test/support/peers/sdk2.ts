import {
  Client,
  type McpSubscription,
  SSEClientTransport,
  StreamableHTTPClientTransport,
  type Transport,
  type VersionNegotiationMode,
} from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
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

/** Connects a client of the official SDK 2.x; `mode` says which eras it may speak. */
export async function connectSdk2(way: Way, mode: VersionNegotiationMode): Promise<PeerClient> {
  const asked: string[] = []
  const heard: Heard[] = []
  const subscriptions: McpSubscription[] = []
  let root = firstRoot
  const client = answeringClient(asked, () => root, mode)
  client.fallbackNotificationHandler = async ({ method, params }) => void heard.push({ method, params })
  await client.connect(transportOf(way))
  const isModern = client.getNegotiatedProtocolVersion() === '2026-07-28'
  let level: 'debug' | 'error' | undefined
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
      const meta = level === undefined ? {} : { _meta: { 'io.modelcontextprotocol/logLevel': level } }
      const result = await client.callTool(
        { name, arguments: args, ...meta },
        onprogress ? { onprogress } : {},
      )
      const { content, isError, structuredContent } = result
      return { text: textOf(content), isError: isError === true, structured: structuredContent }
    },
    links: async (name, args = {}) => linksOf((await client.callTool({ name, arguments: args })).content),
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
    subscribe: async (uri) => {
      if (isModern) subscriptions.push(await client.listen({ resourceSubscriptions: [uri] }))
      else await client.subscribeResource({ uri })
    },
    log: async (from) => {
      if (isModern) level = from
      else await client.setLoggingLevel(from)
    },
    move: async (to) => {
      root = to
      await client.sendRootsListChanged()
    },
    close: async () => {
      await Promise.all(subscriptions.map((each) => each.close()))
      await client.close()
    },
  }
}

function answeringClient(asked: string[], root: () => string, mode: VersionNegotiationMode): Client {
  const capabilities = { sampling: {}, elicitation: { form: {}, url: {} }, roots: { listChanged: true } }
  const client = new Client(
    { name: 'peer', version: '1.0.0' },
    { capabilities, versionNegotiation: { mode } },
  )
  client.setRequestHandler('elicitation/create', ({ method, params }) => {
    asked.push(method)
    return params.mode === 'url' ? answers.url : answers.form
  })
  client.setRequestHandler('sampling/createMessage', ({ method }) => {
    asked.push(method)
    return answers.sampled
  })
  client.setRequestHandler('roots/list', ({ method }) => {
    asked.push(method)
    return { roots: [{ uri: root() }] }
  })
  return client
}

function transportOf(way: Way): Transport {
  if (way.transport === 'stdio') {
    const [command = '', ...args] = way.command
    return new StdioClientTransport({ command, args, stderr: 'ignore' })
  }
  const url = new URL(way.url)
  if (way.transport === 'sse') return new SSEClientTransport(url)
  return new StreamableHTTPClientTransport(url, httpOptions(way))
}
