import { beforeEach, describe, expect, it } from 'vitest'
import { loadSettings } from '../../../src/config/load.ts'
import type { Call, Handler, Outcome } from '../../../src/core/call.ts'
import { dryRunSlot } from '../../../src/core/dry-run.ts'
import { GatewayError } from '../../../src/core/error.ts'
import { beforeSendSlot } from '../../../src/core/exchange.ts'
import { classify, classifyUnlisted } from '../../../src/core/judgement/classify.ts'
import { Payload } from '../../../src/core/payload.ts'
import type { ToolSettings } from '../../../src/core/settings.ts'
import { Redactor } from '../../../src/core/text/redactor.ts'
import { pauseWrites } from '../../../src/features/pause-writes.ts'
import { activeFeatures } from '../../../src/gateway/features.ts'
import { Pause, pauseOf } from '../../../src/records/pause.ts'
import { MemoryStore } from '../../../src/store/memory.ts'
import { everythingOn } from '../../support/everything-on.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { featureDeps } from '../../support/feature-deps.ts'
import { objectAt } from '../../support/server/json.ts'
import { serverSettings } from '../../support/server-settings.ts'
import { toolCall } from '../../support/tool-call.ts'

const pass = fakeClock()
type Definition = Readonly<Record<string, unknown>>

let store = new MemoryStore()
let pauses = new Pause(store)
const lines: unknown[] = []
const log = {
  debug: () => undefined,
  info: (...line: unknown[]) => void lines.push(line),
  warn: () => undefined,
  error: () => undefined,
}
const redactor = new Redactor()
redactor.learn(['s3cr3t-of-the-gateway'])

beforeEach(() => {
  store = new MemoryStore()
  pauses = new Pause(store)
  lines.length = 0
})

function instance() {
  return pauseWrites.create(() => ({}), featureDeps({ store, log, redactor }))
}

/** The feature in front of a server, and the calls that reached it. */
function gate(): { readonly handle: Handler; readonly made: Call[]; close(): Promise<void> | undefined } {
  const made: Call[] = []
  const { calls, close } = instance()
  const server: Handler = async (call) => {
    made.push(call)
    return { kind: 'result', result: Payload.of({}) }
  }
  return {
    made,
    handle: (call) => (calls?.middleware(call.target)?.(server) ?? server)(call),
    close: () => close?.(),
  }
}

const named = (name: string): Definition => ({ name, inputSchema: { type: 'object' } })

/** A call of a tool that its server lists so, in a gateway that is configured so. */
function callOf(definition: Definition, tools: ToolSettings = {}, given: Definition = {}): Call {
  const name = String(definition['name'])
  const settings = serverSettings({ name: 'one', tools: { [name]: tools } })
  const classification = classify(definition, settings)
  const tool = { upstream: 'one', kind: 'tool', name, definition, classification } as const
  const target = { method: 'tools/call', upstream: 'one', name }
  return toolCall({ tool, target, params: Payload.of({ name, arguments: given }) })
}

const write = callOf(named('create_note'))
const read = callOf(named('list_notes'))
const refused = { code: 'WRITES_PAUSED', isResult: true, extra: { isUnsent: true } }

