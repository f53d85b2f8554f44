import { mkdirSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { textOf } from '../../support/client/options.ts'
import { clientOf, codeOf, folder, gatewayTo } from '../../support/journey.ts'
import { objectAt } from '../../support/server/json.ts'

const manifest = createRequire(import.meta.url).resolve(
  '@modelcontextprotocol/server-filesystem/package.json',
)
const program = join(dirname(manifest), 'dist/index.js')

async function files(revision: '2025-11-25' | '2026-07-28', features?: unknown) {
  const root = join(folder(), 'secret-place')
  mkdirSync(root)
  writeFileSync(join(root, 'a.txt'), 'hello')
  const upstreams = { files: { command: [process.execPath, program, root] } }
  const gateway = await gatewayTo(upstreams, features === undefined ? {} : { config: { features } })
  return { root, client: await clientOf(gateway, { revision, handshake: revision === '2025-11-25' }) }
}

describe.each(['2025-11-25', '2026-07-28'] as const)(
  'the filesystem server, for a client of %s,',
  (revision) => {
    test('C145 receives no call of an unknown tool', async () => {
      const { client } = await files(revision)
      const reply = await client.request('tools/call', { name: 'nope', arguments: {} })
      expect(reply.error).toMatchObject({
        code: -32602,
        message: 'Unknown tool: nope',
        data: { code: 'UNKNOWN_TOOL' },
      })
    })

    test('C146 C149 receives no call with invalid arguments', async () => {
      const { client } = await files(revision)
      const reply = await client.request('tools/call', { name: 'read_text_file', arguments: { path: 7 } })
      expect(reply.result).toMatchObject({
        isError: true,
        error: { code: 'INVALID_INPUT', field: 'path', reason: 'type' },
      })
      expect(reply.result).not.toHaveProperty('structuredContent')
    })

    test('C183 keeps the paths of the caller in its errors, and no others', async () => {
      const { client, root } = await files(revision)
      const outside = await client.request('tools/call', {
        name: 'read_text_file',
        arguments: { path: '/etc/hostname' },
      })
      expect(outside.result).toMatchObject({ isError: true })
      expect(textOf(outside)).toContain('/etc/hostname')
      expect(outside.text).not.toContain('secret-place')
      const missing = await client.request('tools/call', {
        name: 'read_text_file',
        arguments: { path: join(root, 'b.txt') },
      })
      expect(codeOf(missing)).toBe('RESOURCE_NOT_FOUND')
      expect(textOf(missing)).toContain(join(root, 'b.txt'))
    })

    test('C148 works as before', async () => {
      const { client, root } = await files(revision)
      const reply = await client.request('tools/call', {
        name: 'read_text_file',
        arguments: { path: join(root, 'a.txt') },
      })
      expect(textOf(reply)).toBe('hello')
      expect(objectAt(reply.result, 'structuredContent')).toEqual({ content: 'hello' })
    })

    test('is relayed unchanged without features', async () => {
      const { client } = await files(revision, 'none')
      const reply = await client.request('tools/call', { name: 'nope', arguments: {} })
      expect(reply.result).toMatchObject({ isError: true })
      expect(textOf(reply)).toContain('MCP error -32602')
      expect(reply.result).not.toHaveProperty('error')
    })
  },
)
