import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { foreignOrigin, headersOf } from './server/http-reply.ts'
import { LegacyHttp } from './server/http-legacy.ts'
import { modernHttp } from './server/http-modern.ts'
import { SseServer } from './server/http-sse.ts'
import type { Journal, Seen } from './server/journal.ts'
import { isObject } from './server/json.ts'
import type { ServerOptions } from './server/options.ts'
import { isRevision } from './server/revisions.ts'
import { serveStdio } from './server/stdio.ts'
import { type Changing, World } from './server/world.ts'

/** A fake server that listens on a loopback port. */
export interface FakeServer {
  readonly url: string
  /** Everything it received, oldest first. */
  readonly seen: readonly Seen[]
  /** Every breach of the protocol it noticed. */
  readonly violations: readonly string[]
  received: Journal['received']
  until: Journal['until']
  /** Changes something and tells everyone who listens. */
  change(what: Changing): void
  /** Breaks the streams for unsolicited messages: GET streams, HTTP+SSE streams. */
  dropStreams(): void
  /** Ends all 2026-07-28 subscriptions in good order. */
  endListening(): void
  /** Forgets all legacy sessions. */
  expireSessions(): void
  /** Answers every request with this status from here on, or no more. */
  refuse(status: number | undefined): void
  close(): Promise<void>
}

/** Starts a fake server over HTTP in this process. */
export async function startFakeServer(options: ServerOptions): Promise<FakeServer> {
  const world = new World(options)
  const web = webOf(world)
  let { refuseStatus } = options
  const server = createServer((request, response) => {
    const failed = (error: unknown) => {
      world.journal.violation(`the fake server failed: ${String(error)}`)
      response.destroy()
    }
    if (!refusedAtTheDoor(refuseStatus, request, response)) web.handle(request, response).catch(failed)
  })
  await new Promise<void>((resolve) => server.listen(options.port ?? 0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const { journal } = world
  return {
    url: `http://127.0.0.1:${port}/${options.transport === 'sse' ? 'sse' : 'mcp'}`,
    seen: journal.seen,
    violations: journal.violations,
    received: (method) => journal.received(method),
    until: (predicate, timeoutMs) => journal.until(predicate, timeoutMs),
    change: (what) => world.change(what),
    dropStreams: () => web.dropSides(),
    endListening: () => world.endListening(),
    expireSessions: () => web.expire(),
    refuse: (status) => {
      refuseStatus = status
    },
    close: () => {
      world.endListening()
      const closed = new Promise<void>((resolve) => server.close(() => resolve()))
      server.closeAllConnections()
      return closed
    },
  }
}

/** The command that runs a fake server on stdio. */
export function fakeServerCommand(options: Omit<ServerOptions, 'transport'>): {
  command: string
  args: string[]
} {
  const { revision, ...rest } = options
  const file = fileURLToPath(new URL('fake-server-process.ts', import.meta.url))
  const args = [
    ...withCompileCache(),
    file,
    '--revision',
    revision,
    '--transport',
    'stdio',
    '--options',
    JSON.stringify(rest),
  ]
  return { command: process.execPath, args }
}

/** Options of Node.js by which a process uses the compile cache of the tests, whatever its environment. */
function withCompileCache(): readonly string[] {
  const folder = process.env['NODE_COMPILE_CACHE']
  if (folder === undefined) return []
  const code = `import { enableCompileCache } from 'node:module'; enableCompileCache(${JSON.stringify(folder)})`
  return ['--import', `data:text/javascript,${encodeURIComponent(code)}`]
}

interface Web {
  handle(request: IncomingMessage, response: ServerResponse): Promise<void>
  dropSides(): void
  expire(): void
}

function webOf(world: World): Web {
  const { revision, transport } = world.options
  const nothing = () => {}
  if (transport === 'sse') {
    if (world.traits.modern) throw new TypeError(`${revision} has no HTTP+SSE`)
    const sse = new SseServer(world)
    return {
      handle: (request, response) => sse.handle(request, response),
      dropSides: () => sse.dropSides(),
      expire: nothing,
    }
  }
  if (transport === 'stdio') throw new TypeError('A server on stdio is a process of its own')
  if (world.traits.modern) return { handle: modernHttp(world), dropSides: nothing, expire: nothing }
  if (!world.traits.streamable) throw new TypeError(`${revision} has no Streamable HTTP`)
  const legacy = new LegacyHttp(world)
  return {
    handle: (request, response) => legacy.handle(request, response),
    dropSides: () => legacy.dropSides(),
    expire: () => legacy.expire(),
  }
}

function refusedAtTheDoor(
  refuseStatus: number | undefined,
  request: IncomingMessage,
  response: ServerResponse,
): boolean {
  const foreign = foreignOrigin(headersOf(request))
  const status = foreign === undefined ? refuseStatus : 403
  if (status === undefined) return false
  response.writeHead(status, { 'Content-Type': 'text/plain' }).end(foreign ?? 'refused')
  return true
}

/** Reads the command line: `--revision R --transport stdio|http|sse --options JSON`. */
export async function runFakeServer(): Promise<void> {
  const text = { type: 'string' } as const
  const { values } = parseArgs({ options: { revision: text, transport: text, options: text } })
  const { revision = '2025-11-25', transport = 'stdio' } = values
  const rest: unknown = JSON.parse(values.options ?? '{}')
  if (!isRevision(revision) || !isObject(rest)) throw new TypeError(`Unknown revision ${revision}`)
  if (transport === 'stdio') return serveStdio(new World({ ...rest, revision, transport }))
  if (transport !== 'http' && transport !== 'sse') throw new TypeError(`Unknown transport ${transport}`)
  const { url } = await startFakeServer({ ...rest, revision, transport })
  process.stdout.write(`${url}\n`)
}
