/**
 * One generation of the configuration: upstreams, catalog, middleware chains, features and their services. It is
 * immutable; a reload creates the next one and keeps the servers whose settings are equal.
 */
import { listAllPages } from '../protocol/listing.ts'
import { createCallStatistics, createRecords } from '../catalog/server-records.ts'
import { offeredProfiles } from '../catalog/profile-tools.ts'
import { lastKnown } from '../catalog/last-known.ts'
import { NameCheck, reportOnce } from '../catalog/name-check.ts'
import { exposedName, namingOf } from '../catalog/names.ts'
import { Descriptors, resolveTool, type UnconfiguredRules, UndoRules } from '../catalog/tool-descriptors.ts'
import { Catalog } from '../catalog/router.ts'
import {
  type Call,
  compose,
  type Middleware,
  type Outcome,
  resultOf,
  type Target,
  type Handler,
} from '../core/call.ts'
import { rateLimitSlot } from '../core/exchange.ts'
import type { Descriptor, ServerRecords } from '../core/descriptor.ts'
import { GatewayError } from '../core/error.ts'
import { HeldMemory } from '../core/holdings.ts'
import { background, type Log } from '../core/log.ts'
import { Payload } from '../core/payload.ts'
import type { FindProxy } from '../core/proxy.ts'
import { exchangesTokens, isGuarded, isStoreShared, onlyServer, type Settings } from '../core/settings.ts'
import { PROFILE_ADDRESS } from '../core/slot.ts'
import { aliasOf } from '../core/text/alias.ts'
import type { Redactor } from '../core/text/redactor.ts'
import type { ServerDescription } from '../descriptions/model/description.ts'
import { presentPrincipal } from '../downstream/auth/authenticator.ts'
import { fetchJson } from '../downstream/http/fetch-json.ts'
import type { ProcessScope } from '../durable/process-scope.ts'
import { dryRunGuard } from '../features/dry-run/dry-run.ts'
import {
  settingsFor,
  type Identity,
  type PageDirectory,
  type ServerDirectory,
  type Services,
} from '../features/feature.ts'
import { callBounds } from '../features/limits.ts'
import { eventTypes, type Placing, placing, toolFacts } from '../features/offers.ts'
import { resultLimitOf } from '../features/result-limit.ts'
import { permissions } from '../features/permissions/permissions.ts'
import { transactions } from '../features/transactions/transactions.ts'
import { undo } from '../features/undo/undo.ts'
import { type Called, type HttpRuntime, type StatusMapping, statusMapping } from '../downstream/http/edge.ts'
import type { BytePath, DocumentPath, RoutePath } from '../core/http-paths.ts'
import { withFields } from '../observability/log.ts'
import { observe, observeServer, observeTarget } from '../observability/observe.ts'
import type { Observing } from '../observability/observing.ts'
import { ownCall } from '../protocol/lift.ts'
import { whoDecidesOnPage } from '../records/approvals.ts'
import { ApprovalCode } from '../records/approval-codes.ts'
import type { Membership } from '../durable/members.ts'
import type { Store } from '../store/store.ts'
import type { OAuthSite } from '../upstream/oauth/credentials.ts'
import { foundTool, type ListedTool, withFoundTool, withoutFoundTool } from '../protocol/found-tool.ts'
import type { Variables } from '../upstream/transport/child.ts'
import { repairedLists } from '../features/tool-lists.ts'
import { settingsEqual, createUpstream, type Upstream } from '../upstream/upstream.ts'
import type { TransportInterceptor } from '../upstream/transport/transport.ts'
import { type ActiveFeature, activeFeatures, middlewaresOf, offered } from './features.ts'
import { wayTo } from './observers.ts'
import { createDescriptions, type Descriptions } from './descriptions.ts'
import { Pinnings } from './pinnings.ts'
import type { Placements } from './placements.ts'

