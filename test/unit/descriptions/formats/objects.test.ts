import { describe, expect, test } from 'vitest'
import type { ToolSettings } from '../../../../src/core/settings.ts'
import {
  listedResourceObject,
  listedToolObject,
  resourceObject,
  serverObject,
  toolObject,
  withOwnWords,
  withServerWords,
} from '../../../../src/descriptions/formats/dashdash.ts'
import {
  catalogEntry,
  draftCatalogEntry,
  manifestOf,
  serverCard,
} from '../../../../src/descriptions/formats/manifest.ts'
import { skillName } from '../../../../src/descriptions/formats/skill.ts'
import {
  fullFront,
  type Given,
  describedServer,
  describedServers,
  describedTool,
} from '../../../support/described-server.ts'

type Loose = { readonly [key: string]: Loose } & { readonly [at: number]: Loose }

function manifest(given: Given): Loose {
  return JSON.parse(JSON.stringify(manifestOf(describedServer(given))))
}

const get = { name: 'get_thing', description: 'Gets it.', inputSchema: { type: 'object' } }

describe('the version in a manifest', () => {
  test.each([
    ['1.4.2', '1.4.2', undefined],
    ['1.0', '1.0.0', '1.0'],
    ['v2', '2.0.0', 'v2'],
    ['1.2.3-beta.1', '1.2.3-beta.1', undefined],
    ['spring', '0.0.0', 'spring'],
    [undefined, '0.0.0', undefined],
  ])('version %s is written as %s', (written, version, wire) => {
    const { server, _meta: meta } = manifest({ record: { info: { version: written } } })
    expect(server?.['version']).toBe(version)
    expect(meta?.['dev.gatehouse/wire_version']).toBe(wire)
  })
})

describe('a tool in a manifest', () => {
  test('the tool has a snake_case name next to its original name', () => {
    const { tools } = manifest({ tools: [{ ...get, name: 'getThing-now' }, get] })
    expect(tools).toMatchObject([
      { name: 'get_thing_now', _meta: { 'dev.gatehouse/wire_name': 'getThing-now' } },
      { name: 'get_thing' },
    ])
    expect(tools?.[1]).not.toHaveProperty('_meta')
  })

  test.each([
    [{ p50: 12 }, 'instant'],
    [{ p50: 1000 }, 'seconds'],
    [{ p50: 60_000 }, 'minutes'],
    [{}, undefined],
  ])('the latency is the observed one: %j is %s', (seen, latency) => {
    const more = { types: ['image/png'], hasCursor: false }
    const { tools } = manifest({ tools: [get], seen: { ...more, ...seen } })
    expect(tools?.[0]?.['latency']).toBe(latency)
    expect(tools?.[0]?.['output_types']).toEqual(['image/png'])
  })

  test('cost, size and pagination are stated only if known', () => {
    const paged = {
      ...get,
      name: 'list_things',
      inputSchema: { type: 'object', properties: { pageToken: {} } },
    }
    const { tools } = manifest({
      tools: [get, paged],
      settings: {
        tools: {
          list_things: {
            cost: { category: 'metered', units: 5, label: 'credits' },
            maxInput: 10,
            latency: 'minutes',
          },
        },
      },
    })
    for (const key of ['cost', 'latency', 'quota', 'max_input_size_bytes', 'input_types', 'output_types']) {
      expect(tools?.[0]).not.toHaveProperty(key)
    }
    expect(tools?.[0]?.['supports_pagination']).toBe(false)
    expect(tools?.[1]).toMatchObject({
      cost: { category: 'metered', estimated_units: 5, unit_label: 'credits' },
      max_input_size_bytes: 10,
      latency: 'minutes',
      supports_pagination: true,
    })
  })

  test('the confirmation and the scopes of the tool are stated', () => {
    const { tools, auth } = manifest({
      tools: [{ name: 'delete_thing' }],
      facts: {
        delete_thing: {
          scopes: [['delete:files', 'admin:files']],
          confirmation: { message: 'Sure?', isOutOfBand: false },
        },
      },
    })
    expect(tools?.[0]).toMatchObject({
      description: 'delete_thing',
      input_schema: { type: 'object' },
      risk_level: 'destructive',
      requires_confirmation: true,
      confirmation_message: 'Sure?',
      required_scopes: ['delete:files'],
    })
    expect(auth?.['scopes']).toEqual([
      { name: 'delete:files', description: 'Delete or overwrite in files.', grants: ['delete_thing'] },
    ])
  })
})

