/**
 * `gatehouse doctor`: connects to servers step by step, from the name to one read, and says at which step it fails and what to do.
 * The last steps are those of the gateway itself; the first ones show why they fail.
 */
import { accessSync, constants, statSync } from 'node:fs'
import { lookup } from 'node:dns/promises'
import { connect as connectTcp, isIP, type Socket } from 'node:net'
import { delimiter, isAbsolute, join, resolve } from 'node:path'
import { connect as connectTls, type TLSSocket } from 'node:tls'
import { fetch, ProxyAgent } from 'undici'
import { bareHost } from '../core/address.ts'
import type { Descriptor } from '../core/descriptor.ts'
import { asGatewayError, messageOf, systemCodeOf } from '../core/error.ts'
import { asList, isObject } from '../core/json/json.ts'
import { type Proxy, proxyOf, proxyOptions } from '../core/proxy.ts'
import type { CommandReach, UpstreamSettings, UrlReach } from '../core/settings.ts'
import { oneLine } from '../core/text/escape.ts'
import { within } from '../core/time/waiting.ts'
import type { Gateway } from '../gateway/gateway.ts'
import type { Given } from './command.ts'
import type { commands } from './commands.ts'
import type { Io } from './io.ts'
import { type Output, tableLines } from './output.ts'
import { OWN_CREDENTIALS, readableLog, readOnlySettings, readServers, withGateway } from './source.ts'

/** What a step found; `note` is a fact, or the reason of a failure. */
interface Step {
  readonly step: string
  readonly state: 'ok' | 'failed' | 'skipped'
  readonly note: string
  readonly fix?: string
  readonly duration_ms?: number
}

/** What a step returns, or throws. */
type Found = string | { readonly skipped: string }

/** Why a step failed, and what to do about it. */
class Failure extends Error {
  readonly fix: string

  constructor(message: string, fix: string) {
    super(message)
    this.fix = fix
  }
}

/** How long one step may take, in milliseconds; a start may take as long as its setting says. */
const STEP_TIMEOUT_MS = 10_000

/** A certificate that ends within this time is reported. */
const CERTIFICATE_WARNING_MS = 14 * 86_400_000

/** `gatehouse doctor [SERVER]`: exit code 1 if a step of a server failed. */
export async function doctor(given: Given<typeof commands.doctor>, io: Io): Promise<Output> {
  const { source, servers } = readServers(given, io)
  const settings = readOnlySettings(source.settings, servers)
  return withGateway(settings, { io, log: readableLog(io, given.logLevel) }, async (gateway) => {
    const found = await Promise.all(
      servers.map(async (server) => ({ server: server.name, steps: await stepsOf(server, gateway, io) })),
    )
    const hasFailed = found.some(({ steps }) => steps.some(({ state }) => state === 'failed'))
    return {
      json: { ok: !hasFailed, servers: found },
      text: found.map(textOf).join('\n\n'),
      code: hasFailed ? 1 : 0,
    }
  })
}

function textOf({ server, steps }: { readonly server: string; readonly steps: readonly Step[] }): string {
  const rows = steps.flatMap(({ step, state, note, fix, duration_ms: ms }) => [
    [`  ${state === 'failed' ? 'FAILED' : state}`, step, `${note}${ms === undefined ? '' : ` (${ms} ms)`}`],
    ...(fix === undefined ? [] : [['', '', `-> ${fix}`]]),
  ])
  return [server, ...tableLines(rows)].join('\n')
}

