import { describe, expect, it } from 'vitest'
import { loadSettings } from '../../../../src/config/load.ts'
import type { Call, Outcome } from '../../../../src/core/call.ts'
import { intentSlot } from '../../../../src/core/tool-call.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { features } from '../../../../src/features/index.ts'
import { intent } from '../../../../src/features/intent/intent.ts'
import type { IntentSettings } from '../../../../src/features/settings/authorize.ts'
import { callKey, encodeCall } from '../../../../src/records/calls.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { featureDeps, type ServiceStubs } from '../../../support/feature-deps.ts'
import { type Shelf, shelves } from '../../../support/shelf.ts'
import { toolCall } from '../../../support/tool-call.ts'

const tools = [
  { name: 'read_text_file', description: 'Read the complete contents of a file as text.' },
  { name: 'list_directory', description: 'List all files and directories in a directory.' },
  { name: 'delete_directory', description: 'Delete a directory with all files.' },
]
const defaults: IntentSettings = {
  mode: 'advise',
  margin: 1.5,
  forward: false,
  log_intent: false,
  across: false,
  compat: true,
}
const wish = 'list the files in a directory'
const answer = '{"content":[{"type":"text","text":"done"}],"structuredContent":{"n":1.0}}'

interface Tried {
  readonly outcome: Outcome
  readonly seen: Call | undefined
  readonly call: Call
}

interface World {
  readonly own?: Partial<IntentSettings>
  readonly given?: Partial<Call>
  readonly deps?: ServiceStubs
  readonly settings?: Shelf['settings']
  readonly result?: string
}

/** Calls `read_text_file` with additional params. */
async function tried(params: object, world: World = {}): Promise<Tried> {
  const { own, given, deps, settings, result = answer } = world
  const server = { tools, ...(settings && { settings }) }
  const other = { name: 'list_files_of_directory', description: 'List the files of a directory.' }
  const all = featureDeps({ ...shelves({ one: server, two: { tools: [other] } }), ...deps })
  const { calls, responseMiddleware: shown } = intent.create(() => ({ ...defaults, ...own }), all)
  const policy = calls?.middleware
  const fields = { name: 'read_text_file', arguments: {}, ...params }
  const target = { method: 'tools/call', upstream: 'one', name: 'read_text_file' }
  const meta = '_meta' in fields ? (fields._meta as Call['meta']) : {}
  const call = toolCall({ params: Payload.of(fields), meta, target, ...given })
  let seen: Call | undefined
  const handle = policy?.(target)?.(async (reached) => {
    seen = reached
    return { kind: 'result', result: Payload.text(result) }
  })
  if (!handle) throw new Error('there is no policy')
  const isTogether = given?.target !== undefined
  const around = shown?.('tools/call')?.((each) => handle({ ...each, target })) ?? handle
  return { outcome: await (isTogether ? around(call) : handle(call)), seen, call }
}

function resultOf({ outcome }: Tried): Payload {
  if (outcome.kind !== 'result') throw new Error('there is no result')
  return outcome.result
}

const suggestion = {
  recommended_tool: 'list_directory',
  reason: 'Its name and description are closer to the stated intent.',
}