test('the manifest of an unavailable server states so and keeps its tools', () => {
  const { server, tools } = manifest({ tools: [get], record: { isUp: false, about: { about: 'Things.' } } })
  expect(server?.['description']).toBe('Things. (unavailable)')
  expect(tools).toHaveLength(1)
})

test('the manifest of all servers belongs to the gateway and uses the exposed tool names', () => {
  const all = describedServers([
    { record: { name: 'one' }, tools: [get] },
    { record: { name: 'two' }, tools: [{ ...get, name: 'getIt' }] },
  ])
  expect(manifestOf(all)).toMatchObject({
    server: { name: 'gatehouse' },
    tools: [
      { name: 'one_get_thing' },
      { name: 'two_get_it', _meta: { 'dev.gatehouse/wire_name': 'two_getIt' } },
    ],
  })
})

test('the manifest contains limits per minute and per day', () => {
  const { rate_limits: limits } = manifest({
    tools: [get],
    front: { ...fullFront, rates: ['60/minute', '10/s', '30/minute', '1000/day'] },
  })
  expect(limits).toEqual({ requests_per_minute: 30, requests_per_day: 1000 })
  expect(manifest({ tools: [get] })).not.toHaveProperty('rate_limits')
})

test('the manifest contains recommendations and extensions', () => {
  const { recommendations, supported_extensions: extensions } = manifest({
    settings: {
      recommend: [
        { capability: 'wiki', server: 'confluence', registryUrl: 'https://r.example', confidence: 'high' },
      ],
    },
    front: { extensions: ['idempotency'] },
  })
  expect(recommendations).toEqual([
    {
      capability: 'wiki',
      server_name: 'confluence',
      registry_url: 'https://r.example',
      match_confidence: 'high',
    },
  ])
  expect(extensions).toEqual(['idempotency'])
})

describe('the server object', () => {
  test('the server object contains the configured texts', () => {
    const about = {
      about: 'Things.',
      emoji: '📦',
      access: 'read',
      cli: 'https://cli.example',
      api: 'https://api.example/docs',
      install: { brew: 'a/b/c' },
      requires: { auth: ['api-key'] },
      repository: 'https://github.com/a/b',
      statusPage: 'https://status.example',
    } as const
    const info = { websiteUrl: 'https://things.example' }
    expect(
      serverObject(describedServer({ record: { about, info, changedAt: 0 }, front: { rates: ['5/s'] } })),
    ).toEqual({
      specVersion: '0.2.0',
      identity: { name: 'files', description: 'Things. Use when the user asks for it.', emoji: '📦' },
      accessLevel: 'read',
      alternativeAccess: {
        cliUrl: 'https://cli.example',
        apiUrl: 'https://api.example/docs',
        webUrl: 'https://things.example',
      },
      install: {
        url: 'http://127.0.0.1:8900/mcp',
        stdio: 'gatehouse stdio --gateway-key auto http://127.0.0.1:8900/mcp',
        brew: 'a/b/c',
      },
      requires: { auth: ['api-key'] },
      invocation: { modelInvocable: true, userInvocable: true },
      rateLimit: '5/s',
      homepage: 'https://things.example',
      repository: 'https://github.com/a/b',
      statusPage: 'https://status.example',
      contentVersion: '0123456789abcdef',
      lastUpdated: '1970-01-01',
    })
  })

  test.each(['javascript:alert(1)', 'https://user:secret@things.example', 'not a url'])(
    'the server object does not adopt the link %s of a server',
    (websiteUrl) => {
      expect(
        JSON.stringify(serverObject(describedServer({ record: { info: { websiteUrl } } }))),
      ).not.toContain(websiteUrl)
    },
  )
})

test('the tool object states the undo, and equivalents only if configured', () => {
  const undo = { tool: 'delete_thing', isExact: true, description: '' }
  const tool = describedTool(
    { name: 'create_thing' },
    { undo, isIdempotentWithKey: true, rates: ['1/s'] },
    { isPrefixed: true },
  )
  expect(toolObject(tool)).toMatchObject({
    category: 'things',
    operationType: 'write',
    idempotent: false,
    idempotentWithKey: true,
    sideEffects: ['creates a thing in files'],
    reversible: true,
    reverseMethod: 'files_delete_thing',
    rateLimit: '1/s',
  })
  expect(toolObject(tool)).not.toHaveProperty('cliEquivalent')
})

