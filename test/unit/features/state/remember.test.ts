import { describe, expect, test } from 'vitest'
import { serverArguments, rememberedSlot } from '../../../../src/core/tool-call.ts'
import { Payload } from '../../../../src/core/payload.ts'
import type { Call } from '../../../../src/core/call.ts'
import { toolCall } from '../../../support/tool-call.ts'
import { asking, CHANGED, Stateful, tool } from './setup.ts'

const tools = [
  tool('list', 'read', ['owner', 'repo']),
  tool('create', 'write', ['owner', 'repo', 'title']),
  tool('purge', 'delete', ['owner', 'repo']),
  tool('plain', 'write'),
]

function remembering(remember: readonly string[] | Readonly<Record<string, readonly string[]>>): Stateful {
  return new Stateful({ settings: { remember }, tools })
}

function lastArguments({ seen }: Stateful): unknown {
  return seen.at(-1)?.params.fields['arguments']
}

describe('session state: remembered arguments', () => {
  test('are filled in where a call leaves them out, and are named in the log fields', async () => {
    const at = remembering(['owner', 'repo'])
    const first = await at.result({ name: 'list', arguments: { owner: 'acme', repo: 'site' } })
    expect(first.meta[CHANGED]).toBe(true)
    const logFields: Call['logFields'] = new Map()
    const second = await at.result(
      { name: 'create', arguments: { title: 'New' }, session_state: first.token },
      { logFields },
    )
    expect(lastArguments(at)).toEqual({ title: 'New', owner: 'acme', repo: 'site' })
    expect(rememberedSlot.of(at.seen.at(-1) ?? {})).toEqual(['owner', 'repo'])
    expect(logFields.get('remembered')).toEqual(['owner', 'repo'])
    expect(serverArguments(toolCall({ logFields }))).toMatchObject({ owner: 'acme' })
    expect(second.meta[CHANGED]).toBe(false)
  })

  test('are replaced by the values of a call, which are remembered from then on', async () => {
    const at = remembering(['owner'])
    const first = await at.result({ name: 'list', arguments: { owner: 'acme', repo: 'a' } })
    const second = await at.result({
      name: 'list',
      arguments: { owner: 'other', repo: 'a' },
      session_state: first.token,
    })
    expect(second.meta[CHANGED]).toBe(true)
    await at.result({ name: 'list', arguments: { repo: 'a' }, session_state: second.token })
    expect(lastArguments(at)).toMatchObject({ owner: 'other' })
    await at.result({ name: 'list', arguments: { repo: 'a' }, session_state: first.token })
    expect(lastArguments(at), 'with the older token').toMatchObject({ owner: 'acme' })
  })

  test('are not remembered of a call that failed', async () => {
    const at = new Stateful({
      settings: { remember: ['owner'] },
      tools,
      server: async () => ({ kind: 'result', result: Payload.of({ content: [], isError: true }) }),
    })
    const { meta } = await at.result({ name: 'list', arguments: { owner: 'acme' }, ...asking })
    expect(meta[CHANGED]).toBe(false)
  })

  test.each([
    ['a list for all tools', ['owner', 'repo'], {}],
    ['a glob', { '*': ['owner', 'repo'] }, {}],
    ['a glob of the tool', { 'purg*': ['owner'] }, {}],
    ['the name of the tool', { '*': ['owner', 'repo'], purge: ['owner'] }, { owner: 'acme' }],
  ] as const)(
    'are filled in for a destructive tool only if it is named: %s',
    async (_what, remember, expected) => {
      const at = remembering(remember)
      const first = await at.result({ name: 'list', arguments: { owner: 'acme', repo: 'site' }, ...asking })
      await at.result({ name: 'purge', arguments: {}, session_state: first.token })
      expect(lastArguments(at)).toEqual(expected)
    },
  )

  test('are not filled in for tools that do not declare them', async () => {
    const at = remembering(['owner'])
    const first = await at.result({ name: 'list', arguments: { owner: 'acme' } })
    await at.result({ name: 'plain', arguments: {}, session_state: first.token })
    expect(lastArguments(at)).toEqual({})
  })

  test.each([
    ['a long text', 'x'.repeat(257)],
    ['an object', { a: 1 }],
    ['null', null],
  ])('do not include %s', async (_what, owner) => {
    const at = remembering(['owner'])
    const { meta } = await at.result({ name: 'list', arguments: { owner }, ...asking })
    expect(meta[CHANGED]).toBe(false)
  })

  test('are optional in lists, except of destructive tools that are not named', async () => {
    const at = remembering(['owner', 'repo'])
    const target = { method: 'tools/list', upstream: 'one' }
    const listed = Payload.of({ tools: tools.map(({ definition }) => definition) })
    const handler = at.instance.calls?.middleware(target)?.(async () => ({ kind: 'result', result: listed }))
    const outcome = await handler?.(toolCall({ method: 'tools/list', target }))
    const shown = outcome?.kind === 'result' ? outcome.result.fields['tools'] : undefined
    expect(shown).toMatchObject([
      {
        inputSchema: {
          properties: { owner: { description: 'If omitted, its last value in this session applies.' } },
        },
      },
      { inputSchema: { required: ['title'] } },
      { inputSchema: { required: ['owner', 'repo'] } },
      { inputSchema: { required: [] } },
    ])
    expect((shown as { inputSchema: object }[])[0]?.inputSchema).not.toHaveProperty('required')
  })

  test('cost nothing where none are configured: lists are not touched', () => {
    expect(
      new Stateful().instance.calls?.middleware({ method: 'tools/list', upstream: 'one' }),
    ).toBeUndefined()
  })
})
