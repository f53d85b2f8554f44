import { afterAll, beforeAll, expect, test } from 'vitest'
import { fakeServerCommand } from '../../support/fake-server.ts'
import { type LocalGateway, localGateway } from '../../support/local-gateway.ts'
import { type Json, objectAt } from '../../support/server/json.ts'

let gateway: LocalGateway
beforeAll(async () => {
  const { command, args } = fakeServerCommand({ revision: '2025-11-25' })
  const server = { command: [command, ...args], revision: '2025-11-25' }
  gateway = await localGateway({ listen: { aggregate: 'off' }, upstreams: { alpha: server, bravo: server } })
})
afterAll(() => gateway.close())

async function read(path: string): Promise<string> {
  const answer = await fetch(`${gateway.origin}${path}`)
  expect([path, answer.status]).toEqual([path, 200])
  return answer.text()
}

const own = (): string[] => ['alpha', 'bravo'].map((name) => `${gateway.origin}/mcp/${name}`)

test.each(['/llms.txt', '/llms-full.txt', '/ai-help', '/skills/gatehouse/SKILL.md'])(
  'with aggregation off %s directs clients to each server',
  async (path) => {
    const text = await read(path)
    for (const url of own()) expect(text).toContain(url)
    // The aggregate address serves no client.
    expect(text).not.toMatch(/\/mcp(?![/\w-])/)
    expect(text).not.toContain('alpha_echo')
    expect(text).toContain('Separate MCP endpoints for 2 servers: alpha and bravo.')
    expect(text).toContain('Use one of these servers if the request of the user matches its purpose')
    const isSkill = path.endsWith('SKILL.md')
    const [one, two] = own()
    expect(text).toContain(
      isSkill ? 'Each server has its own MCP endpoint.' : `mcp-url:\n  - ${one}\n  - ${two}\n`,
    )
  },
)

test('with aggregation off the card of the gateway names the address of each server', async () => {
  const { remotes } = JSON.parse(await read('/mcp/server-card'))
  expect(remotes.map(({ url }: Json) => url)).toEqual(own())
  const { remotes: one } = JSON.parse(await read('/mcp/alpha/server-card'))
  expect(one.map(({ url }: Json) => url)).toEqual([own()[0]])
})

test('with aggregation off the catalog contains only the cards of the servers', async () => {
  const { entries } = JSON.parse(await read('/.well-known/mcp/catalog.json'))
  expect(entries.map(({ url }: Json) => url)).toEqual(own().map((url) => `${url}/server-card`))
})

test('with aggregation off the page tells clients to add each server', async () => {
  const { sections } = JSON.parse(await read('/ai-help?format=json'))
  const servers = objectAt(objectAt(objectAt(sections, 'installation'), 'client'), 'mcpServers')
  expect(Object.values(servers).map((server) => objectAt({ server }, 'server')['url'])).toEqual(own())
})

test('with aggregation off tools of the same name are labelled with their server', async () => {
  const text = await read('/llms-full.txt')
  for (const name of ['alpha', 'bravo']) expect(text).toContain(`### echo of ${name}\n`)
  const one = await read('/ai-help?section=echo')
  expect(one).toMatch(/^## echo\n[^]*### echo of alpha\n[^]*### echo of bravo\n/)
  const { sections } = JSON.parse(await read('/ai-help?format=json&section=echo'))
  expect(sections.toolReference.map(({ server }: Json) => server)).toEqual(['alpha', 'bravo'])
  const { tools } = JSON.parse(await read('/capabilities'))
  const echoes = tools.filter(({ name }: Json) => name === 'echo')
  expect(echoes.map((tool: Json) => objectAt(tool, '_meta'))).toEqual([
    { 'dev.gatehouse/upstream': 'alpha' },
    { 'dev.gatehouse/upstream': 'bravo' },
  ])
  // A single server needs no more than the name.
  expect(await read('/ai-help/alpha?section=echo')).not.toContain(' of alpha')
})
