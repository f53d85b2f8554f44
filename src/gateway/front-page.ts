/** Collects the content of the page at `/`: servers, tools, pending calls, links. */
import { world } from '../core/world.ts'
import { hasRole, type PageUser } from '../downstream/pages/page-users.ts'
import type { Runtime } from './runtime.ts'
import { exposedName } from '../catalog/names.ts'
import { isProtected } from '../core/auth-settings.ts'
import type { Principal } from '../core/principal.ts'
import { self } from '../core/identity.ts'
import { onlyServer, type Settings, type UpstreamSettings } from '../core/settings.ts'
import { within } from '../core/time/waiting.ts'
import { type ServerPanel, serverPanel } from '../descriptions/formats/front-page.ts'
import type { DocumentLink } from '../descriptions/model/description.ts'
import type { DocumentPath } from '../core/http-paths.ts'
import { documentAt } from '../downstream/http/routes.ts'
import {
  type PageLink,
  type PauseNotice,
  renderPage,
  type Reader,
  type WaitingCall,
  type ServerRow,
} from '../downstream/pages/front-page.ts'
import type { Reader as FrameReader } from '../downstream/pages/shell.ts'
import { isToRepeat, mayDecide, type Approval } from '../records/approvals.ts'
import type { Status } from '../upstream/connector.ts'
import type { PauseState } from '../records/pause.ts'
import { ownCall } from '../protocol/lift.ts'

interface Options {
  readonly runtime: Runtime
  readonly documents: readonly DocumentPath[]
  /** The base URL of the gateway for clients. */
  readonly base: string
  /** The key of the gateway; undefined if it ends with the process, or the store does not respond. */
  key(): Promise<string | undefined>
  /** The link at which a person signs in and then returns to `next`; undefined where browser sign-in is not configured. */
  signInLink(next: string): string | undefined
  /** The page user that a reader is, if any. */
  userOf(reader: Reader): PageUser | undefined
  /** What the frame says of a reader. */
  frameOf(user: PageUser | undefined): Promise<FrameReader>
  /** The calls that wait for approval; undefined if the store does not respond. */
  pendingApprovals(): Promise<readonly Approval[] | undefined>
  /** The pause of writes, while there is one. */
  readonly paused: PauseState | undefined
}

/** The time a server has to list what it offers, in milliseconds. */
const DESCRIPTION_TIMEOUT_MS = 1500

/** Renders the front page with what its reader may see. */
export async function frontPage(reader: Reader, options: Options): Promise<string> {
  const { runtime } = options
  const { auth } = runtime.settings
  const { principal, problem, query } = reader
  const user = options.userOf(reader)
  const signInUrl = options.signInLink('/')
  const rows = runtime.settings.upstreams.map((server) => rowOf(server, principal, options))
  return renderPage({
    version: self.version,
    endpoints: endpointsOf(options),
    key: await options.key(),
    access: {
      isProtected: isProtected(auth),
      isAuthenticated: principal !== undefined,
      hasPasswords: auth.users.length > 0,
      issuers: auth.authorizationServers,
      ...(problem !== undefined && { problem }),
      ...(signInUrl !== undefined && { signInUrl }),
    },
    servers: await Promise.all(rows),
    ...(options.paused && { paused: pauseFor(principal, options.paused) }),
    ...(principal &&
      runtime.services.features.isOn('confirm') && { waiting: await waitingFor(principal, user, options) }),
    links: linksOf(options, principal !== undefined),
    query,
    reader: await options.frameOf(user),
  })
}

/** The pause of writes; only an authenticated reader learns who made it, and why. */
function pauseFor(principal: Principal | undefined, { by, since, reason, until }: PauseState): PauseNotice {
  return {
    since,
    ...(until !== undefined && { until }),
    ...(principal && { by, ...(reason !== undefined && { reason }) }),
  }
}

/** The calls that wait for approval: those the reader may decide, and the reader's own. Undefined if the store cannot be read. */
async function waitingFor(
  { id }: Principal,
  user: PageUser | undefined,
  { pendingApprovals }: Options,
): Promise<readonly WaitingCall[] | undefined> {
  const approver = user && hasRole(user, 'approver') ? user : undefined
  const found = await pendingApprovals()
  const now = world.now()
  return found
    ?.filter((each) => each.caller === id || (approver && mayDecide(each, approver)))
    .map((each) => {
      const { id: approval, tool, upstream, caller, createdAt, expiresAt } = each
      const times = { age: now - createdAt, left: expiresAt - now }
      return { id: approval, tool, upstream, caller, ...times, mustRepeat: isToRepeat(each) }
    })
}

