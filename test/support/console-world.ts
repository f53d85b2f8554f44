/**
 * A gateway with everything that its console shows: a server that works, one that is away, one whose texts are hostile, and a
 * store with a transaction that could not be undone and a call whose outcome is unknown.
 */
import { mkdtempSync } from 'node:fs'
import { scryptSync } from 'node:crypto'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Action, Actions } from '../../src/records/actions.ts'
import { Contracts } from '../../src/records/contracts.ts'
import { Transactions } from '../../src/records/transactions.ts'
import { newTransaction } from '../../src/records/transitions.ts'
import { openStore } from '../../src/store/open.ts'
import { tokenHash } from './auth/token-hash.ts'
import { freePort } from './child-process.ts'
import { type LocalGateway, localGateway } from './local-gateway.ts'
import { publishedServer } from './peers/servers.ts'
import { type ScriptedServer, scriptedServer } from './scripted-server.ts'
import type { Json } from './server/json.ts'
import { silentLog } from './silent-log.ts'

/** The password of everybody, and the token of the agent that calls. */
export const password = 'a password'
export const agentToken = 'the-token-of-the-agent-of-32-chars-and-more'

/** Text that must not be more than text anywhere. */
export const hostile = `"><script>window.ran = 1</script><img src=x onerror=window.ran=1>\u202e\u001b[31m'`

/** The people by what they may do. */
export const people = { olga: 'operator', vic: 'viewer', anna: 'approver' } as const

/** A gateway, and what its servers got. */
export interface ConsoleWorld {
  readonly gateway: LocalGateway
  readonly disks: ScriptedServer
  /** The arguments of the calls that wiped. */
  readonly wiped: readonly Json[]
  readonly folder: string
  close(): Promise<void>
}

/** Settings under which the person at the terminal uses the console; otherwise people have passwords. */
interface WorldOptions {
  readonly isByCode?: boolean
}

/** Starts them. */
export async function consoleWorld({ isByCode = false }: WorldOptions = {}): Promise<ConsoleWorld> {
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-console-'))
  const store = join(folder, 'store')
  await seed(store, isByCode ? 'anonymous' : 'token:agent')
  const wiped: Json[] = []
  const disks = await disksServer(wiped)
  const salt = 'salt-of-a-test'
  const hash = `scrypt:${salt}:${scryptSync(password, salt, 32).toString('hex')}`
  const users = Object.entries(people).map(([name, roles]) => ({ name, password_hash: hash, roles }))
  const [command = '', ...args] = publishedServer('@modelcontextprotocol/server-memory')
  const tokens = [{ id: 'agent', hash: tokenHash(agentToken) }]
  const gateway = await localGateway({
    store,
    observe: { audit: join(folder, 'audit.jsonl') },
    ...(!isByCode && { auth: { opaque: { tokens }, basic: { users } } }),
    features: { confirm: { wait: '60s' }, transactions: true },
    upstreams: {
      disks: {
        url: disks.url,
        transport: 'streamable',
        revision: '2025-11-25',
        tools: { wipe: isByCode ? {} : { approval: 'out_of_band', approvers: ['service:anna'] } },
      },
      notes: { command, args },
      gone: { url: `http://127.0.0.1:${await freePort()}/mcp` },
    },
  })
  return {
    gateway,
    disks,
    wiped,
    folder,
    close: async () => {
      await gateway.close()
      await disks.close()
    },
  }
}

function disksServer(wiped: Json[]): Promise<ScriptedServer> {
  const disk = { type: 'object', properties: { disk: { type: 'string' } }, required: ['disk'] }
  const tools = [
    { name: 'wipe', description: 'Wipes a disk.', inputSchema: disk, annotations: { destructiveHint: true } },
    {
      name: 'format',
      description: 'Formats a disk.',
      inputSchema: disk,
      annotations: { destructiveHint: true },
    },
    {
      name: 'read_size',
      title: hostile,
      description: `Reads the size. ${hostile}`,
      inputSchema: {
        type: 'object',
        properties: { id: { type: 'integer', title: hostile, description: hostile } },
      },
      annotations: { readOnlyHint: true },
    },
  ]
  return scriptedServer(
    { tools: {} },
    {
      'tools/list': () => ({ tools }),
      'tools/call': ({ params }) => {
        const { name, arguments: given } = params
        if (name !== 'read_size') wiped.push(given as Json)
        return { content: [{ type: 'text', text: name === 'read_size' ? hostile : 'wiped' }] }
      },
    },
  )
}

/** Writes what earlier processes left behind. */
async function seed(path: string, caller: string): Promise<void> {
  const store = openStore({ kind: 'folder', path }, silentLog)
  await store.opened?.()
  const now = Date.now()
  const begun = newTransaction({
    id: `tx-1 ${hostile}`,
    principal: { id: caller },
    timeout: 60_000,
    lifetime: 60_000,
    now: now - 120_000,
  })
  await new Transactions(store, 86_400_000).open({
    ...begun,
    status: 'partially_rolled_back',
    endedAt: now - 60_000,
    steps: [
      {
        id: 's1',
        deed: 'none',
        upstream: 'disks',
        tool: 'wipe',
        kind: 'write',
        status: 'ok',
        runner: 'gone',
      },
    ],
    compensations: [
      {
        step: 's1',
        status: 'compensation_failed',
        error: { code: 'COMPENSATION_UNAVAILABLE', message: `The disk is ${hostile}.` },
      },
    ],
  })
  const action: Action = {
    key: '000000000001-doubt',
    startedAt: now - 90_000,
    endedAt: now - 80_000,
    principal: { id: caller },
    upstream: 'disks',
    tool: 'wipe',
    arguments: { disk: hostile },
    status: 'unknown',
    way: { kind: 'none', reason: 'nothing undoes it' },
  }
  await new Actions(store).put(action, 86_400_000)
  const empty = {
    entrances: [],
    isGuarded: false,
    errorCodes: [],
    prompts: {},
    resources: {},
    templates: {},
  }
  const tool = { input: {}, scopes: [], returns: [], hints: {}, wording: '' }
  const contracts = new Contracts(store)
  await contracts.record('disks', { ...empty, tools: { [`lost ${hostile}`]: tool } }, now - 60_000)
  await contracts.record('disks', { ...empty, tools: {} }, now - 50_000)
  await store.close()
}
