import { noProxy } from '../../src/core/proxy.ts'
import { Redactor, secretsOf } from '../../src/core/text/redactor.ts'
import { resolveTool } from '../../src/catalog/tool-descriptors.ts'
import { type Call, compose, type Middleware, type Target } from '../../src/core/call.ts'
import { GatewayError } from '../../src/core/error.ts'
import { exposedUri, ownUriOf } from '../../src/core/text/server-uri.ts'
import { ProcessScope } from '../../src/durable/process-scope.ts'
import type { ExtensionPoint, FeatureInstance, Offer, Services } from '../../src/features/feature.ts'
import {
  type CallerValue,
  callerValues,
  type CallUndo,
  callUndos,
  type Explain,
  explaining,
  masking,
  modelArguments,
  type PublishedEvent,
  publishing,
  type Reserved,
} from '../../src/features/offers.ts'
import { createSeal } from '../../src/core/seal.ts'
import { createMembership } from '../../src/durable/members.ts'
import { MemoryStore } from '../../src/store/memory.ts'
import { silentLog } from './silent-log.ts'
import type { Settings } from '../../src/core/settings.ts'

type Servers = Services['servers']

/** What other features offer to the one under test. */
interface Offered {
  reserved: (upstream: string) => readonly Reserved[]
  callerValues: () => readonly CallerValue[]
  explained: Explain
  masked: (value: unknown, target: Target) => unknown
  publish: (upstream: string | undefined, event: PublishedEvent) => void
  callUndo: CallUndo
}

/** What of the configuration of the gateway a test replaces. */
interface Configured {
  isStoreShared: boolean
  isGuarded: boolean
  hasTools: boolean
  publicUrl: string | undefined
  auth: Pick<Settings['auth'], 'session' | 'elevateUrl'>
  /** The events that are declared. */
  declared: Settings['events']
}

/** The configuration, as far as features read it. */
function settingsOf(given: Configured): Settings {
  const { isStoreShared, isGuarded, hasTools, publicUrl, auth, declared } = given
  const settings = {
    profile: isGuarded ? 'corporate' : 'open',
    store: { kind: isStoreShared ? 'folder' : 'memory' },
    metaTools: hasTools ? 'hidden' : 'off',
    hasMethods: true,
    listen: { body: 1_048_576, ...(publicUrl !== undefined && { publicUrl }) },
    auth: { ...auth, tokens: [] },
    upstreams: [],
    profiles: [],
    events: declared,
  }
  return settings as unknown as Settings
}

/** Single members of services, flat, that a test replaces. */
export type ServiceStubs = Partial<
  Pick<Services, 'log' | 'store' | 'scope'> &
    Omit<Servers, 'names' | 'settings' | 'tool' | 'exposedName' | 'describe'> &
    Services['invoker'] & { isPermitted: (call: Call) => Promise<boolean> } & Pick<
      Services['descriptions'],
      'document'
    > &
    Services['identity'] &
    Omit<Services['pages'], 'url'> &
    Pick<Services['features'], 'isOn' | 'layers'> &
    Offered &
    Services['metrics'] &
    Services['audit'] &
    Configured &
    Omit<Services['gateway'], 'settings'> & {
      servers: Servers['names']
      server: Servers['settings']
      entry: Servers['tool']
      exposed: Servers['exposedName']
      listed: Servers['describe']
      description: Services['descriptions']['of']
      page: Services['pages']['url']
    }
>

/** What resolves the tool of a call before the features see it, as the gateway does; it asks the `entry` of the services. */
export function resolvingTool(
  { method }: Pick<Target, 'method'>,
  { servers }: Services,
): Middleware | undefined {
  return method === 'tools/call' ? resolveTool((call) => servers.tool(call), 30_000) : undefined
}

/** A feature whose middleware gets calls with their tool, as in a gateway. */
export function withTool(instance: FeatureInstance, deps: Services): FeatureInstance {
  const { calls } = instance
  if (!calls) return instance
  const middleware: typeof calls.middleware = (target) => {
    const own = calls.middleware(target)
    return own && ((next) => compose([resolvingTool(target, deps), own], next))
  }
  return { ...instance, calls: { ...calls, middleware } }
}

/** What a feature offers at a point. */
export function offeredBy<Offered>(
  { offers = [] }: FeatureInstance,
  point: ExtensionPoint<Offered>,
): Offered | undefined {
  return point.of(offers)[0]
}

