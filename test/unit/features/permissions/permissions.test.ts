import type { ServiceStubs } from '../../../support/feature-deps.ts'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Call } from '../../../../src/core/call.ts'
import type { UpstreamSettings } from '../../../../src/core/settings.ts'
import type { PermissionSettings } from '../../../../src/features/settings/authorize.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { type Bench, permissionBench } from '../../../support/permission-bench.ts'
import { serverSettings } from '../../../support/server-settings.ts'

const tools = [
  { name: 'get_file', inputSchema: { type: 'object' }, annotations: { readOnlyHint: true } },
  { name: 'create_file', inputSchema: { type: 'object' } },
  { name: 'delete_file', inputSchema: { type: 'object' }, annotations: { destructiveHint: true } },
  { name: 'grant_access', inputSchema: { type: 'object' } },
]
const lists = {
  'tools/list': tools,
  'prompts/list': [{ name: 'summary' }, { name: 'secret_summary' }],
  'resources/list': [
    { name: 'a', uri: 'file:///docs/a' },
    { name: 'b', uri: 'file:///private/b' },
  ],
  'resources/templates/list': [{ name: 'any', uriTemplate: 'file:///docs/{path}' }],
}

function bench(
  given: Partial<UpstreamSettings> = {},
  settings: Partial<PermissionSettings> = {},
  deps: ServiceStubs = {},
  called: Readonly<Record<string, unknown>> = { content: [] },
): Bench {
  return permissionBench({ servers: [serverSettings(given)], lists, settings, deps, called })
}

function as(...scopes: readonly string[]): Partial<Call> {
  return { principal: { id: 'alice', scopes: new Set(scopes) } }
}

const call = (name: string, args: Readonly<Record<string, unknown>> = {}): Record<string, unknown> => ({
  name,
  arguments: args,
})

describe('permission of a tool call', () => {
  it('C082 a call with the required scope is forwarded', async () => {
    const { ask, seen } = bench()
    expect(await ask('tools/call', call('get_file'), as('read:files'))).toEqual({ content: [] })
    expect(seen).toHaveLength(1)
  })

  it('C082 a call without the required scope is refused with the missing scopes', async () => {
    const { ask, seen } = bench({}, { elevate_url: 'https://idp.example.com/ask' })
    const { error } = await ask('tools/call', call('delete_file'), as('read:files', 'write:files'))
    expect(error).toMatchObject({
      code: 'SCOPE_INSUFFICIENT',
      category: 'auth_required',
      extra: {
        suggestion: 'Ask for delete:files at https://idp.example.com/ask',
        details: { required_scopes: ['delete:files'], missing_scopes: ['delete:files'] },
      },
    })
    expect(seen).toHaveLength(0)
  })

  it('C083 permission is decided per tool', async () => {
    const { ask } = bench({ tools: { create_file: { scopes: ['special'] } } })
    expect(await ask('tools/call', call('create_file'), as('write:files'))).toMatchObject({
      error: { code: 'SCOPE_INSUFFICIENT' },
    })
    expect(await ask('tools/call', call('create_file'), as('special'))).toEqual({ content: [] })
  })

  it('a deny rule applies whatever the scopes, even without authentication', async () => {
    const { ask, seen } = bench({ deny: { get_file: { path: '/private/**' } } })
    const everything = as('read:files', 'write:files', 'delete:files', 'admin:files')
    for (const who of [everything, {}]) {
      const { error } = await ask('tools/call', call('get_file', { path: '/private/x' }), who)
      expect(error).toMatchObject({ code: 'PERMISSION_DENIED', extra: { details: { reason: 'policy' } } })
    }
    expect(seen).toHaveLength(0)
    expect(await ask('tools/call', call('get_file', { path: '/public/x' }))).toEqual({ content: [] })
  })

  it('C082 a refusal is the same for all arguments', async () => {
    const { ask } = bench()
    const refusals = await Promise.all(
      [{}, { path: 1 }, { path: '/there' }, { nothing: [] }].map((args) =>
        ask('tools/call', call('delete_file', args), as()),
      ),
    )
    expect(new Set(refusals.map(({ error }) => JSON.stringify(error))).size).toBe(1)
  })

  it('a call without authentication needs no scope and is forwarded unchanged', async () => {
    const { ask, seen } = bench()
    expect(await ask('tools/call', call('not_listed'))).toEqual({ content: [] })
    expect(seen).toHaveLength(1)
  })

  it('a tool that the server does not list is refused', async () => {
    expect(await bench().ask('tools/call', call('get_none'), as('read:files'))).toMatchObject({
      error: { code: 'UNKNOWN_TOOL', message: 'Unknown tool: get_none' },
    })
  })

  it.each([
    ['{"name":"get_file","name":"get_file","arguments":{}}'],
    ['{"name":"get_file","Name":"delete_file","arguments":{}}'],
    ['{"name":"get_file","arguments":{},"Arguments":{}}'],
    ['{"name":"get_file","arguments":{},"arguments":{"path":"/private/x"}}'],
    ['{"name":"get_file","arguments":{"path":"/private/x","path":"/public/x"}}'],
    ['{"name":"get_file","arguments":{"path":[{"a":"/private/x","a":"/public/x"}]}}'],
  ])('a call that JSON parsers read differently is refused: %s', async (text) => {
    const { ask, seen } = bench({ deny: { '*': { path: '/private/**' } } })
    const params = Payload.text(text)
    const given = {
      ...as('read:files', 'delete:files'),
      params,
      target: { method: 'tools/call', name: 'get_file' },
    }
    expect(await ask('tools/call', {}, given)).toMatchObject({ error: { code: 'INVALID_INPUT' } })
    expect(seen).toHaveLength(0)
  })
})

