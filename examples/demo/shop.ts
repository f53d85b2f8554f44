/** An MCP server that knows nothing of Gatehouse. Its tool `ledger` lists what it really did. */
import { McpServer } from '@modelcontextprotocol/server'
import { StdioServerTransport } from '@modelcontextprotocol/server/stdio'
import { z } from 'zod'

const server = new McpServer({ name: 'shop', version: '1.0.0' })
const ledger: string[] = []

/** Adds a tool that writes a line into the ledger; its result names the line. */
function tool(name: string, argument: string, isDestructive: boolean): void {
  const config = {
    description: `Does ${name.replace('_', ' ')}.`,
    inputSchema: z.object({ [argument]: z.string() }),
    annotations: { readOnlyHint: false, destructiveHint: isDestructive },
  }
  server.registerTool(name, config, (given) => {
    if (given[argument] === 'sold out') throw new Error('There is no room left.')
    const id = `${argument}-${ledger.push(`${name} ${given[argument]}`)}`
    return { content: [{ type: 'text', text: id }], structuredContent: { id } }
  })
}

tool('charge_card', 'order', false)
tool('refund_charge', 'id', false)
tool('book_room', 'hotel', false)
tool('cancel_booking', 'id', false)
tool('delete_customer', 'customer', true)
const reads = { description: 'Lists what was done.', annotations: { readOnlyHint: true } }
server.registerTool('ledger', reads, () => ({ content: [{ type: 'text', text: ledger.join(', ') }] }))
await server.connect(new StdioServerTransport())