/** The parts that outlive one version of the settings. */
export interface ProcessState {
  readonly variables: Variables
  /** The proxies of the environment. */
  readonly proxies: FindProxy
  readonly log: Log
  readonly observing: Observing
  readonly oauth: OAuthSite
  /** Knows the secrets of all configurations of this process, and of servers. */
  readonly redactor: Redactor
  /** Applied to each connection to a server. */
  readonly intercept?: TransportInterceptor | undefined
  readonly isUnchecked?: boolean | undefined
  readonly store: Store
  /** Where servers run that run in one process. */
  readonly placements: Placements
  readonly scope: ProcessScope
  readonly membership: Membership
  readonly sign: Identity['sign']
  readonly prove: Identity['prove']
  readonly seal: Identity['seal']
  readonly page: PageDirectory['url']
  /** The code with which people approve calls. */
  readonly code: string
  readonly closing: AbortSignal
}

/**
 * Everything created from one version of the configuration. Its parts never change; `ended` is aborted when another
 * runtime takes over.
 */
export class Runtime implements HttpRuntime {
  readonly settings: Settings
  readonly listen: Settings['listen']
  readonly auth: Settings['auth']
  readonly proxies: FindProxy
  readonly upstreams: ReadonlyMap<string, Upstream>
  readonly services: Services
  readonly active: readonly ActiveFeature[]
  readonly catalog: Catalog
  /** Checks the tool names in the configuration against the lists of servers. */
  readonly names: NameCheck
  /** Aborted when another runtime takes over. */
  readonly ended = new AbortController()
  readonly documents: readonly DocumentPath[]
  readonly routes: readonly RoutePath[]
  readonly byteRoutes: readonly BytePath[]
  readonly statusMapping: StatusMapping | undefined
  readonly #profileUrls: ReadonlySet<string>
  readonly #process: ProcessState
  readonly #placing: readonly Placing[]
  readonly #descriptors: Descriptors
  readonly #descriptions: Descriptions
  readonly #statistics = createCallStatistics()
  #pinnings = new Pinnings([], [])
  #records: ServerRecords | undefined