/** All steps of a server; those after a failed one are not tried. */
async function stepsOf(server: UpstreamSettings, gateway: Gateway, io: Io): Promise<readonly Step[]> {
  const { reach } = server
  const first =
    reach.kind === 'url' ? urlSteps(reach, gateway) : [['command', () => commandPath(reach, io)] as const]
  const steps: Step[] = []
  let entries: readonly Descriptor[] = []
  const all: readonly (readonly [step: string, act: () => Found | Promise<Found>, timeoutMs?: number])[] = [
    ...first,
    // The gateway gives up first, and knows why.
    ['version', () => version(server, gateway), server.startTimeout + STEP_TIMEOUT_MS],
    [
      'first list',
      async () => {
        const { findings, error } = await gateway.listFindings(server.name)
        if (error !== undefined) throw new Failure(asGatewayError(error).message, 'see the log of the server')
        entries = await gateway.entries(server.name)
        const tools = `${entries.length} tools`
        return findings.length === 0 ? tools : `${tools}; ${findings.join('; ')}`
      },
    ],
    ['one read', () => oneRead(server, entries, gateway)],
  ]
  for (const [step, act, timeoutMs = STEP_TIMEOUT_MS] of all) {
    const made = await run(step, act, timeoutMs)
    steps.push(made)
    if (made.state === 'failed') break
  }
  const missing = all
    .slice(steps.length)
    .map(([step]) => ({ step, state: 'skipped' as const, note: 'not tried' }))
  return [...steps, ...missing]
}

async function run(step: string, act: () => Found | Promise<Found>, timeoutMs: number): Promise<Step> {
  const start = performance.now()
  const late = new Failure(
    `no answer within ${timeoutMs / 1000} s`,
    'something on the way drops what is sent, such as a firewall',
  )
  try {
    const found = await within<Found | Failure>(Promise.resolve().then(act), timeoutMs, late)
    if (found instanceof Failure) throw found
    if (typeof found !== 'string') return { step, state: 'skipped', note: oneLine(found.skipped) }
    return { step, state: 'ok', note: oneLine(found), duration_ms: Math.round(performance.now() - start) }
  } catch (error) {
    const { message } = error instanceof Error ? error : new Error(String(error))
    const fix = error instanceof Failure ? error.fix : undefined
    return { step, state: 'failed', note: oneLine(message), ...(fix !== undefined && { fix: oneLine(fix) }) }
  }
}

// Servers that are started.

/** The program of a command. */
function commandPath({ command, cwd, env }: CommandReach, io: Io): string {
  if (cwd !== undefined && statSync(cwd, { throwIfNoEntry: false })?.isDirectory() !== true)
    throw new Failure(`the folder ${cwd} does not exist`, 'correct `cwd`')
  if (isAbsolute(command) || /[\\/]/.test(command)) {
    const path = resolve(cwd ?? io.cwd, command)
    if (isExecutable(path)) return path
    throw new Failure(`${path} is no program that this user may run`, 'correct `command`, or its permissions')
  }
  const folders = (env['PATH']?.reveal() ?? io.env['PATH'] ?? '')
    .split(delimiter)
    .filter((folder) => folder !== '')
  const endings = process.platform === 'win32' ? ['', '.cmd', '.exe', '.bat'] : ['']
  const found = folders
    .flatMap((folder) => endings.map((end) => join(folder, `${command}${end}`)))
    .find(isExecutable)
  if (found !== undefined) return found
  throw new Failure(
    `${command} is not in the PATH of the gateway`,
    `install ${command}, or write its absolute path`,
  )
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return statSync(path).isFile()
  } catch {
    return false
  }
}

// Servers at URLs.

function urlSteps(reach: UrlReach, gateway: Gateway) {
  const url = new URL(reach.url)
  const proxy = proxyOf(reach.proxy, gateway.proxies)(url)
  const target = proxy ? new URL(proxy.url) : url
  const host = bareHost(target.hostname)
  const port = Number(target.port || (target.protocol === 'https:' ? 443 : 80))
  const by = proxy ? ` of the proxy ${proxy.url}` : ''
  return [
    ['name', () => addressesOf(host, by)],
    ['tcp', () => tcp(host, port, by)],
    [
      'tls',
      () =>
        target.protocol === 'https:'
          ? tls(host, port)
          : {
              skipped: proxy ? 'it is behind the proxy: see auth' : `${target.protocol}//, so there is none`,
            },
    ],
    ['well-known', () => wellKnown(url, proxy)],
    ['auth', () => auth(reach, proxy)],
  ] as const
}

