import { afterEach, describe, expect, test } from 'vitest'
import { connect } from '../../support/fake-client.ts'
import { httpServer } from '../../support/journey.ts'
import { type LocalGateway, localGateway } from '../../support/local-gateway.ts'
import { isObject, type Json } from '../../support/server/json.ts'

let gateway: LocalGateway | undefined
afterEach(async () => {
  await gateway?.close()
  gateway = undefined
})

/** Three servers, two of them with the given features. */
async function start(two: unknown, three: unknown): Promise<LocalGateway> {
  const servers = await Promise.all([httpServer(), httpServer(), httpServer()])
  const given: readonly unknown[] = [{}, two, three]
  const upstreams = Object.fromEntries(
    ['alpha', 'bravo', 'charlie'].map((name, at) => [
      name,
      { url: servers[at]?.url, revision: '2025-11-25', about: `The sea of ${name}.`, features: given[at] },
    ]),
  )
  gateway = await localGateway({ upstreams, features: { agent_profile: {}, skills: { listed: true } } })
  return gateway
}

async function read({ origin }: LocalGateway, path: string): Promise<string> {
  const answer = await fetch(`${origin}${path}`)
  expect([path, answer.status]).toEqual([path, 200])
  return answer.text()
}

const off = { manifest: 'off', help: 'off', dashdash: 'off', skills: 'off', agent_profile: 'off' }

describe.each([
  ['all features', 'none'],
  ['its descriptions', off],
] as const)('a server with %s off', (_what, features) => {
  test('is in no aggregate document', async () => {
    const started = await start(features, {})
    const paths = ['/capabilities', '/ai-help', '/llms.txt', '/llms-full.txt', '/skills/gatehouse/SKILL.md']
    for (const path of paths) {
      const text = await read(started, path)
      expect(text).toContain('alpha_echo')
      expect(text).toContain('charlie_echo')
      expect(text).not.toContain('bravo')
    }
    const card = await read(started, '/mcp/server-card')
    expect(card).toContain('charlie')
    expect(card).not.toContain('bravo')
    const cards = await read(started, '/.well-known/mcp/catalog.json')
    expect(cards).not.toContain('bravo')
    expect(JSON.parse(cards).entries.map(({ url }: Json) => new URL(String(url)).pathname)).toEqual([
      '/mcp/server-card',
      '/mcp/alpha/server-card',
      '/mcp/charlie/server-card',
    ])
  })

  test('is not named in the boundaries between servers, while others are', async () => {
    const started = await start(features, {})
    const { sections } = JSON.parse(await read(started, '/ai-help/alpha?format=json'))
    expect(sections.whenNotToUse).toEqual(['The sea of charlie (see charlie)'])
    const text = await read(started, '/ai-help/alpha')
    expect(text).toContain('Do NOT use this server for:\n\n- The sea of charlie (see charlie)')
  })

  test('is in no aggregate response to clients', async () => {
    const { url } = await start(features, {})
    const client = await connect({ transport: 'http', url, revision: '2026-07-28' })
    const asked = [
      ['server/discover', {}],
      ['skills/list', {}],
      ['prompts/get', { name: 'agent_prompt' }],
    ] as const
    for (const [method, params] of asked) {
      const { text } = await client.request(method, params)
      expect(text).toContain('charlie')
      expect(text).not.toContain('bravo')
    }
    const { text } = await client.request('resources/list')
    const skills = text.matchAll(/"skill:\/\/(\w+)\/SKILL\.md"/g)
    expect([...skills].map(([, name]) => name)).toEqual(['gatehouse', 'alpha', 'charlie'])
    const skill = async (name: string) =>
      client.request('resources/read', { uri: `skill://${name}/SKILL.md` })
    expect(await skill('charlie')).toHaveProperty('result')
    expect(await skill('bravo')).toHaveProperty('error')
    await client.close()
  })

  test('has its tools listed as it lists them', async () => {
    const { url } = await start(features, {})
    const client = await connect({ transport: 'http', url, revision: '2025-11-25' })
    const { result } = await client.request('tools/list')
    await client.close()
    const tools: readonly unknown[] = Array.isArray(result?.['tools']) ? result['tools'] : []
    const described = tools.filter(isObject).map(({ name, dashdash }) => [name, dashdash !== undefined])
    expect(described).toContainEqual(['alpha_echo', true])
    expect(described).toContainEqual(['bravo_echo', false])
    expect(described).toContainEqual(['charlie_echo', true])
  })
})

test('a feature that is off for a server removes it only from the documents of that feature', async () => {
  const started = await start({ help: 'off' }, { manifest: 'off' })
  const [help, manifest] = [await read(started, '/ai-help'), await read(started, '/capabilities')]
  expect([help.includes('bravo_echo'), help.includes('charlie_echo')]).toEqual([false, true])
  expect([manifest.includes('bravo_echo'), manifest.includes('charlie_echo')]).toEqual([true, false])
})
