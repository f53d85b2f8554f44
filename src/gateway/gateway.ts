/**
 * What lasts as long as the process: store, keys, listeners, observers. It owns the current `Runtime` and
 * replaces it on reload; calls in flight end in the runtime they began in.
 */
import type { Readable, Writable } from 'node:stream'
import { addConfirmPages } from '../downstream/pages/approvals.ts'
import { anchorsIn, usable, startWithStore } from './startup.ts'
import { createOperator, isByCode } from '../downstream/pages/visitors.ts'
import { createRequestStateCodec } from '../protocol/request-state.ts'
import { build, type Runtime, closeFeatures, type ProcessState, retireBuilt } from './runtime.ts'
import type { Call, Handler, Target } from '../core/call.ts'
import type { Descriptor } from '../core/descriptor.ts'
import { type Finding, logProblems } from '../core/finding.ts'
import { background, type Log } from '../core/log.ts'
import { Payload } from '../core/payload.ts'
import { featureSettings, type Settings } from '../core/settings.ts'
import type { PageSignIn } from '../core/events.ts'
import type { ServerDescription } from '../descriptions/model/description.ts'
import { isOwnOrigin } from '../downstream/http/origin.ts'
import type { DocumentPath } from '../downstream/http/routes.ts'
import { type AddPages, type Listener, listenHttp } from '../downstream/http/server.ts'
import { statusMapping } from '../downstream/http/statuses.ts'
import { serveStdio } from '../downstream/stdio.ts'
import { frontPage } from './front-page.ts'
import { inspect, type Inspected } from './inspect.ts'
import { readiness } from '../observability/health.ts'
import type { Audit } from '../observability/audit/audit.ts'
import { createLog, type Level, type OpenLog } from '../observability/log.ts'
import type { Observing } from '../observability/observing.ts'
import { createObserving, timed } from './observers.ts'
import { type Approval, createApprovals } from '../records/approvals.ts'
import { createMembership } from '../records/members.ts'
import { createKeys, type Keys } from './keys.ts'
import { within } from '../core/time/waiting.ts'
import { isSameStore, openStore, RetiredStores } from '../store/open.ts'
import type { Store } from '../store/store.ts'
import type { Variables } from '../upstream/transport/child.ts'
import { createOAuthCallbackHandler, type OAuthCallbackHandler } from '../upstream/oauth/oauth-callback.ts'
import { createPageSignIn } from '../upstream/oauth/page-sign-in.ts'
import type { Status } from '../upstream/upstream.ts'
import { PIPE, proofClaims } from '../protocol/gateway-proof.ts'
import type { HeaderMirror } from '../protocol/headers.ts'
import { ownCall } from '../protocol/lift.ts'

// For commands, which reach the parts of a gateway through this file and offline.ts alone.
export { issuerProblem } from '../downstream/auth/issuer.ts'
export { clientSnippets } from '../downstream/pages/client-snippets.ts'
export { fetchJson } from '../downstream/http/fetch-json.ts'
export { signingKeyIn } from './keys.ts'

interface Options {
  /** The environment variables every child process gets. */
  readonly variables: Variables
  readonly log: Log
  /** Where calls are recorded that are made without clients; it is closed with the gateway. */
  readonly audit?: Audit
  /** Where a gateway with these settings is reached, for those who only describe it. */
  readonly origin?: string
}

/** Everything between the clients and the servers. */
export interface Gateway {
  readonly handle: Handler
  /** Which arguments of the tool a call names are repeated in headers. */
  mirror(call: Call): HeaderMirror | Promise<HeaderMirror>
  /** Whether the caller of a tool is permitted to make the call. */
  isPermitted(call: Call): Promise<boolean>
  has(upstream: string): boolean
  readonly settings: Settings
  readonly statuses: ReadonlyMap<string, Status>
  /** Why the store cannot be used just then; absent while it can. */
  readonly storeProblem: string | undefined
  /** How a server is spoken to, clients of older revisions included: it is tried for them too. */
  explore(upstream: string): Promise<Status | undefined>
  /** Every server was tried once. */
  readonly isStarted: boolean
  /** Connects to each server once. Resolves with what is wrong with the settings, given what servers list. */
  start(): Promise<readonly Finding[]>
  /**
   * Goes on with other settings. Calls under way end as they began; servers that did not change are kept.
   * @throws where the audit log or the store cannot be used: then nothing has changed
   */
  reload(settings: Settings): Promise<void>
  /** Where the gateway's own documents are read. */
  readonly documents: readonly DocumentPath[]
  /** Where users come back to from signing in to servers. */
  readonly signIns: OAuthCallbackHandler
  /** The sign-in of people to the gateway's own pages. */
  readonly pageSignIn: PageSignIn
  /** What people type on the pages of approvals, where they are known by nothing else. */
  readonly operatorCode: string | undefined
  /** Serves clients over HTTP. */
  listen(): Promise<Listener>
  /** Serves one client over a pair of streams, until it closes its side. */
  stdio(input: Readable, output: Writable): Promise<void>
  /** The features that wrap the calls of a target, outermost first, with their settings. */
  chain(target: Target): readonly { readonly feature: string; readonly settings: unknown }[]
  /** What is known of a tool, and what is done about it. @throws what listing throws */
  inspect(upstream: string, tool: string): Promise<Inspected | undefined>
  /** The tools of a server, as it lists them. @throws what listing throws */
  entries(upstream: string): Promise<readonly Descriptor[]>
  /** A document about a server, or about all of them, without secrets. */
  describe<Made>(upstream: string | undefined, make: (description: ServerDescription) => Made): Promise<Made>
  /** The key a gateway in front may name; undefined where the store does not answer. */
  key(): Promise<string | undefined>
  close(): Promise<void>
}

