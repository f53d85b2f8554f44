import { unadvertised } from './undescribed.ts'
import { readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ConnectOptions } from './client/options.ts'
import { fakeServerCommand, type FakeServer, startFakeServer } from './fake-server.ts'
import { Meeting, type Behind } from './meeting.ts'
import { type RunningGateway, startGateway } from './run-gateway.ts'
import type { Seen } from './server/journal.ts'
import type { Json } from './server/json.ts'
import type { ServerOptions } from './server/options.ts'
import { remoteTransport, type Revision, revisions, traitsOf } from './server/revisions.ts'

/** A revision of the protocol over a transport. */
export interface Kind {
  readonly revision: Revision
  readonly transport: 'http' | 'sse' | 'stdio'
}

/** A client, and the server behind the gateway it talks to. */
export interface Pair {
  readonly client: Kind
  readonly server: Kind
}

/** How a matrix differs from plain servers, clients and settings. */
interface Options {
  readonly server?: (kind: Kind) => Partial<ServerOptions>
  readonly client?: (kind: Kind) => Partial<ConnectOptions>
  /** Settings of every upstream. */
  readonly upstream?: Json
  /** Which pairs meet; all do by default. */
  readonly only?: (pair: Pair) => boolean
}

const servers: readonly Kind[] = revisions.flatMap((revision) => {
  const { modern, streamable } = traitsOf(revision)
  const transports: Kind['transport'][] = ['stdio', ...(streamable ? (['http'] as const) : [])]
  return [...transports, ...(modern ? [] : (['sse'] as const))].map((transport) => ({ revision, transport }))
})

const remote: readonly Kind[] = revisions.map((revision) => ({
  revision,
  transport: remoteTransport(revision),
}))

/** One server of each era for the clients that start the gateway as their own process. */
const besideStdio: readonly Kind[] = [
  { revision: '2025-11-25', transport: 'stdio' },
  { revision: '2026-07-28', transport: 'http' },
]

const pairs: readonly Pair[] = [
  ...remote.flatMap((client) => servers.map((server) => ({ client, server }))),
  ...revisions.flatMap((revision) => {
    const client = { revision, transport: 'stdio' } as const
    return besideStdio.map((server) => ({ client, server }))
  }),
]

/** Defines the same tests for every pair of a client and a server, with a gateway between them. */
export function describePairs(options: Options, define: (meeting: Meeting) => void): void {
  const chosen = pairs.filter(options.only ?? (() => true))
  let matrix: Matrix | undefined
  beforeAll(async () => {
    matrix = await startMatrix(chosen, options)
  })
  afterAll(() => matrix?.close())
  const started = (): Matrix => {
    if (matrix) return matrix
    throw new Error('The gateway is not up')
  }

  for (const pair of chosen) {
    describe(`${titleOf(pair)}`, () => {
      const meeting = new Meeting(pair, () => placeOf(started(), pair, options))
      beforeAll(() => meeting.open())
      afterAll(() => meeting.close())
      define(meeting)
      it('breaks no rule of either revision', async () => {
        expect(await meeting.violations()).toEqual({ client: [], server: [] })
      })
    })
  }
}

function titleOf({ client, server }: Pair): string {
  return `the gateway between a ${client.revision} client over ${client.transport} and a ${server.revision} server over ${server.transport}`
}

interface Matrix {
  readonly url: string
  readonly directory: string
  readonly behind: ReadonlyMap<string, Behind & { readonly values: Json }>
  close(): Promise<void>
}

async function startMatrix(chosen: readonly Pair[], options: Options): Promise<Matrix> {
  const directory = await mkdtemp(join(tmpdir(), 'gatehouse-matrix-'))
  const kinds = new Map(chosen.map(({ server }) => [nameOf(server), server]))
  const opened: FakeServer[] = []
  let gateway: RunningGateway | undefined
  const close = async (): Promise<void> => {
    await gateway?.close()
    await Promise.all(opened.map((server) => server.close()))
    await rm(directory, { recursive: true, force: true })
  }
  try {
    const behind = new Map<string, Behind & { readonly values: Json }>()
    for (const [name, kind] of kinds) {
      const own = options.server?.(kind) ?? {}
      if (kind.transport === 'stdio') {
        const seenFile = join(directory, `${name}.jsonl`)
        const { command, args } = fakeServerCommand({ ...own, revision: kind.revision, seenFile })
        const values = { command: [command, ...args], ...options.upstream }
        behind.set(name, { seen: () => readSeen(seenFile), values })
      } else {
        const server = await startFakeServer({ ...own, ...kind })
        opened.push(server)
        behind.set(name, {
          seen: () => server.seen,
          server,
          values: { url: server.url, ...options.upstream },
        })
      }
    }
    for (const [name, { values }] of behind) await write(directory, name, { [name]: values })
    const all = Object.fromEntries([...behind].map(([name, { values }]) => [name, values]))
    gateway = await startGateway(['--config', await write(directory, 'all', all)], {
      timeout: 30_000,
    })
    return { url: new URL(gateway.url).origin, directory, behind, close }
  } catch (error) {
    await close()
    throw error
  }
}

async function write(directory: string, name: string, upstreams: Json): Promise<string> {
  const file = join(directory, `${name}.yaml`)
  await writeFile(file, JSON.stringify({ listen: { legacy_sse: true }, features: unadvertised, upstreams }))
  return file
}

function placeOf(matrix: Matrix, { client, server }: Pair, options: Options) {
  const name = nameOf(server)
  const behind = matrix.behind.get(name)
  if (!behind) throw new Error(`There is no ${name}`)
  const path = client.transport === 'sse' ? 'sse' : 'mcp'
  const url = `${matrix.url}/${path}/${name}`
  return {
    behind,
    url,
    config: join(matrix.directory, `${name}.yaml`),
    options: options.client?.(client) ?? {},
  }
}

function nameOf({ revision, transport }: Kind): string {
  return `v${revision}-${transport}`
}

function readSeen(file: string): readonly Seen[] {
  const lines = readFileSync(file, 'utf8').split('\n')
  return lines.filter((line) => line !== '').map((line): Seen => JSON.parse(line))
}
