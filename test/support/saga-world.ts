import type { Services, FeatureInstance, Feature } from '../../src/features/feature.ts'
import {
  type Call,
  compose,
  type Handler,
  type Outcome,
  type Middleware,
  resultOf,
  type Target,
} from '../../src/core/call.ts'
import type { Descriptor, Operation } from '../../src/core/descriptor.ts'
import { asGatewayError, GatewayError } from '../../src/core/error.ts'
import { isObject } from '../../src/core/json/json.ts'
import { Payload } from '../../src/core/payload.ts'
import { anonymous, type Principal } from '../../src/core/principal.ts'
import type { Settings, ToolSettings, UpstreamSettings } from '../../src/core/settings.ts'
import { undoRuleOf } from '../../src/core/undo/rules.ts'
import { type Rewinding, rewinding } from '../../src/features/offers.ts'
import { idempotency } from '../../src/features/idempotency/idempotency.ts'
import { transactions } from '../../src/features/transactions/transactions.ts'
import { undo } from '../../src/features/undo/undo.ts'
import { loadSettings } from '../../src/config/load.ts'
import { createMembership } from '../../src/durable/members.ts'
import { MemoryStore } from '../../src/store/memory.ts'
import type { Store } from '../../src/store/store.ts'
import { featureDeps, resolvingTool, type ServiceStubs } from './feature-deps.ts'
import type { Json } from './server/json.ts'
import { serverSettings } from './server-settings.ts'
import { toolCall } from './tool-call.ts'

/** What a server does: things are put in its place and taken from there, and mails are sent. */
export class Place {
  readonly things = new Map<string, string>()
  readonly mails: string[] = []
  /** Every call that was made, in order, such as `put a`. */
  readonly calls: string[] = []
  /** What a call fails with, once, by its name: an error, or an answer that says so. */
  readonly faults = new Map<string, (() => Error | Json)[]>()

  run(tool: string, args: Json): Json {
    const name = `${tool} ${String(args['key'] ?? args['to'] ?? '')}`.trim()
    const fault = this.faults.get(name)?.shift()
    const failure = fault?.()
    if (failure instanceof Error) throw failure
    this.calls.push(name)
    if (failure) return failure
    return this.#done(tool, String(args['key']), args)
  }

  #done(tool: string, key: string, args: Json): Json {
    const { things } = this
    if (tool === 'get') return things.has(key) ? said({ value: things.get(key) }) : wrong(`no ${key}`)
    if (tool === 'put' || tool === 'change') {
      if (tool === 'put' && things.has(key)) return wrong(`${key} is there`)
      things.set(key, String(args['value']))
      return said({ key })
    }
    if (tool === 'remove') return things.delete(key) ? said({ key }) : wrong(`no ${key}`)
    if (tool === 'fail') return wrong('it always fails')
    this.mails.push(String(args['to']))
    return said({ sent: true })
  }
}

function said(value: Json): Json {
  return { content: [{ type: 'text', text: JSON.stringify(value) }], structuredContent: value }
}

function wrong(text: string): Json {
  return { content: [{ type: 'text', text }], isError: true }
}

const ops: Readonly<Record<string, Operation>> = { get: 'read' }

/** How the tools of a place are undone. */
const tools: Readonly<Record<string, ToolSettings>> = {
  put: { undo: 'remove(key=$.args.key)' },
  change: {
    undo: { snapshot: 'get(key=$.args.key)', restore: 'change(key=$.args.key, value=$.snapshot.value)' },
  },
  remove: {
    undo: { snapshot: 'get(key=$.args.key)', restore: 'put(key=$.args.key, value=$.snapshot.value)' },
  },
  launch: { pivot: true },
}

interface Given {
  readonly store?: Store
  readonly places?: Readonly<Record<string, Place>>
  readonly settings?: Json
  readonly deps?: ServiceStubs
  /** Sees each call before the features do. */
  readonly seen?: (call: Call) => void
  /** What is done instead of running a call at its place. */
  readonly next?: (call: Call, run: Handler) => Promise<Outcome>
  /** What stands between transactions and what writes deeds. */
  readonly above?: Middleware
}

/** A gateway of the features that make transactions, before places of which each is a server. */
export class SagaGateway {
  readonly store: Store
  readonly deps: Services
  readonly #given: Given
  readonly #places: Readonly<Record<string, Place>>
  readonly #contributions: readonly FeatureInstance[]
  readonly #membership: Services['identity']['membership']

  constructor(given: Given = {}) {
    this.#given = given
    this.#places = given.places ?? { one: new Place() }
    this.store = given.store ?? new MemoryStore()
    this.#membership = createMembership(() => this.store)
    const deps = featureDeps({
      store: this.store,
      membership: this.#membership,
      call: (call) => this.handle(call),
      servers: () => Object.keys(this.#places),
      server: (name): UpstreamSettings => serverSettings({ name, tools }),
      undoRule: (_name, tool) => undoRuleOf(tools, tool)?.rule,
      entry: ({ target }) => entryOf(target),
      ...given.deps,
    })
    const offered: Services['features']['offered'] = (point, upstream) => [
      ...deps.features.offered(point, upstream),
      ...this.#contributions.flatMap(({ offers = [] }) => point.of(offers)),
    ]
    this.deps = { ...deps, features: { ...deps.features, offered } }
    this.#contributions = [
      created(idempotency, {}, this.deps),
      created(transactions, given.settings ?? {}, this.deps),
      created(undo, {}, this.deps),
    ]
  }

