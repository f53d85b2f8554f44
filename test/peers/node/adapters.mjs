// What frameworks for agents make of the tools of an MCP server: LangChain.js and the AI SDK, each with its own client.
// Given `{ target: { url } | { command, args }, calls: [[tool, arguments], ...] }` as JSON, it prints for each framework
// what every call gave: the value that a model gets, or the message of the error.
import { createMCPClient } from '@ai-sdk/mcp'
import { Experimental_StdioMCPTransport as AiStdio } from '@ai-sdk/mcp/mcp-stdio'
import { MultiServerMCPClient } from '@langchain/mcp-adapters'

const { target, calls } = JSON.parse(process.argv[2])

async function outcome(make) {
  try {
    return { value: await make() }
  } catch (error) {
    return { error: error.message }
  }
}

async function langchain() {
  const server =
    target.url === undefined
      ? { transport: 'stdio', stderr: 'ignore', ...target }
      : { transport: 'http', ...target }
  const client = new MultiServerMCPClient({
    mcpServers: { it: server },
    prefixToolNameWithServerName: false,
    additionalToolNamePrefix: '',
  })
  const tools = await client.getTools()
  const results = []
  for (const [name, args] of calls) {
    const tool = tools.find((each) => each.name === name)
    const call = { type: 'tool_call', id: '1', name, args }
    results.push(
      await outcome(async () => ({
        content: await tool.invoke(args),
        message: (({ content, status }) => ({ content, status }))(await tool.invoke(call)),
      })),
    )
  }
  await client.close()
  return { names: tools.map(({ name }) => name), results }
}

async function aiSdk() {
  const transport =
    target.url === undefined ? new AiStdio({ stderr: 'ignore', ...target }) : { type: 'http', ...target }
  const client = await createMCPClient({ transport })
  const tools = await client.tools()
  const results = []
  for (const [name, input] of calls) {
    const tool = tools[name]
    results.push(
      await outcome(async () => {
        const output = await tool.execute(input, { toolCallId: '1', messages: [] })
        return { output, model: await tool.toModelOutput?.({ toolCallId: '1', input, output }) }
      }),
    )
  }
  await client.close()
  return { names: Object.keys(tools), results }
}

process.stdout.write(JSON.stringify({ langchain: await langchain(), aiSdk: await aiSdk() }))
