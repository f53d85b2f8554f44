/**
 * The parts that last as long as the process: store, keys, listeners, observers. Owns the current `Runtime` and
 * replaces it on reload; in-flight calls finish in the runtime they started in.
 */
import { type Finding, logProblems } from '../core/findings.ts'
import type { Readable, Writable } from 'node:stream'
import { readLists } from '../catalog/server-records.ts'
import type { ReferenceLevels } from '../observability/exposition.ts'
import { type Timer, world } from '../core/world.ts'
import { HeldMemory } from '../core/holdings.ts'
import { addConfirmPages } from '../downstream/pages/approvals.ts'
import { anchorsIn } from '../observability/audit/anchor.ts'
import { addConsolePages, placesOf } from '../downstream/pages/console.ts'
import { PageEntry } from '../downstream/pages/page-entry.ts'
import {
  createOperator,
  isByCode,
  type Operator,
  operatorOf,
  pageUserNamed,
} from '../downstream/pages/page-users.ts'
import type { Principal } from '../core/principal.ts'
import type { ResponseSink } from '../downstream/session/response-sink.ts'
import { serveStateless } from '../downstream/stateless.ts'
import type { JsonRpcRequest } from '../protocol/jsonrpc.ts'
import { exposedName } from '../catalog/names.ts'
import { createRequestStateCodec, type RequestStateCodec } from '../protocol/request-state.ts'
import { closeFeatures, type ProcessState, retireRuntime, Runtime } from './runtime.ts'
import { isProtected } from '../core/auth-settings.ts'
import type { Handler, Target } from '../core/call.ts'
import type { Descriptor } from '../core/descriptor.ts'
import { background, type Log } from '../core/log.ts'
import { Payload } from '../core/payload.ts'
import { environmentProxies, type FindProxy } from '../core/proxy.ts'
import { featureSettings, isStoreShared, type Settings } from '../core/settings.ts'
import type { ServerDescription } from '../descriptions/model/description.ts'
import { ProcessScope } from '../durable/process-scope.ts'
import { events } from '../features/events/events.ts'
import { pauseWrites } from '../features/pause-writes.ts'
import { references } from '../features/references/references.ts'
import {
  type EventTrial,
  eventTrials,
  masked,
  operationCounts,
  type Pinning,
  type Rewinding,
  rewinding,
} from '../features/offers.ts'
import { type Network, systemNetwork } from '../downstream/http/network.ts'
import { isOwnOrigin } from '../downstream/http/origin.ts'
import { type AddPages, type Listener, listenHttp } from '../downstream/http/server.ts'
import { serveStdio } from '../downstream/stdio.ts'
import type { Reader } from '../downstream/pages/front-page.ts'
import { type CommandCall, listEventTypes, makeCommandCall } from './command-call.ts'
import { createConsole } from './console/console.ts'
import { ConsoleServers } from './console/servers.ts'
import { ToolLists } from './console/tool-lists.ts'
import { offered, receiveHook } from './features.ts'
import { frontPage } from './front-page.ts'
import { CallJournal } from './call-journal.ts'
import { ForgetWatch } from './forget-watch.ts'
import { inspect, type Inspected } from './inspect.ts'
import { readiness } from '../observability/health.ts'
import type { Audit } from '../observability/audit/audit.ts'
import type { Observing } from '../observability/observing.ts'
import type { OtherWorkers } from '../observability/worker-metrics.ts'
import type { Way } from '../observability/operations.ts'
import { type JoinedFleet, joinFleet } from './fleet.ts'
import { createObserving, timed } from './observers.ts'
import { operatorEndpoint } from './operator-mcp.ts'
import { createOwner, type Owner } from './owner.ts'
import { createPlacements } from './placements.ts'
import { ApprovalCode, isPageCode, PageCode } from '../records/approval-codes.ts'
import { type Approval, Approvals } from '../records/approvals.ts'
import { DeadLetters } from '../records/dead-letters.ts'
import { pauseOf, type PauseState, type PauseWatch } from '../records/pause.ts'
import { referenceLevels } from '../records/references.ts'
import { createMembership } from '../durable/members.ts'
import { GatewayKeys } from './keys.ts'
import { createSeal } from '../core/seal.ts'
import { ifAnswered, within } from '../core/time/waiting.ts'
import { isSameStore, openStore, RetiredStores } from '../store/open.ts'
import type { Store } from '../store/store.ts'
import type { Variables } from '../upstream/transport/child.ts'
import type { TransportInterceptor } from '../upstream/transport/transport.ts'
import { createOAuthCallbackHandler, type OAuthCallbackHandler } from '../upstream/oauth/sign-in.ts'
import { createPageSignIn } from '../upstream/oauth/page-sign-in.ts'
import type { Status } from '../upstream/connector.ts'
import { type Challenge, PIPE, proofClaims } from '../protocol/gateway-proof.ts'
import { ownCall } from '../protocol/lift.ts'
import { startServers } from '../upstream/start-servers.ts'