/** Puts all parts together. */
export function createGateway(initial: Settings, { variables, log, audit, origin }: Options): Gateway {
  const keys = createKeys(() => kept.store, {
    issuer: () => current.settings.listen.publicUrl ?? 'gatehouse',
    log,
  })
  const signIns = createOAuthCallbackHandler({
    store: () => kept.store,
    key: keys.vault,
    listen: () => current.settings.listen,
    finisher: (name) => current.upstreams.get(name)?.finishSignIn,
    onStep: (step) => observing.signedIn(step),
  })
  const pageSignIn = createPageSignIn({
    auth: () => current.settings.auth,
    base: signIns.base,
    vault: signIns.vault,
    now: Date.now,
  })
  const observing = createObserving(log, {
    upstreams: () => current.upstreams,
    features: () => current.active,
    sessions: () => listener?.sessions ?? 0,
    pendingApprovals: async () => (await pendingApprovals())?.length,
    anchors: () => anchorsIn(current.settings, () => kept.store),
  })
  observing.audit = audit
  observing.apply(initial)
  const pendingApprovals: PendingApprovals = () =>
    within(
      createApprovals(kept.store, Date.now)
        .pending()
        .catch(() => undefined),
      STORE_TIMEOUT_MS,
      undefined,
    )
  const closing = new AbortController()
  const retired = new RetiredStores((store) => kept.membership.leave(store))
  const open = (settings: Settings): Store => timed(openStore(settings.store, log), observing)
  let kept: ProcessState = {
    variables,
    log,
    observing,
    store: open(initial),
    membership: createMembership(() => kept.store),
    sign: keys.sign,
    prove: async (challenge) => {
      const { audience } = challenge
      const isOwn = listener
        ? isOwnOrigin(audience, { ...current.settings.listen, port: Number(new URL(listener.url).port) })
        : audience === PIPE
      return isOwn ? keys.prove(proofClaims(challenge)) : undefined
    },
    page: (path) => {
      const own = listener?.url ?? origin
      const base = own && (current.settings.listen.publicUrl ?? own)
      return base && `${base.replace(/\/$/, '')}${path}`
    },
    oauth: signIns,
    closing: closing.signal,
  }
  const operator = createOperator(Date.now)
  let listener: Listener | undefined
  let current = build(initial, new Map(), kept)
  let warmed: Promise<readonly Finding[]> | undefined
  let isWarm = false
  let versions = 0

  const warmUpAll = (): Promise<readonly Finding[]> => {
    const warming = startWithStore(current, kept.store, log)
    // Known before the first state is sealed, where that can be.
    keys.encryptionKeys()
    return warming
  }

  const gateway: Gateway = {
    handle: (call) => current.catalog.handle(call),
    mirror: (call) => {
      const { catalog } = current
      const found = catalog.resolve(call)
      const mirrorOf = (each: Call | undefined): HeaderMirror | Promise<HeaderMirror> => {
        const tool = each && current.tool(each)
        return tool instanceof Promise ? tool.then((listed) => listed?.mirror ?? []) : (tool?.mirror ?? [])
      }
      return found instanceof Promise ? found.then(mirrorOf) : mirrorOf(found)
    },
    isPermitted: (call) => current.isPermitted(call),
    has: (upstream) => current.upstreams.has(upstream),
    get settings() {
      return current.settings
    },
    get statuses() {
      return new Map([...current.upstreams].map(([name, upstream]) => [name, upstream.status]))
    },
    explore: async (name) => {
      const upstream = current.upstreams.get(name)
      const { client } = ownCall()
      // What keeps an older client out does not keep out the others; the status says what does.
      await upstream?.start(ownCall({ client: { ...client, session: 'explore' } })).catch(() => undefined)
      return upstream?.status
    },
    get storeProblem() {
      return kept.store.unavailableReason
    },
    get isStarted() {
      return isWarm
    },
    start: () => {
      warmed ??= Promise.all([warmUpAll(), observing.opened])
        .then(([found]) => found)
        .finally(() => {
          isWarm = true
        })
      return warmed
    },
    reload: async (settings) => {
      const version = ++versions
      const isSameAsBefore = isSameStore(settings.store, current.settings.store)
      const store = isSameAsBefore ? kept.store : await usable(open(settings), settings)
      try {
        if (version !== versions || closing.signal.aborted) throw new Error('it came too late')
        observing.apply(settings)
      } catch (error) {
        if (!isSameAsBefore) await store.close()
        throw error
      }
      const [before, left] = [current, kept.store]
      kept = { ...kept, store }
      current = build(settings, before.upstreams, kept)
      retireBuilt(before, current, kept)
      if (!isSameAsBefore) background(retired.retire(left), log)
      const telling = warmUpAll().then((found) => logProblems(found, log))
      background(telling, log)
    },
    get documents() {
      return current.active.flatMap(({ instance }) => instance.pages ?? [])
    },
    signIns,
    pageSignIn,
    get operatorCode() {
      return isByCode(current.settings.auth) ? operator.code : undefined
    },
    listen: async () => {
      observing.serve({ transport: 'tcp' })
      listener = await listen(
        gateway,
        { observing, keys, built: () => current, pendingApprovals },
        (app, enter) =>
          addConfirmPages(app, enter, {
            store: () => kept.store,
            settings: () => current.settings,
            operator,
            signInLink: pageSignIn.link,
            onDecided: observing.decided,
            log,
            now: Date.now,
          }),
      )
      return listener
    },
    stdio: (input, output) => {
      observing.serve({ transport: 'pipe' })
      return serveStdio(input, output, {
        handle: gateway.handle,
        seal: createRequestStateCodec(Date.now, undefined, keys.encryptionKeys),
        principal: current.settings.auth.principal,
        limit: current.settings.listen.body,
        isStrict: () => current.settings.listen.isStrict,
        onRefused: observing.refused,
        closing: closing.signal,
        log,
      })
    },
    chain: (target) =>
      current.active.flatMap(({ name, instance, isOn }) => {
        if (!isOn(target.upstream) || !instance.middleware?.(target)) return []
        return [{ feature: name, settings: featureSettings(current.settings, name, target.upstream) }]
      }),
    inspect: async (upstream, tool) => {
      const target = { upstream, method: 'tools/call', name: tool }
      const params = Payload.of({ name: tool })
      const entry = await current.services.servers.tool(ownCall({ method: target.method, params, target }))
      return entry && inspect(entry, await current.services.servers.tools(upstream), current)
    },
    entries: (upstream) => current.services.servers.tools(upstream),
    describe: (upstream, make) => current.describe(upstream, make),
    key: () =>
      within(
        keys.thumbprint().catch(() => undefined),
        STORE_TIMEOUT_MS,
        undefined,
      ),
    close: async () => {
      closing.abort()
      current.ended.abort()
      current.catalog.close()
      await Promise.allSettled([...current.upstreams.values()].map((upstream) => upstream.close()))
      await closeFeatures(current)
      await Promise.all([kept.membership.close(), pageSignIn.close()])
      // The end of the audit log is noted in the store.
      await observing.close()
      await Promise.all([kept.store.close(), retired.close()])
    },
  }
  return gateway
}