async function addressesOf(host: string, by: string): Promise<string> {
  if (isIP(host) > 0) return host
  try {
    return (await lookup(host, { all: true })).map(({ address }) => address).join(', ')
  } catch (error) {
    throw new Failure(
      `the name ${host}${by} has no address (${codeOf(error)})`,
      'check the spelling of the URL, and the DNS of this machine',
    )
  }
}

async function tcp(host: string, port: number, by: string): Promise<string> {
  const socket = connectTcp({ host, port })
  try {
    await opened(socket, 'connect')
    return `${socket.remoteAddress} port ${port}${by}`
  } catch (error) {
    const fixes: Readonly<Record<string, string>> = {
      ECONNREFUSED: 'nothing listens there: start the server, or correct the port',
      EHOSTUNREACH: 'no route leads there: check the network, or set `proxy`',
      ENETUNREACH: 'no route leads there: check the network, or set `proxy`',
    }
    const code = codeOf(error)
    throw new Failure(
      `no connection to ${host} port ${port}${by} (${code})`,
      fixes[code] ?? 'check the network',
    )
  } finally {
    socket.destroy()
  }
}

const certificateFixes: Readonly<Record<string, string>> = {
  CERT_HAS_EXPIRED: 'its owner has to renew the certificate; check the clock of this machine',
  SELF_SIGNED_CERT_IN_CHAIN: 'set NODE_EXTRA_CA_CERTS to the certificate of its authority',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'set NODE_EXTRA_CA_CERTS to its certificate',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    'the server has to send its intermediate certificates, or set NODE_EXTRA_CA_CERTS',
  ERR_TLS_CERT_ALTNAME_INVALID: 'the certificate is for another name: correct the host in the URL',
}

async function tls(host: string, port: number): Promise<string> {
  const socket = connectTls({ host, port, ...(isIP(host) === 0 && { servername: host }) })
  try {
    await opened(socket, 'secureConnect')
    return certificateOf(socket)
  } catch (error) {
    const code = codeOf(error)
    throw new Failure(
      `no TLS connection (${code})`,
      certificateFixes[code] ?? 'check that the port is one for https',
    )
  } finally {
    socket.destroy()
  }
}

function certificateOf(socket: TLSSocket): string {
  const { valid_to: until, issuer } = socket.getPeerCertificate()
  const left = Date.parse(until) - Date.now()
  const about = `${socket.getProtocol()}, certificate of ${String(issuer?.O ?? issuer?.CN ?? 'an unknown issuer')} until ${until}`
  return left < CERTIFICATE_WARNING_MS ? `${about}: it ends in ${Math.floor(left / 86_400_000)} days` : about
}

function opened(socket: Socket, event: 'connect' | 'secureConnect'): Promise<void> {
  return new Promise((done, failed) => {
    socket.once(event, done)
    socket.once('error', failed)
    socket.setTimeout(STEP_TIMEOUT_MS, () => failed(new Error('timeout')))
  })
}

function codeOf(error: unknown): string {
  const code = systemCodeOf(error)
  return typeof code === 'string' ? code : messageOf(error)
}

/** The metadata of the protected resource (RFC 9728), which names the authorization servers. */
async function wellKnown(url: URL, proxy: Proxy | undefined): Promise<Found> {
  const path = url.pathname === '/' ? '' : url.pathname
  for (const place of new Set([
    `/.well-known/oauth-protected-resource${path}`,
    '/.well-known/oauth-protected-resource',
  ])) {
    // What a server does with other paths is its own affair: the next steps are about the one that counts.
    const response = await request(new URL(place, url), proxy, {}).catch((error: unknown) => codeOf(error))
    if (typeof response === 'string') return { skipped: `${place} was not answered (${response})` }
    const value: unknown = response.ok ? await response.json().catch(() => undefined) : undefined
    const servers = isObject(value) ? value.authorization_servers : undefined
    if (Array.isArray(servers)) return `${place} names ${servers.map(String).join(', ')}`
    await response.body?.cancel().catch(() => undefined)
  }
  return { skipped: 'no metadata for OAuth, so a token, a header or nothing is needed' }
}

