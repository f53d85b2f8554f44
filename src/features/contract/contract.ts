/**
 * Contract versions of servers: detecting changes of what a server exposes, recording a version for each, announcing them, and the
 * end of deprecated tools.
 */
import { LRUCache } from 'lru-cache'
import { hash, createHash } from 'node:crypto'
import { world } from '../../core/world.ts'
import { isPermitted } from '../own-calls.ts'
import type { Call, Handler, Outcome, Middleware, Target, Notification } from '../../core/call.ts'
import {
  type Deprecation,
  readDeprecation,
  type Contract,
  contractChanges,
  type KeptChange,
  type PromptContract,
  type ToolContract,
} from '../../core/contract.ts'
import { GatewayError, errorCodes } from '../../core/error.ts'
import { asObject, isObject, canonical, isSame } from '../../core/json/json.ts'
import { Payload } from '../../core/payload.ts'
import { type ToolSettings, settingOf, isGuarded, onlyServer, type Settings } from '../../core/settings.ts'
import { aliasOf } from '../../core/text/alias.ts'
import { CONTRACT_KEY } from '../../protocol/meta-keys.ts'
import { method as known } from '../../protocol/methods.ts'
import { ACKNOWLEDGED } from '../../protocol/subscription-filter.ts'
import type { Answered } from '../builtin-tool.ts'
import type { Feature, Services } from '../feature.ts'
import {
  acknowledged,
  type List,
  lists,
  requestedLists,
  withListChanged,
  describingTools,
} from '../tool-lists.ts'
import { contractSchema } from '../settings/admit.ts'
import type { EntryDefinition } from '../../core/descriptor.ts'
import { background } from '../../core/log.ts'
import type { ServerDescription, ToolDescription } from '../../descriptions/model/description.ts'
import { Contracts } from '../../records/contracts.ts'
import { publish } from '../offers.ts'

type Deps = Pick<Services, 'log' | 'store' | 'servers' | 'invoker' | 'descriptions' | 'features' | 'gateway'>

/** Versions the contract of each server, keeps its changes, and announces deprecations. */
export const contract: Feature<Record<never, never>> = {
  ...contractSchema,
  create: (_settings, deps) => {
    const listeners = createListeners(deps)
    const watch = createContractWatcher(deps, listeners.notify)
    return {
      calls: {
        middleware: (target) => {
          const { upstream, method, isBuiltin } = target
          if (upstream === undefined || isBuiltin) return undefined
          if (method === 'tools/call') return replaceRemoved(target, deps)
          if (method === 'subscriptions/listen') return listeners.subscribe(upstream)
          if (method === 'server/discover')
            return (next) => (call) =>
              next(call).then((outcome) => withContract(outcome, watch.version(upstream)))
          if (known(method).list === undefined) return undefined
          const announce =
            method === 'tools/list'
              ? announceDeprecations(deps.servers.settings(upstream)?.tools ?? {})
              : undefined
          return (next) => detectChanges(announce ? announce(next) : next, upstream, watch, deps)
        },
        dryRun: 'same', // a call of a tool that was replaced goes to its successor, as a dry run
      },
      start: async () => watch.start(),
    }
  },
}

/** How many callers' last lists are remembered. */
const MAX_CALLERS = 1000

/** Detects changes in lists that clients request: a list that differs from the previous one indicates a change. */
function detectChanges(list: Handler, upstream: string, watch: ContractWatcher, deps: Deps): Handler {
  // Callers may see different lists, so each list is compared with the previous one of the same caller.
  const known = new LRUCache<string, string>({ max: MAX_CALLERS })
  const compare = ({ result }: Answered, { principal }: Call): void => {
    const callerKey = [principal.id, ...[...(principal.scopes ?? [])].toSorted()].join(' ')
    const last = known.get(callerKey)
    const digest = hash('sha256', result.text)
    known.set(callerKey, digest)
    if (last !== undefined && last !== digest) deps.servers.records().renew(upstream)
    else watch.check(upstream)
  }
  return async (call) => {
    const outcome = await list(call)
    if (outcome.kind === 'result' && !call.internal && call.params.fields.cursor === undefined)
      compare(outcome, call)
    return outcome
  }
}

type Tools = Readonly<Record<string, ToolSettings>>

/** The prefix of the descriptions of deprecated tools. */
const DEPRECATED_PREFIX = '[DEPRECATED]'

