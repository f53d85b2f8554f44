import { randomUUID } from 'node:crypto'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import type { ConnectOptions } from './client/options.ts'
import { connect, type FakeClient } from './fake-client.ts'
import { type FakeServer, fakeServerCommand, startFakeServer } from './fake-server.ts'
import { type RunningGateway, startGateway } from './gateway.ts'
import { type GatewayOptions, type GatewayProcess, startGatewayProcess } from './gateway-process.ts'
import { type Json, objectAt } from './server/json.ts'
import { plainFeatures } from './undescribed.ts'
import type { ServerOptions } from './server/options.ts'

/** A gateway in front of these servers, until the test is over. */
export function gatewayTo(upstreams: Json, options: JourneyOptions = {}): Promise<RunningGateway> {
  return journeyWith(startGateway, upstreams, options)
}

/** The same in a process of its own. */
export function gatewayProcessTo(upstreams: Json, options: JourneyOptions = {}): Promise<GatewayProcess> {
  return journeyWith(startGatewayProcess, upstreams, options)
}

interface JourneyOptions extends GatewayOptions {
  readonly config?: Json
}

async function journeyWith<Gateway extends RunningGateway>(
  start: (config: Json, options: GatewayOptions) => Promise<Gateway>,
  upstreams: Json,
  { config = {}, ...options }: JourneyOptions,
): Promise<Gateway> {
  // Journeys go through the gateway whatever their tools do: no one is asked, unless the journey says so.
  const features = plainFeatures(config['features'])
  const gateway = await start({ ...config, features, upstreams }, options)
  onTestFinished(() => gateway.close())
  return gateway
}

/** A client of the gateway, until the test is over. */
export async function clientOf(
  gateway: { readonly url: string },
  options: Partial<ConnectOptions> = {},
): Promise<FakeClient> {
  const { revision = '2025-11-25', ...rest } = options
  const client = await connect({ transport: 'http', url: gateway.url, revision, ...rest })
  onTestFinished(() => client.close().catch(() => undefined))
  return client
}

/** A server over HTTP, until the test is over. */
export async function httpServer(options: Partial<ServerOptions> = {}): Promise<FakeServer> {
  const server = await startFakeServer({ revision: '2025-11-25', transport: 'http', ...options })
  onTestFinished(() => server.close())
  return server
}

/** The settings of a server on stdio; its revision is pinned, so that nothing is tried out. */
export function stdioServer(options: Partial<ServerOptions> = {}, settings: Json = {}): Json {
  const { revision = '2025-11-25', ...rest } = options
  const { command, args } = fakeServerCommand({ revision, ...rest })
  return { command: [command, ...args], revision, ...settings }
}

/** The settings of a server on stdio that a shell starts after doing something first. */
export function shellServer(before: string, options: Partial<ServerOptions> = {}, settings: Json = {}): Json {
  const { revision = '2025-11-25', ...rest } = options
  const { command, args } = fakeServerCommand({ revision, ...rest })
  return { command: ['sh', '-c', `${before}\nexec "$0" "$@"`, command, ...args], revision, ...settings }
}

/** A folder for this test alone. */
export function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'gatehouse-test-'))
  onTestFinished(() => rmSync(path, { recursive: true, force: true }))
  return path
}

/** A file in which a server on stdio keeps what it received, and how often it was told to call a tool. */
export function serverJournal(): ReturnType<typeof journalIn> {
  return journalIn(folder())
}

/** The same in a folder. */
export function journalIn(home: string): {
  readonly file: string
  calls(tool: string): number
  /** How many messages of a method came. */
  received(method: string): number
  /** The capabilities of clients that were declared to it, in the order of the handshakes. */
  declared(): readonly Json[]
} {
  const file = join(home, `${randomUUID()}.jsonl`)
  const lines = (): string[] =>
    existsSync(file) ? readFileSync(file, 'utf8').split('\n').filter(Boolean) : []
  const paramsOf = (method: string): Json[] =>
    lines().flatMap((line) => {
      const { message } = JSON.parse(line) as { message?: Json }
      return message?.['method'] === method ? [objectAt(message, 'params')] : []
    })
  return {
    file,
    received: (method) => paramsOf(method).length,
    declared: () => paramsOf('initialize').map((params) => objectAt(params, 'capabilities')),
    calls: (tool) => paramsOf('tools/call').filter(({ name }) => name === tool).length,
  }
}

/** How often a server over HTTP was told to call a tool. */
export function callsOf(server: FakeServer, tool: string): number {
  return server.received('tools/call').filter(({ message }) => objectAt(message, 'params')['name'] === tool)
    .length
}

/** The code of the gateway's own error in a reply. */
export function codeOf(reply: { readonly error?: Json; readonly result?: Json }): unknown {
  const told = objectAt(objectAt(reply.result, '_meta'), 'dev.gatehouse/error')
  return (reply.error ? objectAt(reply.error, 'data') : told)['code']
}