/** A log as the terminal or a collector wants it. */
export function openLog(level: Level | undefined, isPretty: boolean): OpenLog {
  return createLog({ level, isPretty })
}

/** How long the store may take to say which calls wait for a person, in milliseconds. */
const STORE_TIMEOUT_MS = 1000

/** The calls that wait for a person; undefined where the store does not answer. */
type PendingApprovals = () => Promise<readonly Approval[] | undefined>

type Own = Readonly<{
  observing: Observing
  keys: Keys
  built(): Runtime
  pendingApprovals: PendingApprovals
}>

function listen(
  gateway: Gateway,
  { observing, keys, built, pendingApprovals }: Own,
  addPages: AddPages,
): Promise<Listener> {
  let url = ''
  const opened = listenHttp({
    handle: gateway.handle,
    mirror: (call) => gateway.mirror(call),
    isPermitted: (call) => gateway.isPermitted(call),
    has: (upstream) => gateway.has(upstream),
    listen: () => gateway.settings.listen,
    auth: () => gateway.settings.auth,
    statusMapping: () => statusMapping(gateway.settings),
    signIns: gateway.signIns,
    pageSignIn: gateway.pageSignIn,
    seal: createRequestStateCodec(Date.now, undefined, keys.encryptionKeys),
    jwks: keys.published,
    ready: (needed) =>
      readiness({
        isWarm: gateway.isStarted,
        upstreams: gateway.statuses,
        // A gateway without its store still serves: limits then hold for it alone.
        probes: { ...needed, store: { isNeeded: false, works: () => gateway.storeProblem === undefined } },
      }),
    metrics: () => observing.page(),
    addPages,
    documents: () => gateway.documents,
    onRefused: observing.refused,
    onSignedIn: observing.signedIn,
    page: (reader) => {
      const base = (gateway.settings.listen.publicUrl ?? url).replace(/\/$/, '')
      const signInLink = gateway.pageSignIn.link
      const { documents } = gateway
      return frontPage(reader, { built: built(), documents, base, signInLink, pendingApprovals })
    },
    log: observing.log,
  })
  return opened.then((listener) => {
    url = listener.url
    gateway.signIns.opened(url)
    return listener
  })
}