/** Whether the server accepts the fixed credentials of the configuration. Tokens of `oauth` are obtained in the next step. */
async function auth({ url, headers, oauth }: UrlReach, proxy: Proxy | undefined): Promise<Found> {
  if (oauth) return { skipped: `tokens are obtained by ${oauth.grant} when the gateway connects` }
  const own = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, value.reveal()]))
  const accept = 'application/json, text/event-stream'
  const response = await request(new URL(url), proxy, { accept, ...own }).catch((error: unknown) => {
    const code = codeOf(error)
    if (code === LATE) return undefined
    throw new Failure(
      `GET ${new URL(url).pathname} failed (${code})`,
      certificateFixes[code] ?? 'look at its log',
    )
  })
  if (!response) return { skipped: 'GET was not answered: the next step tells' }
  await response.body?.cancel().catch(() => undefined)
  const { status } = response
  const names = Object.keys(own)
  if (status >= 300 && status < 400) return `it redirects (${status})`
  if (status !== 401 && status !== 403) return names.length === 0 ? 'none is required' : 'not refused'
  const challenge = response.headers.get('www-authenticate')
  const what =
    names.length === 0 ? 'the server requires a token' : `the server refuses ${names.join(' and ')}`
  const fix =
    names.length === 0
      ? 'set `token`, `headers` or `oauth`'
      : 'replace the value: it may have ended, or be for another service'
  throw new Failure(`${what} (${status}${challenge === null ? '' : `, ${challenge.slice(0, 300)}`})`, fix)
}

/** A request without a body, which no MCP server takes for a message. */
async function request(url: URL, proxy: Proxy | undefined, headers: Readonly<Record<string, string>>) {
  const agent = proxy && new ProxyAgent(proxyOptions(proxy))
  try {
    return await fetch(url, {
      headers,
      redirect: 'manual',
      signal: AbortSignal.timeout(STEP_TIMEOUT_MS / 2),
      ...(agent && { dispatcher: agent }),
    })
  } catch (error) {
    if (error instanceof Error && error.name === 'TimeoutError') throw new Error(LATE, { cause: error })
    // The failure of the connection is the cause of that of `fetch`.
    throw error instanceof Error && error.cause instanceof Error ? error.cause : error
  }
}

const LATE = 'no answer in time'

// All servers, as the gateway uses them.

async function version({ name, reach }: UpstreamSettings, gateway: Gateway): Promise<Found> {
  const { problem, stderr = [], revision } = (await gateway.explore(name)) ?? {}
  if (problem === undefined) return revision ?? { skipped: OWN_CREDENTIALS }
  if (stderr.length > 0)
    throw new Failure(`${problem}; it wrote: ${stderr.slice(-3).join(' / ')}`, 'see what it wrote')
  const fix =
    reach.kind === 'url' ? 'check that the URL is the address of MCP' : 'run its command in a terminal'
  throw new Failure(problem, fix)
}

/** Calls a tool that only reads and needs no arguments. */
async function oneRead(
  { name }: UpstreamSettings,
  entries: readonly Descriptor[],
  gateway: Gateway,
): Promise<Found> {
  const tool = entries.find(
    ({ classification: { op, risk }, definition: { inputSchema } }) =>
      op === 'read' && risk === 'safe' && isObject(inputSchema) && asList(inputSchema.required).length === 0,
  )
  if (!tool) return { skipped: 'no tool only reads and needs no arguments' }
  const answer = (): never => {
    throw new Failure(`${tool.name} asks a person first`, 'call it from a client')
  }
  const result = await gateway.callTool({
    upstream: name,
    tool: tool.name,
    arguments: {},
    isDryRun: false,
    idempotencyKey: undefined,
    answer,
  })
  if (result.member('isError') === true)
    throw new Failure(`${tool.name} returned an error`, `gatehouse call ${name} ${tool.name}`)
  return tool.name
}