  /** Creates the parts; servers in `before` with equal settings are kept. */
  constructor(settings: Settings, before: ReadonlyMap<string, Upstream>, process: ProcessState) {
    const { log } = process
    this.settings = settings
    this.listen = settings.listen
    this.auth = settings.auth
    this.proxies = process.proxies
    this.#process = process
    this.#profileUrls = new Set(settings.profiles.map(({ name }) => `${PROFILE_ADDRESS}${name}`))
    this.upstreams = upstreamsOf(settings, before, process)
    this.#descriptors = new Descriptors({
      server: (name) => this.upstreams.get(name)?.settings,
      tool: (call) => this.tool(call),
      own: (call) => this.catalog.builtinTool(call),
      resolve: (call) => this.catalog.resolve(call),
    })
    this.services = this.#createServices(this.#directory())
    this.#descriptions = this.#createDescriptions()
    this.names = new NameCheck(settings.names, this.upstreams, log)
    this.active = activeFeatures(settings, this.services)
    this.#placing = offered(this.active, placing)
    this.#pinnings = new Pinnings(this.upstreams.keys(), this.active)
    this.catalog = this.#createCatalog()
    this.services.servers.onReachable((name, isReachable) => this.catalog.reachable(name, isReachable))
    this.documents = this.active.flatMap(({ instance }) => instance.http?.pages ?? [])
    this.routes = this.active.flatMap(({ instance }) => instance.http?.routes ?? [])
    this.byteRoutes = this.active.flatMap(({ instance }) => instance.http?.byteRoutes ?? [])
    this.statusMapping = statusMapping(settings)
  }

  has(upstream: string): boolean {
    return this.upstreams.has(upstream) || this.#profileUrls.has(upstream)
  }

  get exchangesTokens(): boolean {
    return this.settings.upstreams.some(
      ({ reach }) => reach.kind === 'url' && reach.oauth !== undefined && exchangesTokens(reach.oauth),
    )
  }

  /** The called tool in the list of its server, unless it was found before. */
  tool(call: Call): ListedTool | undefined | Promise<ListedTool | undefined> {
    return foundTool(call) ?? this.upstreams.get(call.target.upstream ?? '')?.tool(call)
  }

  /** How the tools of servers are compared with what was accepted. */
  get pinnings(): Pinnings {
    return this.#pinnings
  }

  /** The tools that a server listed last, without asking it. @throws if none are known */
  async lastTools(name: string): Promise<readonly Descriptor[]> {
    const upstream = this.upstreams.get(name)
    if (!upstream) return []
    const call = ownCall({ target: { upstream: name, method: 'tools/list' } })
    const entries = await listAllPages(lastKnown(this.#pinnings.handlerOf(upstream)), call, 'tools/list')
    return entries.flatMap(({ fields }) => this.#descriptors.listed(name, fields) ?? [])
  }

  /** The descriptor of the tool that a call names, also if it is held. @throws what listing throws */
  described(call: Call): Descriptor | undefined | Promise<Descriptor | undefined> {
    return this.#descriptors.of(withoutFoundTool(call))
  }

  withTool(call: Call): Called | Promise<Called> {
    const resolved = this.catalog.resolve(call)
    const calledAs = (each: Call | undefined): Called | Promise<Called> => {
      const tool = each && this.#offeredTool(each)
      const found = (listed: ListedTool | undefined): Called => ({
        call: each ? withFoundTool(call, each.target, listed) : call,
        mirror: listed?.mirror ?? [],
      })
      return tool instanceof Promise ? tool.then(found) : found(tool)
    }
    return resolved instanceof Promise ? resolved.then(calledAs) : calledAs(resolved)
  }

  placeOf(call: Call): Promise<string | undefined> | undefined {
    const concerned = this.#placing.filter((each) => each.isConcerned(call))
    return concerned.length > 0 ? this.#placeOf(call, concerned) : undefined
  }

  async #placeOf(call: Call, concerned: readonly Placing[]): Promise<string | undefined> {
    const resolved = await this.catalog.resolve(call)
    const places = resolved && (await Promise.all(concerned.map((each) => each.placeOf(resolved))))
    return places?.find((place) => place !== undefined)
  }

  /** The called tool, unless it is held. */
  #offeredTool(call: Call): ListedTool | undefined | Promise<ListedTool | undefined> {
    return this.#pinnings.offered(this.tool(call), call.target.upstream ?? '')
  }

  /** What is wrong with the answers of a server, for people. */
  findings(upstream: string): readonly string[] {
    return [...(this.upstreams.get(upstream)?.findings.texts ?? []), ...this.catalog.missing(upstream)]
  }

  /** Whether the caller may make a tool call; the call is not made. */
  isPermitted(call: Call): Promise<boolean> {
    return this.admit(call).then(
      () => true,
      () => false,
    )
  }

  /** Resolves if the caller may make a call, which is not made. @throws why not, or why that is not known */
  async admit(call: Call): Promise<void> {
    const found = await this.catalog.resolve(call)
    const guard = this.active.find(({ name }) => name === permissions.name)
    if (!found || !guard?.isOn(found.target.upstream)) return
    const middleware = guard.instance.calls?.middleware(found.target)
    await compose(this.#withTool(found.target, [middleware]), async () => emptyResult)(found)
  }

  /** Creates a document about one server, or about all of them, without secrets. */
  async describe<Document>(
    upstream: string | undefined,
    make: (description: ServerDescription) => Document,
  ): Promise<Document> {
    return this.#descriptions.clean(make(await this.#descriptions.of(upstream)))
  }

  #directory(): ServerDirectory {
    const { settings, upstreams } = this
    const { listed } = this.#descriptors
    const together = namingOf(settings)
    const { isStrict } = settings.listen
    const undoRules = new UndoRules({
      settings: (name) => upstreams.get(name)?.settings.tools,
      tools: (name) => directory.tools(name),
      unconfigured: (name) => unconfiguredUndo(settings, name),
    })
    const directory: ServerDirectory = {
      names: () => [...upstreams.keys()],
      settings: (name) => upstreams.get(name)?.settings,
      tool: (call) => this.#pinnings.offered(this.described(call)),
      tools: async (name) => {
        const upstream = upstreams.get(name)
        const entries = upstream ? await listedBy(upstream, this.#pinnings.handlerOf(upstream)) : []
        return entries.flatMap(({ fields }) => listed(name, fields) ?? [])
      },
      describe: listed,
      undoRule: (name, of) => undoRules.of(name, of),
      undoRuleAmong: (described, all) => undoRules.among(described, all),
      isUndoProved: (name, of) => undoRules.isProved(name, of),
      isUndoProvedAmong: (described, all) => undoRules.isProvedAmong(described, all),
      isUndoProposed: (name, of) => undoRules.isProposed(name, of),
      exposedName: (name, of, isTogether) =>
        isTogether ? together.name(name, of) : isStrict ? aliasOf(of) : of,
      exposedEvent: (name, of) => (isStrict ? aliasOf(exposedName(name, of)) : exposedName(name, of)),
      exposedUri: (name, uri) => together.uri(name, uri),
      ownUri: (name, exposed) => {
        const found = together.serverOf(exposed, [...upstreams.keys()])
        return found?.upstream === name ? found.name : undefined
      },
      callBounds: (name, of) => callBounds(settings, name, of),
      resultLimit: (name) => resultLimitOf(settings, name),
      records: () => (this.#records ??= this.#createRecords()),
      quota: (name) => upstreams.get(name)?.quota(),
      contextOf: (call) => upstreams.get(call.target.upstream ?? '')?.contextOf(call),
      discovered: (name) => discoveredBy(upstreams.get(name)),
      onReachable: (listener) => {
        for (const [name, { reachability }] of upstreams)
          reachability.onChange((isReachable) => listener(name, isReachable), this.ended.signal)
      },
    }
    return directory
  }

  #createRecords(): ServerRecords {
    const { log } = this.#process
    const { features } = this.services
    const records = createRecords({
      servers: new Map(
        [...this.upstreams].map(([name, upstream]) => [
          name,
          sourceOf(upstream, (call) => this.#pinnings.handlerOf(upstream)(call)),
        ]),
      ),
      listed: this.#descriptors.listed,
      facts: (described, all) =>
        Object.assign(
          {},
          ...features.offered(toolFacts, described.upstream).map((factsOf) => factsOf(described, all)),
        ),
      seen: this.#statistics.of,
      log,
    })
    records.onChange((upstream) => background(this.names.again(upstream), log))
    return records
  }

  #createServices(servers: ServerDirectory): Services {
    const { settings } = this
    const { log, store, scope, membership, seal, sign, prove, page, code, closing, observing } = this.#process
    const approvalCode = new ApprovalCode(store, code)
    return {
      log,
      store,
      scope,
      servers,
      invoker: {
        call: (call) => this.catalog.handle(call),
        relay: (call) => this.catalog.servers(call),
        admit: (call) => this.admit(call),
        // The only client of a pipe needs no credentials.
        present: (principal) =>
          principal.isEverybody && page('/') === undefined
            ? principal
            : presentPrincipal(principal, settings.auth),
        observeRest: (call, rest) => {
          const ended = observe(observing)(() => rest)(rateLimitSlot.set(call, undefined))
          ended.catch(() => undefined)
        },
      },
      descriptions: {
        of: (upstream, call) => this.#descriptions.of(upstream, call),
        document: (description, key, make) => this.#descriptions.document(description, key, make),
      },
      identity: { membership, seal, sign, prove },
      pages: {
        url: page,
        decisionChannels: (approval) => {
          const decider = whoDecidesOnPage(approval, settings.auth)
          const isAtTerminal = isStoreShared(settings)
          // Whoever decides at the command line types the code, also if this process has not shown it yet.
          if (isAtTerminal) background(approvalCode.keep(), log)
          return {
            url: decider && page(`/confirm/${approval.id}`),
            isForPeople: decider === 'person',
            isAtTerminal,
          }
        },
      },
      features: this.#features(),
      gateway: {
        settings,
        closing,
        redactor: this.#process.redactor,
        fetchJson: (url) => fetchJson(url, this.#process.proxies),
        proxies: this.#process.proxies,
      },
      metrics: observing.metrics,
      audit: observing,
    }
  }

  #features(): Services['features'] {
    const on = (upstream?: string): readonly ActiveFeature[] =>
      this.active.filter(({ isOn }) => isOn(upstream))
    return {
      isOn: (name, upstream) => this.active.some((each) => each.name === name && each.isOn(upstream)),
      offered: (point, upstream) => offered(on(upstream), point),
      layers: (upstream) => on(upstream).flatMap(({ instance: { calls } }) => calls ?? []),
    }
  }

  #createDescriptions(): Descriptions {
    const { settings, services, upstreams } = this
    return createDescriptions({
      settings,
      records: services.servers.records,
      isUp: (name) => upstreams.get(name)?.status.problem === undefined,
      isOn: (feature, upstream) => services.features.isOn(feature, upstream),
      eventTypes: (upstream) =>
        services.features.offered(eventTypes, upstream).flatMap((each) => each(upstream)),
      isGuarded: isGuarded(settings),
      page: this.#process.page,
      isHiding: (upstream) => {
        const names = upstream === undefined ? [undefined, ...upstreams.keys()] : [upstream]
        const permissionSettings = names.map((name) => settingsFor(permissions, settings, name))
        return permissionSettings.some((each) => each && each.hide_unpermitted === true)
      },
      handle: services.invoker.call,
      redactor: this.#process.redactor,
    })
  }

  #createCatalog(): Catalog {
    const { settings, active } = this
    const { observing, log } = this.#process
    return new Catalog({
      upstreams: new Map(
        [...this.upstreams].map(([name, upstream]) => [name, this.#pinnings.handlerOf(upstream)]),
      ),
      middlewares: (target) => this.#middlewares(target),
      observe: observe(observing),
      viewMiddleware: (method) => active.map(({ instance }) => instance.responseMiddleware?.(method)),
      isAggregate: settings.listen.aggregate,
      timeoutMs: settings.listen.aggregateTimeout,
      only: onlyServer(settings),
      naming: namingOf(settings),
      isStrict: settings.listen.isStrict,
      own: active.map(({ instance: { builtins, http }, isOn }) => ({ ...builtins, ...http, isOn })),
      metaTools: settings.metaTools,
      hasMethods: settings.hasMethods,
      profiles: offeredProfiles(settings),
      lists: settings.lists,
      onConflict: reportOnce(log),
      tool: (call) => this.#offeredTool(call),
      ...(this.#pinnings.areThere && {
        isHeld: async (call: Call) => this.#pinnings.isHeld(call.target.upstream, await this.tool(call)),
      }),
      lacks: (call) => this.upstreams.get(call.target.upstream ?? '')?.lacks(call) === true,
      log,
      isPermitted: (call) => this.isPermitted(call),
    })
  }

  /** The middleware of a target, outermost first. */
  #middlewares(target: Target): readonly (Middleware | undefined)[] {
    const { observing } = this.#process
    const { settings } = this
    const upstream = target.isBuiltin ? undefined : this.upstreams.get(target.upstream ?? '')
    return [
      observeTarget(observing, target),
      // Features read the lists of a server, which may require the user to sign in.
      upstream?.guard,
      this.#process.isUnchecked
        ? undefined
        : upstream && repairedLists(target, upstream.settings, settings.profiles),
      dryRunGuard(target, this.services),
      ...this.#withTool(target, middlewaresOf(this.active, target, observing.calls !== undefined)),
      this.#records && this.#statistics.middleware(target),
      upstream && observeServer(observing, target, wayTo(upstream.settings)),
    ]
  }

  /** Adds the middleware that resolves the tool, if there is any below it: listing tools takes time. */
  #withTool(target: Target, below: readonly (Middleware | undefined)[]): readonly (Middleware | undefined)[] {
    const { method, upstream = '', name = '', isBuiltin } = target
    if (method !== 'tools/call' || below.every((each) => each === undefined)) return below
    const { silence } = callBounds(this.settings, upstream, name)
    const { of, ofServer } = this.#descriptors
    return [resolveTool(isBuiltin ? of : ofServer, silence), ...below]
  }
}

