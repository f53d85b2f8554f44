import { afterAll, beforeAll, expect, it } from 'vitest'
import { tokenHash } from '../../support/auth/token-hash.ts'
import { post } from '../../support/client/raw.ts'
import { type FakeServer, startFakeServer } from '../../support/fake-server.ts'
import { modern } from '../../support/fronts.ts'
import { localGateway, type LocalGateway } from '../../support/local-gateway.ts'

const tokens = ['may', 'may-not'].map((id) => ({
  id,
  hash: tokenHash(tokenOf(id)),
  scopes: id === 'may' ? ['mirrored'] : ['other'],
}))

function tokenOf(id: string): string {
  return `a-token-of-at-least-32-characters-${id}`
}

let fake: FakeServer
let gateway: LocalGateway
beforeAll(async () => {
  fake = await startFakeServer({ revision: '2026-07-28', transport: 'http' })
  gateway = await localGateway({
    auth: { opaque: { tokens } },
    features: { permissions: { hide_unpermitted: true } },
    upstreams: { fake: { url: fake.url, tools: { headers: { scopes: 'mirrored' } } } },
  })
})
afterAll(async () => {
  await gateway.close()
  await fake.close()
})

/** Calls a tool with an argument that must be mirrored in a header, without the header. */
async function callOf(name: string, who: string): Promise<{ status: number; text: string }> {
  const { message, headers } = modern('tools/call', { name, arguments: { region: 'eu' } })
  const authorization = `Bearer ${tokenOf(who)}`
  const { status, text } = await post(gateway.url, JSON.stringify(message), { ...headers, authorization })
  return { status, text: text.replaceAll(name, 'NAME').replaceAll(/"request_?[iI]d":"[^"]*"/g, '') }
}

it('C083 a missing header reveals no tool that is hidden from its caller', async () => {
  const hidden = await callOf('headers', 'may-not')
  expect(hidden).toEqual(await callOf('nothing', 'may-not'))
  expect(hidden.text).toContain('UNKNOWN_TOOL')
})

it('a missing header is reported to callers with permission for the tool', async () => {
  expect(await callOf('headers', 'may')).toMatchObject({
    status: 400,
    text: expect.stringContaining('HEADER_MISMATCH'),
  })
})
