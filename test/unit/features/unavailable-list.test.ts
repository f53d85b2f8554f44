import { describe, expect, it } from 'vitest'
import type { Call, Handler } from '../../../src/core/call.ts'
import type { Descriptor } from '../../../src/core/descriptor.ts'
import { GatewayError } from '../../../src/core/error.ts'
import { anonymous } from '../../../src/core/principal.ts'
import { Payload } from '../../../src/core/payload.ts'
import type { ToolSettings } from '../../../src/core/settings.ts'
import { confirm } from '../../../src/features/confirm/confirm.ts'
import { contract } from '../../../src/features/contract/contract.ts'
import { errors } from '../../../src/features/errors/errors.ts'
import type { Feature } from '../../../src/features/feature.ts'
import { idempotency } from '../../../src/features/idempotency/idempotency.ts'
import { injectArguments } from '../../../src/features/inject-arguments.ts'
import { mask } from '../../../src/features/mask/mask.ts'
import { misplacedValues } from '../../../src/features/misplaced-values.ts'
import { multimodal } from '../../../src/features/multimodal.ts'
import { permissions } from '../../../src/features/permissions/permissions.ts'
import { resultLimit } from '../../../src/features/result-limit.ts'
import { retry } from '../../../src/features/retry.ts'
import { undo } from '../../../src/features/undo/undo.ts'
import { validate } from '../../../src/features/validate/validate.ts'
import { confirmDefaults } from './confirm/bench.ts'
import { answering, chain } from '../../support/chain.ts'
import { idempotencyDefaults, keyed } from '../../support/idempotency-bench.ts'
import { serverSettings } from '../../support/server-settings.ts'
import type { Json } from '../../support/server/json.ts'

/** The outcome of a call: how often it reached its server, and what its caller received. */
interface Row {
  readonly feature: Feature<never>
  readonly settings: unknown
  readonly tool?: ToolSettings
  readonly params?: Json
  readonly given?: Partial<Call>
  readonly server?: Handler
  /** The outcome if the list is unavailable. */
  readonly unavailable: string
  /** The outcome if the server does not list the tool. */
  readonly unknown: string
}

const done = answering({ content: [{ type: 'text', text: 'done' }], structuredContent: { a: 'secret' } })
const unsent: Handler = () =>
  Promise.reject(new GatewayError('SERVER_UNAVAILABLE', 'It is away.', { isUnsent: true }))

// Without a list a call proceeds with what is known, except where a rule may forbid it.
const rows: readonly Row[] = [
  {
    feature: errors,
    settings: { retry: 0, compat: false, documentation_hosts: [] },
    unavailable: 'sent 1',
    unknown: 'sent 1',
  },
  {
    feature: injectArguments,
    settings: {},
    params: { arguments: { _k: 'x' } },
    unavailable: 'UPSTREAM_ERROR',
    unknown: 'sent 1',
  },
  {
    feature: contract,
    settings: { ignore: [] },
    tool: { deprecated: 'use other' },
    unavailable: 'sent 1',
    unknown: 'UNSUPPORTED_OPERATION',
  },
  {
    feature: permissions,
    settings: { hide_unpermitted: false, approval: {} },
    unavailable: 'UPSTREAM_ERROR',
    unknown: 'UNKNOWN_TOOL',
    given: { principal: { ...anonymous, scopes: new Set(['read:one']) } },
  },
  {
    feature: misplacedValues,
    settings: {},
    params: { arguments: { idempotency_key: 'x' } },
    unavailable: 'sent 1',
    unknown: 'sent 1',
  },
  { feature: validate, settings: { output: 'off' }, unavailable: 'sent 1', unknown: 'UNKNOWN_TOOL' },
  { feature: multimodal, settings: {}, unavailable: 'sent 1', unknown: 'sent 1' },
  {
    feature: idempotency,
    settings: idempotencyDefaults,
    params: keyed('k'),
    unavailable: 'sent 1',
    unknown: 'sent 1',
  },
  {
    feature: idempotency,
    settings: idempotencyDefaults,
    tool: { autoKey: 1000 },
    unavailable: 'UPSTREAM_ERROR',
    unknown: 'sent 1',
  },
  {
    feature: confirm,
    settings: { ...confirmDefaults, fallback: 'none' },
    unavailable: 'UPSTREAM_ERROR',
    unknown: 'sent 0',
  },
  {
    feature: resultLimit,
    settings: { result: 3000 },
    server: answering({ content: [{ type: 'text', text: 'long '.repeat(1000) }] }),
    unavailable: 'sent 1',
    unknown: 'sent 1',
  },
  {
    feature: mask,
    settings: { rules: [{ pattern: 'secret', replace: '***' }] },
    unavailable: 'sent 1',
    unknown: 'sent 1',
  },
  { feature: undo, settings: {}, unavailable: 'sent 1', unknown: 'sent 1' },
  {
    feature: retry,
    settings: { retry: 1 },
    server: unsent,
    unavailable: 'SERVER_UNAVAILABLE 1',
    unknown: 'SERVER_UNAVAILABLE 1',
  },
]

