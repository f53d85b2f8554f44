import { createHash } from 'node:crypto'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { beforeAll, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { isObject } from '../../../../src/core/json/json.ts'
import { validator } from '../../../../src/core/schema/schema.ts'
import { Secret } from '../../../../src/core/text/secret.ts'
import {
  agentBriefing,
  agentPrompt,
  helpOf,
  helpText,
  llmsFullText,
  llmsText,
} from '../../../../src/descriptions/formats/help.ts'
import {
  completedAnnotations,
  completedDescription,
  titleOf,
} from '../../../../src/descriptions/model/completed.ts'
import { resourceObject, serverObject, toolObject } from '../../../../src/descriptions/formats/dashdash.ts'
import { examplesOf } from '../../../../src/descriptions/model/parameters.ts'
import { manifestOf, registryEntry, serverCard } from '../../../../src/descriptions/formats/manifest.ts'
import { authNotice, headersNotice } from '../../../../src/descriptions/sections/sections.ts'
import type { ServerDescription } from '../../../../src/descriptions/model/description.ts'
import { skillOf, skillUri, stampOf } from '../../../../src/descriptions/formats/skill.ts'
import { assertions } from '../../../../src/lint/audit.ts'
import { subjectOf } from '../../../support/audited.ts'
import {
  fullFront,
  type Given,
  describedServer,
  describedServers,
} from '../../../support/described-server.ts'
import { type RealLists, realLists } from '../../../support/real-lists.ts'
import { hasSchema, schemaText } from '../../../support/published-schemas.ts'

const published = 'proposals/service-manifest.schema.json'
const canary = 'canary-5b3f0c9d1e'
const servers = ['everything', 'filesystem', 'memory'] as const
const lists = new Map<string, RealLists>()

beforeAll(async () => {
  const found = await Promise.all([
    realLists('server-everything', 'stdio'),
    realLists('server-filesystem', '/tmp'),
    realLists('server-memory'),
  ])
  servers.forEach((name, at) => void lists.set(name, found[at] ?? { ...nothing }))
}, 60_000)

const nothing = {
  info: {},
  instructions: undefined,
  capabilities: {},
  tools: [],
  prompts: [],
  resources: [],
  templates: [],
}

function given(name: string): Given {
  const { info, instructions, capabilities, tools, prompts, resources, templates } =
    lists.get(name) ?? nothing
  return {
    tools,
    record: {
      name,
      info,
      ...(instructions !== undefined && { instructions }),
      capabilities,
      prompts,
      resources,
      resourceTemplates: templates,
      changedAt: 1_790_000_000_000,
    },
    settings: {
      reach: {
        kind: 'command',
        command: 'npx',
        args: ['-y', `@modelcontextprotocol/server-${name}`, '--token', canary],
        env: { API_TOKEN: new Secret(canary) },
      },
    },
    front: fullFront,
  }
}

const subjects: readonly (readonly [name: string, () => ServerDescription])[] = [
  ...servers.map((name) => [name, () => describedServer(given(name))] as const),
  ['gatehouse', () => describedServers(servers.map(given), fullFront)],
]

function texts(described: ServerDescription): string[] {
  return [
    helpText(described),
    llmsText(described),
    llmsFullText(described),
    skillOf(described).text,
    agentBriefing(described),
    agentPrompt(described),
    authNotice(described),
    headersNotice(described),
    ...described.tools.map((tool) => completedDescription({ ...tool, isRecorded: true })),
    JSON.stringify([
      manifestOf(described),
      serverObject(described),
      described.tools.map(toolObject),
      helpOf(described, { format: 'json' }),
      registryEntry(described),
      serverCard(described),
    ]),
  ]
}

function frontOf(text: string): Record<string, unknown> {
  const [, front = ''] = /^---\n(.*?)\n---\n/s.exec(text) ?? []
  const found: unknown = parse(front)
  if (!isObject(found)) throw new Error('there is no front matter')
  return found
}

describe.each(subjects)('the documents of %s', (name, make) => {
  test('the documents are byte-identical each time', () => {
    expect(texts(make())).toEqual(texts(make()))
  })

  test('the documents contain neither the names nor the values of the variables of the server', () => {
    const all = texts(make()).join('\n')
    expect(all).not.toContain(canary)
    expect(all).not.toContain('API_TOKEN')
  })

  test.runIf(hasSchema(published))('the manifest is valid', () => {
    const ajv = new Ajv2020({ allErrors: true, strict: false, formats: { uri: true, 'date-time': true } })
    const check = ajv.compile(JSON.parse(schemaText(published)))
    const manifest = manifestOf(make())
    check(manifest)
    expect(check.errors ?? []).toEqual([])
    expect(manifest).toMatchObject({
      rate_limits: { requests_per_minute: 60, requests_per_day: 1000 },
    })
  })

  test('the scopes of the manifest grant existing tools', () => {
    const { auth, tools } = JSON.parse(JSON.stringify(manifestOf(make())))
    const names = tools.map((tool: { name: string }) => tool.name)
    expect(auth.scopes.length).toBeGreaterThan(0)
    for (const { grants } of auth.scopes) expect(names).toEqual(expect.arrayContaining(grants))
  })

  test('the server object has all required members', () => {
    const { specVersion, identity, accessLevel, alternativeAccess } = JSON.parse(
      JSON.stringify(serverObject(make())),
    )
    expect(specVersion).toBe('0.2.0')
    expect(identity.name).toMatch(/^[a-z0-9-]{1,64}$/)
    expect(identity.description).toMatch(/\bUse when the user asks to \w/)
    expect(['read', 'interact', 'full']).toContain(accessLevel)
    expect(alternativeAccess).toEqual({ cliUrl: null, apiUrl: null, webUrl: null })
  })

  test('the tool objects have all recommended members that are known', () => {
    for (const tool of make().tools) {
      const said = toolObject(tool)
      expect(said).toMatchObject({
        operationType: tool.classification.op,
        idempotent: tool.classification.idempotent,
      })
      expect(said.category).toMatch(/^[\w -]+$/)
      expect(Array.isArray(said.sideEffects) && said.sideEffects.length).toBe(
        tool.classification.op === 'read' ? 0 : 1,
      )
      expect('cliEquivalent' in said || 'apiEquivalent' in said).toBe(false)
      expect(said.errors).toEqual(
        expect.arrayContaining([expect.objectContaining({ code: 'SCOPE_INSUFFICIENT' })]),
      )
    }
  })

  test('the examples are valid for their schemas and exist for most tools', () => {
    const { tools } = make()
    const made = tools.filter((tool) => examplesOf(tool).length > 0)
    for (const tool of made) {
      const schema = isObject(tool.definition['inputSchema']) ? tool.definition['inputSchema'] : {}
      for (const { input } of examplesOf(tool))
        expect([tool.name, validator(schema)(input)]).toEqual([tool.name, []])
    }
    expect(made.length / tools.length).toBeGreaterThan(0.8)
  })

  test('the front matter of the guide agrees with the server object', () => {
    const described = make()
    const object = JSON.parse(JSON.stringify(serverObject(described)))
    for (const text of [helpText(described), llmsText(described), llmsFullText(described)]) {
      const front = frontOf(text)
      expect(Object.keys(front).slice(0, 9)).toEqual(
        'name description spec-url spec-version access-level cli-url api-url web-url mcp-url'.split(' '),
      )
      expect(front).toMatchObject({
        name: object.identity.name,
        description: object.identity.description,
        'access-level': object.accessLevel,
        'cli-url': 'none',
        'mcp-url': fullFront.endpoint,
        'content-version': object.contentVersion,
        'last-updated': '2026-09-21',
      })
      expect(front['install']).toEqual(object.install)
      expect(front['requires']).toEqual(object.requires)
    }
  })

  test('the guide has a title, a purpose and every required section', () => {
    const described = make()
    const text = helpText(described)
    expect(text).toMatch(/^---\n[^]*?\n---\n\n# \S.*\n\n> \S/)
    const wanted = [
      'When to Use',
      'Quick Reference',
      'Installation',
      'Authentication',
      'Rate Limits',
      'Error Handling',
      'Tool Reference',
      'Best Practices',
    ]
    for (const heading of wanted) expect(text).toContain(`\n## ${heading}\n`)
    for (const tool of described.tools) {
      expect(text).toContain(`\n### ${tool.name}\n`)
      expect(llmsText(described)).toContain(`\`${tool.name}\``)
    }
    expect(llmsText(described)).not.toContain('## Tool Reference')
    expect(text).toContain('"code": -32003')
  })

  test('the guide as data has the same content', () => {
    const described = make()
    const { metadata, sections, contentType } = JSON.parse(
      JSON.stringify(helpOf(described, { format: 'json' })),
    )
    expect(contentType).toBe('application/json')
    expect(metadata).toMatchObject({ name, specVersion: '0.2.0', description: described.description })
    expect(sections.whenToUse.length).toBeGreaterThan(0)
    const quick = sections.quickReference.flatMap(({ items }: { items: { tool: string }[] }) =>
      items.map(({ tool }) => tool),
    )
    expect(quick.toSorted()).toEqual(described.tools.map((tool) => tool.name).toSorted())
    expect(sections.toolReference).toHaveLength(described.tools.length)
  })

  test('the skill conforms to Agent Skills, with digest and size', () => {
    const described = make()
    const { text, frontmatter } = skillOf(described)
    const { digest, size } = stampOf(text)
    expect(frontOf(text)).toEqual(frontmatter)
    expect(frontmatter['name']).toMatch(/^[a-z0-9]+(?:-[a-z0-9]+)*$/)
    expect(String(frontmatter['description']).length).toBeLessThanOrEqual(1024)
    expect(digest).toBe(`sha256:${createHash('sha256').update(text).digest('hex')}`)
    expect(size).toBe(Buffer.byteLength(text))
    expect(skillUri(described)).toBe(`skill://${name}/SKILL.md`)
    for (const heading of ['When to Use', 'Quick Reference', 'Setup', 'Rules'])
      expect(text).toContain(`\n## ${heading}\n`)
  })

  test('the briefing has at most two kilobytes, and the instructions cover every tool', () => {
    const described = make()
    expect(Buffer.byteLength(agentBriefing(described))).toBeLessThanOrEqual(2048)
    expect(agentBriefing(described)).toMatch(/Choose it .*\n\n- .*[^]*Do not choose it[^]*Limits:\n\n- /)
    for (const tool of described.tools) expect(agentPrompt(described)).toContain(`\n### ${tool.name}\n`)
  })

  test('the server card names no tools', () => {
    const card = serverCard(make())
    expect(card['name']).toBe(`dev.gatehouse/${name}`)
    expect(String(card['description']).length).toBeLessThanOrEqual(100)
    expect(card).not.toHaveProperty('tools')
    expect(registryEntry(make())).toMatchObject({ verified: false, specVersion: '0.2.0' })
  })
})

test('resources are described', () => {
  const server = describedServer(given('memory'))
  expect(server.resources.map((each) => resourceObject(each, server))).toEqual([
    { resourceType: 'memory', refreshable: true, cacheDuration: 0 },
  ])
})

describe.each(servers)('the completed descriptions of %s', (name) => {
  test('the completed descriptions satisfy the rules', () => {
    const tools = describedServer(given(name)).tools.map((tool) => {
      const entry = { ...tool, isRecorded: true }
      return {
        ...tool.definition,
        title: titleOf(tool.definition),
        description: completedDescription(entry),
        annotations: completedAnnotations(entry),
      }
    })
    const subject = subjectOf({ tools, settings: { name } })
    const held = assertions.filter(({ id }) => ['C120', 'C122', 'C133', 'C143'].includes(id))
    expect(held).toHaveLength(4)
    for (const { id, check } of held)
      expect([id, check(subject)]).toEqual([
        id,
        expect.objectContaining({ status: expect.stringMatching(/^(?:pass|not applicable)$/) }),
      ])
  })

  test('the completed descriptions begin with the text of the server', () => {
    for (const tool of describedServer(given(name)).tools) {
      const text = completedDescription({ ...tool, isRecorded: true })
      expect(text.startsWith(tool.description)).toBe(true)
      expect(text).toMatch(/\n\nRisk: (?:low|medium|high)\b/)
    }
  })
})
