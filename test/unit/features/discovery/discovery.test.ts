import { Ajv2020 } from 'ajv/dist/2020.js'
import { describe, expect, it } from 'vitest'
import type { Call } from '../../../../src/core/call.ts'
import { GatewayError, unknownTool } from '../../../../src/core/error.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { discovery } from '../../../../src/features/discovery/discovery.ts'
import type { DiscoverySettings } from '../../../../src/features/settings/upstream.ts'
import { featureDeps, type ServiceStubs } from '../../../support/feature-deps.ts'
import { type Shelf, shelves } from '../../../support/shelf.ts'
import { toolCall } from '../../../support/tool-call.ts'
import { hasSchema, schemaText } from '../../../support/published-schemas.ts'

const servers: Readonly<Record<string, Shelf>> = {
  files: {
    tools: [
      { name: 'read_text_file', description: 'Read the complete contents of a file as text.' },
      { name: 'write_file', description: 'Write a file.' },
    ],
    settings: {
      recommend: [
        {
          capability: 'team wiki',
          server: 'confluence',
          registryUrl: 'https://wiki.example',
          confidence: 'medium',
        },
        { capability: 'time travel', server: 'delorean', confidence: 'high' },
      ],
    },
  },
  graph: {
    tools: [
      { name: 'create_entities', description: 'Create entities in the knowledge graph.' },
      { name: 'delete_entities', description: 'Delete entities from the knowledge graph.' },
    ],
    record: { about: { about: 'Remembers facts about people.', useWhen: ['somebody is to be remembered'] } },
  },
}

type Found = Readonly<Record<string, unknown>>

function feature(own: Partial<DiscoverySettings> = {}, given: ServiceStubs = {}) {
  const deps = featureDeps({ ...shelves(servers), ...given })
  return discovery.create(() => ({ registry: 'off', publishers: [], ...own }), deps)
}

/** The recommendations of a server, or of the aggregate. */
async function asked(
  params: object,
  own: Partial<DiscoverySettings> = {},
  given: ServiceStubs = {},
  upstream?: string,
): Promise<readonly Found[]> {
  const target = { method: 'servers/recommend', ...(upstream !== undefined && { upstream }) }
  const call = toolCall({ method: target.method, target, params: Payload.of(params) })
  const outcome = await feature(own, given).builtins?.methods?.['servers/recommend']?.(call)
  if (outcome?.kind !== 'result') throw new Error('there is no answer')
  return outcome.result.fields['recommendations'] as readonly Found[]
}