/** The servers of a configuration; those with unchanged settings are kept. */
function upstreamsOf(
  settings: Settings,
  before: ReadonlyMap<string, Upstream>,
  { log, observing, placements, ...shared }: ProcessState,
): ReadonlyMap<string, Upstream> {
  const held = shared.scope.once(HeldMemory)
  // What observes or replaces a server has it in this process.
  const areShared = isStoreShared(settings) && !shared.intercept
  return new Map(
    settings.upstreams.map((each) => {
      const previous = before.get(each.name)
      if (previous && settingsEqual(previous.settings, each)) return [each.name, previous]
      const upstreamLog = withFields(log, { upstream: each.name })
      const meter = observing.metrics.mcp.upstream(each.name, wayTo(each))
      const placement = areShared ? placements.of(each) : undefined
      const upstream = createUpstream(each, { ...shared, held, meter, placement, log: upstreamLog })
      upstream.isDrained = previous?.isDrained === true
      return [each.name, upstream]
    }),
  )
}

/** What records of a server are made of: its own status, and what it lists to clients. */
function sourceOf(upstream: Upstream, handle: Handler) {
  return {
    settings: upstream.settings,
    handle,
    get status() {
      return upstream.status
    },
  }
}

/** The tools that a server lists. @throws SERVER_UNAVAILABLE, and the errors of the server */
async function listedBy(upstream: Upstream, handle: Handler): Promise<readonly Payload[]> {
  checkAvailable(upstream)
  const call = ownCall({ target: { upstream: upstream.name, method: 'tools/list' } })
  return listAllPages(handle, call, 'tools/list')
}