/** Adds deprecation notices to the descriptions of tools. */
function announceDeprecations(tools: Tools): Middleware | undefined {
  if (!Object.values(tools).some(({ deprecated }) => deprecated !== undefined)) return undefined
  return describingTools((entry) => {
    const { name, description } = entry.fields
    const end = settingOf(tools, String(name), 'deprecated')?.value
    if (end === undefined) return entry
    const original = typeof description === 'string' && description !== '' ? ` ${description}` : ''
    return entry.with({
      description: `${DEPRECATED_PREFIX} ${end}${/[.!?]$/.test(end) ? '' : '.'}${original}`,
    })
  })
}

/** Until its end date, a deprecated tool that its server already dropped is answered by its successor, or by an error naming it. */
function replaceRemoved({ upstream = '', name = '', isBuiltin }: Target, deps: Deps): Middleware | undefined {
  const tools = deps.servers.settings(upstream)?.tools ?? {}
  const configuredName = nameIn(tools, name)
  const deprecatedSetting = isBuiltin ? undefined : settingOf(tools, configuredName, 'deprecated')?.value
  if (deprecatedSetting === undefined) return undefined
  const deprecation = readDeprecation(deprecatedSetting)
  const isForwarded = settingOf(tools, configuredName, 'alias')?.value === true
  return (next) => (call) => {
    const { until } = deprecation
    if (call.internal || (until !== undefined && world.now() >= until)) return next(call)
    // A server that cannot list its tools reports the problem itself.
    if (call.tool || call.toolError !== undefined) return next(call)
    return callSuccessor(call, { next, deps, deprecation, isForwarded })
  }
}

/** The name of a tool in the configuration: once the tool is gone, nothing else knows what its alias referred to. */
function nameIn(tools: Tools, name: string): string {
  if (settingOf(tools, name, 'deprecated')) return name
  return Object.keys(tools).find((each) => aliasOf(each) === name) ?? name
}

interface RemovedToolContext {
  readonly next: Handler
  readonly deps: Deps
  readonly deprecation: Deprecation
  readonly isForwarded: boolean
}

/** Callers without permission do not learn that the tool existed. */
async function callSuccessor(
  call: Call,
  { next, deps, deprecation, isForwarded }: RemovedToolContext,
): Promise<Outcome> {
  if (!(await isPermitted(deps, call))) return next(call)
  const { successor } = deprecation
  if (!isForwarded || successor === undefined || successor === call.target.name)
    throw toolRemoved(call.target.name ?? '', deprecation)
  const target = { ...call.target, name: successor }
  const successorCall: Call = { ...call, params: call.params.with({ name: successor }), target }
  if (!(await deps.servers.tool(successorCall))) throw toolRemoved(call.target.name ?? '', deprecation)
  call.logFields.set('alias_of', successor)
  return deps.invoker.call(successorCall)
}

function toolRemoved(name: string, { text, successor }: Deprecation): GatewayError {
  return new GatewayError('UNSUPPORTED_OPERATION', `The tool ${name} no longer exists: ${text}.`, {
    isResult: true,
    field: 'name',
    reason: 'deprecated',
    suggestion:
      successor === undefined ? 'List the tools to see the available ones.' : `Call ${successor} instead.`,
    ...(successor !== undefined && { data: { replacement: successor } }),
  })
}

// Notifies listening clients of changes that their server does not announce.

/** The clients that listen for list changes, by server. */
interface Listeners {
  /** Wraps the long-lived call with which a client listens to a server. */
  subscribe(upstream: string): Middleware
  notify(change: ContractChangeEvent): void
}

interface Listener {
  readonly call: Call
  readonly wanted: readonly List[]
}

