import { modelArguments } from '../../../../src/features/offers.ts'
import type { InputResponses, Call, Client, Outcome } from '../../../../src/core/call.ts'
import type { Descriptor, Operation, Risk } from '../../../../src/core/descriptor.ts'
import { isObject } from '../../../../src/core/json/json.ts'
import { Payload } from '../../../../src/core/payload.ts'
import type { Principal } from '../../../../src/core/principal.ts'
import type { ToolSettings, UpstreamSettings } from '../../../../src/core/settings.ts'
import { confirm } from '../../../../src/features/confirm/confirm.ts'
import { Approvals } from '../../../../src/records/approvals.ts'
import type { Store } from '../../../../src/store/store.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { featureDeps, type ServiceStubs, withTool, offeredBy } from '../../../support/feature-deps.ts'
import { serverSettings } from '../../../support/server-settings.ts'
import { toolCall } from '../../../support/tool-call.ts'
import type { ConfirmSettings } from '../../../../src/features/settings/effect.ts'

/** Settings that require confirmation for destructive tools on every call. */
export const confirmDefaults: ConfirmSettings = {
  level: 'destructive',
  unannotated: 'derive',
  exact_undo: 'skip',
  fallback: 'page',
  ttl: 300_000,
  approval_ttl: 3_600_000,
  wait: 0,
  remember: false,
  edit: true,
  rollbacks: false,
  accept_bare_flag: false,
  approve_by_command: 'terminal',
  model_may_confirm: false,
  compat: true,
}

export const modern: Client = {
  era: 'modern',
  revision: '2026-07-28',
  capabilities: { elicitation: { form: {}, url: {} } },
}
export const legacy: Client = {
  era: 'legacy',
  revision: '2025-06-18',
  capabilities: { elicitation: {} },
  session: 's1',
}
export const plain: Client = { era: 'modern', revision: '2026-07-28', capabilities: {} }
export const agent: Principal = { id: 'agent' }

interface Given {
  readonly settings?: Partial<ConfirmSettings>
  readonly tool?: ToolSettings
  readonly server?: Partial<UpstreamSettings>
  readonly risk?: Risk
  readonly op?: Operation
  readonly verb?: string
  readonly definition?: Record<string, unknown>
  readonly deps?: ServiceStubs
  /** The response of the server; by default `done`. */
  readonly serve?: (call: Call) => Promise<Outcome>
}

export interface Bench {
  readonly approvals: Approvals
  readonly store: Store
  /** The calls that reached the server. */
  readonly served: readonly Call[]
  /** The signed claims. */
  readonly signed: readonly Readonly<Record<string, unknown>>[]
  /** Calls `delete_repo`, directly at the server if the tool has no middleware. */
  call(given?: Partial<Call>, args?: Record<string, unknown>): Promise<Outcome>
  /** Closes like a gateway that is stopped. */
  close(): Promise<void>
  readonly isWrapped: boolean
  /** The arguments that are injected for models. */
  readonly told: readonly string[]
  /** The list of tools as seen by a client that requests the names in `meta`. */
  list(
    tools: readonly Record<string, unknown>[],
    meta?: Record<string, unknown>,
  ): Promise<readonly Record<string, unknown>[]>
}

export const TOOL = 'delete_repo'
const done: Outcome = { kind: 'result', result: Payload.of({ content: [{ type: 'text', text: 'done' }] }) }

/** The feature in front of a server with one tool. */
export function bench(given: Given = {}): Bench {
  const { settings, tool = {}, risk = 'destructive', op = 'delete', serve = async () => done } = given
  const store = given.deps?.store ?? new MemoryStore()
  const server = serverSettings({ name: 'hub', tools: { [TOOL]: tool }, ...given.server })
  const verb = given.verb === undefined ? {} : { verb: given.verb }
  const classification = { op, idempotent: false, evidence: [], risk, ...verb } as const
  const definition = given.definition ?? { name: TOOL, description: 'Deletes a repository. For good.' }
  const entry: Descriptor = {
    upstream: 'hub',
    kind: 'tool',
    name: TOOL,
    definition,
    classification: classification,
  }
  const signed: Readonly<Record<string, unknown>>[] = []
  const deps = featureDeps({
    store,
    entry: () => entry,
    listed: (upstream, listed) => ({ ...entry, upstream, name: String(listed['name']), definition: listed }),
    server: () => server,
    sign: async (claims) => {
      signed.push(claims)
      return 'a.b.c'
    },
    ...given.deps,
  })
  const instance = withTool(
    confirm.create(() => ({ ...confirmDefaults, ...settings }), deps),
    deps,
  )
  const served: Call[] = []
  const target = { method: 'tools/call', upstream: 'hub', name: TOOL }
  const policy = instance.calls?.middleware(target)
  const next = (call: Call): Promise<Outcome> => {
    served.push(call)
    return serve(call)
  }
  const handle = policy ? policy(next) : next
  return {
    approvals: new Approvals(store, Date.now),
    store,
    served,
    signed,
    isWrapped: policy !== undefined,
    close: async () => instance.close?.(),
    told: (offeredBy(instance, modelArguments)?.('hub') ?? []).flatMap(({ argument, schema, isFor }) =>
      schema && (isFor?.(entry) ?? true) ? [argument] : [],
    ),
    call: async (more = {}, args = { owner: 'octo', repo: 'test-repo' }) =>
      handle(
        toolCall({
          target,
          principal: agent,
          client: modern,
          rpcId: '1',
          params: Payload.of({ name: TOOL, arguments: args }),
          ...more,
        }),
      ),
    list: async (tools, meta = {}) => {
      const listing = { method: 'tools/list', upstream: 'hub' }
      const answer = async (): Promise<Outcome> => ({ kind: 'result', result: Payload.of({ tools }) })
      const wrapped = instance.calls?.middleware(listing)?.(answer) ?? answer
      const outcome = await wrapped(toolCall({ method: 'tools/list', target: listing, meta }))
      const listed = fieldsOf(outcome)['tools']
      return Array.isArray(listed) ? listed.filter(isObject) : []
    },
  }
}

export type Ask = Outcome & { readonly kind: 'input_required' }

/** The outcome, which must be an input request. */
export function asked(outcome: Outcome): Ask {
  if (outcome.kind !== 'input_required') throw new Error(`not asked: ${outcome.kind}`)
  return outcome
}

/** The params of the input request of an outcome. */
export function question(outcome: Outcome): Readonly<Record<string, unknown>> {
  return asked(outcome).inputRequests['confirm']?.params?.fields ?? {}
}

/** The members of a result. */
export function fieldsOf(outcome: Outcome): Readonly<Record<string, unknown>> {
  if (outcome.kind !== 'result') throw new Error('no result')
  return outcome.result.fields
}

/** The response to the confirmation. */
export function says(action: string, content?: Record<string, unknown>): InputResponses {
  return { confirm: { result: Payload.of({ action, ...(content && { content }) }) } }
}

export const yes = says('accept', { confirm: true })

/** The members that a host writes into `_meta`. */
export function host(meta: Record<string, unknown>, args?: Record<string, unknown>): Partial<Call> {
  const given = { name: TOOL, arguments: args ?? { owner: 'octo', repo: 'test-repo' }, _meta: meta }
  return { client: plain, meta, params: Payload.of(given) }
}
