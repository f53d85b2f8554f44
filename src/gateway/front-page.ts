/** Collects what the page at `/` shows: servers, tools, pending calls, links. */
import { visitorNamed } from '../downstream/pages/visitors.ts'
import type { Runtime } from './runtime.ts'
import { exposedName } from '../catalog/names.ts'
import { isProtected } from '../core/auth-settings.ts'
import type { Principal } from '../core/principal.ts'
import { self } from '../core/identity.ts'
import type { Settings, UpstreamSettings } from '../core/settings.ts'
import { within } from '../core/time/waiting.ts'
import { type ServerPanel, serverPanel } from '../descriptions/formats/front-page.ts'
import type { Link } from '../descriptions/model/description.ts'
import type { DocumentPath } from '../downstream/http/edge.ts'
import { documentAt } from '../downstream/http/routes.ts'
import { type PageLink, renderPage } from '../downstream/pages/front-page.ts'
import type { Reader } from '../downstream/pages/front-page.ts'
import type { ServerRow } from '../downstream/pages/servers.ts'
import type { WaitingCall } from '../downstream/pages/front-page.ts'
import { mayDecide, type Approval } from '../records/approvals.ts'
import type { Status } from '../upstream/connector.ts'
import { ownCall } from '../protocol/lift.ts'

interface Options {
  readonly built: Runtime
  readonly documents: readonly DocumentPath[]
  /** Where clients reach the gateway. */
  readonly base: string
  /** Where people begin to sign in, who then come to a page; undefined where they do not. */
  signInLink(next: string): string | undefined
  /** The calls that wait for a person; undefined where the store does not answer. */
  pendingApprovals(): Promise<readonly Approval[] | undefined>
}

/** How long a server may take to say what it has, in milliseconds. */
const DESCRIPTION_TIMEOUT_MS = 1500

/** The page for people, as its reader may see it. */
export async function frontPage(reader: Reader, options: Options): Promise<string> {
  const { built } = options
  const { auth } = built.settings
  const { principal, problem, query } = reader
  const signInUrl = options.signInLink('/')
  const rows = built.settings.upstreams.map((server) => rowOf(server, principal, options))
  return renderPage({
    version: self.version,
    endpoints: endpointsOf(options),
    access: {
      isProtected: isProtected(auth),
      isIn: principal !== undefined,
      hasPasswords: auth.users.length > 0,
      issuers: auth.authorizationServers,
      ...(problem !== undefined && { problem }),
      ...(signInUrl !== undefined && { signInUrl }),
      ...(principal?.isSignedIn && { person: principal.id }),
    },
    servers: await Promise.all(rows),
    ...(principal &&
      built.services.features.isOn('confirm') && { waiting: await waitingFor(principal, options) }),
    links: linksOf(options, principal !== undefined),
    query,
  })
}

/** The calls that wait for a person: those the reader may decide, and its own. Absent where the store cannot be read. */
async function waitingFor(
  principal: Principal,
  { built, pendingApprovals }: Options,
): Promise<readonly WaitingCall[] | undefined> {
  const { id } = principal
  const visitor = visitorNamed(principal, built.settings.auth)
  const found = await pendingApprovals()
  const now = Date.now()
  return found
    ?.filter((each) => each.caller === id || (visitor && mayDecide(each, visitor)))
    .map(({ id: approval, tool, upstream, caller, createdAt, expiresAt }) => {
      return { id: approval, tool, upstream, caller, age: now - createdAt, left: expiresAt - now }
    })
}

async function rowOf(
  server: UpstreamSettings,
  principal: Principal | undefined,
  { built, base, documents }: Options,
): Promise<ServerRow> {
  const { name } = server
  const { listen, auth, upstreams } = built.settings
  const status = built.upstreams.get(name)?.status ?? { connections: 0 }
  const panel = principal && (await panelOf(name, principal, built))
  const isTogether = listen.aggregate && upstreams.length > 1
  return {
    name,
    state: stateOf(status),
    // With authentication, only signed-in readers see why it fails.
    ...(status.problem !== undefined &&
      !isProtected(auth) && { problem: [status.problem, ...(status.stderr ?? [])].join('\n') }),
    address: `${base}/mcp/${name}`,
    ...(isTogether && !listen.isStrict && { prefix: exposedName(name, '') }),
    ...(principal && { transport: transportOf(server) }),
    ...(principal && status.revision !== undefined && { revision: status.revision }),
    ...(principal && status.olderRevision !== undefined && { olderRevision: status.olderRevision }),
    ...(panel && { panel }),
    documents: panel ? documentsOf(name, documents) : [],
  }
}

/** What is known of a server, where that can be told soon. */
async function panelOf(
  upstream: string,
  principal: Principal,
  { services }: Runtime,
): Promise<ServerPanel | undefined> {
  const call = ownCall({ principal, target: { upstream, method: 'tools/list' }, method: 'tools/list' })
  const asked = Promise.resolve(services.descriptions.of(upstream, call)).catch(() => undefined)
  const description = await within(asked, DESCRIPTION_TIMEOUT_MS, undefined)
  // A server that never answered has said nothing.
  return description && description.contentVersion !== ''
    ? services.descriptions.document(description, 'front-page', serverPanel)
    : undefined
}

function stateOf({ problem, revision }: Status): ServerRow['state'] {
  if (problem !== undefined) return 'unavailable'
  return revision === undefined ? 'starting' : 'ready'
}

function transportOf({ reach, transport }: UpstreamSettings): string {
  if (reach.kind === 'command') return 'stdio'
  if (transport === 'sse') return 'HTTP+SSE'
  return transport === 'streamable' ? 'Streamable HTTP' : 'HTTP'
}

function endpointsOf({ built: { settings }, base }: Options): Record<string, string> {
  const { listen, upstreams } = settings
  if (listen.aggregate || upstreams.length === 1) return { [self.name]: `${base}/mcp` }
  return Object.fromEntries(upstreams.map(({ name }) => [name, `${base}/mcp/${name}`]))
}

/** The documents of a server; their paths go from where the page is. */
function documentsOf(name: string, documents: readonly DocumentPath[]): Link[] {
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

/** Pages of the gateway, and what stands there. */
const pages: readonly (readonly [path: string, meaning: string])[] = [
  ['/llms.txt', 'What there is, in short, for models'],
  ['/llms-full.txt', 'All of it in one text'],
  ['/ai-help', 'The guide to all servers, in markdown'],
  ['/capabilities', 'The manifest: servers, tools and limits, as JSON'],
  ['/.well-known/mcp/catalog.json', 'The catalogue of servers, for registries'],
]

function linksOf({ built: { settings, services }, documents }: Options, isIn: boolean): PageLink[] {
  const written = pages.flatMap(([path, meaning]) => {
    const found = documentAt(path, documents)
    return found && (isIn || found.document.isOpen?.() === true) ? [linkTo(path, meaning)] : []
  })
  return [
    ...written,
    ...(isIn && services.features.isOn('confirm')
      ? [linkTo('/confirm', 'Calls that wait for the approval of a person')]
      : []),
    linkTo('/ready', 'Whether calls can be served, and the state of each part'),
    linkTo('/health', 'Whether the process answers'),
    ...(isIn && hasMetrics(settings) ? [linkTo('/metrics', 'Measurements, for Prometheus')] : []),
  ]
}

/** Names and passwords are asked for there, even where other requests need no authentication. */
function hasMetrics({ observe, auth }: Settings): boolean {
  return observe.metrics && (isProtected(auth) || auth.users.length === 0)
}

function linkTo(path: string, meaning: string): PageLink {
  return { label: path, url: path.slice(1), meaning }
}