describe('while writes are paused', () => {
  beforeEach(() => pauses.pause({ by: 'ada lovelace', reason: 'key s3cr3t-of-the-gateway\nleaked' }))

  it('a call that may write is refused, with what a model has to know and no name of a person', async () => {
    const { handle, made } = gate()
    const error = await handle(write).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject(refused)
    if (!(error instanceof GatewayError)) throw error
    const since = new Date().toISOString()
    expect(error.message).toBe(
      `Writes are paused: an operator of this gateway stopped them at ${since}. The reason given: “key ***\\nleaked”. This call may change something, so it was not made.`,
    )
    expect(error.extra.suggestion).toBe(
      'Calls that only read still work. Do not repeat this call in a loop: go on without it, or tell the user that it can be made once an operator resumes writes.',
    )
    expect(error.data).toMatchObject({ user_actionable: false, details: { paused_since: since } })
    expect(error.data).not.toHaveProperty('retry_after_seconds')
    expect(JSON.stringify([error.message, error.data])).not.toContain('ada')
    expect(made).toEqual([])
  })

  it.each([
    ['a name that says nothing', named('frobnicate'), {}],
    ['annotations of the wrong types', { ...named('frobnicate'), annotations: { readOnlyHint: 'true' } }, {}],
    ['annotations that are null', { ...named('frobnicate'), annotations: null }, {}],
    ['annotations that are a list', { ...named('frobnicate'), annotations: [{ readOnlyHint: true }] }, {}],
    ['a name that the hint contradicts', { ...named('delete_all'), annotations: { readOnlyHint: true } }, {}],
    ['an owner who says that it writes', named('list_notes'), { op: 'write' }],
    ['an owner who says that it has a risk', named('list_notes'), { risk: 'reversible' }],
    ['no name', { inputSchema: null }, {}],
  ] as const)('a tool with %s counts as one that writes', async (_what, definition, tools) => {
    const { handle, made } = gate()
    await expect(handle(callOf(definition, tools))).rejects.toMatchObject(refused)
    expect(made).toEqual([])
  })

  it.each([
    ['its server does not list', { tool: undefined }],
    ['cannot be looked up', { tool: undefined, toolError: new Error('the list is broken') }],
    [
      'its server, which lists none, may have',
      {
        tool: {
          upstream: 'one',
          kind: 'tool',
          name: 'list_notes',
          definition: { name: 'list_notes' },
          classification: classifyUnlisted({ name: 'list_notes' }, serverSettings({ name: 'one' })),
          isUnlisted: true,
        },
      },
    ],
  ] as const)('a tool that %s counts as one that writes', async (_what, more) => {
    await expect(gate().handle({ ...read, ...more })).rejects.toMatchObject(refused)
  })

  it('reads go on, also of tools of which the owner says so, and of those that write with other arguments', async () => {
    const { handle, made } = gate()
    const inputSchema = {
      type: 'object',
      properties: { action: { type: 'string', enum: ['list', 'delete'] } },
      required: ['action'],
    }
    const definition = { name: 'manage_notes', description: 'Manage notes.', inputSchema }
    await handle(read)
    await handle(callOf(named('frobnicate'), { op: 'read' }))
    await handle(callOf(definition, {}, { action: 'list' }))
    expect(made).toHaveLength(3)
    await expect(handle(callOf(definition, {}, { action: 'delete' }))).rejects.toMatchObject(refused)
  })

  it.each(['read', 'compensate'] as const)('calls of the gateway itself go on: %s', async (internal) => {
    const { handle, made } = gate()
    await handle({ ...write, internal })
    expect(made.map((call) => beforeSendSlot.of(call))).toEqual([undefined])
  })

  it.each([
    ['waits there for input', { park: 'token' }],
    ['runs it as a task', { upstream_task: { id: 'task' } }],
  ])('a call whose server %s goes on', async (_what, requestState) => {
    const { handle, made } = gate()
    await handle({ ...write, requestState })
    expect(made).toHaveLength(1)
  })

  it('a call whose confirmation was requested before is refused', async () => {
    const { handle } = gate()
    await expect(handle({ ...write, requestState: { confirm: { kind: 'asked' } } })).rejects.toMatchObject(
      refused,
    )
  })

  it.each(['acme/run', 'notifications/acme/run'])(
    'nothing is known of a method of a vendor: %s',
    async (method) => {
      const target = { method, upstream: 'one' }
      await expect(gate().handle({ ...read, method, target })).rejects.toMatchObject(refused)
    },
  )

  it.each([
    'tools/list',
    'prompts/get',
    'resources/read',
    'completion/complete',
    'tasks/cancel',
    'tasks/update',
    'events/subscribe',
    'notifications/roots/list_changed',
  ])('%s goes on', async (method) => {
    const { handle, made } = gate()
    await handle({ ...read, method, target: { method, upstream: 'one', name: 'x' } })
    expect(made).toHaveLength(1)
  })

  it('a dry run goes on, and finds that they are', async () => {
    const found: unknown[] = []
    const end: Handler = async (call) => {
      found.push(dryRunSlot.of(call)?.paused)
      return { kind: 'result', result: Payload.of({}) }
    }
    const role = instance().calls?.dryRun
    const layer = typeof role === 'function' ? role(write.target, end) : undefined
    for (const call of [write, read]) await layer?.(end)(dryRunSlot.set(call, { by: 'caller' }))
    await pauses.resume({ by: 'ada' })
    await pauses.pause({ by: 'ada', until: Date.now() + 60_000 })
    await pass(1000)
    await layer?.(end)(dryRunSlot.set(write, { by: 'caller' }))
    await pauses.resume({ by: 'ada' })
    await pass(1000)
    await layer?.(end)(dryRunSlot.set(write, { by: 'caller' }))
    const since = Date.now() - 2000
    expect(found).toEqual([{ since }, undefined, { since, until: since + 60_000 }, undefined])
  })
})

it('says when the pause ends by itself, and then ends', async () => {
  const until = Date.now() + 60_000
  await pauses.pause({ by: 'ada', until })
  const { handle, made } = gate()
  const iso = new Date(until).toISOString()
  await expect(handle(write)).rejects.toMatchObject({
    extra: {
      suggestion: expect.stringContaining(`once writes resume, at ${iso} at the latest.`),
      details: { paused_until: iso },
    },
  })
  await pass(60_000)
  await handle(write)
  expect(made).toHaveLength(1)
})