async function rowOf(
  server: UpstreamSettings,
  principal: Principal | undefined,
  { runtime, base, documents }: Options,
): Promise<ServerRow> {
  const { name } = server
  const { listen, auth } = runtime.settings
  const status = runtime.upstreams.get(name)?.status ?? { connections: 0 }
  const panel = principal && (await panelOf(name, principal, runtime))
  const isTogether = listen.aggregate && onlyServer(runtime.settings) === undefined
  const hasPrefix = isTogether && !listen.isStrict && server.prefix !== 'never'
  return {
    name,
    state: stateOf(status),
    // With authentication enabled, failure details are not shown on the page.
    ...(status.problem !== undefined &&
      !isProtected(auth) && { problem: [status.problem, ...(status.stderr ?? [])].join('\n') }),
    address: `${base}/mcp/${name}`,
    ...(hasPrefix && { prefix: exposedName(name, '') }),
    ...(principal && { transport: transportOf(server) }),
    ...(principal && status.revision !== undefined && { revision: status.revision }),
    ...(principal && status.olderRevision !== undefined && { olderRevision: status.olderRevision }),
    ...(panel && { panel }),
    findings: principal ? runtime.findings(name) : [],
    documents: panel ? documentsOf(name, documents) : [],
  }
}

/** The details of a server, if they are available in time. */
async function panelOf(
  upstream: string,
  principal: Principal,
  { services }: Runtime,
): Promise<ServerPanel | undefined> {
  const call = ownCall({ principal, target: { upstream, method: 'tools/list' }, method: 'tools/list' })
  const pending = Promise.resolve(services.descriptions.of(upstream, call)).catch(() => undefined)
  const description = await within(pending, DESCRIPTION_TIMEOUT_MS, undefined)
  // A server that never responded has no content.
  return description && description.contentVersion !== ''
    ? services.descriptions.document(description, 'front-page', serverPanel)
    : undefined
}

/** The state of a server as one word. */
export function stateOf({ problem, revision }: Status): ServerRow['state'] {
  if (problem !== undefined) return 'unavailable'
  return revision === undefined ? 'starting' : 'ready'
}

/** How messages are exchanged with a server. */
export function transportOf({ reach, transport }: UpstreamSettings): string {
  if (reach.kind === 'command') return 'stdio'
  if (transport === 'sse') return 'HTTP+SSE'
  return transport === 'streamable' ? 'Streamable HTTP' : 'HTTP'
}

function endpointsOf({ runtime: { settings }, base }: Options): Record<string, string> {
  const { listen, upstreams } = settings
  if (listen.aggregate || upstreams.length === 1) return { [self.name]: `${base}/mcp` }
  return Object.fromEntries(upstreams.map(({ name }) => [name, `${base}/mcp/${name}`]))
}

/** The documents of a server, with paths relative to the page. */
function documentsOf(name: string, documents: readonly DocumentPath[]): DocumentLink[] {
  const paths = [
    ['SKILL.md', `/skills/${name}/SKILL.md`],
    ['Guide', `/ai-help/${name}`],
    ['Manifest', `/capabilities/${name}`],
    ['Server card', `/mcp/${name}/server-card`],
  ] as const
  return paths.flatMap(([label, path]) =>
    documentAt(path, documents) ? [{ label, url: path.slice(1) }] : [],
  )
}

/** Documents of the gateway, and what they contain. */
const pages: readonly (readonly [path: string, description: string])[] = [
  ['/llms.txt', 'Summary of the servers, for language models'],
  ['/llms-full.txt', 'Everything in one document, for language models'],
  ['/ai-help', 'Guide to all servers, as Markdown'],
  ['/capabilities', 'Manifest: servers, tools and limits, as JSON'],
  ['/.well-known/ai-catalog.json', 'Catalog of the servers, for discovery'],
  ['/conformance', 'Server tests and conformance'],
]

function linksOf(
  { runtime: { settings, services }, documents }: Options,
  isAuthenticated: boolean,
): PageLink[] {
  const documentLinks = pages.flatMap(([path, description]) => {
    const found = documentAt(path, documents)
    return found && (isAuthenticated || found.document.isOpen?.() === true) ? [linkTo(path, description)] : []
  })
  return [
    ...documentLinks,
    ...(isAuthenticated && services.features.isOn('confirm')
      ? [linkTo('/confirm', 'Calls that wait for approval')]
      : []),
    linkTo('/ready', 'Readiness, with the state of each dependency'),
    linkTo('/health', 'Liveness of the process'),
    ...(isAuthenticated && hasMetrics(settings) ? [linkTo('/metrics', 'Metrics, for Prometheus')] : []),
  ]
}

/** Whether to link /metrics: it may require a password even if other requests need no authentication. */
function hasMetrics({ observe, auth }: Settings): boolean {
  return observe.metrics && (isProtected(auth) || auth.users.length === 0)
}

function linkTo(path: string, description: string): PageLink {
  return { label: path, url: path.slice(1), description }
}
