// A client's roots reach its server before its first call does.
import { mkdirSync, realpathSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { describe, expect, test } from 'vitest'
import { clientOf, folder, gatewayTo, stdioServer } from '../../support/journey.ts'
import { publishedServer } from '../../support/peers/servers.ts'

const revisions = ['2025-03-26', '2025-06-18', '2025-11-25'] as const

describe.each(revisions)('a client of %s that has roots', (revision) => {
  test('has its first call run with its roots, not with the folder of the command line', async () => {
    const own = realpathSync(folder())
    const other = join(own, 'of-the-client')
    mkdirSync(other)
    const command = publishedServer('@modelcontextprotocol/server-filesystem', own)
    const gateway = await gatewayTo({ files: { command, roots: 'client' } })
    for (let session = 0; session < 3; session++) {
      const asked: number[] = []
      const client = await clientOf(gateway, {
        revision,
        capabilities: { roots: {} },
        answers: {
          'roots/list': () => {
            asked.push(session)
            return { roots: [{ uri: pathToFileURL(other).href }] }
          },
        },
      })
      const calls = [1, 2, 3].map(() => client.request('tools/call', { name: 'list_allowed_directories' }))
      for (const { text } of await Promise.all(calls)) expect(text).toContain(other)
      expect(asked).toEqual([session])
      await client.close()
    }
  })
})

test('a server that never requests roots receives the first call after a short wait', async () => {
  const gateway = await gatewayTo({ one: stdioServer({}, { roots: 'client' }) })
  const client = await clientOf(gateway, { capabilities: { roots: {} } })
  const reply = await client.request('tools/call', { name: 'echo', arguments: { text: 'here' } })
  expect(reply.text).toContain('here')
})

test('a client that does not respond with its roots still has its calls made', async () => {
  const own = realpathSync(folder())
  const command = publishedServer('@modelcontextprotocol/server-filesystem', own)
  const gateway = await gatewayTo({ files: { command, roots: 'client' } })
  const client = await clientOf(gateway, {
    capabilities: { roots: {} },
    answers: { 'roots/list': () => new Promise(() => undefined) },
  })
  const call = { name: 'list_allowed_directories' }
  const { text } = await client.request('tools/call', call)
  expect(text).toContain(own)
})
