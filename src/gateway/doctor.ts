/**
 * Connects to a server step by step, from the name to one read, and says at which step it fails and what to do: for `gatehouse
 * doctor`, and for the page of the server. The last steps are those of the gateway itself; the first ones show why they fail.
 */
import { accessSync, constants, statSync } from 'node:fs'
import { lookup } from 'node:dns/promises'
import { type IncomingMessage, request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'
import { connect as connectTcp, isIP, type Socket } from 'node:net'
import { delimiter, isAbsolute, join, resolve } from 'node:path'
import { connect as connectTls, type TLSSocket } from 'node:tls'
import { fetch, ProxyAgent, Response } from 'undici'
import { bareHost } from '../core/address.ts'
import type { Descriptor } from '../core/descriptor.ts'
import { asGatewayError, messageOf, systemCodeOf } from '../core/error.ts'
import { asList, isObject } from '../core/json/json.ts'
import type { Payload } from '../core/payload.ts'
import { type FindProxy, type Proxy, proxyOf, proxyOptions } from '../core/proxy.ts'
import type { CommandReach, UpstreamSettings, UrlReach } from '../core/settings.ts'
import { oneLine } from '../core/text/escape.ts'
import { within } from '../core/time/waiting.ts'
import type { Status } from '../upstream/connector.ts'
import type { CommandCall } from './command-call.ts'

/** The gateway whose servers are examined. */
export interface Examined {
  readonly proxies: FindProxy
  explore(name: string): Promise<Status | undefined>
  listFindings(name: string): Promise<{ readonly findings: readonly string[]; readonly error?: unknown }>
  /** @throws what listing throws */
  entries(name: string): Promise<readonly Descriptor[]>
  /** @throws what the call fails with */
  callTool(order: CommandCall): Promise<Payload>
}

/** Where commands of servers are looked up. */
interface Surroundings {
  readonly cwd: string
  readonly env: Readonly<Record<string, string | undefined>>
}

/** What a step found; `note` is a fact, or the reason of a failure. */
export interface DoctorStep {
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

/** All steps of a server; those after a failed one are not tried. */
export async function doctorSteps(
  server: UpstreamSettings,
  gateway: Examined,
  io: Surroundings,
): Promise<readonly DoctorStep[]> {
  const { reach } = server
  const answered: Answered = {}
  const first =
    reach.kind === 'url'
      ? urlSteps(reach, gateway, answered)
      : [['command', () => commandPath(reach, io)] as const]
  const steps: DoctorStep[] = []
  let entries: readonly Descriptor[] = []
  const all: readonly (readonly [step: string, act: () => Found | Promise<Found>, timeoutMs?: number])[] = [
    ...first,
    // The gateway gives up first, and knows why.
    ['version', () => version(server, gateway, answered), server.startTimeout + STEP_TIMEOUT_MS],
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

async function run(step: string, act: () => Found | Promise<Found>, timeoutMs: number): Promise<DoctorStep> {
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
function commandPath({ command, cwd, env }: CommandReach, io: Surroundings): string {
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

/** What to do if the server turns out to be none, by how its URL answered GET. */
interface Answered {
  fix?: string
}

/** A proxy, and where it is configured. */
interface ConfiguredProxy extends Proxy {
  readonly setting: string
}

function urlSteps(reach: UrlReach, gateway: Examined, answered: Answered) {
  const url = new URL(reach.url)
  const found = proxyOf(reach.proxy, gateway.proxies)(url)
  const variable = url.protocol === 'https:' ? 'HTTPS_PROXY' : 'HTTP_PROXY'
  const proxy = found && { ...found, setting: reach.proxy === undefined ? variable : '`proxy`' }
  const target = proxy ? new URL(proxy.url) : url
  const host = bareHost(target.hostname)
  const port = portOf(target)
  return [
    ['name', () => addressesOf(host, proxy)],
    ['tcp', () => tcp(host, port, proxy)],
    [
      'tls',
      async () => {
        if (url.protocol !== 'https:') return { skipped: `${url.protocol}//, so there is none` }
        const name = bareHost(url.hostname)
        if (!proxy) return tls({ host, port }, name)
        return tls({ socket: await tunnel(url, proxy) }, name)
      },
    ],
    ['well-known', () => wellKnown(url, proxy)],
    ['auth', () => auth(reach, proxy, answered)],
  ] as const
}

function portOf({ port, protocol }: URL): number {
  return Number(port || (protocol === 'https:' ? 443 : 80))
}

function by(proxy: ConfiguredProxy | undefined): string {
  return proxy ? ` of the proxy ${proxy.url}` : ''
}

async function addressesOf(host: string, proxy: ConfiguredProxy | undefined): Promise<string> {
  if (isIP(host) > 0) return host
  try {
    return (await lookup(host, { all: true })).map(({ address }) => address).join(', ')
  } catch (error) {
    throw new Failure(
      `the name ${host}${by(proxy)} has no address (${codeOf(error)})`,
      proxy
        ? `correct ${proxy.setting}, or connect to the network that has this proxy`
        : 'check the spelling of the URL, and the DNS of this machine; in a network whose proxy finds the names, set `proxy` or HTTPS_PROXY',
    )
  }
}

async function tcp(host: string, port: number, proxy: ConfiguredProxy | undefined): Promise<string> {
  const socket = connectTcp({ host, port })
  try {
    await opened(socket, 'connect')
    return `${socket.remoteAddress} port ${port}${by(proxy)}`
  } catch (error) {
    const noRoute = 'no route leads there: check the network, or set `proxy`'
    const fixes: Readonly<Record<string, string>> = {
      ECONNREFUSED: 'nothing listens there: start the server, or correct the port',
      EHOSTUNREACH: noRoute,
      ENETUNREACH: noRoute,
    }
    const code = codeOf(error)
    throw new Failure(
      `no connection to ${host} port ${port}${by(proxy)} (${code})`,
      proxy
        ? `start the proxy, or correct ${proxy.setting}; \`proxy: off\` connects without one`
        : (fixes[code] ?? 'check the network'),
    )
  } finally {
    socket.destroy()
  }
}

/** Asks a proxy for a connection to the host of a URL. */
async function tunnel(url: URL, proxy: ConfiguredProxy): Promise<Socket> {
  const path = `${url.hostname}:${portOf(url)}`
  const { response, socket } = await askProxy(proxy, { method: 'CONNECT', path, headers: { host: path } })
  const { statusCode: status = 0 } = response
  if (status >= 200 && status < 300) return socket
  socket.destroy()
  throw proxyFailure(status, url, proxy)
}

/** Sends a request to a proxy. Of a tunnel, the socket is open afterwards. */
async function askProxy(
  { url, authorization, setting }: ConfiguredProxy,
  message: {
    readonly method: string
    readonly path: string
    readonly headers: Readonly<Record<string, string>>
  },
): Promise<{ readonly response: IncomingMessage; readonly socket: Socket }> {
  const { protocol, hostname, port } = new URL(url)
  const send = protocol === 'https:' ? requestHttps : requestHttp
  const own = authorization && { 'proxy-authorization': authorization.reveal() }
  const request = send({
    ...message,
    host: bareHost(hostname),
    port: port === '' ? undefined : port,
    headers: { ...message.headers, ...own },
    signal: AbortSignal.timeout(STEP_TIMEOUT_MS / 2),
    agent: false,
  })
  try {
    return await new Promise((done, failed) => {
      request.once('error', failed)
      request.once('connect', (response, socket) => done({ response, socket }))
      request.once('response', (response) => done({ response, socket: response.socket }))
      request.end()
    })
  } catch (error) {
    const code = codeOf(error)
    throw new Failure(
      `the proxy ${url} ended the connection (${code})`,
      certificateFixes[code] ?? `check that ${setting} is the address of an HTTP proxy`,
    )
  }
}

/** Why a proxy answers a request itself. */
function proxyFailure(status: number, url: URL, proxy: ConfiguredProxy): Failure {
  const { authorization, setting } = proxy
  const around = `if this machine reaches ${url.host} without it, set \`proxy: off\` or add the host to NO_PROXY`
  const unreachable = `the proxy cannot reach ${url.host}, whose name it looks up itself: check the host and port of the URL; ${around}`
  const fixes: Readonly<Record<number, string>> = {
    403: `the proxy does not allow ${url.host}: ask its administrator; ${around}`,
    407: authorization
      ? `the proxy refuses the user or the password that ${setting} has`
      : `the proxy requires a user and a password: write them into ${setting}, as http://USER:PASSWORD@HOST:PORT`,
    502: unreachable,
    503: unreachable,
    504: unreachable,
  }
  return new Failure(
    `the proxy ${proxy.url} refuses ${url.host} (${status})`,
    fixes[status] ?? `check that ${setting} is the address of a proxy that tunnels (CONNECT); ${around}`,
  )
}

const authority =
  'set NODE_USE_SYSTEM_CA=1 if this system trusts its authority, or NODE_EXTRA_CA_CERTS to the file of its certificate'
const intercepted = `a proxy or program that inspects TLS may have issued it: ${authority}`

const certificateFixes: Readonly<Record<string, string>> = {
  CERT_HAS_EXPIRED: 'its owner has to renew the certificate; check the clock of this machine',
  CERT_NOT_YET_VALID: 'check the clock of this machine',
  SELF_SIGNED_CERT_IN_CHAIN: intercepted,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: intercepted,
  DEPTH_ZERO_SELF_SIGNED_CERT: 'set NODE_EXTRA_CA_CERTS to its certificate',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: `the server has to send its intermediate certificates, or ${intercepted}`,
  ERR_TLS_CERT_ALTNAME_INVALID: 'the certificate is for another name: correct the host in the URL',
}

/** The TLS connection to a host, at an address or through the tunnel of a proxy. */
async function tls(
  way: { readonly host: string; readonly port: number } | { readonly socket: Socket },
  host: string,
): Promise<string> {
  // A certificate that is not accepted is read, so that its issuer can be named. Nothing is sent.
  const socket = connectTls({
    ...way,
    ...(isIP(host) === 0 && { servername: host }),
    rejectUnauthorized: false,
  })
  try {
    await opened(socket, 'secureConnect').catch((error: unknown) => {
      throw new Failure(`no TLS connection (${codeOf(error)})`, 'check that the port is one for https')
    })
    if (socket.authorized) return certificateOf(socket)
    // It is a code, which the types call an error.
    const code = codeOf(socket.authorizationError)
    throw new Failure(
      `the certificate of ${host} by ${issuerOf(socket)} is not accepted (${code})`,
      certificateFixes[code] ?? authority,
    )
  } finally {
    socket.destroy()
  }
}

function issuerOf(socket: TLSSocket): string {
  const { issuer } = socket.getPeerCertificate()
  return String(issuer?.O ?? issuer?.CN ?? 'an unknown issuer')
}

function certificateOf(socket: TLSSocket): string {
  const { valid_to: until } = socket.getPeerCertificate()
  const left = Date.parse(until) - Date.now()
  const about = `${socket.getProtocol()}, certificate of ${issuerOf(socket)} until ${until}`
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
async function wellKnown(url: URL, proxy: ConfiguredProxy | undefined): Promise<Found> {
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
async function auth(
  { url, headers, oauth }: UrlReach,
  proxy: ConfiguredProxy | undefined,
  answered: Answered,
): Promise<Found> {
  if (oauth) return { skipped: `tokens are obtained by ${oauth.grant} when the gateway connects` }
  const own = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, value.reveal()]))
  const accept = 'application/json, text/event-stream'
  const response = await request(new URL(url), proxy, { accept, ...own }).catch((error: unknown) => {
    const code = codeOf(error)
    if (code === LATE) return undefined
    if (error instanceof Failure) throw error
    throw new Failure(
      `GET ${new URL(url).pathname} failed (${code})`,
      certificateFixes[code] ?? 'look at its log',
    )
  })
  if (!response) return { skipped: 'GET was not answered: the next step tells' }
  await response.body?.cancel().catch(() => undefined)
  const { status } = response
  if (proxy && status === 407) throw proxyFailure(status, new URL(url), proxy)
  const place = redirection(response, url)
  const fix = fixFor(response, proxy)
  if (fix !== undefined) answered.fix = fix
  const names = Object.keys(own)
  if (place !== undefined) return `it redirects to ${place} (${status})`
  if (status !== 401 && status !== 403) return names.length === 0 ? 'none is required' : 'not refused'
  const challenge = response.headers.get('www-authenticate')
  const what =
    names.length === 0 ? 'the server requires a token' : `the server refuses ${names.join(' and ')}`
  throw new Failure(
    `${what} (${status}${challenge === null ? '' : `, ${challenge.slice(0, 300)}`})`,
    names.length === 0
      ? 'set `token`, `headers` or `oauth`'
      : 'replace the value: it may have ended, or be for another service',
  )
}

/** Where a response redirects to, without what is secret in a URL; undefined if it does not. */
function redirection({ status, headers }: Response, url: string): string | undefined {
  if (status < 300 || status >= 400) return undefined
  const location = headers.get('location')
  if (location === null || !URL.canParse(location, url)) return 'no URL'
  const { origin, pathname } = new URL(location, url)
  return origin + pathname
}

/** What a response says if its URL turns out not to be that of a server; undefined if it says nothing. */
function fixFor(response: Response, proxy: ConfiguredProxy | undefined): string | undefined {
  const { status, headers } = response
  const signIn = 'open the URL in a browser: a network that requires a sign-in answers so'
  if (status >= 300 && status < 400) return `write the URL that it redirects to; or ${signIn}`
  if (status >= 502 && status <= 504)
    return `what is in front of the server does not reach it${proxy ? `, or the proxy ${proxy.url} does not` : ''} (${status}): start the server, and check the host and port of the URL`
  if (headers.get('content-type')?.startsWith('text/html') === true)
    return `the URL answers with a web page: check that it is the address of MCP, or ${signIn}`
  return undefined
}

/** A request without a body, which no MCP server takes for a message. */
async function request(
  url: URL,
  proxy: ConfiguredProxy | undefined,
  headers: Readonly<Record<string, string>>,
): Promise<Response> {
  // For undici, 407 of a proxy that forwards is no response.
  if (proxy && url.protocol === 'http:') return forwarded(url, proxy, headers)
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

async function forwarded(
  url: URL,
  proxy: ConfiguredProxy,
  headers: Readonly<Record<string, string>>,
): Promise<Response> {
  const { response } = await askProxy(proxy, {
    method: 'GET',
    path: url.href,
    headers: { ...headers, host: url.host },
  })
  const own = Object.entries(response.headersDistinct).map(
    ([name, values = []]) => [name, values.join(', ')] as const,
  )
  const status = response.statusCode ?? 0
  const isEmpty = [204, 205, 304].includes(status)
  return new Response(isEmpty ? null : ReadableStream.from(response), {
    status,
    headers: Object.fromEntries(own),
  })
}

const LATE = 'no answer in time'

// All servers, as the gateway uses them.

async function version(
  { name, reach }: UpstreamSettings,
  gateway: Examined,
  { fix: answered = 'check that the URL is the address of MCP' }: Answered,
): Promise<Found> {
  const { problem, stderr = [], revision } = (await gateway.explore(name)) ?? {}
  if (problem === undefined) return revision ?? { skipped: 'each caller has its own credentials for it' }
  if (stderr.length > 0)
    throw new Failure(`${problem}; it wrote: ${stderr.slice(-3).join(' / ')}`, 'see what it wrote')
  throw new Failure(problem, reach.kind === 'url' ? answered : 'run its command in a terminal')
}

/** Calls a tool that only reads and needs no arguments. */
async function oneRead(
  { name }: UpstreamSettings,
  entries: readonly Descriptor[],
  gateway: Examined,
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