  handle(call: Call): Promise<Outcome> {
    this.#given.seen?.(call)
    const [once, together, deeds] = this.#contributions.map(({ calls }) => calls?.middleware(call.target))
    const middlewares = [resolvingTool(call.target, this.deps), once, together, this.#given.above, deeds]
    const run: Handler = async ({ target, params }) => {
      const place = this.#places[target.upstream ?? '']
      const args = params.fields.arguments
      if (!place) throw new GatewayError('SERVER_UNAVAILABLE', 'away', { isUnsent: true })
      return { kind: 'result', result: Payload.of(place.run(target.name ?? '', isObject(args) ? args : {})) }
    }
    const { next } = this.#given
    return compose(middlewares, next ? (each) => next(each, run) : run)(call)
  }

  /** Asks for a method of transactions; an error as its structured object. */
  async ask(method: string, params: Json, as: Principal = anonymous): Promise<Json> {
    const handler = this.#contributions.flatMap(
      ({ builtins }) => builtins?.methods?.[`transaction/${method}`] ?? [],
    )[0]
    if (!handler) throw new TypeError(method)
    const target = { method: `transaction/${method}`, isOwn: true } as const
    const call = toolCall({ method: target.method, target, params: Payload.of(params), principal: as })
    return told(handler(call))
  }

  begin(id: string, params: Json = {}, as?: Principal): Promise<Json> {
    return this.ask('begin', { transaction_id: id, ...params }, as)
  }

  /** Makes a call as a step; an error as its structured object. */
  step(transaction: string, tool: string, args: Json, given: StepOptions = {}): Promise<Json> {
    const { id, key, server: upstream = 'one', call = {} } = given
    const meta = {
      transaction_id: transaction,
      ...(id !== undefined && { step_id: id }),
      ...(key !== undefined && { idempotency_key: key }),
    }
    const params = Payload.of({ name: tool, arguments: args, _meta: meta })
    const target = { method: 'tools/call', upstream, name: tool }
    return told(this.handle(toolCall({ params, meta, target, ...call })))
  }

  /** Makes a call outside of a transaction. */
  call(tool: string, args: Json, { server: upstream = 'one', call = {} }: StepOptions = {}): Promise<Json> {
    const params = Payload.of({ name: tool, arguments: args })
    return told(
      this.handle(toolCall({ params, target: { method: 'tools/call', upstream, name: tool }, ...call })),
    )
  }

  /** Plans and carries out rewinds. */
  get rewinding(): Rewinding {
    const [found] = this.deps.features.offered(rewinding)
    if (!found) throw new TypeError('there is no rewinding')
    return found
  }

  async start(): Promise<void> {
    for (const { start } of this.#contributions) await start?.()
  }

  /** Ends it as the end of a process does: others see that it is gone. */
  async die(): Promise<void> {
    for (const { close } of this.#contributions) await close?.().catch(() => undefined)
    await this.#membership.close()
  }
}

interface StepOptions {
  readonly id?: string
  readonly key?: string
  readonly server?: string
  readonly call?: Partial<Call>
}

function entryOf({ upstream = '', name = '' }: Target): Descriptor {
  const op = ops[name] ?? 'write'
  const classification = { op, risk: 'reversible', idempotent: op === 'read', evidence: [] } as const
  return {
    upstream,
    kind: 'tool',
    name,
    definition: { name, inputSchema: { type: 'object' } },
    classification: classification,
  }
}

function created(feature: Feature<never>, own: Json, deps: Services): FeatureInstance {
  const text = JSON.stringify({ upstreams: { one: { command: 'x' } }, features: { [feature.name]: own } })
  const settings = read.get(text) ?? loadSettings(text, { file: 'f.yaml', env: {} }).settings
  read.set(text, settings)
  return feature.create((() => settings.features[feature.name]?.common) as never, deps)
}

/** Configurations by their text: checking one takes longer than a whole transaction. */
const read = new Map<string, Settings>()

async function told(outcome: Promise<Outcome>): Promise<Json> {
  try {
    const { value } = resultOf(await outcome)
    return isObject(value) ? value : {}
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error
    return { thrown: asGatewayError(error).data }
  }
}

/** The tool that puts a thing in its place, and its arguments. */
export const put = (key: string) => ['put', { key, value: '1' }] as const

/** The code of an error, in a result or thrown. */
export function codeOf({ thrown, transaction }: Json): unknown {
  const error = thrown ?? (isObject(transaction) ? transaction['error'] : undefined)
  return isObject(error) ? error['code'] : undefined
}

/** A gateway in which the transaction `t` has begun. */
export async function begun(given: Given = {}): Promise<SagaGateway> {
  const gateway = new SagaGateway(given)
  await gateway.begin('t')
  return gateway
}