describe('the intent of a call', () => {
  it('a call without an intent is forwarded as the same object and its result is byte-identical', async () => {
    const found = await tried({})
    expect(resultOf(found).text).toBe(answer)
    expect(found.seen).toBe(found.call)
  })

  it.each([
    ['next to the name', { intent: wish }],
    ['in _meta', { _meta: { intent: wish } }],
    [
      "in _meta under the gateway's key",
      { _meta: { 'dev.gatehouse/intent': { text: wish, category: 'user_requested' } } },
    ],
  ])(
    'an intent stated %s yields a suggestion of a better tool and is not forwarded to the server',
    async (_, params) => {
      const found = await tried(params)
      const { content, structuredContent, suggestion: told, _meta: meta } = resultOf(found).fields
      expect(content).toEqual([
        { type: 'text', text: 'done' },
        { type: 'text', text: `Hint: list_directory may fit better. ${suggestion.reason}` },
      ])
      expect([told, meta]).toEqual([suggestion, { 'dev.gatehouse/suggestion': suggestion }])
      expect(structuredContent).toEqual({ n: 1 })
      expect(resultOf(found).text).toContain('{"n":1.0}')
      expect(found.seen?.params.text).toBe('{"name":"read_text_file","arguments":{}}')
      expect(found.seen?.meta).toEqual({})
      expect(found.seen && intentSlot.of(found.seen)).toBe(wish)
      expect([...found.call.logFields]).toEqual([['suggested', 'list_directory']])
    },
  )

  it('an intent that the called tool matches yields no suggestion and a byte-identical result', async () => {
    expect(resultOf(await tried({ intent: 'read the text of a file' })).text).toBe(answer)
    expect(resultOf(await tried({ intent: 'order a pizza' })).text).toBe(answer)
    expect(resultOf(await tried({ intent: '' })).text).toBe(answer)
  })

  it('no tool of higher risk and no tool the caller may not call is suggested', async () => {
    expect(
      resultOf(await tried({ intent: 'delete a directory with all files' })).fields['suggestion'],
    ).not.toMatchObject({ recommended_tool: 'delete_directory' })
    const asked: (string | undefined)[] = []
    const isPermitted = async ({ target }: Call): Promise<boolean> => {
      asked.push(target.name)
      return false
    }
    expect(resultOf(await tried({ intent: wish }, { deps: { isPermitted } })).text).toBe(answer)
    expect(asked).toEqual(['list_directory'])
  })

  it('a tool of another server is suggested only if configured and in an aggregate', async () => {
    const target = { method: 'tools/call', name: 'one_read_text_file' }
    const named = async (own: Partial<IntentSettings>, given: Partial<Call>): Promise<unknown> =>
      resultOf(await tried({ intent: 'list the files of a directory' }, { own, given })).fields['suggestion']
    expect(await named({}, { target })).toMatchObject({ recommended_tool: 'one_list_directory' })
    expect(await named({ across: true }, {})).toMatchObject({ recommended_tool: 'list_directory' })
    expect(await named({ across: true }, { target })).toMatchObject({
      recommended_tool: 'two_list_files_of_directory',
    })
  })

  it('configured rules are applied first, in their order', async () => {
    const rule = (more: object) => ({ when: 'files directory', on: '*', suggest: 'list_directory', ...more })
    const told = async (rules: readonly object[]): Promise<unknown> =>
      resultOf(await tried({ intent: wish }, { settings: { intent: rules as never } })).fields['suggestion']
    expect(await told([rule({ reason: 'Because.' })])).toEqual({ ...suggestion, reason: 'Because.' })
    expect(await told([rule({ suggest: 'delete_directory' })])).toMatchObject({
      recommended_tool: 'delete_directory',
    })
    expect(await told([rule({ suggest: 'read_text_file' })])).toBeUndefined()
    expect(await told([rule({ on: 'write_*', suggest: 'delete_directory' })])).toEqual(suggestion)
    expect(await told([rule({ when: 'files elsewhere', suggest: 'delete_directory' })])).toEqual(suggestion)
    expect(await told([rule({ suggest: 'not_there' })])).toEqual(suggestion)
    expect(await told([rule({ when: '/FILES? in/', suggest: 'delete_directory' })])).toMatchObject({
      recommended_tool: 'delete_directory',
    })
    expect(await told([rule({ when: '/(/', suggest: 'delete_directory' })])).toEqual(suggestion)
  })

  it('in redirect mode the call is not sent', async () => {
    const own: Partial<IntentSettings> = { mode: 'redirect' }
    const found = await tried({ intent: wish }, { own })
    const { fields } = resultOf(found)
    expect(found.seen).toBeUndefined()
    expect(fields).toMatchObject({ isError: true, result: null, suggestion })
    expect(fields['structuredContent']).toBeUndefined()
    expect(fields['_meta']).toMatchObject({
      'dev.gatehouse/suggestion': suggestion,
      'dev.gatehouse/error': { reason: 'redirected', category: 'invalid_input' },
    })
    expect(resultOf(await tried({ intent: 'read the text of a file' }, { own })).text).toBe(answer)
    expect(
      Object.keys(resultOf(await tried({ intent: wish }, { own: { ...own, compat: false } })).fields),
    ).toEqual(['content', 'isError', '_meta'])
  })

  it('a keyed or resumed call is never redirected', async () => {
    const own: Partial<IntentSettings> = { mode: 'redirect' }
    const store = new MemoryStore()
    const keyed = { intent: wish, _meta: { idempotency_key: 'k1' } }
    expect((await tried(keyed, { own, deps: { store } })).seen).toBeUndefined()
    const record = encodeCall({
      expiresAt: Date.now() + 60_000,
      fingerprint: 'f',
      tool: 'read_text_file',
      state: 'done',
      owner: 'o',
      attempt: 'a',
      startedAt: 1,
      attemptedAt: 1,
      result: Payload.of({ content: [] }),
    })
    await store.put(callKey('anonymous', 'one', 'k1'), record, 60_000)
    expect((await tried(keyed, { own, deps: { store } })).seen).toBeDefined()
    expect(
      (await tried({ intent: wish }, { own, given: { requestState: { confirm: {} } } })).seen,
    ).toBeDefined()
    expect((await tried({ intent: wish }, { own, given: { internal: 'compensate' } })).seen).toBeDefined()
  })

  it('the intent is forwarded and logged only if configured', async () => {
    const quiet = await tried({ intent: 'read the secret of Bob' })
    expect(JSON.stringify([...quiet.call.logFields])).not.toContain('Bob')
    const loud = await tried(
      { intent: 'read the secret of Bob' },
      { own: { forward: true, log_intent: true } },
    )
    expect(loud.call.logFields.get('intent')).toBe('read the secret of Bob')
    expect(loud.seen?.params.fields['intent']).toBe('read the secret of Bob')
  })

  it.each([
    ['a number', { intent: 7 }, 'must be a string'],
    ['an object without text', { intent: { category: 'user_requested' } }, 'must be a string'],
    ['more than 2 KB', { intent: 'é'.repeat(1025) }, 'at most 2048 bytes'],
    ['of an unknown kind', { intent: { text: 'x', category: 'other' } }, 'must be one of user_requested'],
    [
      'for a workflow without a name',
      { intent: { text: 'x', workflow_id: 1 } },
      'workflow_id must be a string',
    ],
    ['given twice', { intent: 'a', _meta: { intent: 'b' } }, 'set twice'],
  ])('that is %s is refused, and the call is not made', async (_, params, words) => {
    await expect(tried(params)).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      message: expect.stringContaining(words),
    })
  })

  it('an intent never makes a call fail or hang while the tools are unknown', async () => {
    const records = () => {
      throw new Error('no records')
    }
    expect(resultOf(await tried({ intent: wish }, { deps: { records } })).text).toBe(answer)
    const of = () => new Promise<never>(() => undefined)
    const never = () => ({
      names: ['one'],
      of,
      last: () => undefined,
      renew: () => undefined,
      onChange: () => undefined,
    })
    expect(resultOf(await tried({ intent: wish }, { deps: { records: never } })).text).toBe(answer)
  })

  it('the intent is also removed from requests for prompts and resources', async () => {
    const policy = intent.create(() => defaults, featureDeps()).calls?.middleware
    const target = { method: 'prompts/get', upstream: 'one', name: 'p' }
    let seen: Call | undefined
    const handle = policy?.(target)?.(async (call) => {
      seen = call
      return { kind: 'result', result: Payload.of({}) }
    })
    await handle?.(toolCall({ target, params: Payload.of({ name: 'p', intent: 'x' }) }))
    expect(seen?.params.text).toBe('{"name":"p"}')
    expect(policy?.({ method: 'tools/list', upstream: 'one' })).toBeUndefined()
    expect(
      policy?.({ method: 'tools/call', upstream: 'one', name: 'ai_help', isBuiltin: true }),
    ).toBeUndefined()
  })

  it('intent rules that cannot apply are reported at their place in the file', async () => {
    const rules = [
      { when: '/(/', on: '*', suggest: 'list_directory' },
      { when: 'x', on: '*', suggest: 'list_directori' },
      { when: 'the', on: '*', suggest: 'read_text_file' },
    ]
    const deps = featureDeps(shelves({ one: { tools, settings: { intent: rules } } }))
    const { problems } = intent.create(() => defaults, deps)
    expect(await problems?.()).toEqual([
      {
        path: ['upstreams', 'one', 'intent', '0', 'when'],
        message: expect.stringContaining('neither a valid pattern'),
      },
      {
        path: ['upstreams', 'one', 'intent', '1', 'suggest'],
        message: 'one has no tool named list_directori; did you mean list_directory?',
      },
      {
        path: ['upstreams', 'one', 'intent', '2', 'when'],
        message: expect.stringContaining('neither a valid pattern'),
      },
    ])
  })

  it('intent runs after permissions and before validation, and is on by default', () => {
    const order = features.map(({ name }) => name)
    expect(order.indexOf('permissions')).toBeLessThan(order.indexOf('intent'))
    expect(order.indexOf('intent')).toBeLessThan(order.indexOf('validate'))
    const { settings } = loadSettings(JSON.stringify({ upstreams: { one: 'x' } }), {
      file: 'f.yaml',
      env: {},
    })
    expect(settings.features['intent']?.common).toEqual(defaults)
    const none = loadSettings(JSON.stringify({ features: 'none', upstreams: { one: 'x' } }), {
      file: 'f.yaml',
      env: {},
    })
    expect(none.settings.features['intent']).toBeUndefined()
  })
})