describe('servers/recommend', () => {
  it('configured recommendations come first, then the servers of this gateway with matching tools', async () => {
    expect(await asked({ capability_needed: 'our wiki, for facts about the team' })).toEqual([
      {
        capability: 'our wiki, for facts about the team',
        server: 'confluence',
        server_name: 'confluence',
        registry_url: 'https://wiki.example',
        match_confidence: 'medium',
        score: 0.65,
      },
      expect.objectContaining({ server: 'graph', registry_url: 'http://127.0.0.1:8900/mcp/graph' }),
    ])
    const [found] = await asked({ capability_needed: 'create entities' }, {}, {}, 'files')
    expect(found).toMatchObject({ server: 'graph', server_name: 'graph', match_confidence: 'high' })
    expect(found?.['tools']).toEqual(['create_entities', 'delete_entities'])
  })

  it('a server is not recommended to itself, and an unknown capability has no recommendation', async () => {
    expect(await asked({ capability_needed: 'create entities' }, {}, {}, 'graph')).toEqual([])
    expect(await asked({ capability_needed: 'zymurgy' })).toEqual([])
    expect(await asked({ capability: 'zymurgy' })).toEqual([])
  })

  it('the response is valid for the published schema', async () => {
    const path = 'proposals/service-manifest.schema.json'
    if (!hasSchema(path)) return
    const schema = JSON.parse(schemaText(path)) as { readonly $defs: Found }
    const validate = new Ajv2020({ strict: false, validateFormats: false }).compile({
      ...Object(schema.$defs['ServerRecommendation']),
    })
    const found = await asked({ capability_needed: 'time travel with entities' })
    expect(found.map(({ server }) => server)).toEqual(['delorean', 'graph'])
    for (const each of found) expect([validate(each), validate.errors]).toEqual([true, null])
  })

  it.each([
    [{}],
    [{ capability_needed: 7 }],
    [{ capability_needed: ' ' }],
    [{ capability_needed: 'x'.repeat(501) }],
  ])('the request %j is refused', async (params) => {
    await expect(asked(params)).rejects.toMatchObject({ code: 'INVALID_INPUT' })
  })

  it('tools the caller may not call are not named', async () => {
    const isPermitted = async ({ target }: Call): Promise<boolean> => target.name !== 'delete_entities'
    const [found] = await asked({ capability_needed: 'entities' }, {}, { isPermitted })
    expect(found?.['tools']).toEqual(['create_entities'])
    expect(await asked({ capability_needed: 'entities' }, {}, { isPermitted: async () => false })).toEqual([])
  })

  it('recommendations are also available as a tool and as a page', async () => {
    const { builtins: { tools = [] } = {}, http: { pages = [] } = {} } = feature()
    const args = { capability_needed: 'entities' }
    const outcome = await tools[0]?.handle(toolCall({ params: Payload.of({ name: 'x', arguments: args }) }))
    const page = await pages[0]?.handle(toolCall({ params: Payload.of({ capability: 'entities' }) }))
    if (outcome?.kind !== 'result' || page?.kind !== 'result') throw new Error('there is no answer')
    const { structuredContent } = outcome.result.fields
    expect([tools[0]?.definition.name, pages[0]?.path]).toEqual(['recommend_servers', '/recommend_servers'])
    expect(JSON.parse(String(page.result.fields['text']))).toEqual(structuredContent)
    expect(page.result.fields['type']).toBe('application/json')
  })
})

describe('recommendations from a registry', () => {
  const registry = 'https://registry.example/'
  const listed = {
    servers: [
      { server: { name: 'io.github.good/weather', description: 'The weather of a place' } },
      { server: { name: 'io.github.good/old-weather', description: 'Weather' }, _meta: gone('deleted') },
      { server: { name: 'io.github.bad/weather', description: 'weather weather weather' } },
      { server: { name: '<script>/weather', description: 'weather' } },
      { name: 'com.example/weather-of-old-form', description: 'weather' },
      'nonsense',
    ],
  }
  const reading = (answer: () => Promise<Found>) => {
    const urls: string[] = []
    const fetchJson = (url: string): Promise<Found> => {
      urls.push(url)
      return answer()
    }
    return { urls, fetchJson }
  }

  it('the registry is queried only if it is configured with publishers', async () => {
    const { urls, fetchJson } = reading(async () => listed)
    await asked({ capability_needed: 'weather' }, {}, { fetchJson })
    await asked({ capability_needed: 'weather' }, { publishers: ['*'] }, { fetchJson })
    await asked({ capability_needed: 'weather' }, { registry }, { fetchJson })
    expect(urls).toEqual([])
    expect(await feature({ registry }).problems?.()).toEqual([
      expect.objectContaining({ path: ['features', 'discovery', 'registry'] }),
    ])
    expect(await feature({ registry, publishers: '*' }).problems?.()).toEqual([])
  })

  it('servers of allowed publishers are recommended, and equal queries are cached', async () => {
    const { urls, fetchJson } = reading(async () => listed)
    const deps = featureDeps({ ...shelves(servers), fetchJson })
    const { builtins } = discovery.create(() => ({ registry, publishers: ['io.github.good', 'com.*'] }), deps)
    const target = { method: 'servers/recommend' }
    const params = Payload.of({ capability_needed: 'show the weather' })
    const call = toolCall({ method: target.method, target, params })
    const first = await builtins?.methods?.['servers/recommend']?.(call)
    const again = await builtins?.methods?.['servers/recommend']?.(call)
    expect(urls).toEqual(['https://registry.example/v0.1/servers?search=weather&version=latest&limit=50'])
    if (first?.kind !== 'result' || again?.kind !== 'result') throw new Error('there is no answer')
    expect(again.result.text).toBe(first.result.text)
    const found = first.result.fields['recommendations'] as readonly Found[]
    expect(new Set(found.map(({ server }) => server))).toEqual(
      new Set(['com.example/weather-of-old-form', 'io.github.good/weather']),
    )
    expect(found).toHaveLength(2)
    expect(found.find(({ server }) => server === 'io.github.good/weather')?.['registry_url']).toBe(
      'https://registry.example/v0.1/servers/io.github.good%2Fweather/versions/latest',
    )
  })

  it('a failing or invalid registry yields no recommendations', async () => {
    const failing = reading(() => Promise.reject(new Error('down')))
    const own = { registry, publishers: ['*'] }
    expect(await asked({ capability_needed: 'weather' }, own, failing)).toEqual([])
    expect(
      await asked(
        { capability_needed: 'weather' },
        own,
        reading(async () => ({ servers: 7 })),
      ),
    ).toEqual([])
  })
})