interface Options {
  /** The environment variables of every child process. */
  readonly variables: Variables
  readonly log: Log
  /** The audit log of a gateway without clients; it is closed with the gateway. */
  readonly audit?: Audit
  /** The origin at which a gateway with these settings is reached, for commands that only describe it. */
  readonly origin?: string
  /** Applied to each connection to a server, by commands that record or replay them. */
  readonly intercept?: TransportInterceptor
  /** Relays lists as servers send them, for commands that judge a server. */
  readonly isUnchecked?: boolean
  /** The processes that serve with this one as one gateway. */
  readonly workers?: OtherWorkers | undefined
  /** Opens the store, in place of the configured one, for commands that simulate it. */
  readonly openStore?: typeof openStore
  /** Has the connections of clients and of other gateways, in place of the operating system. */
  readonly network?: Network
}

/** Who sends a request, and where to. */
interface Sender {
  readonly principal: Principal
  /** The server in the URL; undefined for the URL of all servers. */
  readonly upstream: string | undefined
  /** Aborted when the client goes away. */
  readonly controller: AbortController
}

/** The tools that are not as they were accepted. */
interface Unaccepted {
  /** Whether they are held: neither listed nor called. */
  readonly isHolding: boolean
  readonly tools: Pinning['unaccepted']
}

/** The gateway between clients and servers. */
export class Gateway {
  readonly #log: Log
  readonly #openStore: typeof openStore
  readonly #network: Network
  readonly #origin: string | undefined
  readonly #keys: GatewayKeys
  /** Handles the OAuth redirect after users sign in to servers. */
  readonly #signIns: OAuthCallbackHandler
  /** The sign-in of people to the gateway's own pages. */
  readonly #pageSignIn: ReturnType<typeof createPageSignIn>
  readonly #observing: Observing
  /** What was called, for people. */
  readonly #journal: CallJournal
  readonly #forgetWatch: ForgetWatch
  readonly #toolLists = new ToolLists(() => this.#runtime)
  readonly #owner: Owner
  readonly #operator: Operator
  /** Lets people enter the pages of all gateways with this store. */
  readonly #pageCode: PageCode
  readonly #closing = new AbortController()
  readonly #fleet = createMembership(() => this.#process.store)
  readonly #retired = new RetiredStores((store) => this.#process.membership.leave(store))
  #process: ProcessState
  #runtime: Runtime
  #listener: Listener | undefined
  /** The gateways that share its store, while clients are served over HTTP. */
  #joined: JoinedFleet | undefined
  #codeTimer: Timer | undefined
  #started: Promise<readonly Finding[]> | undefined
  #hasStarted = false
  #versions = 0
  #codec: RequestStateCodec | undefined
  /** How people enter the pages of the listener. */
  #entry: PageEntry | undefined

