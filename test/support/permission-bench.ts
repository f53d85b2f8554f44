import { silentLog } from './silent-log.ts'
import type { Services } from '../../src/features/feature.ts'
import { Descriptors } from '../../src/catalog/tool-descriptors.ts'
import { Naming } from '../../src/catalog/names.ts'
import { Catalog } from '../../src/catalog/router.ts'
import type { Call, Handler, Notification, Outcome } from '../../src/core/call.ts'
import { isObject } from '../../src/core/json/json.ts'
import { Payload } from '../../src/core/payload.ts'
import type { UpstreamSettings } from '../../src/core/settings.ts'
import { permissions } from '../../src/features/permissions/permissions.ts'
import type { PermissionSettings } from '../../src/features/settings/authorize.ts'
import { featureDeps, type ServiceStubs, resolvingTool } from './feature-deps.ts'
import { toolCall } from './tool-call.ts'

type Json = Readonly<Record<string, unknown>>

interface Given {
  readonly servers: readonly UpstreamSettings[]
  /** What each server lists, by the name of the list. */
  readonly lists?: Readonly<Record<string, readonly Json[]>>
  readonly settings?: Partial<PermissionSettings>
  /** The settings where servers have their own. */
  readonly settingsOf?: (upstream?: string) => PermissionSettings
  readonly deps?: ServiceStubs
  readonly metaTools?: 'hidden' | 'listed' | 'off'
  readonly hasMethods?: boolean
  /** What a call of a tool comes to. */
  readonly called?: Json
}

/** The servers of a gateway behind the permissions feature, and what reaches them. */
export interface Bench {
  readonly handle: Handler
  readonly seen: Call[]
  /** Tells those who listen something. */
  emit(note: Notification): void
  /** Asks for something and gives back its result, or the error it failed with. */
  ask(method: string, params: Json, given?: Partial<Call>): Promise<Json>
}

/** Sets up servers that all list the same and answer every call, with nothing but permissions before them. */
export function permissionBench({
  servers,
  lists = {},
  settings,
  settingsOf,
  deps,
  metaTools = 'hidden',
  hasMethods = true,
  called = { content: [] },
}: Given): Bench {
  const seen: Call[] = []
  const byName = new Map(servers.map((each) => [each.name, each]))
  // A definition is of one server alone.
  const tools = new Map(
    servers.flatMap(({ name }) =>
      (lists['tools/list'] ?? []).map((tool) => [
        `${name} ${String(tool.name)}`,
        { definition: { ...tool } },
      ]),
    ),
  )
  const tool = ({ target, params }: Call): { readonly definition: Json } | undefined =>
    tools.get(`${target.upstream} ${String(params.fields.name)}`)
  const entries = new Descriptors({
    server: (name) => byName.get(name),
    tool,
    own: (call) => catalog.builtinTool(call),
    resolve: (call) => catalog.resolve(call),
  })
  const all: Services = featureDeps({
    servers: () => [...byName.keys()],
    server: (name) => byName.get(name),
    entry: entries.of,
    listed: entries.listed,
    tools: async (name) => (lists['tools/list'] ?? []).flatMap((tool) => entries.listed(name, tool) ?? []),
    ...deps,
  })
  const complete = { hide_unpermitted: false, approval: {}, ...settings }
  const instance = permissions.create(settingsOf ?? (() => complete), all)
  const server: Handler = async (call) => {
    seen.push(call)
    return { kind: 'result', result: Payload.of(call.method === 'tools/call' ? called : answer(call, lists)) }
  }
  const catalog = new Catalog({
    upstreams: new Map(servers.map(({ name }) => [name, server])),
    middlewares: (target) => [resolvingTool(target, all), instance.calls?.middleware(target)],
    viewMiddleware: () => [],
    observe: (next) => next,
    isAggregate: true,
    timeoutMs: 10_000,
    log: silentLog,
    only: servers.length === 1 ? servers[0]?.name : undefined,
    naming: new Naming(),
    isStrict: false,
    own: [{ ...instance.builtins, isOn: () => true }],
    metaTools,
    hasMethods,
    tool,
  })
  return {
    handle: catalog.handle,
    seen,
    emit: (note) => {
      for (const each of seen) if (each.method === 'subscriptions/listen') each.emit(note)
    },
    ask: async (method, params, given = {}) => {
      const { name, uri } = params
      const subject = typeof name === 'string' ? name : typeof uri === 'string' ? uri : undefined
      const target = { method, ...(subject !== undefined && { name: subject }), ...given.target }
      const meta = isObject(params._meta) ? params._meta : {}
      const call = toolCall({ method, params: Payload.of(params), meta, ...given, target })
      return catalog.handle(call).then(resultOf, failure)
    },
  }
}

function answer({ method }: Call, lists: Given['lists'] = {}): Json {
  const key = method === 'resources/templates/list' ? 'resourceTemplates' : method.split('/')[0]
  if (method.endsWith('/list')) return { [key ?? '']: lists[method] ?? [], cacheScope: 'public' }
  return { content: [] }
}

function resultOf(outcome: Outcome): Json {
  return outcome.kind === 'result' ? outcome.result.fields : { asks: true }
}

function failure(error: unknown): Json {
  return { error }
}
