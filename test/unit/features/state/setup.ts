import { type Call, compose, type Handler, type Outcome, type Target } from '../../../../src/core/call.ts'
import type { Descriptor } from '../../../../src/core/descriptor.ts'
import { asGatewayError, type GatewayError } from '../../../../src/core/error.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { createSeal } from '../../../../src/core/seal.ts'
import { errors } from '../../../../src/features/errors/errors.ts'
import type { FeatureInstance, Services } from '../../../../src/features/feature.ts'
import { state } from '../../../../src/features/state/state.ts'
import type { StateSettings } from '../../../../src/features/settings/authorize.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import type { Store } from '../../../../src/store/store.ts'
import { featureDeps, resolvingTool, type ServiceStubs } from '../../../support/feature-deps.ts'
import type { Json } from '../../../support/server/json.ts'
import { serverSettings } from '../../../support/server-settings.ts'
import { toolCall } from '../../../support/tool-call.ts'

export const STATE = 'dev.gatehouse/session_state'
export const CHANGED = 'dev.gatehouse/state_changed'
export const SESSION = 'dev.gatehouse/session'
export const ERROR = 'dev.gatehouse/error'

export const alice = { id: 'alice' }
export const bob = { id: 'bob' }

const usual: StateSettings = {
  ttl: 86_400_000,
  max: 65_536,
  connection: 'auto',
  remember: [],
  transaction: false,
  compat: true,
}

interface Setup {
  readonly server?: Handler
  readonly settings?: Partial<StateSettings>
  readonly store?: Store
  readonly deps?: ServiceStubs
  readonly isForModels?: boolean
  readonly tools?: readonly Descriptor[]
}

/** A tool of the server `one`. */
export function tool(
  name: string,
  op: Descriptor['classification']['op'],
  inputs: readonly string[] = [],
): Descriptor {
  const risk = op === 'read' ? 'safe' : op === 'delete' ? 'destructive' : 'reversible'
  const properties = Object.fromEntries(inputs.map((each) => [each, { type: 'string' }]))
  return {
    upstream: 'one',
    kind: 'tool',
    name,
    definition: { name, inputSchema: { type: 'object', properties, required: inputs } },
    classification: { op, risk, idempotent: false, evidence: [] },
  }
}

/** The feature, below the one that makes results of errors, with a server. */
export class Stateful {
  readonly instance: FeatureInstance
  readonly deps: Services
  /** The calls that the server got. */
  readonly seen: Call[] = []
  readonly #server: Handler
  readonly #errors: FeatureInstance

  constructor({
    server = ok,
    settings = {},
    store = new MemoryStore(),
    deps,
    isForModels,
    tools = [],
  }: Setup = {}) {
    this.#server = server
    const find = (name: unknown): Descriptor | undefined => tools.find((each) => each.name === name)
    this.deps = featureDeps({
      store,
      seal,
      server: (name) => serverSettings({ name }),
      isOn: (feature) => (feature === 'inject_arguments' ? isForModels === true : true),
      entry: (call) => find(call.params.fields['name']),
      listed: (_upstream, definition) => find(definition['name']),
      ...deps,
    })
    this.instance = state.create(() => ({ ...usual, ...settings }), this.deps)
    this.#errors = errors.create(
      () => ({ compat: true, hide_details: false, documentation_hosts: [] }),
      this.deps,
    )
  }

  /** Makes a call, and resolves with the members of its result. */
  async result(params: Json = {}, given: Partial<Call> = {}): Promise<Fields> {
    const outcome = await this.outcome(params, given)
    if (outcome.kind !== 'result') throw new TypeError('it asks')
    return new Fields(outcome.result)
  }

  /** Makes a call that fails as a protocol error. */
  async failure(params: Json, given: Partial<Call> = {}): Promise<GatewayError> {
    return this.outcome(params, given).then(() => {
      throw new TypeError('it succeeds')
    }, asGatewayError)
  }

  outcome(params: Json = {}, given: Partial<Call> = {}): Promise<Outcome> {
    const whole = { name: 't', arguments: {}, ...params }
    const target: Target = { method: 'tools/call', upstream: 'one', name: whole.name }
    const meta = (params['_meta'] ?? {}) as Json
    const call = toolCall({ params: Payload.of(whole), target, meta, principal: alice, ...given })
    const middlewares = [this.#errors, this.instance].map((each) => each.calls?.middleware(call.target))
    return compose([resolvingTool(call.target, this.deps), ...middlewares], (received) => {
      this.seen.push(received)
      return this.#server(received)
    })(call)
  }
}

/** The result of a call. */
export class Fields {
  readonly all: Json

  constructor(result: Payload) {
    const fields: Json = JSON.parse(result.text)
    this.all = fields
  }

  get meta(): Json {
    return (this.all['_meta'] ?? {}) as Json
  }

  get token(): string {
    const token = this.meta[STATE]
    if (typeof token !== 'string') throw new TypeError(`there is no token: ${JSON.stringify(this.all)}`)
    return token
  }
}

/** The keys of all gateways in a test. */
const seal = createSeal(Date.now)

/** A server that does nothing. */
export const ok: Handler = async () => ({
  kind: 'result',
  result: Payload.of({ content: [{ type: 'text', text: 'done' }] }),
})

/** A request that asks for a state. */
export const asking: Json = { _meta: { [STATE]: true } }
