// What a caller may do at all: the scopes that it holds, and the tools that it may call.
import { describe, expect, it } from 'vitest'
import type { Call } from '../../../../src/core/call.ts'
import { GatewayError } from '../../../../src/core/error.ts'
import { permissionBench } from '../../../support/permission-bench.ts'
import { serverSettings } from '../../../support/server-settings.ts'

const lists = {
  'tools/list': [
    { name: 'get_file', inputSchema: { type: 'object' }, annotations: { readOnlyHint: true } },
    { name: 'create_file', inputSchema: { type: 'object' } },
    { name: 'drop_file', inputSchema: { type: 'object' } },
  ],
}

const as = (...scopes: readonly string[]): Partial<Call> => ({
  principal: { id: 'alice', scopes: new Set(scopes) },
})

const files = serverSettings({
  name: 'files',
  deny: { drop_file: true, create_file: { path: '/private/**' } },
})

describe('permissions/list', () => {
  it('answers the scopes that the caller holds, and the tools that it may call with some arguments', async () => {
    const { ask } = permissionBench({ servers: [files], lists })
    expect(await ask('permissions/list', {}, as('write:files', 'read:files', 'other'))).toEqual({
      scopes_held: ['other', 'read:files', 'write:files'],
      is_limited: true,
      tools: ['get_file', 'create_file'],
    })
    expect(await ask('permissions/list', {}, as('read:files'))).toMatchObject({ tools: ['get_file'] })
    expect(await ask('permissions/list', {}, as())).toMatchObject({ scopes_held: [], tools: [] })
  })

  it('says that scopes do not limit a caller without any, for whom the rules apply alone', async () => {
    const { ask } = permissionBench({ servers: [files], lists })
    expect(await ask('permissions/list', {})).toEqual({
      scopes_held: ['admin:files', 'delete:files', 'execute:files', 'read:files', 'write:files'],
      is_limited: false,
      tools: ['get_file', 'create_file'],
      reason: 'Scopes do not limit this caller. Only what the configuration denies is not permitted.',
    })
    expect(await ask('permissions/list', { scopes_held: ['read:files'] })).toMatchObject({
      scopes_held: ['read:files'],
      is_limited: true,
      tools: ['get_file'],
    })
    expect(await ask('permissions/list', { scopes_held: 'all' })).toMatchObject({
      error: { code: 'INVALID_INPUT' },
    })
  })

  it('covers all servers at their common address, and names those that cannot be asked', async () => {
    const servers = ['one', 'two'].map((name) => serverSettings({ name }))
    const down = async (): Promise<never> => {
      throw new GatewayError('SERVER_UNAVAILABLE', 'It is down.')
    }
    const { ask } = permissionBench({ servers, lists })
    const reader = as('read:one', 'read:two')
    expect(await ask('permissions/list', {}, reader)).toMatchObject({
      tools: ['one_get_file', 'two_get_file'],
    })
    const target = { method: 'permissions/list', upstream: 'two' }
    expect(await ask('permissions/list', {}, { ...reader, target })).toMatchObject({ tools: ['get_file'] })
    const silent = permissionBench({ servers, lists, deps: { tools: down } })
    expect(await silent.ask('permissions/list', {}, reader)).toEqual({
      scopes_held: ['read:one', 'read:two'],
      is_limited: true,
      tools: [],
      unavailable_servers: ['one', 'two'],
    })
  })
})