/** Knows the secrets of the given servers. */
function redactorOf({ servers = () => [], server = () => undefined }: ServiceStubs): Redactor {
  const redactor = new Redactor()
  redactor.learn(secretsOf(servers().map(server)))
  return redactor
}

/** What the other features would offer. */
function offersOf(offered: Offered): readonly Offer[] {
  const { reserved, callerValues: values, explained, masked, publish, callUndo } = offered
  return [
    modelArguments.offer(reserved),
    callerValues.offer(values()),
    explaining.offer(explained),
    masking.offer(masked),
    publishing.offer(publish),
    callUndos.offer(callUndo),
  ]
}

/** Nothing is known of how calls are undone. */
export const noCallUndo: CallUndo = {
  preview: async () => undefined,
  canSecure: () => false,
  couldSecure: async () => false,
  secure: async () => undefined,
}

/** What a feature under test may use: an empty store, and no servers unless given. */
export function featureDeps(given: ServiceStubs = {}): Services {
  const store = given.store ?? new MemoryStore()
  const noChain = () => Promise.reject(new GatewayError('SERVER_UNAVAILABLE', 'There is no chain here.'))
  const stubs: Required<ServiceStubs> = {
    log: silentLog,
    store,
    scope: new ProcessScope(),
    isStoreShared: true,
    isGuarded: false,
    call: noChain,
    isPermitted: async () => true,
    admit: async (call) => {
      if (!(await stubs.isPermitted(call)))
        throw new GatewayError('PERMISSION_DENIED', 'It is not permitted.')
    },
    membership: createMembership(() => store),
    prove: async ({ nonce }) => `proof of ${nonce}`,
    sign: async (claims) => `signed ${JSON.stringify(claims)}`,
    present: (principal) => principal,
    observeRest: () => undefined,
    seal: createSeal(Date.now),
    page: (path) => `http://127.0.0.1:8900${path}`,
    publicUrl: undefined,
    decisionChannels: ({ id }) => ({
      url: stubs.page(`/confirm/${id}`),
      isForPeople: true,
      isAtTerminal: stubs.isStoreShared,
    }),
    hasTools: true,
    proxies: noProxy,
    relay: noChain,
    isOn: () => true,
    reserved: () => [],
    callerValues: () => [],
    callUndo: noCallUndo,
    closing: new AbortController().signal,
    redactor: redactorOf(given),
    servers: () => [],
    server: () => undefined,
    declared: new Map(),
    contextOf: () => undefined,
    quota: () => undefined,
    onReachable: () => undefined,
    discovered: async () => ({}),
    exposedEvent: (upstream, event) => `${upstream}_${event}`,
    exposedUri,
    ownUri: ownUriOf,
    resultLimit: () => 10_000_000,
    callBounds: () => ({ silence: 30_000, total: 600_000 }),
    auth: { session: { maxTtl: 8 * 3_600_000, idle: 1_800_000 } },
    entry: () => undefined,
    explained: () => undefined,
    masked: (value) => value,
    layers: () => [],
    publish: () => undefined,
    delivered: () => undefined,
    ordered: () => undefined,
    referenced: () => undefined,
    undoRule: () => undefined,
    undoRuleAmong: () => undefined,
    isUndoProposed: async () => false,
    isUndoProved: async () => false,
    isUndoProvedAmong: () => false,
    tools: async () => [],
    records: () => ({
      names: [],
      of: () => {
        throw new TypeError('There are no records here.')
      },
      last: () => undefined,
      renew: () => undefined,
      onChange: () => undefined,
    }),
    description: () => {
      throw new TypeError('There are no descriptions here.')
    },
    document: (description, _key, make) => make(description),
    exposed: (upstream, tool, isTogether) => (isTogether ? `${upstream}_${tool}` : tool),
    fetchJson: () => Promise.reject(new Error('There is no network here.')),
    listed: () => undefined,
    ...given,
  }
  const { servers: names, server: settings, entry: tool, exposed: exposedName, listed: describe } = stubs
  return {
    log: stubs.log,
    store: stubs.store,
    scope: stubs.scope,
    servers: { ...stubs, names, settings, tool, exposedName, describe },
    invoker: stubs,
    descriptions: { of: stubs.description, document: stubs.document },
    identity: stubs,
    pages: { ...stubs, url: stubs.page },
    features: { ...stubs, offered: (point) => point.of(offersOf(stubs)) },
    gateway: { ...stubs, settings: settingsOf(stubs) },
    metrics: stubs,
    audit: stubs,
  }
}