/** What a server says of itself. @throws SERVER_UNAVAILABLE */
async function discoveredBy(upstream: Upstream | undefined): Promise<Payload['fields']> {
  if (!upstream) return {}
  checkAvailable(upstream)
  const target = { upstream: upstream.name, method: 'server/discover' }
  return resultOf(await upstream.handle(ownCall({ target }))).fields
}

/** Retrying here would only delay the next attempt on behalf of a caller. @throws SERVER_UNAVAILABLE */
function checkAvailable({ status: { problem } }: Upstream): void {
  if (problem !== undefined) throw new GatewayError('SERVER_UNAVAILABLE', problem, { isUnsent: true })
}

/** Which undo rules of a server are used without being configured. */
export function unconfiguredUndo(settings: Settings, upstream: string): UnconfiguredRules {
  const transactionSettings = settingsFor(transactions, settings, upstream)
  const undoSettings = settingsFor(undo, settings, upstream)
  return {
    isDerived: transactionSettings && transactionSettings.auto_undo === true,
    usesProofs: undoSettings && undoSettings.proved === 'auto',
  }
}

const emptyResult: Outcome = { kind: 'result', result: Payload.of({}) }

/** Resolves once all features are closed, whether they succeeded or not. */
export async function closeFeatures({ active }: Runtime): Promise<void> {
  await Promise.allSettled(active.map(async ({ instance }) => instance.close?.()))
}

/** Closes the previous runtime; servers that the next one uses are kept. */
export function retireRuntime(
  before: Runtime,
  after: Runtime,
  { closing, log }: Pick<ProcessState, 'closing' | 'log'>,
): void {
  before.ended.abort()
  before.catalog.close()
  for (const [name, upstream] of before.upstreams) {
    if (after.upstreams.get(name) !== upstream) background(upstream.retire(closing), log)
    else if (before.pinnings.of(name)?.shown !== after.pinnings.of(name)?.shown) upstream.toolsChanged()
  }
  background(closeFeatures(before), log)
}