describe('permission of prompts and resources', () => {
  const scopes = { 'read:docs': ['file:///docs/**', 'summary'] }

  it.each([
    ['prompts/get', { name: 'summary' }, 'read:docs'],
    ['prompts/get', { name: 'secret_summary' }, 'read:files'],
    ['resources/read', { uri: 'file:///docs/a' }, 'read:docs'],
    ['resources/read', { uri: 'file:///private/b' }, 'read:files'],
    ['completion/complete', { ref: { type: 'ref/prompt', name: 'summary' } }, 'read:docs'],
    ['completion/complete', { ref: { type: 'ref/resource', uri: 'file:///private/{x}' } }, 'read:files'],
    ['vendor/method', {}, 'write:files'],
    ['notifications/vendor', {}, 'write:files'],
  ])('C083 %s of %j needs %s', async (method, params, scope) => {
    const { ask } = bench({ scopes })
    expect(await ask(method, params, as('other'))).toMatchObject({
      error: { code: 'SCOPE_INSUFFICIENT', extra: { details: { missing_scopes: [scope] } } },
    })
    expect(await ask(method, params, as(scope))).toEqual({ content: [] })
    expect(await ask(method, params)).toEqual({ content: [] })
  })

  it('C083 an ambiguous completion reference cannot bypass a deny rule', async () => {
    const { ask, seen } = bench({ deny: { secret_summary: true } })
    const asked = (ref: Readonly<Record<string, unknown>>) =>
      ask('completion/complete', { ref, argument: { name: 'a', value: '' } })
    expect(await asked({ type: 'ref/prompt', name: 'secret_summary' })).toMatchObject({
      error: { code: 'PERMISSION_DENIED' },
    })
    for (const other of [{ uri: 'file:///docs/a' }, { Name: 'summary' }, { URI: 'file:///docs/a' }]) {
      expect(await asked({ type: 'ref/prompt', name: 'secret_summary', ...other })).toMatchObject({
        error: { code: 'INVALID_INPUT' },
      })
    }
    expect(seen.map((each) => each.method)).not.toContain('completion/complete')
  })

  it.each([
    ['tools/call', { name: 'get_file', arguments: { path: '/ok' }, 'argument\u017f': { path: '/etc/x' } }],
    ['prompts/get', { name: 'summary', Name: 'secret_summary' }],
    ['prompts/get', { Name: 'secret_summary' }],
    ['resources/read', { uri: 'file:///docs/a', URI: 'file:///private/b' }],
  ])('C083 %s with %j is refused because servers may interpret it differently', async (method, params) => {
    const deny = { get_file: { path: '/etc/**' }, secret_summary: true, 'file:///private/**': true } as const
    const { ask, seen } = bench({ deny })
    expect(await ask(method, params)).toMatchObject({ error: { code: 'INVALID_INPUT' } })
    expect(seen.map((each) => each.method)).not.toContain(method)
  })

  it('C083 an excessively long name or URI is refused without evaluation', async () => {
    const { ask, seen } = bench({ deny: { 'file:///private/**': true } })
    const uri = `file:///docs/${'a/'.repeat(100_000)}`
    for (const who of [{}, as('read:files')])
      expect(await ask('resources/read', { uri }, who)).toMatchObject({ error: { code: 'INVALID_INPUT' } })
    expect(await ask('completion/complete', { ref: { type: 'ref/resource', uri } })).toMatchObject({
      error: { code: 'INVALID_INPUT' },
    })
    expect(seen).toHaveLength(0)
  })

  it.each(['notifications/roots/list_changed', 'notifications/tasks/status'])(
    '%s needs no scope',
    async (method) => {
      expect(await bench().ask(method, {}, as())).toEqual({ content: [] })
    },
  )

  it('C083 a path traversal does not extend a scope to another resource', async () => {
    const { ask } = bench({ scopes })
    const params = { uri: 'file:///docs/../private/b' }
    expect(await ask('resources/read', params, as('read:docs'))).toMatchObject({
      error: { code: 'SCOPE_INSUFFICIENT' },
    })
  })

  it('a subscription to a resource the caller may not read is removed', async () => {
    const { ask, seen } = bench({ scopes })
    const uris = ['file:///docs/a', 'file:///private/b', 7]
    await ask('subscriptions/listen', { notifications: { resourceSubscriptions: uris } }, as('read:docs'))
    expect(seen[0]?.params.value).toEqual({ notifications: { resourceSubscriptions: ['file:///docs/a'] } })
  })
})