describe('suggestions for an unknown tool', () => {
  const target = (name: string, upstream?: string) => ({
    method: 'tools/call',
    name,
    ...(upstream !== undefined && { upstream }),
  })

  async function failed(name: string, upstream?: string, given: ServiceStubs = {}): Promise<GatewayError> {
    const handle = feature({}, given).responseMiddleware?.('tools/call')?.(() =>
      Promise.reject(unknownTool(name)),
    )
    const call = toolCall({ target: target(name, upstream), params: Payload.of({ name }) })
    const thrown: unknown = await handle?.(call).catch((error: unknown) => error)
    if (thrown instanceof GatewayError) return thrown
    throw new Error('it did not fail')
  }

  it('similar tools of the same server are suggested', async () => {
    const typed = await failed('raed_text_file', 'files')
    expect(typed.data).toMatchObject({
      code: 'UNKNOWN_TOOL',
      suggestion: expect.stringMatching(/^Did you mean read_text_file/),
      details: {
        recommendations: [
          {
            recommended_tool: 'read_text_file',
            server: 'files',
            server_name: 'files',
            match_confidence: 'high',
          },
          ...Array.from({ length: typed.data['suggestion'] === 'Did you mean read_text_file?' ? 0 : 1 }, () =>
            expect.anything(),
          ),
        ],
      },
    })
    expect((await failed('add_entity', 'graph')).extra.suggestion).toBe('Did you mean create_entities?')
    expect((await failed('add_entity', 'files')).extra.suggestion).toBe(
      'List the tools to see the available ones.',
    )
  })

  it('an aggregate suggests tools of all servers by their exposed names', async () => {
    expect((await failed('graph_make_entities')).extra.suggestion).toMatch(
      /^Did you mean graph_create_entities/,
    )
    expect((await failed('read_the_text')).extra.suggestion).toMatch(/^Did you mean files_read_text_file/)
  })

  it('tools the caller may not call are not suggested', async () => {
    const isPermitted = async (): Promise<boolean> => false
    const { extra } = await failed('raed_text_file', 'files', { isPermitted })
    expect([extra.suggestion, extra.details]).toEqual([
      'List the tools to see the available ones.',
      undefined,
    ])
  })

  it('suggestions are fast for any name and number of tools', async () => {
    const tools = Array.from({ length: 500 }, (_, at) => ({
      name: `tool_number_${at}_of_many_of_them`,
      title: 'x',
    }))
    const given = shelves({ many: { tools } })
    const started = performance.now()
    await failed('tool_number_x_of_many_of_thex', 'many', given)
    await failed('x'.repeat(100_000), 'many', given)
    await failed('tool_'.repeat(20_000), 'many', given)
    expect(performance.now() - started).toBeLessThan(2000)
  })

  it('other failures and results are unchanged', async () => {
    const failure = new GatewayError('UPSTREAM_ERROR', 'It failed.')
    const shown = feature().responseMiddleware?.('tools/call')
    const call = toolCall({ target: target('read_text_fil', 'files') })
    await expect(shown?.(() => Promise.reject(failure))(call)).rejects.toBe(failure)
    const result = { kind: 'result', result: Payload.text('{"content":[]}') } as const
    expect(await shown?.(async () => result)(call)).toBe(result)
  })
})

function gone(status: string): Found {
  return { 'io.modelcontextprotocol.registry/official': { status } }
}