/** Notifies clients of changed lists on behalf of servers that do not. */
export function createListeners(deps: Deps): Listeners {
  const listeners = new Map<string, Set<Listener>>()
  /** The lists whose changes a server was seen to announce, by server: some do without declaring it. */
  const seen = new Map<string, Set<string>>()

  /** Whether changes of a list are already announced, usually by the server itself. */
  const isAnnounced = (upstream: string, list: List): boolean => {
    // With manifests, changes of tools are announced together with those of manifests.
    if (list === 'tools' && deps.features.isOn('manifest', upstream)) return true
    const capability = deps.servers.records().last(upstream)?.capabilities[list]
    const isDeclared = isObject(capability) && capability.listChanged === true
    return isDeclared || seen.get(upstream)?.has(`notifications/${list}/list_changed`) === true
  }

  return {
    subscribe: (upstream) => (next) => async (call) => {
      const wanted = requestedLists(call)
      const listener = { call, wanted }
      const registered = listeners.get(upstream) ?? new Set<Listener>()
      listeners.set(upstream, registered)
      const emit = (notification: Notification): void => {
        if (notification.method.endsWith('/list_changed')) {
          seen.set(upstream, (seen.get(upstream) ?? new Set()).add(notification.method))
          deps.servers.records().renew(upstream)
        }
        if (notification.method !== ACKNOWLEDGED) return call.emit(notification)
        call.emit(acknowledged(notification, wanted))
        // Nothing may come before the acknowledgement (2026-07-28 basic/utilities/subscriptions).
        registered.add(listener)
      }
      try {
        return await next({ ...call, emit })
      } finally {
        registered.delete(listener)
      }
    },
    notify: ({ upstream, before, after, lists: changed }) => {
      const params = Payload.of({ _meta: { [CONTRACT_KEY]: { server: upstream, before, version: after } } })
      for (const list of changed) {
        if (isAnnounced(upstream, list)) continue
        for (const { call, wanted } of listeners.get(upstream) ?? [])
          if (wanted.includes(list)) call.emit({ method: `notifications/${list}/list_changed`, params })
      }
    },
  }
}

/** The result of `server/discover` with the contract version, and `listChanged` capabilities. */
function withContract(outcome: Outcome, version: string | undefined): Outcome {
  if (outcome.kind !== 'result') return outcome
  const result = withListChanged(outcome.result, lists)
  return {
    kind: 'result',
    result: version === undefined ? result : result.withMeta({ [CONTRACT_KEY]: { version } }),
  }
}

/** The contracts of all servers as this gateway exposes them. */
interface ContractWatcher {
  /** Checks every server, and from then on each that changed. */
  start(): void
  /** The contract version of a server, once it is known. */
  version(upstream: string): string | undefined
  /** Checks whether a server's lists changed. */
  check(upstream: string): void
}

/** A contract that differs from the previous one. */
interface ContractChangeEvent {
  readonly upstream: string
  readonly before: string
  readonly after: string
  /** The lists that changed. */
  readonly lists: ReadonlySet<List>
}

/** How many changes a log line names. */
const MAX_LOGGED_CHANGES = 20

/** Compares what each server offers with the recorded contract, and records changes. */
function createContractWatcher(deps: Deps, onChange: (change: ContractChangeEvent) => void): ContractWatcher {
  const contracts = new Contracts(deps.store)
  const known = new Map<string, { readonly contract: Contract; readonly version: string }>()
  const running = new Map<string, Promise<void>>()

  const recordCurrent = async (upstream: string): Promise<void> => {
    // The listener that renews descriptions is notified in the same turn.
    await Promise.resolve()
    const description = await deps.descriptions.of(upstream)
    if (!description.isUp || deps.gateway.closing.aborted) return
    const contract = exposedContract(description, {
      entrances: entrancesOf(upstream, deps.gateway.settings),
      isGuarded: isGuarded(deps.gateway.settings),
    })
    const last = known.get(upstream)
    if (last && contractChanges(last.contract, contract).length === 0) return
    const { version, changed } = await contracts.record(upstream, contract, world.now())
    known.set(upstream, { contract, version })
    // Of the gateways that share a store, only one records a change.
    if (changed) {
      const { before, changes } = changed
      logChange(deps, upstream, { before, after: version, changes })
      // Not the changes themselves: they name tools that some callers may not see.
      publish(deps, upstream, { name: 'contract_changed', data: { before, after: version } })
    }
    if (last)
      onChange({ upstream, before: last.version, after: version, lists: listsOf(last.contract, contract) })
  }

  /** Checks of one server run one after the other. */
  const enqueue = (upstream: string): void => {
    const before = running.get(upstream) ?? Promise.resolve()
    const next = before.then(() => recordCurrent(upstream))
    running.set(
      upstream,
      next.catch(() => undefined),
    )
    background(
      next.catch((error: unknown) => {
        // A store that is closed or unavailable is reported separately.
        if (!deps.gateway.closing.aborted) throw error
      }),
      deps.log,
    )
  }

  const isWatched = (upstream: string): boolean => deps.features.isOn(NAME, upstream)
  return {
    start: () => {
      deps.servers.records().onChange((upstream) => {
        if (isWatched(upstream)) enqueue(upstream)
      })
      for (const upstream of deps.servers.names()) if (isWatched(upstream)) enqueue(upstream)
    },
    version: (upstream) => known.get(upstream)?.version,
    check: (upstream) => {
      const found = deps.servers.records().of(upstream)
      if (found instanceof Promise) background(found, deps.log)
      if (!known.has(upstream) && !running.has(upstream)) enqueue(upstream)
    },
  }
}

