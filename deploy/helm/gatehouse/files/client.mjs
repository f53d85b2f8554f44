// The MCP client of `helm test`: connects, and lists the tools. Ends with 1, and says why, if that does not work.
//
// Streamable HTTP, 2025-11-25. MCP_URL is the address, MCP_HOST the name by which the gateway is called if it is another one,
// and MCP_TOKEN the bearer token if one is needed.
import { request } from 'node:http'

const REVISION = '2025-11-25'
const ANSWER_TIMEOUT_MS = 30_000
const MAX_PAGES = 1000

const { MCP_URL, MCP_HOST, MCP_TOKEN } = process.env
const session = {}
let lastId = 0

/** Sends a message; returns the HTTP status, the headers and the text. */
function post(message, method = 'POST') {
  const headers = {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    ...(MCP_HOST && { host: MCP_HOST }),
    ...(MCP_TOKEN && { authorization: `Bearer ${MCP_TOKEN}` }),
    ...session,
  }
  return new Promise((resolve, reject) => {
    const sent = request(MCP_URL, { method, headers, timeout: ANSWER_TIMEOUT_MS }, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (part) => (text += part))
      response.on('end', () => resolve({ status: response.statusCode, headers: response.headers, text }))
      response.on('error', reject)
    })
    sent.on('timeout', () => sent.destroy(new Error(`no answer within ${ANSWER_TIMEOUT_MS / 1000} s`)))
    sent.on('error', reject)
    sent.end(message && JSON.stringify(message))
  })
}

/** Makes a request; returns its result. */
async function call(method, params) {
  const id = ++lastId
  const { status, headers, text } = await post({ jsonrpc: '2.0', id, method, params })
  if (status !== 200) throw new Error(`${method}: HTTP ${status}: ${text}`)
  const isStream = headers['content-type']?.startsWith('text/event-stream')
  const messages = isStream ? [...text.matchAll(/^data: ?(.+)$/gm)].map(([, data]) => data) : [text]
  const answer = messages.map((each) => JSON.parse(each)).find((each) => each.id === id)
  if (!answer?.result) throw new Error(`${method}: ${text}`)
  if (headers['mcp-session-id']) session['mcp-session-id'] = headers['mcp-session-id']
  return answer.result
}

try {
  const client = { name: 'gatehouse-helm-test', version: '1.0.0' }
  const found = await call('initialize', { protocolVersion: REVISION, capabilities: {}, clientInfo: client })
  session['mcp-protocol-version'] = found.protocolVersion
  await post({ jsonrpc: '2.0', method: 'notifications/initialized' })
  const names = []
  let cursor
  for (let page = 0; page === 0 || (cursor !== undefined && page < MAX_PAGES); page++) {
    const { tools, nextCursor } = await call('tools/list', cursor === undefined ? {} : { cursor })
    names.push(...tools.map(({ name }) => name))
    cursor = nextCursor
  }
  await post(undefined, 'DELETE')
  if (names.length === 0) throw new Error('no server lists a tool')
  console.log(`${found.serverInfo.name} ${found.serverInfo.version} lists ${names.length} tools: ${names.join(', ')}`)
} catch (error) {
  console.error(`${MCP_URL}: ${error.message}`)
  process.exitCode = 1
}
