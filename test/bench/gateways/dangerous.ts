// Which dangerous calls reach the server without anybody being asked. The client can ask its user, who declines.
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import type { Address } from './client.ts'
import { dangerous, harmless } from './effects.ts'
import type { Gateway } from './gateway.ts'
import { executions, startWithEffects } from './kills.ts'

/** What became of one call each of the dangerous tools, and of the harmless ones. Numbers are of calls. */
export interface DangerousRow {
  readonly gateway: string
  /** Whether the server says of its tools what they do. */
  readonly annotated: boolean
  readonly dangerous: number
  /** The dangerous calls that the server carried out, without consent. */
  readonly reached: number
  /** How often the person was asked. */
  readonly asked: number
  readonly harmless: number
  readonly harmlessReached: number
}

const CALL_LIMIT_MS = 60_000

/** Calls each tool once, of a server with annotations or without. */
export async function measureDangerous(
  gateway: Gateway,
  folder: string,
  annotated: boolean,
): Promise<DangerousRow> {
  const { running, file, stop } = await startWithEffects(gateway, folder, annotated ? ['--annotated'] : [])
  try {
    await running.start('read_file')
    const address = running.address()
    if (address === undefined) throw new Error('it has printed no port')
    const before = executions(file).length
    const asked = await callAll(address)
    const reached = executions(file)
      .slice(before)
      .map(({ tool }) => tool)
    const among = (tools: readonly { readonly name: string }[]) =>
      tools.filter(({ name }) => reached.includes(name)).length
    return {
      gateway: gateway.name,
      annotated,
      dangerous: dangerous.length,
      reached: among(dangerous),
      asked,
      harmless: harmless.length,
      harmlessReached: among(harmless),
    }
  } finally {
    await stop()
  }
}

/** Calls all tools, whatever becomes of the calls. The value is how often the person was asked. */
async function callAll({ url, token }: Address): Promise<number> {
  let asked = 0
  const client = new Client(
    { name: 'bench', version: '1.0.0' },
    { capabilities: { elicitation: { form: {}, url: {} } } },
  )
  client.setRequestHandler(ElicitRequestSchema, () => {
    asked++
    return { action: 'decline' }
  })
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` }
  const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } })
  await client.connect(transport)
  try {
    const { tools } = await client.listTools()
    const calls = [...harmless, ...dangerous].flatMap(({ name, properties }) => {
      const ending = name.replaceAll('_', '-')
      const listed = tools.find((tool) => tool.name.replaceAll('_', '-').endsWith(ending))
      const args = Object.fromEntries(properties.map((property) => [property, 'example']))
      // A tool that is hidden is not called.
      if (!listed) return []
      return client.callTool({ name: listed.name, arguments: args }, undefined, { timeout: CALL_LIMIT_MS })
    })
    await Promise.allSettled(calls)
    return asked
  } finally {
    await client.close()
  }
}
