// What frameworks for agents make of the tools of an MCP server: LangChain.js and the AI SDK, each with its own client.
// Given `{ target: { url } | { command, args }, calls: [[tool, arguments], ...] }` as JSON, it prints for each framework
// what every call gave: the value that a model gets, or the message of the error. With `again: true` it does so again, with the
// same clients, after each line on its standard input.
import { createInterface } from 'node:readline'
import { createMCPClient } from '@ai-sdk/mcp'
import { Experimental_StdioMCPTransport as AiStdio } from '@ai-sdk/mcp/mcp-stdio'
import { MultiServerMCPClient } from '@langchain/mcp-adapters'

const { target, calls, again } = JSON.parse(process.argv[2])

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
  const run = async () => {
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
    return { names: tools.map(({ name }) => name), results }
  }
  return { run, close: () => client.close() }
}

async function aiSdk() {
  const transport =
    target.url === undefined ? new AiStdio({ stderr: 'ignore', ...target }) : { type: 'http', ...target }
  const client = await createMCPClient({ transport })
  const run = async () => {
    // As the tools of an agent are listed for each of its turns.
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
    return { names: Object.keys(tools), results }
  }
  return { run, close: () => client.close() }
}

const clients = { langchain: await langchain(), aiSdk: await aiSdk() }
async function print() {
  const [ofLangchain, ofAiSdk] = [await clients.langchain.run(), await clients.aiSdk.run()]
  process.stdout.write(`${JSON.stringify({ langchain: ofLangchain, aiSdk: ofAiSdk })}\n`)
}
await print()
if (again) {
  const lines = createInterface(process.stdin)[Symbol.asyncIterator]()
  while (!(await lines.next()).done) await print()
}
await Promise.all(Object.values(clients).map(({ close }) => close()))
