// Suggestions for unknown tool names, over the lists of published servers.
import { mkdtempSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { connect, type FakeClient } from '../../support/fake-client.ts'
import { type RunningGateway, startGateway } from '../../support/gateway.ts'
import { publishedServer } from '../../support/peers/servers.ts'
import { type Json, objectAt } from '../../support/server/json.ts'

const none = 'List the tools to see the available ones.'
const root = realpathSync(mkdtempSync(join(tmpdir(), 'gatehouse-test-')))
let gateway: RunningGateway
const clients: Record<string, FakeClient> = {}
beforeAll(async () => {
  gateway = await startGateway({
    upstreams: {
      everything: { command: publishedServer('@modelcontextprotocol/server-everything') },
      files: { command: publishedServer('@modelcontextprotocol/server-filesystem', root) },
      memory: {
        command: publishedServer('@modelcontextprotocol/server-memory'),
        env: { MEMORY_FILE_PATH: join(root, 'memory.jsonl') },
      },
    },
  })
  for (const path of ['', '/files', '/memory'])
    clients[path] = await connect({ transport: 'http', url: `${gateway.url}${path}`, revision: '2025-11-25' })
})
afterAll(async () => {
  for (const client of Object.values(clients)) await client.close()
  await gateway.close()
  rmSync(root, { recursive: true, force: true })
})

async function suggested(path: string, name: string): Promise<Json> {
  const reply = await clients[path]?.request('tools/call', { name, arguments: {} })
  return objectAt(reply?.error ?? {}, 'data')
}

describe('an unknown tool name', () => {
  test.each([
    ['/files', 'can_perform'],
    ['/files', 'frobnicate'],
    ['/files', 'x'],
    ['', 'everything_nope'],
    ['', 'files_can_execute'],
    ['', 'memory_xyzzy'],
    ['', 'files_zzz'],
  ])('at /mcp%s gets no suggestion: %s', async (path, name) => {
    expect((await suggested(path, name))['suggestion']).toBe(none)
  })

  test.each([
    ['/files', 'raed_text_file', 'read_text_file'],
    ['/files', 'write_fil', 'write_file'],
    ['/memory', 'creat_entities', 'create_entities'],
    ['/memory', 'make_entities', 'create_entities'],
    ['', 'files_list_directry', 'files_list_directory'],
    ['', 'everything_ecko', 'everything_echo'],
    ['', 'memory_make_entities', 'memory_create_entities'],
  ])('at /mcp%s is treated as a typo: %s for %s', async (path, name, meant) => {
    const { suggestion, details } = await suggested(path, name)
    expect(suggestion).toMatch(new RegExp(`^Did you mean ${meant}\\b`))
    const recommendations: unknown = objectAt({ details }, 'details')['recommendations']
    const scores = Array.isArray(recommendations) ? recommendations.map((each) => Number(each.score)) : []
    expect(Math.max(...scores)).toBeLessThanOrEqual(1)
    expect(scores.length).toBeGreaterThan(0)
  })

  test.each([
    ['/files', 'view_file', /write|edit|move|create/],
    ['/files', 'get_directory', /write|edit|move|create/],
    ['/files', 'look_at_file', /write|edit|move|create/],
    ['/memory', 'show_entities', /create|delete|add/],
    ['/memory', 'entities', /create|delete|add/],
    ['', 'memory_relations', /create|delete|add/],
  ])('at /mcp%s never suggests a tool with a greater effect: %s', async (path, name, worse) => {
    expect((await suggested(path, name))['suggestion']).not.toMatch(worse)
  })
})