describe('what is false of a tool in a list', () => {
  const listed = (definition: object, settings: ToolSettings = {}) =>
    listedToolObject(
      describedTool({ name: 'create_thing', ...definition }, {}, { settings: { tools: { '*': settings } } }),
    )

  test.each([
    ['the hint of the server', { annotations: { idempotentHint: false } }, {}, { idempotent: false }],
    ['the words of the server', { idempotent: false }, {}, { idempotent: false }],
    ['the configuration', {}, { idempotent: false }, { idempotent: false }],
    ['an undo that is none', {}, { undo: 'none' }, { reversible: false }],
    ['a tool that cannot be taken back', {}, { pivot: true }, { reversible: false }],
  ])('is said if it is known from %s', (_from, definition, settings, expected) => {
    const { idempotent, reversible } = listed(definition, settings)
    expect(JSON.parse(JSON.stringify({ idempotent, reversible }))).toEqual(expected)
  })

  test('is left out if it is only unknown', () => {
    for (const annotations of [{}, null, { idempotentHint: 'no' }]) {
      const object = listed({ annotations })
      expect(object).not.toHaveProperty('idempotent')
      expect(object).not.toHaveProperty('reversible')
    }
  })
})

describe('a resource that the configuration describes', () => {
  const resources = {
    'acme://projects/*': {
      type: 'project',
      refreshable: false,
      cache: 300_000,
      web: 'https://acme.com/app/projects/{1}?from={uri}',
      api: 'GET /api/projects/{1}',
    },
    'acme://projects/fixed': { cache: 0 },
    'acme://*/of/*': { api: 'GET /{2}/{1}/{3}' },
  }
  const server = describedServer({ settings: { resources } })

  test.each([
    [
      { uri: 'acme://projects/prj_1' },
      {
        resourceType: 'project',
        refreshable: false,
        cacheDuration: 300,
        webEquivalent: 'https://acme.com/app/projects/prj_1?from=acme://projects/prj_1',
        apiEquivalent: 'GET /api/projects/prj_1',
      },
    ],
    [{ uri: 'acme://projects/fixed' }, { cacheDuration: 0, apiEquivalent: 'GET /api/projects/fixed' }],
    [{ uriTemplate: 'acme://projects/{id}' }, { apiEquivalent: 'GET /api/projects/{id}' }],
    [
      { uri: 'notes+acme://projects/prj_1', ownUri: 'acme://projects/prj_1' },
      { apiEquivalent: 'GET /api/projects/prj_1' },
    ],
    [{ uri: 'acme://a/of/b' }, { apiEquivalent: 'GET /b/a/{3}' }],
  ])('has these words in a list: %j', (definition, expected) => {
    expect(listedResourceObject(definition, server)).toMatchObject(expected)
  })

  test('keeps what is derived where nothing fits', () => {
    expect(listedResourceObject({ uri: 'other://1' }, server)).toEqual({ resourceType: 'other' })
  })
})

test.each([
  [undefined, {}],
  [null, {}],
  [
    { identity: { name: 'acme' }, install: { npm: '@acme/mcp' }, requires: { env: ['ACME_API_KEY'] } },
    { identity: { name: 'acme' } },
  ],
])("a server's own words of itself come first, except for how it is installed: %j", (own, expected) => {
  const object = { accessLevel: 'read', identity: { name: 'files' }, install: { url: 'https://gw.example' } }
  expect(withServerWords(object, own, true)).toEqual({ ...object, ...expected })
})

test.each([
  [{ dashdash: { category: 'mine', idempotent: false } }, { category: 'mine', idempotent: false, more: 1 }],
  [{ dashdash: null }, { category: 'ours', more: 1 }],
  [{ dashdash: [1] }, { category: 'ours', more: 1 }],
  [{}, { category: 'ours', more: 1 }],
])("the server's own words come first: %j", (entry, expected) => {
  expect(withOwnWords({ category: 'ours', more: 1 }, entry, false)).toEqual(expected)
})

