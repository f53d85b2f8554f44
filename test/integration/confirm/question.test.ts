// What a question says of the official server of files, and which calls of it need none, because they are undone exactly.
import { mkdtemp, readFile, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { runCommand, type RunningGateway, startGateway } from '../../support/gateway.ts'
import {
  type ConfirmingClient,
  type Connect,
  connectModern,
  eras,
  type Person,
} from '../../support/peers/confirming.ts'
import { publishedServer } from '../../support/peers/servers.ts'
import { alone } from '../../support/scattered.ts'
import type { Json } from '../../support/server/json.ts'

const agrees: Person = () => ({ action: 'accept', content: { confirm: true } })
const confirmation = 'dev.gatehouse/confirmation'

const token = 'ghp_abcdefghijklmnopqrstuvwxyz0123456789'

let gateway: RunningGateway
let home: string
beforeAll(async () => {
  home = await realpath(await mkdtemp(join(tmpdir(), 'question-')))
  const command = publishedServer('@modelcontextprotocol/server-filesystem', home)
  const graph = {
    command: publishedServer('@modelcontextprotocol/server-memory'),
    env: { MEMORY_FILE_PATH: join(home, 'graph.jsonl') },
  }
  const asking = { command, features: { confirm: { exact_undo: 'ask' } } }
  const secretive = { ...asking, env: { API_TOKEN: token } }
  const upstreams = { files: { command }, asking, secretive, graph }
  gateway = await startGateway({ store: join(home, 'store'), upstreams })
})
afterAll(async () => {
  await gateway.close()
  await rm(home, { recursive: true, force: true })
})

async function fileWith(name: string, content: string): Promise<{ path: string; since: string }> {
  const path = join(home, name)
  await writeFile(path, content)
  return { path, since: new Date().toISOString() }
}

const undo = (since: string): ReturnType<typeof runCommand> =>
  runCommand(['undo', '--config', gateway.configFile, '--since', since, '--yes'])

const clients: ConfirmingClient[] = []
afterAll(() => Promise.all(clients.map((client) => client.close())))

async function open(
  connect: Connect,
  server: string,
  { at = gateway, person }: { readonly at?: RunningGateway; readonly person?: Person } = {},
): Promise<ConfirmingClient> {
  const client = await connect({ transport: 'http', url: at.url.replace(/\/mcp$/, `/mcp/${server}`) }, person)
  clients.push(client)
  return client
}

describe.each(eras)('a client of the $title', ({ title, connect }) => {
  it('is not asked before a file is overwritten, which undo restores exactly', async () => {
    const client = await open(connect, 'files', { person: agrees })
    const { path, since } = await fileWith(`over-${title}.txt`, 'one\ntwo\n')
    await client.call('write_file', { path, content: 'three\n' })
    await client.call('edit_file', { path, edits: [{ oldText: 'three', newText: 'four' }] })
    expect(await readFile(path, 'utf8')).toBe('four\n')
    expect(client.asked).toEqual([])
    const { code, stdout } = await undo(since)
    expect([code, stdout]).toEqual([0, expect.stringMatching(/^undone .*write_file/m)])
    expect(await readFile(path, 'utf8')).toBe('one\ntwo\n')
    // One that cannot be asked may do the same.
    const agent = await open(connect, 'files')
    await agent.call('write_file', { path, content: 'five' })
    expect(await readFile(path, 'utf8')).toBe('five')
  })
})

describe('a client', () => {
  const [title, connect] = ['client', connectModern]

  it('is asked before a file is created or moved, which no tool undoes exactly', async () => {
    const client = await open(connect, 'files', { person: agrees })
    const path = join(home, `new-${title}.txt`)
    await client.call('write_file', { path, content: 'x\ny' })
    expect(client.asked).toHaveLength(1)
    expect(client.asked[0]?.['message']).toMatch(
      /Nothing is there\. What would be created.*\n\n {4}content:\n {4}\+ x\n {4}\+ y$/,
    )
    await client.call('move_file', { source: path, destination: `${path}.moved` })
    expect(client.asked).toHaveLength(2)
    expect(client.asked[1]?.['message']).not.toContain('\n')
  })

  it('is asked with the lines that differ, or the dry run of the server, where the owner wants that', async () => {
    const client = await open(connect, 'asking', { person: agrees })
    const { path } = await fileWith(`asked-${title}.txt`, 'one\ntwo\nthree\n')
    await client.call('write_file', { path, content: 'one\nzwei\nthree\n' })
    expect(client.asked.at(-1)?.['message']).toMatch(
      /content: 3 lines\?[^\n]*\n\nWhat would change, as read at [^\n]*:\n\n {4}content, line 2:\n {4}- two\n {4}\+ zwei$/,
    )
    await client.call('edit_file', { path, edits: [{ oldText: 'zwei', newText: 'two' }] })
    expect(client.asked.at(-1)?.['message']).toMatch(/ {4}-zwei\n {4}\+two\n/)
    expect(await readFile(path, 'utf8')).toBe('one\ntwo\nthree\n')
    expect(client.asked).toHaveLength(2)
  })

  it('is asked with the lines in which a secret that it read as *** would be overwritten', async () => {
    const client = await open(connect, 'secretive', { person: () => ({ action: 'decline' }) })
    const { path } = await fileWith(`secret-${title}.env`, `PORT=80\nAPI_TOKEN=${token}`)
    await client.call('write_file', { path, content: 'PORT=80\nAPI_TOKEN=***' })
    const question = String(client.asked.at(-1)?.['message'])
    expect(question).toMatch(/\n\nThis call cannot be undone: [^\n]* contains a secret of the configuration/)
    expect(question).toMatch(/ {4}content, line 2:\n {4}- API_TOKEN=\*\*\*\n {4}\+ API_TOKEN=\*\*\*$/)
    expect(question).not.toContain(token)
    expect(await readFile(path, 'utf8')).toContain(token)
  })

  it('is asked if the store is in memory', async () => {
    alone('a store in memory is of one gateway')
    const command = publishedServer('@modelcontextprotocol/server-filesystem', home)
    const inMemory = await startGateway({ store: 'memory', upstreams: { files: { command } } })
    onTestFinished(() => inMemory.close())
    const client = await open(connect, 'files', { at: inMemory, person: agrees })
    const { path } = await fileWith(`memory-${title}.txt`, 'old')
    await client.call('write_file', { path, content: 'new' })
    expect(client.asked).toHaveLength(1)
  })

  it('is asked before entities of a graph are deleted', async () => {
    const client = await open(connect, 'graph', { person: agrees })
    await client.call('create_entities', { entities: [{ name: title, entityType: 'era', observations: [] }] })
    await client.call('delete_entities', { entityNames: [title] })
    expect(client.asked).toHaveLength(1)
  })

  it('finds in lists, and in dry runs, that an overwritten file is not confirmed', async () => {
    const client = await open(connect, 'files')
    const tools = await client.tools({ [confirmation]: true })
    const metaOf = (name: string): unknown =>
      (tools.find((tool) => tool['name'] === name)?.['_meta'] as Json | undefined)?.[confirmation]
    expect(metaOf('write_file')).toMatchObject({ requires_confirmation: true, unless: 'exact_undo' })
    expect(metaOf('move_file')).not.toHaveProperty('unless')
    const plain = Object.fromEntries((await client.tools()).map((tool) => [tool['name'], tool]))
    expect(plain['write_file']).not.toHaveProperty('requires_confirmation')
    const { path } = await fileWith(`dry-${title}.txt`, 'old')
    const dry = await client.call('write_file', { path, content: 'new' }, { 'dev.gatehouse/dry_run': true })
    expect(dry['_meta']).toMatchObject({
      'dev.gatehouse/dry_run': { confirmation: { required: true, unless: 'exact_undo' } },
    })
    expect(await readFile(path, 'utf8')).toBe('old')
  })
})

it('explain says so as well', async () => {
  const explain = ['explain', '--config', gateway.configFile, 'files']
  const { stdout } = await runCommand([...explain, 'write_file'])
  expect(stdout).toContain('confirmation not asked: can be undone exactly')
  expect((await runCommand([...explain, 'move_file'])).stdout).toContain(
    'confirmation by the user of the client',
  )
})