  constructor(initial: Settings, given: Options) {
    const {
      variables,
      log,
      audit,
      origin,
      intercept,
      isUnchecked,
      workers,
      openStore: open = openStore,
    } = given
    const proxies = environmentProxies(variables, (variable) => log.warn('proxy.invalid', { variable }))
    this.#log = log
    this.#openStore = open
    this.#network = given.network ?? systemNetwork
    this.#origin = origin
    const issuer = (): string => this.settings.listen.publicUrl ?? 'gatehouse'
    this.#keys = new GatewayKeys(() => this.#process.store, issuer, log)
    this.#operator = createOperator({
      now: world.now,
      keys: this.#keys.encryptionKeys,
      isOfOther: async (typed) =>
        this.settings.store.kind !== 'memory' && isPageCode(this.#process.store, typed),
    })
    this.#pageCode = new PageCode(() => this.#process.store, this.#operator.code)
    this.#signIns = createOAuthCallbackHandler({
      store: () => this.#process.store,
      key: this.#keys.vault,
      listen: () => this.settings.listen,
      finisher: (name) => this.#runtime.upstreams.get(name)?.finishSignIn,
      onStep: (step) => this.#observing.signedIn(step),
      learn: (token) => this.#observing.redactor.learnToken(token),
      members: () => this.#process.membership,
    })
    this.#pageSignIn = createPageSignIn({
      auth: () => this.settings.auth,
      base: this.#signIns.base,
      vault: this.#signIns.vault,
      proxies,
      now: world.now,
    })
    this.#journal = new CallJournal({
      store: () => this.#process.store,
      settings: () => this.settings.observe.calls,
      storeKind: () => this.settings.store.kind,
      masked: (value, target) => masked(this.#runtime.services, value, target),
      redacted: (text) => this.#observing.redactor.text(text),
      log,
    })
    this.#observing = this.#createObserving(audit, workers)
    this.#forgetWatch = new ForgetWatch({
      store: () => this.#process.store,
      audit: () => this.#observing.audit,
      log,
    })
    this.#owner = createOwner({
      gateway: this,
      journal: this.#journal,
      store: () => this.#process.store,
      paused: () => (this.#pause ? this.#pause.current : 'off'),
      pauseFor: (server) => this.#pauseFor(server),
      hasOthers: async () => this.#fleet.hasOthers(),
      observing: this.#observing,
      servers: new ConsoleServers({
        runtime: () => this.#runtime,
        store: () => this.#process.store,
        observing: this.#observing,
        journal: this.#journal,
        toolLists: this.#toolLists,
        examined: ({ principal }) => ({
          proxies: this.proxies,
          explore: (name) => this.explore(name),
          listFindings: (name) => this.listFindings(name),
          entries: (name) => this.entries(name),
          callTool: (order) => makeCommandCall(this.handle, order, principal),
        }),
        env: variables,
        fleet: this.#fleet,
      }),
    })
    this.#observing.apply(initial)
    const seal = createSeal(world.now, this.#keys.encryptionKeys, this.#keys.areShared)
    const store = (): Store => this.#process.store
    this.#process = {
      variables,
      proxies,
      log,
      observing: this.#observing,
      store: this.#open(initial),
      scope: new ProcessScope(),
      membership: this.#fleet,
      seal,
      placements: createPlacements(
        { store, fleet: this.#fleet, network: this.#network, seal, log },
        this.#observing.metrics,
      ),
      sign: this.#keys.sign,
      prove: (challenge) => this.#prove(challenge),
      page: (path) => this.#pageUrl(path),
      code: this.#operator.code,
      oauth: this.#signIns,
      redactor: this.#observing.redactor,
      intercept,
      isUnchecked,
      closing: this.#closing.signal,
    }
    this.#runtime = new Runtime(initial, new Map(), this.#process)
  }

  /** Handles a call of a client in the current runtime; the call stays in it until it finishes. */
  readonly handle: Handler = (call) => this.#runtime.catalog.handle(call)

  /** The proxies of the environment. */
  get proxies(): FindProxy {
    return this.#process.proxies
  }

  get settings(): Settings {
    return this.#runtime.settings
  }

  get statuses(): ReadonlyMap<string, Status> {
    return new Map([...this.#runtime.upstreams].map(([name, upstream]) => [name, upstream.status]))
  }

  /** The code for the approval pages; undefined if people authenticate in another way. */
  get operatorCode(): string | undefined {
    return isByCode(this.settings.auth) ? this.#operator.code : undefined
  }

  /** The code with which people approve calls at the command line. */
  get approvalCode(): string {
    return this.#operator.code
  }

  /** Connects to a server for modern and for older clients, and returns its status. */
  async explore(name: string): Promise<Status | undefined> {
    const upstream = this.#runtime.upstreams.get(name)
    const { client } = ownCall()
    // A failure for older clients does not affect the others; the status reports it.
    await upstream?.start(ownCall({ client: { ...client, session: 'explore' } })).catch(() => undefined)
    return upstream?.status
  }

  /** Reads the lists of a server: what is wrong with them, in sentences, and why one cannot be read. */
  async listFindings(
    name: string,
  ): Promise<{ readonly findings: readonly string[]; readonly error?: unknown }> {
    const upstream = this.#runtime.upstreams.get(name)
    const runtime = this.#runtime
    const reading = upstream ? readLists(runtime.pinnings.handlerOf(upstream), name) : Promise.resolve()
    const failure = await reading.then(
      () => ({}),
      (error: unknown) => ({ error }),
    )
    return {
      findings: [...runtime.findings(name), ...(runtime.pinnings.of(name)?.findings ?? [])],
      ...failure,
    }
  }

  /** Connects to each server once. Resolves with the problems of the settings, given what the servers list. */
  start(): Promise<readonly Finding[]> {
    this.#started ??= Promise.all([this.#connectServers(), this.#observing.opened])
      .then(([found]) => found)
      .finally(() => {
        this.#hasStarted = true
      })
    return this.#started
  }

  /**
   * Replaces the settings. In-flight calls finish with the previous ones; unchanged servers are kept.
   * @throws if the audit log or the store cannot be used: then nothing has changed
   */
  async reload(settings: Settings): Promise<void> {
    const version = ++this.#versions
    const { store: before } = this.#process
    const isSameAsBefore = isSameStore(settings.store, this.settings.store)
    const store = isSameAsBefore ? before : await openedStore(this.#open(settings), settings)
    try {
      if (version !== this.#versions || this.#closing.signal.aborted)
        throw new Error('it was superseded by a later change, or the gateway is closing')
      this.#observing.apply(settings)
    } catch (error) {
      if (!isSameAsBefore) await store.close()
      throw error
    }
    const old = this.#runtime
    this.#process = { ...this.#process, store }
    this.#runtime = new Runtime(settings, old.upstreams, this.#process)
    retireRuntime(old, this.#runtime, this.#process)
    if (!isSameAsBefore) this.#process.placements.forget()
    if (!isSameAsBefore) background(this.#retired.retire(before), this.#log)
    if (!isSameAsBefore && this.#joined) background(this.#joined.describe(), this.#log)
    const report = this.#connectServers().then((found) => logProblems(found, this.#log))
    background(report, this.#log)
  }

  /** Serves one request of a client of 2026-07-28 in this process. @throws only errors from before the call is made */
  serve(request: JsonRpcRequest, sink: ResponseSink, sender: Sender): Promise<void> {
    return serveStateless(request, sink, { ...sender, handle: this.handle, seal: this.#stateCodec() })
  }

  /** Serves clients over HTTP. */
  async listen(): Promise<Listener> {
    this.#serve({ transport: 'tcp' })
    await this.#waitForKeys()
    const { refused, signedIn, log } = this.#observing
    const joined = await this.#join()
    const listener = await listenHttp({
      others: joined?.others,
      network: this.#network,
      handle: this.handle,
      runtime: () => this.#runtime,
      receiveHook: (hook) => receiveHook(this.#runtime.active, hook),
      signIns: this.#signIns,
      pageSignIn: this.#pageSignIn,
      held: this.#process.scope.once(HeldMemory),
      store: () => this.#process.store,
      seal: createRequestStateCodec(
        world.now,
        undefined,
        this.#keys.encryptionKeys,
        joined && this.#fleet.id,
      ),
      jwks: this.#keys.published,
      ready: (needed) =>
        readiness({
          hasStarted: this.#hasStarted,
          upstreams: this.statuses,
          // A gateway still serves without its store: rate limits then apply to this process only.
          probes: { ...needed, store: { isNeeded: false, works: () => this.#isStoreAvailable() } },
          isPaused: this.#pause?.current !== undefined,
        }),
      metrics: () => this.#observing.page(),
      addPages: (...pages) => this.#addPages(...pages),
      onRefused: refused,
      meter: this.#observing.metrics.mcp.sessions({ transport: 'tcp', httpVersion: '1.1' }),
      onSignedIn: signedIn,
      operator: operatorEndpoint(this.#owner, this.#observing, () => this.settings),
      page: (reader) => this.#frontPage(reader),
      log,
    }).catch(async (error: unknown) => {
      await joined?.close()
      throw error
    })
    this.#listener = listener
    this.#signIns.opened(listener.url)
    const isCodeUsed = (): boolean => this.settings.store.kind !== 'memory' && isByCode(this.settings.auth)
    await within(this.#pageCode.start(isCodeUsed), ANSWER_TIMEOUT_MS, undefined)
    await within(this.#keepApprovalCode(), ANSWER_TIMEOUT_MS, undefined)
    this.#codeTimer = world.setInterval(() => void this.#keepApprovalCode(), CODE_RENEWAL_MS).unref()
    if (!joined) return listener
    joined.serveBy(listener)
    return {
      ...listener,
      get sessions() {
        return listener.sessions
      },
      drain: async (patience) => {
        await joined.drain()
        await listener.drain(patience, this.#process.placements.leave())
      },
      close: async () => {
        await listener.close()
        await joined.close()
      },
    }
  }

  /** Lets the other gateways reach this one. */
  async #join(): Promise<JoinedFleet | undefined> {
    const { metrics, log } = this.#observing
    this.#joined = await joinFleet({
      fleet: this.#fleet,
      network: this.#network,
      settings: this.settings,
      variables: this.#process.variables,
      seal: this.#process.seal,
      placements: this.#process.placements,
      onForwarded: (outcome) => metrics.forwarded(outcome),
      onMoved: (how) => metrics.sessionMoved(how),
      log,
    })
    return this.#joined
  }

  /** Resolves once somebody told this gateway to end (`gatehouse fleet drain`). */
  get drained(): Promise<void> {
    return this.#fleet.drained
  }

  /** Serves one client over a pair of streams, until the client closes its side. */
  async stdio(input: Readable, output: Writable): Promise<void> {
    this.#serve({ transport: 'pipe' })
    await this.#waitForKeys()
    // The only server of a kind may run here.
    if (this.settings.upstreams.some(({ isPlacedOnce }) => isPlacedOnce)) await this.#join()
    return serveStdio(input, output, {
      handle: this.handle,
      seal: createRequestStateCodec(world.now, undefined, this.#keys.encryptionKeys),
      principal: this.settings.auth.principal,
      limit: this.settings.listen.body,
      isStrict: () => this.settings.listen.isStrict,
      onRefused: this.#observing.refused,
      meter: this.#observing.metrics.mcp.sessions({ transport: 'pipe' }),
      closing: this.#closing.signal,
      log: this.#log,
    })
  }

  /** Makes the call of each watch once, and says what it found. */
  async tryEvents(): Promise<readonly EventTrial[]> {
    const trials = await Promise.all(offered(this.#runtime.active, eventTrials).map((each) => each()))
    return trials.flat()
  }

  /** Plans to undo what was done, and carries them out; undefined without transactions. */
  get rewinding(): Rewinding | undefined {
    return offered(this.#runtime.active, rewinding)[0]
  }

  /** The features with middleware for a target, outermost first, with their settings. */
  chain(target: Target): readonly { readonly feature: string; readonly settings: unknown }[] {
    const { active, settings } = this.#runtime
    return active.flatMap(({ name, instance, isOn }) => {
      if (!isOn(target.upstream) || !instance.calls?.middleware(target)) return []
      return [{ feature: name, settings: featureSettings(settings, name, target.upstream) }]
    })
  }

  /** Describes a tool, by any name that clients use, and how it is handled. @throws what listing throws */
  async inspect(upstream: string, tool: string): Promise<Inspected | undefined> {
    const runtime = this.#runtime
    const { servers } = runtime.services
    const target = { upstream, method: 'tools/call', name: tool }
    const params = Payload.of({ name: tool })
    const found = await runtime.described(ownCall({ method: target.method, params, target }))
    const tools = await servers.tools(upstream)
    const isExposed = (name: string): boolean =>
      tool === exposedName(upstream, name) || tool === servers.exposedName(upstream, name, true)
    const entry = found ?? tools.find(({ name }) => isExposed(name))
    return entry && inspect(entry, tools, runtime)
  }

  /** The tools in the last list of a server that are not as they were accepted, and what becomes of them. */
  unaccepted(upstream: string): Unaccepted | undefined {
    const pinned = this.#runtime.pinnings.of(upstream)
    return pinned && { isHolding: pinned.isHolding, tools: pinned.unaccepted }
  }

  /** Makes a call of a tool for the user of a command. @throws what the call fails with */
  callTool(order: CommandCall): Promise<Payload> {
    return makeCommandCall(this.handle, order, this.settings.auth.principal)
  }

  /** The tools that a server lists. @throws what listing throws */
  entries(upstream: string): Promise<readonly Descriptor[]> {
    return this.#runtime.services.servers.tools(upstream)
  }

  /** The entries of `events/list` at the address of a server, or of all; undefined without events. @throws what listing throws */
  eventTypes(upstream: string | undefined): Promise<readonly Payload[] | undefined> {
    const isAuthenticated = isProtected(this.settings.auth)
    return listEventTypes(upstream, this.handle, isAuthenticated)
  }

  /** Creates a document about one server, or about all of them, without secrets. */
  describe<Document>(
    upstream: string | undefined,
    make: (description: ServerDescription) => Document,
  ): Promise<Document> {
    return this.#runtime.describe(upstream, make)
  }

  /** The gateway key of this gateway (`gateway_key` of one in front); undefined if the store does not respond. */
  key(): Promise<string | undefined> {
    return ifAnswered(this.#keys.thumbprint(), ANSWER_TIMEOUT_MS)
  }

  async close(): Promise<void> {
    const runtime = this.#runtime
    world.clearInterval(this.#codeTimer)
    this.#closing.abort()
    runtime.ended.abort()
    runtime.catalog.close()
    await Promise.allSettled([...runtime.upstreams.values()].map((upstream) => upstream.close()))
    await this.#process.placements.close()
    if (!this.#listener) await this.#joined?.close()
    await closeFeatures(runtime)
    await Promise.all([this.#process.membership.close(), this.#pageSignIn.close(), this.#pageCode.close()])
    await Promise.all([this.#journal.close(), this.#forgetWatch.close()])
    // Closing the audit log writes its head to the store, so the store is closed after it.
    await this.#observing.close()
    await Promise.all([this.#process.store.close(), this.#retired.close()])
    await this.#process.scope.close()
  }

  /** People type the code that this gateway printed, whichever gateway asks for their approval. Never rejects. */
  async #keepApprovalCode(): Promise<void> {
    if (isStoreShared(this.settings)) await new ApprovalCode(this.#process.store, this.approvalCode).keep()
  }

  #serve(way: Way): void {
    this.#observing.serve(way)
    // No command can use a store in memory.
    if (this.settings.store.kind !== 'memory') this.#forgetWatch.start()
  }

  #createObserving(audit: Audit | undefined, workers: OtherWorkers | undefined): Observing {
    const observing = createObserving(this.#log, {
      upstreams: () => this.#runtime.upstreams,
      isOwnMethod: (name) =>
        this.#runtime.active.some(({ instance }) => Object.hasOwn(instance.builtins?.methods ?? {}, name)),
      operations: () => offered(this.#runtime.active, operationCounts)[0]?.() ?? {},
      sessions: () => this.#listener?.sessions ?? 0,
      isPaused: () => (this.#pause?.isKnown ? this.#pause.current !== undefined : undefined),
      pendingApprovals: async () => (await this.#pendingApprovals())?.length,
      deadLetters: () => this.#deadLetters(),
      references: () => this.#references(),
      calls: this.#journal,
      anchors: () => anchorsIn(this.settings, () => this.#process.store),
      workers,
    })
    observing.audit = audit
    return observing
  }

  #open(settings: Settings): Store {
    return timed(this.#openStore(settings.store, this.#log), this.#observing)
  }

  #isStoreAvailable(): boolean {
    return this.#process.store.unavailableReason === undefined
  }

  /** The calls that wait for approval; undefined if the store does not respond. */
  #pendingApprovals(): Promise<readonly Approval[] | undefined> {
    return ifAnswered(new Approvals(this.#process.store, world.now).pending(), ANSWER_TIMEOUT_MS)
  }

  #isOn({ name }: { readonly name: string }): boolean {
    return this.#runtime.active.some((each) => each.name === name)
  }

  /** What is known of the pause of writes; undefined if calls are not stopped by it. */
  get #pause(): PauseWatch | undefined {
    return this.#isOn(pauseWrites) ? pauseOf(this.#process.store) : undefined
  }

  #pauseFor(server: string): PauseState | undefined {
    const found = this.#runtime.active.find(({ name }) => name === pauseWrites.name)
    return found?.isOn(server) ? this.#pause?.current : undefined
  }

  /** The events that were given up; undefined if the store does not respond, or events are off. */
  async #deadLetters(): Promise<number | undefined> {
    return this.#isOn(events)
      ? ifAnswered(new DeadLetters(this.#process.store).count(), ANSWER_TIMEOUT_MS)
      : undefined
  }

  /** Kept data by kind; undefined if the store does not respond, or references are off. */
  async #references(): Promise<ReferenceLevels | undefined> {
    return this.#isOn(references)
      ? ifAnswered(referenceLevels(this.#process.store), ANSWER_TIMEOUT_MS)
      : undefined
  }

  #connectServers(): Promise<readonly Finding[]> {
    const starting = startWithStore(this.#runtime, this.#process.store, this.#log)
    // A reload may have replaced the store: its key is loaded before the first state is encrypted.
    this.#keys.encryptionKeys()
    return starting
  }

  /** Waits briefly for the shared keys: without them, tokens of other processes look forged. */
  async #waitForKeys(): Promise<void> {
    await within(this.#keys.ready(), KEYS_TIMEOUT_MS, undefined)
  }

  async #prove(challenge: Challenge): Promise<string | undefined> {
    const { audience } = challenge
    const listener = this.#listener
    const isOwn = listener
      ? isOwnOrigin(audience, { ...this.settings.listen, port: Number(new URL(listener.url).port) })
      : audience === PIPE
    return isOwn ? this.#keys.prove(proofClaims(challenge)) : undefined
  }

  /** The URL of one of the gateway's pages; undefined if it serves none. */
  #pageUrl(path: string): string | undefined {
    const origin = this.#listener?.url ?? this.#origin
    const base = origin && (this.settings.listen.publicUrl ?? origin)
    return base && `${base.replace(/\/$/, '')}${path}`
  }

  #addPages(...[app, authenticate, bodies, closing]: Parameters<AddPages>): void {
    const store = (): Store => this.#process.store
    const console = createConsole({
      runtime: () => this.#runtime,
      store,
      pendingApprovals: () => this.#pendingApprovals(),
      inputSchema: (upstream, tool) => this.#inputSchema(upstream, tool),
      handle: this.handle,
      toolLists: this.#toolLists,
      codec: () => this.#stateCodec(),
      owner: this.#owner,
      url: (path) => this.#pageUrl(path) ?? path,
    })
    const entry = new PageEntry(authenticate, {
      store,
      settings: () => this.settings,
      bodies,
      operator: this.#operator,
      signInLink: this.#pageSignIn.link,
      places: placesOf(console.pages),
      needs: console.needs,
      log: this.#log,
      now: world.now,
    })
    this.#entry = entry
    app.notFound((context) => entry.notFound(context, app))
    addConfirmPages(app, entry, {
      ...this.#owner,
      inputSchema: (upstream, tool) => this.#inputSchema(upstream, tool),
      now: world.now,
    })
    addConsolePages(app, entry, {
      pages: console.pages,
      live: { topics: console.topics, closing },
      onAction: this.#observing.ordered,
      now: world.now,
    })
  }

  /** Seals the state of calls that ask the users of this process. */
  #stateCodec(): RequestStateCodec {
    this.#codec ??= createRequestStateCodec(world.now, undefined, this.#keys.encryptionKeys)
    return this.#codec
  }

  /** The input schema of a tool, if its server lists it in time. */
  async #inputSchema(upstream: string, tool: string): Promise<unknown> {
    const tools = await ifAnswered(this.#runtime.services.servers.tools(upstream), ANSWER_TIMEOUT_MS)
    return tools?.find(({ name }) => name === tool)?.definition.inputSchema
  }

  #frontPage(reader: Reader): Promise<string> {
    const runtime = this.#runtime
    return frontPage(reader, {
      runtime,
      documents: runtime.documents,
      key: async () =>
        this.settings.store.kind === 'memory' ? undefined : this.key().catch(() => undefined),
      base: (this.#pageUrl('') ?? '').replace(/\/$/, ''),
      signInLink: this.#pageSignIn.link,
      pendingApprovals: () => this.#pendingApprovals(),
      userOf: ({ principal, cookies }) =>
        isByCode(this.settings.auth)
          ? operatorOf(cookies, this.#operator)
          : principal && pageUserNamed(principal, this.settings.auth),
      frameOf: async (user) => (await this.#entry?.readerOf(user)) ?? { places: [] },
      paused: this.#pause?.current,
    })
  }
}

/** The time the store has to respond, or a server to list its tools, in milliseconds. */
const ANSWER_TIMEOUT_MS = 1000
/** How often the code for approvals is made known again, in milliseconds. */
const CODE_RENEWAL_MS = 3_600_000

/** The time the store has to return the shared keys before a gateway serves without them, in milliseconds. */
const KEYS_TIMEOUT_MS = 3000

// Connects to every server at startup, once the store is ready, and reports inconsistencies.

/**
 * Connects to the store and to each server. A folder must be usable before the gateway serves; Redis may be
 * temporarily unavailable.
 */
async function startWithStore(runtime: Runtime, store: Store, log: Log): Promise<readonly Finding[]> {
  const starting = startUp(runtime, log)
  // Awaited below, unless the store has a problem.
  starting.catch(() => undefined)
  const problem = await problemOf(store, runtime.settings)
  return problem === undefined ? starting : [{ path: ['store'], message: problem }]
}

/** Waits until a store is open. @throws Error if it is a folder that cannot be used; the store is closed then */
async function openedStore(store: Store, settings: Settings): Promise<Store> {
  const problem = await problemOf(store, settings)
  if (problem === undefined) return store
  await store.close()
  throw new Error(`store: ${problem}`)
}

/** Why the folder of a store cannot be used. Redis may be temporarily unavailable. */
async function problemOf(store: Store, settings: Settings): Promise<string | undefined> {
  await store.opened?.()
  return settings.store.kind === 'folder' ? store.unavailableReason : undefined
}

/** Connects to each server once. Resolves with the settings that contradict what the servers list. */
async function startUp({ upstreams, catalog, active, names, ended }: Runtime, log: Log): Promise<Finding[]> {
  const call = ownCall()
  await startServers(upstreams.values(), call, {
    ended: ended.signal,
    onReached: (upstream) => background(names.again(upstream), log),
    log,
  })
  const collisions = await catalog.collisions(call)
  const problems = await Promise.all([
    names.all(),
    ...active.map(async ({ instance }) => (await instance.problems?.()) ?? []),
  ])
  // A feature that cannot start because the store is unavailable does not prevent serving.
  if (!ended.signal.aborted)
    for (const { instance } of active) if (instance.start) background(instance.start(), log)
  return [...collisions, ...problems.flat()]
}
