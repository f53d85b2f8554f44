// What a question says of the official server of files.
import { mkdtemp, readFile, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type LocalGateway, localGateway } from '../../support/local-gateway.ts'
import { type ConfirmingClient, eras, type Person } from '../../support/peers/confirming.ts'
import { publishedServer } from '../../support/peers/servers.ts'

const agrees: Person = () => ({ action: 'accept', content: { confirm: true } })

let gateway: LocalGateway
let home: string
beforeAll(async () => {
  home = await realpath(await mkdtemp(join(tmpdir(), 'question-')))
  const command = publishedServer('@modelcontextprotocol/server-filesystem', home)
  gateway = await localGateway({ store: 'memory', upstreams: { files: { command } } })
})
afterAll(async () => {
  await gateway.close()
  await rm(home, { recursive: true, force: true })
})

describe.each(eras)('the question to a client of the $title', ({ connect }) => {
  let client: ConfirmingClient
  beforeAll(async () => {
    client = await connect({ transport: 'http', url: `${gateway.origin}/mcp/files` }, agrees)
  })
  afterAll(() => client.close())

  it('shows the lines that differ, and the dry run of the server', async () => {
    const path = join(home, 'a.txt')
    await writeFile(path, 'one\ntwo\nthree\n')
    await client.call('write_file', { path, content: 'one\nzwei\nthree\n' })
    expect(client.asked.at(-1)?.['message']).toMatch(
      /content: 4 lines\?[^\n]*\n\nWhat would change, as read at [^\n]*:\n\n {4}content, line 2:\n {4}- two\n {4}\+ zwei$/,
    )
    await client.call('edit_file', { path, edits: [{ oldText: 'zwei', newText: 'two' }] })
    expect(client.asked.at(-1)?.['message']).toMatch(/ {4}-zwei\n {4}\+two\n/)
    expect(await readFile(path, 'utf8')).toBe('one\ntwo\nthree\n')
  })

  it('says nothing of a change where nothing reads the state before', async () => {
    const path = join(home, 'b.txt')
    await writeFile(path, 'b')
    await client.call('move_file', { source: path, destination: join(home, 'c.txt') })
    expect(client.asked.at(-1)?.['message']).not.toContain('\n')
    await rm(join(home, 'c.txt'))
  })
})
