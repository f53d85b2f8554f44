import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { fakeServerCommand } from '../../support/fake-server.ts'
import { type RunningGateway, runCommand, startGateway } from '../../support/gateway.ts'
import { clientOf } from '../../support/journey.ts'
import { type Json, objectAt } from '../../support/server/json.ts'

const RECEIPT = 'dev.gatehouse/receipt'

const revisions = ['2025-03-26', '2025-06-18', '2026-07-28'] as const

let folder: string
let gateway: RunningGateway
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'gatehouse-test-'))
  const { command, args } = fakeServerCommand({ revision: '2026-07-28' })
  const server = { command: [command, ...args] }
  gateway = await startGateway({
    store: join(folder, 'store'),
    features: { confirm: 'off' },
    upstreams: { one: server, two: server },
  })
})
afterAll(async () => {
  await gateway.close()
  await rm(folder, { recursive: true, force: true })
})

async function call(revision: (typeof revisions)[number], tool: string, meta: Json = {}, path = '/mcp/one') {
  const client = await clientOf({ url: `${gateway.origin}${path}` }, { revision })
  const params = { name: tool, arguments: {}, _meta: { [RECEIPT]: true, ...meta } }
  return objectAt({ ...(await client.request('tools/call', params)) }, 'result')
}

async function verified(result: Json) {
  const file = join(folder, `${crypto.randomUUID()}.json`)
  await writeFile(file, JSON.stringify(result))
  const verdict = await runCommand([
    'verify',
    file,
    '--json',
    '--jwks',
    `${gateway.origin}/.well-known/jwks.json`,
  ])
  expect([verdict.code, verdict.stderr]).toEqual([0, ''])
  return JSON.parse(verdict.stdout)
}

describe('a receipt covers the content as its client received it', () => {
  it.each([
    ['2025-03-26', 'all_content', undefined],
    ['2025-06-18', 'structured_list', { result: [1, 2, 3] }],
    ['2026-07-28', 'structured_list', [1, 2, 3]],
  ] as const)('for a client of %s, with %s', async (revision, tool, structuredContent) => {
    const result = await call(revision, tool)
    expect(result['structuredContent']).toEqual(structuredContent)
    expect(await verified(result)).toMatchObject({ valid: true, content: 'fits' })
  })

  it.each(revisions)('for a client of %s, aggregated, with resources in the result', async (revision) => {
    const result = await call(revision, 'one_all_content', {}, '/mcp')
    expect(JSON.stringify(result['content'])).toContain('one+fake://static')
    expect(await verified(result)).toMatchObject({ valid: true, content: 'fits' })
  })

  it('for a replay to a client of another revision', async () => {
    const verdicts: unknown[] = []
    for (const revision of ['2026-07-28', '2025-06-18', '2026-07-28'] as const) {
      const result = await call(revision, 'structured_list', { idempotency_key: 'told-again-elsewhere' })
      verdicts.push(objectAt(await verified(result), 'claims')['was_replay'])
    }
    expect(verdicts).toEqual([false, true, true])
  })
})
