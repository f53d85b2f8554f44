// Data that travels beside the model: results of one published server as arguments of another, by unchanged clients of the
// official SDKs.
import { createHash } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type RunningGateway, startGateway } from '../../support/gateway.ts'
import { bothEras } from '../../support/peers/clients.ts'
import { twoFolders } from '../../support/two-folders.ts'

const LINES = 100_000

let folders: ReturnType<typeof twoFolders>
let root = ''
let gateway: RunningGateway

beforeAll(async () => {
  folders = twoFolders()
  root = folders.root
  const lines = Array.from(
    { length: LINES },
    (_none, index) => `${index + 1} ${'x'.repeat(90)} ${index === 77_777 ? 'needle' : ''}`,
  )
  writeFileSync(join(root, 'one/large.log'), lines.join('\n'))
  gateway = await startGateway({
    store: join(root, 'store'),
    features: { references: 'on', confirm: 'off', validate: 'on' },
    upstreams: folders.servers,
  })
})
afterAll(async () => {
  await gateway.close()
  folders.remove()
})

describe.each(bothEras)('a log of 10 MB with $title', ({ connect }) => {
  it('is searched, and written by another server, without passing through the client', async () => {
    const client = await connect({ transport: 'http', url: gateway.url })
    try {
      const read = await client.call('one_read_text_file', { path: join(root, 'one/large.log') })
      expect(read.isError).toBe(false)
      const [, uri = ''] = /(ref:\/\/ref_[0-9a-f]+)/.exec(read.text) ?? []
      const found = await client.call('read_reference', { ref: uri, search: 'needle' })
      expect(found.text).toMatch(/^77778: /)
      // The page around what was found is as large as a model wants it.
      const row = Number(/^\d+/.exec(found.text)?.[0])
      const rows = `${row - 1}-${row + 1}`
      const slice = await client.call('read_reference', { ref: uri, rows })
      expect(slice.text).toMatch(/^77777 x+ \n77778 x+ needle\n77779 x+ \n$/)
      const path = join(root, 'two/copy.log')
      const written = await client.call('two_write_file', { path, content: uri })
      expect(written).toMatchObject({ isError: false })
      const sum = (file: string): string => createHash('sha256').update(readFileSync(file)).digest('hex')
      expect(sum(path)).toBe(sum(join(root, 'one/large.log')))
      const text = [read, found, slice, written].map((each) => each.text).join('')
      // A token has about four characters.
      expect(text.length).toBeLessThan(4 * 300)
      expect((await client.read(`${uri}?rows=2`)).startsWith('2 x')).toBe(true)
    } finally {
      await client.close()
    }
  })
})