/** The name of the feature in the configuration. */
const { name: NAME } = contractSchema

interface LoggedChange {
  readonly before: string
  readonly after: string
  readonly changes: readonly KeptChange[]
}

function logChange({ log }: Deps, upstream: string, { before, after, changes }: LoggedChange): void {
  const named = (each: KeptChange): string => `${each.subject} ${each.text}`.slice(0, 200)
  log.info('contract.changed', {
    upstream,
    before,
    after,
    count: changes.length,
    changes: changes.slice(0, MAX_LOGGED_CHANGES).map(named),
  })
  const early = changes.filter(({ isEarly }) => isEarly)
  if (early.length > 0)
    log.warn('contract.removed_early', {
      upstream,
      removed: early.slice(0, MAX_LOGGED_CHANGES).map(({ subject }) => subject),
    })
}

/** The lists that differ. */
function listsOf(before: Contract, after: Contract): ReadonlySet<List> {
  const partsOf = ({ tools, prompts, resources, templates }: Contract) => {
    return { tools, prompts, resources: [resources, templates] }
  }
  const [was, is] = [partsOf(before), partsOf(after)]
  return new Set(lists.filter((list) => !isSame(was[list], is[list])))
}

/** How clients reach a server, such as `stdio` or `/mcp/files`; its tools may have different names when it is aggregated with others. */
function entrancesOf(name: string, settings: Settings): readonly string[] {
  const { listen } = settings
  const isOnly = onlyServer(settings) === name
  const shared = isOnly ? ['/mcp'] : listen.aggregate ? ['/mcp of all servers'] : []
  return ['stdio', `/mcp/${name}`, ...shared, ...(listen.legacySse ? ['/sse'] : [])]
}

/** How many resources are part of a contract: a server may list as many as it has files. */
const MAX_RESOURCES = 1000

/** The contract of a server, from its description. */
function exposedContract(
  { tools, prompts, resources, templates }: ServerDescription,
  front: Pick<Contract, 'entrances' | 'isGuarded'>,
): Contract {
  return {
    ...front,
    errorCodes: errorCodes.toSorted(),
    tools: byKey(tools.map((tool) => [tool.name, toolContract(tool)])),
    prompts: byKey(prompts.map((each) => [text(each.name), promptContract(each)])),
    resources: byKey(resources.slice(0, MAX_RESOURCES).map((each) => [text(each.uri), text(each.mimeType)])),
    templates: byKey(templates.map((each) => [text(each.uriTemplate), text(each.mimeType)])),
  }
}

function toolContract({ definition, facts, words }: ToolDescription): ToolContract {
  const { inputSchema, outputSchema, annotations, title, description } = definition
  const { title: hint, ...hints } = asObject(annotations)
  return {
    input: inputSchema ?? {},
    ...(outputSchema !== undefined && { output: outputSchema }),
    scopes: facts.scopes ?? [],
    returns: words.returns ?? [],
    hints,
    ...(words.deprecated !== undefined && { deprecated: words.deprecated }),
    wording: shortHash([title, hint, description]),
  }
}

function promptContract({ arguments: wanted, title, description }: EntryDefinition): PromptContract {
  const all = Array.isArray(wanted) ? wanted.filter(isObject) : []
  return {
    arguments: byKey(all.map((each) => [text(each.name), each.required === true])),
    wording: shortHash([title, description, all.map((each) => [each.name, each.title, each.description])]),
  }
}

/** Keys are names from servers: `Object.fromEntries` makes each an own property, even `__proto__`. */
function byKey<Value>(entries: readonly (readonly [string, Value])[]): Readonly<Record<string, Value>> {
  return Object.fromEntries(entries)
}

function shortHash(value: unknown): string {
  return createHash('sha256').update(canonical(value)).digest('hex').slice(0, 12)
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : ''
}
