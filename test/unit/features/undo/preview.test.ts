import { afterEach, describe, expect, test, vi } from 'vitest'
import type { Handler, Target } from '../../../../src/core/call.ts'
import type { Descriptor } from '../../../../src/core/descriptor.ts'
import { asObject } from '../../../../src/core/json/json.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { Redactor } from '../../../../src/core/text/redactor.ts'
import { readUndo } from '../../../../src/core/undo/rules.ts'
import { undo } from '../../../../src/features/undo/undo.ts'
import { callUndos } from '../../../../src/features/offers.ts'
import type { ShownChange } from '../../../../src/records/approvals.ts'
import { featureDeps, offeredBy, type ServiceStubs } from '../../../support/feature-deps.ts'
import { toolCall } from '../../../support/tool-call.ts'

afterEach(() => vi.useRealTimers())

const restore = {
  snapshot: 'read(path=$.args.path)',
  restore: 'write(path=$.args.path, content=$.snapshot.content)',
}

function toolNamed(name: string, more: Partial<Descriptor['classification']> = {}): Descriptor {
  const classification = {
    op: 'write',
    risk: 'destructive',
    idempotent: false,
    evidence: [],
    ...more,
  } as const
  return { upstream: 'files', kind: 'tool', name, definition: { name }, classification }
}

interface Given {
  readonly tool?: Descriptor
  readonly args?: Record<string, unknown>
  /** The results of the tools that are called: a value, or undefined for one that is not found. */
  readonly serve?: Handler
  readonly deps?: ServiceStubs
}

/** What a call would change, and the calls that were made to find out. */
async function previewed(given: Given): Promise<{ change: ShownChange | undefined; made: unknown[] }> {
  const { tool = toolNamed('write'), args = { path: '/a', content: 'one\nthree\n' }, serve = old } = given
  const made: unknown[] = []
  const deps = featureDeps({
    undoRule: async () => readUndo(restore),
    call: async (call) => {
      made.push([call.internal, call.params.fields.name, call.params.fields.arguments])
      const target = { method: 'tools/call', upstream: 'files', name: String(call.params.fields.name) }
      const policy = instance.calls?.middleware(target)
      return policy ? policy(serve)(call) : serve(call)
    },
    ...given.deps,
  })
  const instance = undo.create(() => ({ history: 1000, proved: 'auto' }), deps)
  const target = { method: 'tools/call', upstream: 'files', name: tool.name }
  const params = Payload.of({ name: tool.name, arguments: args })
  const change = await offeredBy(instance, callUndos)?.preview(toolCall({ target, params, tool }), tool)
  return { change, made }
}

function found(value: object): Awaited<ReturnType<Handler>> {
  return { kind: 'result', result: Payload.of({ content: [], structuredContent: value }) }
}

/** A result of a server whose secrets were taken out. */
function redacted(value: object): Awaited<ReturnType<Handler>> {
  const result = Payload.of({ content: [], structuredContent: value }).asRedacted()
  return { kind: 'result', result }
}

const replaces =
  '*** after - stands for a secret, or for something else that is masked. *** after + is this text itself, not a secret.'

const old: Handler = async () => found({ content: 'one\ntwo\n' })
const absent: Handler = async () => {
  const content = [{ type: 'text', text: "ENOENT: no such file or directory, open '/a'" }]
  return { kind: 'result', result: Payload.of({ content, isError: true }) }
}

