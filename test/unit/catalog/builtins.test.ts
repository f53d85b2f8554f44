import { describe, expect, it } from 'vitest'
import { type Bench, permissionBench } from '../../support/permission-bench.ts'
import { serverSettings } from '../../support/server-settings.ts'

const theirs = { name: 'check_permissions', inputSchema: { type: 'object' } }

function bench(
  metaTools: 'hidden' | 'listed' | 'off',
  tools: readonly Readonly<Record<string, unknown>>[] = [{ name: 'get_file' }],
  names: readonly string[] = ['files'],
): Bench {
  const servers = names.map((name) => serverSettings({ name }))
  return permissionBench({ servers, lists: { 'tools/list': tools }, metaTools })
}

async function listed({ ask }: Bench): Promise<unknown[]> {
  const { tools } = await ask('tools/list', {})
  return Array.isArray(tools) ? tools.map((tool: { name?: unknown }) => tool.name) : []
}

const checking = { name: 'check_permissions', arguments: { tool: 'get_file' } }

describe('a built-in tool', () => {
  it('a built-in tool can be called without being listed', async () => {
    const { ask, seen } = bench('hidden')
    expect(await listed(bench('hidden'))).toEqual(['get_file'])
    expect(await ask('tools/call', checking)).toEqual({
      content: [{ type: 'text', text: '{"allowed":true}' }],
      structuredContent: { allowed: true },
      allowed: true,
    })
    expect(seen).toHaveLength(0)
  })

  it('a built-in tool is listed after the tools of the server when listing is enabled', async () => {
    expect(await listed(bench('listed'))).toEqual(['get_file', 'check_permissions', 'negotiate_scopes'])
  })

  it('a built-in tool is listed once in an aggregate of servers', async () => {
    const together = bench('listed', [{ name: 'get_file' }], ['one', 'two'])
    const own = ['check_permissions', 'negotiate_scopes']
    expect(await listed(together)).toEqual(['one_get_file', 'two_get_file', ...own])
  })

  it('a built-in tool that is off is passed on to the server', async () => {
    const { ask, seen } = bench('off')
    expect(await ask('tools/call', checking)).toEqual({ content: [] })
    expect(seen).toHaveLength(1)
  })

  it('a built-in tool yields its name to a server tool and is then called with a prefix', async () => {
    const both = bench('listed', [theirs])
    const own = ['gateway_check_permissions', 'negotiate_scopes']
    expect(await listed(both)).toEqual(['check_permissions', ...own])
    expect(await both.ask('tools/call', checking)).toEqual({ content: [] })
    expect(both.seen).toHaveLength(2)
    const answer = await both.ask('tools/call', {
      name: 'gateway_check_permissions',
      arguments: { tool: 'check_permissions' },
    })
    expect(answer).toMatchObject({ structuredContent: { allowed: true } })
    expect(both.seen).toHaveLength(2)
  })

  it('a built-in tool fails with an error result, and the method of the same name with a protocol error', async () => {
    const { ask } = bench('hidden')
    expect(await ask('permissions/check', {})).toMatchObject({ error: { code: 'INVALID_INPUT' } })
    const failed = await ask('tools/call', { name: 'check_permissions', arguments: {} })
    expect(failed).toMatchObject({
      isError: true,
      error: { code: 'INVALID_INPUT', category: 'invalid_input' },
      _meta: { 'dev.gatehouse/error': { code: 'INVALID_INPUT' } },
    })
    expect(failed).not.toHaveProperty('structuredContent')
  })

  it('a built-in method is answered by the gateway and never forwarded', async () => {
    const { ask, seen } = bench('off')
    expect(await ask('permissions/check', { tool: 'get_file' })).toEqual({ allowed: true })
    expect(seen).toHaveLength(0)
    const target = { method: 'gateway/none', isBuiltin: true } as const
    expect(await ask('gateway/none', {}, { target })).toMatchObject({
      error: { code: 'UNSUPPORTED_OPERATION' },
    })
    expect(seen).toHaveLength(0)
  })
})

const asked = { name: 'can_execute', arguments: { tool: 'get_file', scopes_held: [] } }

describe('another name of a built-in', () => {
  it('is called like the tool, at one server and at several, and is in no list', async () => {
    const { ask } = bench('hidden')
    const answer = { structuredContent: { allowed: false, missing_scopes: ['read:files'] } }
    expect(await ask('tools/call', asked)).toMatchObject(answer)
    expect(await ask('tools/call', { ...asked, name: 'gateway_can_execute' })).toMatchObject(answer)
    const two = bench('hidden', [{ name: 'get_file' }], ['one', 'two'])
    const arguments_ = { tool: 'two_get_file', scopes_held: [] }
    expect(await two.ask('tools/call', { ...asked, arguments: arguments_ })).toMatchObject({
      structuredContent: { missing_scopes: ['read:two'] },
    })
    expect(await listed(bench('listed'))).not.toContain('can_execute')
  })

  it('is called like the method, as is the name of the tool', async () => {
    const { ask, seen } = bench('hidden')
    for (const method of ['can_execute', 'check_permissions'])
      expect(await ask(method, asked.arguments)).toMatchObject({ missing_scopes: ['read:files'] })
    expect(await ask('negotiate_scopes', {})).toMatchObject({ error: { code: 'INVALID_INPUT' } })
    expect(seen).toHaveLength(0)
  })

  it('yields as tool and as method to a tool of a server', async () => {
    const { ask, seen } = bench('listed', [{ name: 'can_execute' }])
    expect(await ask('tools/call', asked)).toEqual({ content: [] })
    expect(await ask('can_execute', asked.arguments)).toEqual({ content: [] })
    expect(seen.map(({ method, target }) => [method, target.name])).toEqual([
      ['tools/call', 'can_execute'],
      ['can_execute', undefined],
    ])
    expect(await ask('tools/call', { ...asked, name: 'gateway_can_execute' })).toMatchObject({
      structuredContent: { reason: 'Unknown tool: get_file' },
    })
  })

  it('is off with the tool, and with the method', async () => {
    const off = bench('off')
    expect(await off.ask('tools/call', asked)).toEqual({ content: [] })
    const without = permissionBench({
      servers: [serverSettings({ name: 'files' })],
      lists: { 'tools/list': [{ name: 'get_file' }] },
      hasMethods: false,
    })
    expect(await without.ask('can_execute', asked.arguments)).toEqual({ content: [] })
    expect(without.seen).toHaveLength(1)
  })
})
