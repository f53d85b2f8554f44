import { mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { textOf } from '../../support/client/options.ts'
import { type RunningGateway, startGateway } from '../../support/gateway.ts'
import { clientOf, codeOf } from '../../support/journey.ts'
import { publishedServer } from '../../support/peers/servers.ts'
import { objectAt } from '../../support/server/json.ts'
import { plainFeatures } from '../../support/undescribed.ts'

const root = realpathSync(mkdtempSync(join(tmpdir(), 'secret-place-')))
const upstreams = {
  files: {
    command: publishedServer('@modelcontextprotocol/server-filesystem', root),
    revision: '2025-11-25',
  },
}

let gateway: RunningGateway
let plain: RunningGateway
let strict: RunningGateway
beforeAll(async () => {
  writeFileSync(join(root, 'a.txt'), 'hello')
  const start = (features: unknown) => startGateway({ features: plainFeatures(features), upstreams })
  ;[gateway, plain, strict] = await Promise.all([
    start({ errors: { hide_details: true } }),
    start('none'),
    start({ validate: { input: 'strict' } }),
  ])
})
afterAll(async () => {
  await Promise.all([gateway.close(), plain.close(), strict.close()])
  rmSync(root, { recursive: true, force: true })
})

describe.each(['2025-11-25', '2026-07-28'] as const)(
  'the filesystem server, for a client of %s,',
  (revision) => {
    const clientTo = (of: RunningGateway) => clientOf(of, { revision, handshake: revision === '2025-11-25' })

    test('C145 receives no call of an unknown tool', async () => {
      const client = await clientTo(gateway)
      const reply = await client.request('tools/call', { name: 'nope', arguments: {} })
      expect(reply.error).toMatchObject({
        code: -32602,
        message: 'Unknown tool: nope',
        data: { code: 'UNKNOWN_TOOL' },
      })
    })

    test('judges the arguments itself', async () => {
      const replies = [gateway, plain].map(async (of) => {
        const client = await clientTo(of)
        return client.request('tools/call', { name: 'read_text_file', arguments: { path: 7 } })
      })
      const [judged, direct] = await Promise.all(replies)
      expect(judged?.result).toMatchObject({ isError: true, content: Object(direct?.result).content })
      expect(judged?.text).toMatch(/Invalid arguments for tool read_text_file/)
    })

    test('C146 C149 receives no call with invalid arguments if validation is strict', async () => {
      const client = await clientTo(strict)
      const reply = await client.request('tools/call', { name: 'read_text_file', arguments: { path: 7 } })
      expect(reply.result).toMatchObject({
        isError: true,
        error: { code: 'INVALID_INPUT', field: 'path', reason: 'type' },
      })
      expect(reply.result).not.toHaveProperty('structuredContent')
    })

    test('C183 keeps the paths of the caller in its errors, and no others', async () => {
      const client = await clientTo(gateway)
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
      const client = await clientTo(gateway)
      const reply = await client.request('tools/call', {
        name: 'read_text_file',
        arguments: { path: join(root, 'a.txt') },
      })
      expect(textOf(reply)).toBe('hello')
      expect(objectAt(reply.result, 'structuredContent')).toEqual({ content: 'hello' })
    })

    test('is relayed unchanged without features', async () => {
      const client = await clientTo(plain)
      const reply = await client.request('tools/call', { name: 'nope', arguments: {} })
      expect(reply.result).toMatchObject({ isError: true })
      expect(textOf(reply)).toContain('MCP error -32602')
      expect(reply.result).not.toHaveProperty('error')
    })
  },
)