describe('what a call would change', () => {
  test('is the lines that differ, of a tool that restores by itself', async () => {
    const { change, made } = await previewed({})
    expect(change).toEqual({
      kind: 'difference',
      lines: ['content, line 2:', '- two', '+ three'],
      at: expect.any(Number),
    })
    expect(made).toEqual([['read', 'read', { path: '/a' }]])
  })

  test.each([
    ['nothing, if it is there already', { path: '/a', content: 'one\ntwo\n' }, old, 'difference', []],
    ['what is created', { path: '/a', content: 'x\ny' }, absent, 'created', ['content:', '+ x', '+ y']],
    [
      'escaped, with tabs as they are',
      { path: '/a', content: 'one\n\t\u202e\ud800\u001b[2J\n' },
      old,
      'difference',
      ['content, line 2:', '- two', String.raw`+ ${'\t'}\u202e\ud800\u001b[2J`],
    ],
    [
      'also of a member with a line break in its name',
      { path: '/a', content: { 'x\n- y': 1 } },
      async () => found({ content: {} }),
      'difference',
      [String.raw`content.x\n- y:`, '+ 1'],
    ],
    [
      'at most 40 lines',
      { path: '/a', content: `${'x\n'.repeat(100)}` },
      absent,
      'created',
      ['content:', ...Array.from({ length: 39 }, () => '+ x'), '… and 62 more lines'],
    ],
  ])('%s', async (...[, args, serve, kind, lines]) => {
    expect((await previewed({ args, serve })).change).toMatchObject({ kind, lines })
  })

  test('is what would be lost, of a tool that deletes', async () => {
    const tool = toolNamed('remove', { op: 'delete' })
    expect((await previewed({ tool, args: { path: '/a' } })).change).toMatchObject({
      kind: 'lost',
      lines: ['content:', '- one', '- two', '- '],
    })
  })

  test('is what its server says that it would change, if the tool can be tried', async () => {
    const varies = { baseEffect: 'destructive', conditions: [], dryRun: ['dryRun'] } as const
    const tool = toolNamed('edit', { varies })
    const args = { path: '/a', edits: [] }
    const serve: Handler = async ({ params }) =>
      params.fields.name === 'read' ? old(toolCall()) : found({ content: '```diff\n-two\n+three\n```\n' })
    const { change, made } = await previewed({ tool, args, serve })
    expect(change).toMatchObject({ kind: 'reported', lines: ['```diff', '-two', '+three', '```'] })
    expect(made.at(-1)).toEqual(['read', 'edit', { ...args, dryRun: true }])
  })

  test('is what is there now, if nothing says what will be', async () => {
    const change = { kind: 'current', lines: ['one', 'two'] }
    expect((await previewed({ tool: toolNamed('edit'), args: { path: '/a' } })).change).toMatchObject(change)
  })

  test('has nothing that is masked for the caller, or is a secret by its name', async () => {
    const masked = (value: unknown): unknown => JSON.parse(JSON.stringify(value).replaceAll('ada@x', '***'))
    const serve: Handler = async () => found({ content: 'mail ada@x' })
    const args = { path: '/a', content: 'mail bob, ada@x' }
    const { change } = await previewed({ args, serve, deps: { masked } })
    expect(change?.lines).toEqual(['content:', '- mail ***', '+ mail bob, ***'])
    const only = { path: '/a', content: 'mail ***' }
    expect((await previewed({ args: only, serve, deps: { masked } })).change?.lines).toEqual([
      replaces,
      'content:',
      '- mail ***',
      '+ mail ***',
    ])
    const both = (value: unknown): unknown => JSON.parse(JSON.stringify(value).replaceAll(/\w+@x/g, '***'))
    const other = { path: '/a', content: 'mail bob@x' }
    expect((await previewed({ args: other, serve, deps: { masked: both } })).change?.lines).toEqual([
      'Lines that look the same differ in what is masked.',
      'content:',
      '- mail ***',
      '+ mail ***',
    ])
  })

  describe('in a state with a secret, which arrives without it,', () => {
    const redactor = new Redactor()
    redactor.learn(['ghp_abcdef123456'])
    const serve: Handler = async () => redacted({ content: 'PORT=80\nAPI_TOKEN=***\n' })
    const notUndone = 'the data needed to undo it contains a secret of the configuration, which is not kept'

    test.each([
      ['80', '***', [replaces, 'content, line 2:', '- API_TOKEN=***', '+ API_TOKEN=***']],
      [
        '81',
        '***',
        [replaces, 'content, line 1:', '- PORT=80', '- API_TOKEN=***', '+ PORT=81', '+ API_TOKEN=***'],
      ],
      ['80', 'ghp_abcdef123456', []],
      ['81', 'ghp_abcdef123456', ['content, line 1:', '- PORT=80', '+ PORT=81']],
      ['80', 'none', ['content, line 2:', '- API_TOKEN=***', '+ API_TOKEN=none']],
    ])('of PORT=%s and API_TOKEN=%s, is what is really written', async (port, token, lines) => {
      const args = { path: '/a', content: `PORT=${port}\nAPI_TOKEN=${token}\n` }
      const { change } = await previewed({ args, serve, deps: { redactor } })
      expect(change).toMatchObject({ kind: 'difference', lines, notUndone })
    })

    test('has no secret that the call writes', async () => {
      const args = { path: '/a', content: { ghp_abcdef123456: 'ghp_abcdef123456' } }
      const { change } = await previewed({ args, serve, deps: { redactor } })
      expect(JSON.stringify(change)).not.toContain('ghp_')
      const created = await previewed({ args, serve: absent, deps: { redactor } })
      expect(created.change).toMatchObject({ kind: 'created', lines: ['content:', '+ {"***":"***"}'] })
    })

    test('says that a call that deletes cannot be undone', async () => {
      const tool = toolNamed('remove', { op: 'delete' })
      const { change } = await previewed({ tool, args: { path: '/a' }, serve })
      expect(change).toMatchObject({ kind: 'lost', notUndone })
    })
  })

  test('says why it cannot be undone, if the state is not text or too large', async () => {
    const noText: Handler = async () => found({ content: 'a\uFFFDb' })
    expect((await previewed({ serve: noText })).change?.notUndone).toBe(
      'the previous state is not text, so it was not read exactly',
    )
    const large: Handler = async () => found({ content: 'x'.repeat(1024 * 1024) })
    expect((await previewed({ serve: large })).change?.notUndone).toBe(
      'the data needed to undo it is larger than 1 MB',
    )
    expect((await previewed({})).change).not.toHaveProperty('notUndone')
  })

  test('has arguments that are secrets by their name as lines that differ', async () => {
    const rule = readUndo({ ...restore, restore: 'write(path=$.args.path, settings=$.snapshot.settings)' })
    const state: Handler = async () => found({ settings: { password: 'old-one', port: 80 } })
    const deps: ServiceStubs = { undoRule: async () => rule }
    const lines = async (settings: object): Promise<readonly string[] | undefined> =>
      (await previewed({ args: { path: '/a', settings }, serve: state, deps })).change?.lines
    expect(await lines({ password: 'new-one', port: 81 })).toEqual([
      'Lines that look the same differ in what is masked.',
      'settings.password:',
      '- ***',
      '+ ***',
      'settings.port:',
      '- 80',
      '+ 81',
    ])
    expect(await lines({ password: 'old-one', port: 80 })).toEqual([])
  })

  test('has nothing that is masked by its path in the result, or in results of the tool itself', async () => {
    const nested = 'write(path=$.args.path, content=$.snapshot.owner.email)'
    const masked = (value: unknown, { name }: Target): unknown => {
      const { owner } = asObject(value)
      if (owner !== undefined) return { owner: { email: '***' } }
      return name === 'edit' ? '***' : value
    }
    const serve: Handler = async () => found({ owner: { email: 'ada@x' } })
    const deps = { masked, undoRule: async () => readUndo({ ...restore, restore: nested }) }
    const args = { path: '/a', content: 'bob@x' }
    expect((await previewed({ args, serve, deps })).change?.lines).toEqual(['content:', '- ***', '+ bob@x'])
    const varies = { baseEffect: 'destructive', conditions: [], dryRun: ['dryRun'] } as const
    const tool = toolNamed('edit', { varies })
    const tried: Handler = async ({ params }) =>
      params.fields.name === 'read' ? serve(toolCall()) : found({ content: 'ada@x' })
    expect((await previewed({ tool, serve: tried, deps })).change?.lines).toEqual(['***'])
  })

  test.each([
    ['the read fails', async () => found({ other: 1 })],
    ['the read is refused', () => Promise.reject(new Error('no'))],
  ])('is not known if %s', async (_what, serve) => {
    expect((await previewed({ serve })).change).toBeUndefined()
  })

  test('is not known after 2 s without an answer, or without a rule', async () => {
    vi.useFakeTimers()
    const waiting = previewed({ serve: () => new Promise(() => undefined) })
    await vi.advanceTimersByTimeAsync(2000)
    expect((await waiting).change).toBeUndefined()
    const listing = previewed({ deps: { undoRule: () => new Promise(() => undefined) } })
    await vi.advanceTimersByTimeAsync(2000)
    expect((await listing).change).toBeUndefined()
    const { change, made } = await previewed({ deps: { undoRule: () => undefined } })
    expect([change, made]).toEqual([undefined, []])
  })
})
