import { createHash } from 'node:crypto'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { SkillsClient } from '@modelcontextprotocol/client/ext/skills'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { localGateway, type LocalGateway } from '../../support/local-gateway.ts'
import { type ScriptedServer, scriptedServer } from '../../support/scripted-server.ts'

const text = '---\nname: git\ndescription: Works with git.\n---\n\n# Git\n'
const uri = 'skill://acme/git/SKILL.md'
const digest = `sha256:${createHash('sha256').update(text).digest('hex')}`
const skill = {
  uri,
  frontmatter: { name: 'git', description: 'Works with git.' },
  resources: [{ uri, digest, size: text.length }],
}

let hub: ScriptedServer
let plain: ScriptedServer
let gateway: LocalGateway

beforeAll(async () => {
  const capabilities = { resources: {}, extensions: { 'io.modelcontextprotocol/skills': {} } }
  hub = await scriptedServer(capabilities, {
    'skills/list': () => ({ skills: [skill], ttlMs: 1, cacheScope: 'public' }),
    'skills/get': () => ({ skill, ttlMs: 1, cacheScope: 'public' }),
    'resources/list': () => ({ resources: [] }),
    'resources/templates/list': () => ({ resourceTemplates: [] }),
    'resources/read': ({ params }) => ({
      contents: [{ uri: params['uri'], mimeType: 'text/markdown', text }],
    }),
  })
  plain = await scriptedServer({ tools: {} }, { 'tools/list': () => ({ tools: [] }) })
  gateway = await localGateway({ upstreams: { hub: { url: hub.url }, plain: { url: plain.url } } })
})
afterAll(async () => {
  await gateway.close()
  await Promise.all([hub.close(), plain.close()])
})

describe.each(['legacy', { pin: '2026-07-28' }] as const)('a host in era %o', (mode) => {
  test.each([
    ['/mcp', 'skill://hub/acme/git/SKILL.md', ['gatehouse', 'hub', 'plain', 'git']],
    ['/mcp/hub', uri, ['hub', 'git']],
  ] as const)(
    'reads and verifies at %s the skills that a server publishes itself',
    async (path, known, names) => {
      const client = new Client({ name: 'host', version: '1.0.0' }, { versionNegotiation: { mode } })
      await client.connect(new StreamableHTTPClientTransport(new URL(`${gateway.origin}${path}`)))
      const skills = new SkillsClient(client)
      const { skills: listed } = await skills.list()
      expect(listed.map(({ frontmatter }) => frontmatter.name)).toEqual(names)
      const { skill: found } = await skills.get(known)
      expect(found.resources).toEqual([{ uri: known, digest, size: text.length }])
      expect(await skills.read(found)).toMatchObject({ verified: true, text, uri: known })
      await client.close()
    },
  )
})
