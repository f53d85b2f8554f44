import { describe, expect, it } from 'vitest'
import { Approvals } from '../../../../src/records/approvals.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { permissionBench } from '../../../support/permission-bench.ts'
import { serverSettings } from '../../../support/server-settings.ts'

const principal = { id: 'agent', scopes: new Set(['read:files', 'write:files', 'delete:files']) }

function bench() {
  const store = new MemoryStore()
  const { ask } = permissionBench({
    servers: [serverSettings()],
    settings: { approval: { 'delete:*': 'ask', 'write:*': 'auto' } },
    deps: { store },
  })
  const negotiate = (requested: readonly string[], who = principal) =>
    ask('permissions/negotiate', { requested_scopes: requested }, { principal: who })
  return { negotiate, approvals: new Approvals(store, Date.now) }
}

describe('a scope that requires approval', () => {
  it('the scope is not granted immediately, and the caller receives the approval page', async () => {
    const { negotiate, approvals } = bench()
    const answer = await negotiate(['read:files', 'delete:files'])
    const [approval] = await approvals.list()
    expect(approval).toMatchObject({
      caller: 'agent',
      tool: 'negotiate_scopes',
      message: 'Open a session with delete:files?',
    })
    expect(answer).toMatchObject({
      granted_scopes: ['read:files'],
      denied_scopes: [
        {
          scope: 'delete:files',
          reason: `needs approval: repeat the request once it is approved at http://127.0.0.1:8900/confirm/${approval?.id}`,
        },
      ],
      session: { scopes: ['read:files'] },
    })
  })

  it('the scope is not in the session if it is the only one requested', async () => {
    const { negotiate } = bench()
    expect(await negotiate(['delete:files'])).toMatchObject({
      granted_scopes: [],
      session: { scopes: ['read:files', 'write:files'] },
    })
  })

  it('the scope is granted once after the approval, to that caller only', async () => {
    const { negotiate, approvals } = bench()
    await negotiate(['delete:files'])
    const [approval] = await approvals.list()
    await approvals.decide(String(approval?.id), { by: 'root', via: 'command_line', verdict: 'approved' })
    expect(await negotiate(['delete:files'], { ...principal, id: 'other' })).toMatchObject({
      granted_scopes: [],
    })
    expect(await negotiate(['delete:files'])).toMatchObject({ granted_scopes: ['delete:files'] })
    expect(await negotiate(['delete:files'])).toMatchObject({ granted_scopes: [] })
  })

  it('the scope is denied once after a denial', async () => {
    const { negotiate, approvals } = bench()
    await negotiate(['delete:files'])
    const [approval] = await approvals.list()
    await approvals.decide(String(approval?.id), { by: 'root', via: 'command_line', verdict: 'denied' })
    expect(await negotiate(['delete:files'])).toMatchObject({
      denied_scopes: [{ scope: 'delete:files', reason: 'declined' }],
    })
  })

  it('no approval is requested for a scope the caller lacks', async () => {
    const { negotiate, approvals } = bench()
    const scopes = new Set(['read:files'])
    expect(await negotiate(['delete:files'], { id: 'agent', scopes })).toMatchObject({
      denied_scopes: [{ scope: 'delete:files', reason: 'not held by the caller' }],
    })
    expect(await approvals.list()).toEqual([])
  })
})