describe('a server that is not trusted', () => {
  const tool = { operationType: 'delete', sideEffects: ['deletes all'], rateLimit: '10/minute' }

  test.each([
    [{ operationType: 'read', reversible: true, idempotent: true, rateLimit: '1e6/s' }, {}],
    [{ idempotentWithKey: true, reverseMethod: 'undo', operationType: 'harmless' }, {}],
    [{ operationType: 'execute', reversible: false, idempotent: false }, undefined],
    [{ category: 'own', examples: [] }, undefined],
  ])('says of its tools what the gateway does not judge, and what is stricter: %j', (own, taken = own) => {
    expect(withOwnWords(tool, { dashdash: own }, false)).toEqual({ ...tool, ...taken })
    expect(withOwnWords(tool, { dashdash: own }, true)).toEqual({ ...tool, ...own })
  })

  const server = {
    specVersion: '0.2.0',
    accessLevel: 'interact',
    alternativeAccess: { cliUrl: null, apiUrl: 'https://api.example', webUrl: null },
  }
  test.each([
    [{ specVersion: '9', accessLevel: 'read', rateLimit: '1e6/s', contentVersion: 'x' }, {}],
    [{ accessLevel: 'full' }, { accessLevel: 'full' }],
    [
      { alternativeAccess: { apiUrl: 'http://10.0.0.5/internal', webUrl: 'https://acme.example' } },
      { alternativeAccess: { cliUrl: null, apiUrl: 'https://api.example', webUrl: 'https://acme.example' } },
    ],
    [{ alternativeAccess: 'http://10.0.0.5/internal' }, {}],
  ])('says of itself what the gateway does not know, and what is stricter: %j', (own, taken) => {
    expect(withServerWords(server, own, false)).toEqual({ ...server, ...taken })
    expect(withServerWords(server, own, true)).toEqual({ ...server, ...own })
  })
})

test.each([
  [{ uri: 'github://issues/1' }, 'github'],
  [{ uri: 'https://a.example/x', mimeType: 'image/png' }, 'image'],
  [{ uriTemplate: 'file:///{path}' }, 'file'],
  [{}, 'resource'],
])('the type of resource %j is %s', (definition, kind) => {
  expect(resourceObject(definition, describedServer())).toMatchObject({
    resourceType: kind,
    refreshable: false,
    cacheDuration: 0,
  })
})

test('the server card names the endpoint and requires a token if auth is on', () => {
  expect(serverCard(describedServer({ front: fullFront }))).toMatchObject({
    remotes: [
      {
        type: 'streamable-http',
        url: 'http://127.0.0.1:8900/mcp',
        headers: [{ name: 'Authorization', isSecret: true }],
      },
    ],
  })
  const cardUrl = 'https://mcp.example.com/mcp/files/server-card'
  expect(catalogEntry(describedServer(), cardUrl)).toEqual({
    identifier: 'urn:air:mcp.example.com:mcp:files',
    type: 'application/mcp-server-card+json',
    url: cardUrl,
  })
  expect(draftCatalogEntry(describedServer(), cardUrl)).toEqual({
    identifier: 'urn:air:mcp.example.com:files',
    displayName: 'files',
    type: 'application/mcp-server-card+json',
    url: cardUrl,
  })
})

test('tool names in a manifest are unique', () => {
  const given = ['get-it', 'get_it', 'getIt', 'other-one'].map((name) => ({ name }))
  const { tools, auth } = Object(manifestOf(describedServer({ tools: given })))
  const names = tools.map(({ name }: { name: string }) => name)
  expect(names).toEqual([
    expect.stringMatching(/^get_it_[0-9a-f]{8}$/),
    'get_it',
    expect.stringMatching(/^get_it_[0-9a-f]{8}$/),
    'other_one',
  ])
  expect(new Set(names).size).toBe(4)
  expect(tools[0]._meta).toEqual({ 'dev.gatehouse/wire_name': 'get-it' })
  const granted = auth.scopes.flatMap(({ grants }: { grants: string[] }) => grants)
  expect(granted.toSorted()).toEqual(names.toSorted())
})

test('skill names are unique and have single hyphens between words', () => {
  const names = ['a-b', 'a--b', 'a-b-', 'a---b'].map((name) => skillName({ name }))
  expect(names[0]).toBe('a-b')
  for (const name of names) expect(name).toMatch(/^[a-z][a-z0-9]*(?:-[a-z0-9]+)*$/)
  expect(new Set(names).size).toBe(4)
})
