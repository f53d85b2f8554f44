/** A gateway with an endpoint for its owner, in front of a server whose tool names and arguments are hostile. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { tokenHash } from './auth/token-hash.ts'
import { until } from './condition.ts'
import { type RunningGateway, startGateway } from './gateway.ts'
import { scriptedServer } from './scripted-server.ts'
import type { Json } from './server/json.ts'
import { StatelessClient } from './stateless-client.ts'

/** Markup, a bidi control, a terminal escape. */
export const odd = '<img src=x onerror="window.pwned=1"></script>\u{202e}\u{1b}[31m'

const scopes = {
  agent: undefined,
  boss: undefined,
  viewer: ['gatehouse:view'],
  approver: ['gatehouse:view', 'gatehouse:approve'],
  operator: ['gatehouse:operate'],
  stranger: ['read:disks'],
} as const

/** A caller of the gateway, by the scopes of its token. */
export type Caller = keyof typeof scopes

export function tokenOf(caller: Caller): string {
  return `the-token-of-${caller}-of-32-characters-and-more`
}

export interface OperatorGateway {
  readonly gateway: RunningGateway
  /** The URL of the owner's endpoint. */
  readonly url: string
  readonly audit: string
  /** What the server was called with. */
  readonly ran: readonly Json[]
  /** Calls a tool of the server. */
  call(caller: Caller, name: string, given: Json): Promise<Json>
  /** The id of the approval of a call, once it waits. */
  waiting(caller: Caller, name: string, given: Json): Promise<string>
  /** A client of the official SDK 2.x at the owner's endpoint. */
  client(caller: Caller, mode?: 'legacy' | 'auto'): Promise<Client>
  close(): Promise<void>
}

export async function startOperatorGateway(listen: Json = { operator_mcp: 'on' }): Promise<OperatorGateway> {
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-operator-'))
  const ran: Json[] = []
  const values = new Map<string, unknown>()
  const server = await scriptedServer(
    { tools: {} },
    {
      'tools/list': () => ({
        tools: ['wipe', odd, 'put', 'replace', 'get'].map((name) => ({
          name,
          inputSchema: { type: 'object' },
          annotations:
            name === 'get' ? { readOnlyHint: true } : { destructiveHint: name === 'wipe' || name === odd },
        })),
      }),
      'tools/call': ({ params }) => {
        const given = params['arguments'] as Json
        ran.push({ name: params['name'], ...given })
        if (params['name'] === 'put' || params['name'] === 'replace')
          values.set(String(given['id']), given['value'])
        const value = values.get(String(given['id'])) ?? null
        return { content: [{ type: 'text', text: JSON.stringify({ value }) }], structuredContent: { value } }
      },
    },
  )
  const audit = join(folder, 'audit.jsonl')
  const undo = { snapshot: 'get(id=$.args.id)', restore: 'put(id=$.args.id, value=$.snapshot.value)' }
  const tokens = Object.entries(scopes).map(([id, granted]) => {
    return { id, hash: tokenHash(tokenOf(id as Caller)), ...(granted && { scopes: granted }) }
  })
  const gateway = await startGateway({
    listen,
    store: join(folder, 'store'),
    auth: { opaque: { tokens } },
    observe: { audit: { file: audit }, calls: { keep: 'arguments' } },
    features: { confirm: { wait: '0s' }, transactions: 'on' },
    upstreams: {
      disks: {
        url: server.url,
        transport: 'streamable',
        revision: '2025-11-25',
        tools: {
          wipe: { approval: 'out_of_band' },
          [odd]: { confirm: true },
          put: { undo, confirm: 'never' },
          replace: { undo, approval: 'out_of_band' },
        },
      },
    },
  })
  const url = new URL('/operator/mcp', gateway.url).href
  const call: OperatorGateway['call'] = async (caller, name, given) =>
    (await new StatelessClient({ url: gateway.url, token: tokenOf(caller) }).call(name, given)).fields
  const client: OperatorGateway['client'] = async (caller, mode = 'auto') => {
    const made = new Client({ name: 'owner', version: '1.0.0' }, { versionNegotiation: { mode } })
    const headers = { authorization: `Bearer ${tokenOf(caller)}` }
    await made.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }))
    return made
  }
  return {
    gateway,
    url,
    audit,
    ran,
    call,
    client,
    waiting: async (caller, name, given) => {
      await call(caller, name, given)
      const owner = await client('boss')
      let id = ''
      await until(async () => {
        const { structuredContent } = await owner.callTool({ name: 'list_approvals', arguments: {} })
        const { approvals } = structuredContent as { approvals: readonly Json[] }
        id = String(approvals.at(-1)?.['id'] ?? '')
        return id !== ''
      }, 'the approval')
      await owner.close()
      return id
    },
    close: async () => {
      await gateway.close()
      await server.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