describe('permissions in a list', () => {
  it('a list is unchanged without authentication', async () => {
    const { ask } = bench()
    expect(await ask('tools/list', {})).toEqual({ tools, cacheScope: 'public' })
  })

  it('a list states the required and the missing scopes of each tool', async () => {
    const result = await bench().ask('tools/list', {}, as('read:files'))
    expect(result).toMatchObject({
      tools: [
        { name: 'get_file', _meta: { 'dev.gatehouse/required_scopes': ['read:files'] } },
        {
          name: 'create_file',
          _meta: {
            'dev.gatehouse/required_scopes': ['write:files'],
            'dev.gatehouse/missing_scopes': ['write:files'],
          },
        },
        { name: 'delete_file', _meta: { 'dev.gatehouse/missing_scopes': ['delete:files'] } },
        { name: 'grant_access', _meta: { 'dev.gatehouse/missing_scopes': ['admin:files'] } },
      ],
      cacheScope: 'private',
    })
  })

  it.each([
    ['tools/list', 'tools', ['get_file']],
    ['prompts/list', 'prompts', ['summary', 'secret_summary']],
    ['resources/list', 'resources', ['a', 'b']],
    ['resources/templates/list', 'resourceTemplates', ['any']],
  ] as const)('C083 entries without permission are hidden if configured: %s', async (method, key, names) => {
    const { ask } = bench({}, { hide_unpermitted: true })
    const shown = await ask(method, {}, as('read:files'))
    expect(shown).toMatchObject({ [key]: names.map((name) => ({ name })), cacheScope: 'private' })
    expect(shown[key]).toHaveLength(names.length)
    expect((await ask(method, {}, as()))[key]).toEqual([])
  })

  it('C083 prompts by name and resources by URI are hidden without a scope for them', async () => {
    const own = { 'read:docs': ['file:///docs/**', 'summary'] }
    const { ask } = bench({ scopes: own }, { hide_unpermitted: true })
    const found = [
      ['prompts/list', 'prompts', 'summary'],
      ['resources/list', 'resources', 'a'],
      ['resources/templates/list', 'resourceTemplates', 'any'],
    ] as const
    for (const [method, key, name] of found)
      expect((await ask(method, {}, as('read:docs')))[key]).toMatchObject([{ name }])
  })

  it('entries closed by a rule are hidden, even without authentication', async () => {
    const { ask } = bench({ deny: { 'delete_*': true } }, { hide_unpermitted: true })
    const { tools: shown } = await ask('tools/list', {})
    expect(shown).toEqual(tools.filter(({ name }) => name !== 'delete_file'))
  })

  it('a hidden tool is indistinguishable from an unknown tool', async () => {
    const { ask } = bench({}, { hide_unpermitted: true })
    const [hidden, absent] = await Promise.all(
      ['delete_file', 'delete_none'].map((name) => ask('tools/call', call(name), as('read:files'))),
    )
    const words = ({ error }: Readonly<Record<string, unknown>>): string =>
      String(error).replace(/delete_\w+/, 'x')
    expect(hidden).toMatchObject({ error: { code: 'UNKNOWN_TOOL' } })
    expect(words(hidden ?? {})).toBe(words(absent ?? {}))
  })
})