it('with nothing paused a call is passed on at once, without a promise', async () => {
  const { handle, made } = gate()
  await pauseOf(store).known()
  const going = handle(write)
  expect(made).toHaveLength(1)
  await going
})

it('a call that comes before a pause is judged again right before it is sent, by its arguments then', async () => {
  const { handle, made } = gate()
  await handle(write)
  await handle(read)
  const [writing = write, reading = read] = made
  const check = (call: Call): void => beforeSendSlot.of(call)?.(call)
  check(writing)
  await pauses.pause({ by: 'ada' })
  expect(() => check(writing)).toThrow('Writes are paused')
  check(reading)
  // Whoever approved the call has changed it.
  expect(() => check({ ...reading, tool: writing.tool })).toThrow('Writes are paused')
  await pauses.resume({ by: 'ada' })
  check(writing)
})

describe('before the store has answered', () => {
  beforeEach(() => {
    store.get = () => new Promise(() => undefined)
  })

  it('a call that may write waits, and is refused after a while: a restart does not end a pause', async () => {
    const { handle, made } = gate()
    let error: unknown
    void handle(write).catch((thrown: unknown) => (error = thrown))
    await pass(2999)
    expect(error).toBeUndefined()
    await pass(1)
    expect(error).toMatchObject({
      code: 'SERVER_UNAVAILABLE',
      category: 'transient',
      extra: { isUnsent: true },
    })
    await expect(handle(write)).rejects.toMatchObject({ code: 'SERVER_UNAVAILABLE' })
    expect(made).toEqual([])
  })

  it('a call that reads does not wait, nor does one that its server continues', async () => {
    const { handle, made } = gate()
    await handle(read)
    await handle({ ...write, requestState: { park: 'token' } })
    expect(made).toHaveLength(2)
  })

  it('a call that waits is made once the store answers', async () => {
    const answers: (() => void)[] = []
    store.get = () => new Promise((resolve) => answers.push(() => resolve(undefined)))
    const { handle, made } = gate()
    const going: Promise<Outcome> = handle(write)
    await pass(100)
    expect(made).toEqual([])
    answers[0]?.()
    await going
    expect(made).toHaveLength(1)
  })
})

it('the log says when writes are paused and resumed, until the feature is closed', async () => {
  const { close } = gate()
  await pauses.pause({ by: 'ada', reason: 'why', until: Date.now() + 1000 })
  const since = new Date().toISOString()
  await pass(2000)
  await close()
  await pauses.pause({ by: 'bob' })
  await pass(2000)
  const until = new Date(Date.parse(since) + 1000).toISOString()
  expect(lines).toEqual([['writes.paused', { by: 'ada', since, until, reason: 'why' }], ['writes.resumed']])
})

describe('of what the gateway itself does', () => {
  const config = JSON.stringify({
    ...everythingOn,
    features: { ...objectAt(everythingOn, 'features'), references: 'on' },
    upstreams: { files: 'node files.js' },
  })

  /** The tools that do not only read, and the methods. A new one has to be decided about: it may begin an effect. */
  const continuing = [
    'commit_transaction',
    'export_result_ref',
    'import_from_ref',
    'negotiate_scopes',
    'poll_events',
    'rollback_transaction',
    'subscribe_events',
    'unsubscribe_events',
  ]

  it('only a transaction is not begun; what ends something, or makes calls that are judged, goes on', async () => {
    const { settings } = loadSettings(config, { file: 'gateway.config.yaml', env: {} })
    const active = activeFeatures(settings, featureDeps({ store, server: () => settings.upstreams[0] }))
    const tools = active.flatMap(({ instance: { builtins } }) => builtins?.tools ?? [])
    const changing = tools.flatMap(({ definition }) =>
      objectAt(definition, 'annotations')['readOnlyHint'] === true ? [] : [definition.name],
    )
    const { calls } = instance()
    const isGated = (target: Call['target']): boolean => calls?.middleware(target) !== undefined
    const gated = (name: string): boolean =>
      isGated({ method: 'tools/call', name, upstream: 'files', isBuiltin: true }) &&
      isGated({ method: 'tools/call', name: `gateway_${name}`, isBuiltin: true })
    expect(changing.filter((name) => !gated(name)).toSorted()).toEqual(continuing)
    expect(tools.map(({ definition }) => definition.name).filter(gated)).toEqual(['begin_transaction'])
    const methods = active.flatMap(({ instance: { builtins, http } }) => [
      ...Object.keys(builtins?.methods ?? {}),
      ...[...(http?.routes ?? []), ...(http?.byteRoutes ?? [])].map(({ verb, path }) => `${verb} ${path}`),
    ])
    expect(methods.filter((method) => isGated({ method, isBuiltin: true }))).toEqual(['transaction/begin'])
    await Promise.all(active.map(async ({ instance: each }) => each.close?.()))
  })
})