/** A tool of which only the name is known. */
function described(upstream: string, definition: Json): Descriptor {
  const classification = { op: 'execute', risk: 'destructive', idempotent: false, evidence: [] } as const
  return { upstream, kind: 'tool', name: String(definition['name']), definition, classification }
}

async function fateOf(row: Row, entry: () => Promise<Descriptor | undefined>): Promise<string> {
  const server = serverSettings({ name: 'one', tools: { t: row.tool ?? {} } })
  let sent = 0
  const end: Handler = (call: Call) => {
    sent++
    return (row.server ?? done)(call)
  }
  const make = chain([(deps) => row.feature.create((() => row.settings) as never, deps)], end, {
    server: () => server,
    entry,
    reserved: () => [{ argument: '_k', value: 'k' }],
    callerValues: () => [{ name: 'idempotency_key' }],
    listed: (upstream, definition) => described(upstream, definition),
  })
  return make(row.given ?? {}, row.params).then(
    (outcome) => (outcome.kind === 'result' ? `sent ${sent}` : outcome.kind),
    (error: unknown) => {
      const code = error instanceof GatewayError ? error.code : String(error)
      return sent === 0 ? code : `${code} ${sent}`
    },
  )
}

describe('a tools/call whose server', () => {
  const failing = () => Promise.reject(new GatewayError('UPSTREAM_ERROR', 'There is no list.'))
  const named = rows.map((row) => [row.feature.name, row] as const)

  it.each(named)('fails to list its tools has the documented outcome in feature %s', async (_name, row) => {
    expect(await fateOf(row, failing)).toBe(row.unavailable)
  })

  it.each(named)('does not list the tool has the documented outcome in feature %s', async (_name, row) => {
    expect(await fateOf(row, async () => undefined)).toBe(row.unknown)
  })
})

describe('a request that names no tool', () => {
  const features = [...new Set(rows.map(({ feature }) => feature))]
  const methods = ['prompts/get', 'resources/read', 'completion/complete', 'tools/list']

  it.each(features.flatMap((feature) => methods.map((method) => [method, feature.name, feature] as const)))(
    '%s requests no tool list in feature %s',
    async (method, _name, feature) => {
      const settings = rows.find((each) => each.feature === feature)?.settings
      let lookups = 0
      const make = chain([(deps) => feature.create((() => settings) as never, deps)], done, {
        server: () => serverSettings({ name: 'one' }),
        entry: () => {
          lookups++
          return undefined
        },
      })
      const params = { name: 'p', uri: 'file:///p', ref: { type: 'ref/prompt', name: 'p' } }
      const target = { method, upstream: 'one', name: 'p' }
      await make({ method, target, params: Payload.of(params) }).catch(() => undefined)
      expect(lookups).toBe(0)
    },
  )
})