describe('an anonymous caller of a gateway with authentication', () => {
  it('C064 an anonymous caller sees the list entries that need no scope, if the others are hidden', async () => {
    const { ask } = bench({ tools: { get_file: { scopes: [] } } }, { hide_unpermitted: true })
    expect(await ask('tools/list', {}, as())).toMatchObject({ tools: [{ name: 'get_file' }] })
    expect(await ask('prompts/list', {}, as())).toMatchObject({ prompts: [] })
  })

  it.each([
    ['tools/call', { name: 'get_file' }],
    ['prompts/get', { name: 'summary' }],
    ['resources/read', { uri: 'file:///docs/a' }],
  ])('C065 an anonymous caller is refused %s', async (method, params) => {
    const { ask, seen } = bench()
    expect(await ask(method, params, as())).toMatchObject({ error: { code: 'SCOPE_INSUFFICIENT' } })
    expect(seen.filter((each) => each.method === method)).toEqual([])
  })
})

describe('permissions/check', () => {
  it('CONF-002 a call permitted by a held scope is allowed', async () => {
    const params = { tool: 'get_file', scopes_held: ['read:files'] }
    expect(await bench().ask('permissions/check', params)).toEqual({ allowed: true })
  })

  it('CONF-003 exactly the missing scopes are named', async () => {
    const { ask } = bench({}, { elevate_url: 'https://idp.example.com/ask' })
    expect(await ask('permissions/check', { tool: 'delete_file', scopes_held: ['read:files'] })).toEqual({
      allowed: false,
      missing_scopes: ['delete:files'],
      missing: ['delete:files'],
      elevation_url: 'https://idp.example.com/ask',
      reason: 'Missing scope: delete:files',
    })
  })

  it('everything is allowed to unrestricted callers', async () => {
    expect(await bench().ask('permissions/check', { tool: 'delete_file' })).toEqual({ allowed: true })
  })

  it('claimed scopes are ignored for a caller whose token states its scopes', async () => {
    const params = { tool: 'delete_file', scopes_held: ['delete:files'] }
    expect(await bench().ask('permissions/check', params, as('read:files'))).toMatchObject({
      allowed: false,
      missing_scopes: ['delete:files'],
    })
  })

  it('a tool that the server does not list is unknown', async () => {
    const expected = { allowed: false, reason: 'Unknown tool: x' }
    expect(await bench().ask('permissions/check', { tool: 'x' })).toEqual(expected)
  })

  it('an aggregate accepts the exposed tool name', async () => {
    const { ask } = permissionBench({
      servers: [serverSettings(), serverSettings({ name: 'my-notes' })],
      lists,
    })
    const check = (tool: string): Promise<unknown> => ask('permissions/check', { tool }, as('read:my-notes'))
    expect(await check('my_notes_get_file')).toEqual({ allowed: true })
    expect(await check('files_get_file')).toMatchObject({ missing_scopes: ['read:files'] })
    expect(await check('get_file')).toEqual({ allowed: false, reason: 'Unknown tool: get_file' })
    expect(await check('check_permissions')).toEqual({ allowed: true })
  })

  it.each([{}, { tool: 7 }, { tool: 'x', parameters: [] }, { tool: 'x', scopes_held: 'read' }])(
    'the invalid request %j is refused',
    async (params) => {
      expect(await bench().ask('permissions/check', params)).toMatchObject({
        error: { code: 'INVALID_INPUT' },
      })
    },
  )

  it('arguments are accepted under either name, and contradicting ones are refused', async () => {
    const { ask } = bench({ deny: { '*': { path: '/private/**' } } })
    const check = (params: Readonly<Record<string, unknown>>): Promise<unknown> =>
      ask('permissions/check', { tool: 'get_file', ...params })
    const [secret, open] = [{ path: '/private/x', a: 1 }, { path: '/open/x' }]
    const denied = { allowed: false, reason: 'This call is not permitted here.' }
    expect(await check({ parameters: secret })).toEqual(denied)
    expect(await check({ arguments: secret })).toEqual(denied)
    expect(await check({ arguments: secret, parameters: { a: 1, path: '/private/x' } })).toEqual(denied)
    expect(await check({ arguments: open })).toEqual({ allowed: true })
    const asTool = { name: 'check_permissions', arguments: { tool: 'get_file', arguments: secret } }
    expect(await ask('tools/call', asTool)).toMatchObject({ structuredContent: denied })
    const deep: unknown = JSON.parse(`{"a":${'['.repeat(50_000)}${']'.repeat(50_000)}}`)
    expect(await check({ arguments: deep, parameters: deep })).toMatchObject({
      error: { code: 'INVALID_INPUT' },
    })
    for (const params of [{ arguments: secret, parameters: open }, { arguments: [] }]) {
      expect(await check(params)).toMatchObject({
        error: { code: 'INVALID_INPUT', extra: { field: 'arguments' } },
      })
    }
  })

  it('unknown members are refused, because they cannot be checked', async () => {
    const { ask } = bench()
    expect(await ask('permissions/check', { tool: 'get_file', args: {} })).toMatchObject({
      error: { code: 'INVALID_INPUT', extra: { field: 'args' } },
    })
    expect(await ask('permissions/check', { tool: 'get_file', _meta: {}, intent: 'x' })).toEqual({
      allowed: true,
    })
  })

  it('the check agrees with the actual call for any tool, scopes and arguments', async () => {
    const all = ['read:files', 'write:files', 'delete:files', 'admin:files', 'named', 'special', 'other']
    const paths = ['/private/x', '/public/x', '/public/../private/x', 'private/x', '']
    const value = fc.oneof(fc.constantFrom(...paths), fc.array(fc.constantFrom(...paths)), fc.integer())
    const args = fc.dictionary(fc.constantFrom('path', 'Path', 'to'), value)
    const name = fc.constantFrom(...tools.map((each) => each.name), 'get_none')
    const rules = {
      deny: { '*_file': { path: '/private/**' } },
      allow: { create_file: { to: '/public/**' } },
    }
    const given = {
      ...rules,
      scopes: { named: ['get_*', 'grant_*'] },
      tools: { create_file: { scopes: ['special', 'other'] } },
    }
    const benches = [false, true].map((hides) => bench(given, { hide_unpermitted: hides }))
    await fc.assert(
      fc.asyncProperty(name, fc.subarray(all), args, fc.boolean(), async (tool, held, parameters, hides) => {
        const { ask, seen } = benches[Number(hides)] ?? bench()
        const said = await ask('permissions/check', { tool, parameters }, as(...held))
        const before = seen.length
        const { error } = await ask('tools/call', call(tool, parameters), as(...held))
        expect(said.allowed).toBe(error === undefined)
        expect(seen.length - before).toBe(error === undefined ? 1 : 0)
        const details = (error as { extra?: { details?: Record<string, unknown> } } | undefined)?.extra
          ?.details
        expect(said.missing_scopes).toEqual(details?.missing_scopes)
        const { tools: shown } = await ask('tools/list', {}, as(...held))
        const listed = JSON.stringify(shown)
        const isShut = said.missing_scopes !== undefined || String(said.reason).startsWith('Unknown')
        if (hides) expect(listed.includes(`"${tool}"`)).toBe(!isShut)
      }),
      { numRuns: 300 },
    )
  })
})
