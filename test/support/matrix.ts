/**
 * The matrix: a gateway between clients of every revision and servers of every revision, over every transport. A set-up says
 * how servers, clients and settings differ from plain ones; its subjects, each a file of tests, share one gateway in this
 * process, one server of each kind, and one connected client per pair. A client over stdio has a gateway process of its own,
 * for all subjects too. So subjects find servers and clients that others have used, in no particular order: what they look
 * for has a mark, or came after a position in the journal.
 */
import { unadvertised } from './undescribed.ts'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ConnectOptions } from './client/options.ts'
import { fakeServerCommand, startFakeServer } from './fake-server.ts'
import { Meeting, type Behind } from './meeting.ts'
import { type LocalGateway, localGateway } from './local-gateway.ts'
import { isScattered } from './scattered.ts'
import { GrowingFile, type Seen, violationsFile } from './server/journal.ts'
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

/** How servers, clients and settings differ from plain ones. */
interface SetUp {
  readonly server?: (kind: Kind) => Partial<ServerOptions>
  readonly client?: (kind: Kind) => Partial<ConnectOptions>
  /** Settings of every upstream. */
  readonly upstream?: Json
  /** Which pairs meet; all do by default. */
  readonly only?: (pair: Pair) => boolean
}

/** The tests of one subject, defined for every pair that has it. */
export interface Subject {
  /** A part of the titles of its tests: `-t` selects it. */
  readonly title: string
  readonly define: (meeting: Meeting) => void
  /** Which pairs have it; all do by default. */
  readonly only?: (pair: Pair) => boolean
}

/** Tests of one subject, in a file of its own. */
export function subject(title: string, define: Subject['define'], only?: Subject['only']): Subject {
  return { title, define, ...(only && { only }) }
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

/** Defines the tests of subjects for every pair of a client and a server, with a gateway between them. */
export function describePairs(setUp: SetUp, subjects: readonly Subject[]): void {
  const chosen = pairs.filter(setUp.only ?? (() => true))
  let matrix: Matrix | undefined
  beforeAll(async () => {
    matrix = await startMatrix(chosen, setUp)
  })
  afterAll(() => matrix?.close())
  const started = (): Matrix => {
    if (matrix) return matrix
    throw new Error('The gateway is not up')
  }

  for (const pair of chosen) {
    describe(`${titleOf(pair)}`, () => {
      const meeting = new Meeting(pair, () => placeOf(started(), pair, setUp))
      beforeAll(() => meeting.open())
      afterAll(() => meeting.close())
      for (const { title, define, only } of subjects) {
        if (only?.(pair) === false) continue
        describe(`${title}`, () => {
          define(meeting)
        })
      }
      it('breaks no rule of either revision', () => {
        expect(meeting.violations()).toEqual({ client: [], server: [] })
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
  readonly behind: ReadonlyMap<string, Started>
  close(): Promise<void>
}

/** A server that runs, or that gateways start. */
interface Started extends Behind {
  readonly values: Json
  close(): Promise<void>
}

async function startMatrix(chosen: readonly Pair[], setUp: SetUp): Promise<Matrix> {
  const directory = await mkdtemp(join(tmpdir(), 'gatehouse-matrix-'))
  const kinds = new Map(chosen.map(({ server }) => [nameOf(server), server]))
  const behind = new Map<string, Started>()
  let gateway: LocalGateway | undefined
  const close = async (): Promise<void> => {
    await gateway?.close()
    await Promise.all([...behind.values()].map((server) => server.close()))
    await rm(directory, { recursive: true, force: true })
  }
  try {
    for (const [name, kind] of kinds) behind.set(name, await startServer(directory, kind, setUp))
    for (const [name, { values }] of behind) await write(directory, name, values)
    // Where there are several gateways, what a server says by itself reaches clients of all of them.
    const placement = (name: string): Json =>
      isScattered() && kinds.get(name)?.transport === 'stdio' ? { placement: 'one' } : {}
    const upstreams = Object.fromEntries(
      [...behind].map(([name, { values }]) => [name, { ...values, ...placement(name) }]),
    )
    gateway = await localGateway(configOf(upstreams))
    return { url: gateway.origin, directory, behind, close }
  } catch (error) {
    await close()
    throw error
  }
}

async function startServer(directory: string, kind: Kind, { server, upstream }: SetUp): Promise<Started> {
  const options = { ...server?.(kind), ...kind }
  if (kind.transport === 'stdio') return onStdio(join(directory, `${nameOf(kind)}.jsonl`), options, upstream)
  const started = await startFakeServer(options)
  return {
    server: started,
    seen: () => started.seen,
    violations: () => started.violations,
    values: { url: started.url, ...upstream },
    close: () => started.close(),
  }
}

/** Gateways start processes of this server, which write what they see to one file. */
function onStdio(seenFile: string, options: ServerOptions, upstream: Json = {}): Started {
  const { command, args } = fakeServerCommand({ ...options, seenFile })
  const seen = new GrowingFile<Seen>(seenFile)
  const violations = new GrowingFile<string>(violationsFile(seenFile))
  return {
    seen: () => seen.lines,
    violations: () => violations.lines,
    values: { command: [command, ...args], ...upstream },
    close: async () => {
      seen.close()
      violations.close()
    },
  }
}

function configOf(upstreams: Json): Json {
  const features = { ...Object(unadvertised), validate: { input: 'strict' } }
  return { listen: { legacy_sse: true }, features, upstreams }
}

/** The configuration of a gateway with this server alone. */
async function write(directory: string, name: string, values: Json): Promise<void> {
  await writeFile(join(directory, `${name}.yaml`), JSON.stringify(configOf({ [name]: values })))
}

function placeOf(matrix: Matrix, { client, server }: Pair, setUp: SetUp) {
  const name = nameOf(server)
  const behind = matrix.behind.get(name)
  if (!behind) throw new Error(`There is no ${name}`)
  const path = client.transport === 'sse' ? 'sse' : 'mcp'
  const url = `${matrix.url}/${path}/${name}`
  return {
    behind,
    url,
    config: join(matrix.directory, `${name}.yaml`),
    options: setUp.client?.(client) ?? {},
  }
}

function nameOf({ revision, transport }: Kind): string {
  return `v${revision}-${transport}`
}
