/** Three promises of Gatehouse, kept for a server that knows nothing of them: `npm run demo`. */
import { Client } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'

const client = new Client({ name: 'demo', version: '1.0.0' }, { capabilities: { elicitation: { form: {} } } })
client.setRequestHandler('elicitation/create', ({ params }) => {
  console.log(`   the person is asked: ${params.message}`)
  return { action: 'accept', content: { confirm: true } }
})
const args = ['dist/main.js', 'stdio', '--config', 'examples/demo/gateway.config.yaml']
await client.connect(new StdioClientTransport({ command: process.execPath, args, stderr: 'ignore' }))

async function call(name: string, given = {}, meta = {}): Promise<void> {
  const keys = Object.fromEntries(Object.entries(meta).map(([key, value]) => [`dev.gatehouse/${key}`, value]))
  const result = await client.callTool({ name, arguments: given, _meta: keys })
  const [first] = result.content
  const { status } = Object(result.structuredContent) as { readonly status?: string }
  console.log(`   ${name}: ${status ?? (first?.type === 'text' ? first.text : '')}`)
}

console.log('1. A duplicate charge is prevented')
await call('charge_card', { order: 'A7' }, { idempotency_key: 'order-A7' })
await call('charge_card', { order: 'A7' }, { idempotency_key: 'order-A7' })
console.log('2. A deletion is approved first')
await call('delete_customer', { customer: 'C1' })
console.log('3. A failed transaction is rolled back')
await call('begin_transaction', { transaction_id: 'trip' })
await call('charge_card', { order: 'B2' }, { transaction_id: 'trip' })
await call('book_room', { hotel: 'sold out' }, { transaction_id: 'trip' })
await call('rollback_transaction', { transaction_id: 'trip' })
console.log('What the server really did')
await call('ledger')
await client.close()
