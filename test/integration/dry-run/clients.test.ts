// Dry runs by the official clients, in every revision and over every transport, in front of published servers.
import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { gatewayProgram } from '../../support/gateway-process.ts'
import { type RunningGateway, startGateway } from '../../support/gateway.ts'
import type { PeerClient, Way } from '../../support/peers/client.ts'
import { peerKinds, type PeerKind } from '../../support/peers/clients.ts'
import { everything, publishedServer } from '../../support/peers/servers.ts'

const root = mkdtempSync(join(tmpdir(), 'gatehouse-dry-run-'))
const data = join(root, 'data')
mkdirSync(data)
let gateway: RunningGateway

beforeAll(async () => {
  gateway = await startGateway({
    store: join(root, 'store'),
    inject_arguments: 'on',
    upstreams: {
      files: { command: publishedServer('@modelcontextprotocol/server-filesystem', data) },
      memory: {
        command: publishedServer('@modelcontextprotocol/server-memory'),
        env: { MEMORY_FILE_PATH: join(data, 'memory.jsonl') },
      },
      sandbox: {
        command: publishedServer('@modelcontextprotocol/server-filesystem', data),
        sandbox: 'on',
      },
      everything: { command: publishedServer(everything) },
    },
  })
})
afterAll(async () => {
  await gateway.close()
  rmSync(root, { recursive: true, force: true })
})

/** A hash of all files of the servers, and their names. */
function contents(): string {
  const hash = createHash('sha256')
  for (const name of readdirSync(data).toSorted()) hash.update(name).update(readFileSync(join(data, name)))
  return hash.digest('hex')
}

function wayOf({ transport }: PeerKind): Way {
  if (transport !== 'stdio') return { transport, url: gateway.url }
  return { transport, command: [...gatewayProgram(), 'stdio', '--config', gateway.configFile] }
}

const stdioAndHttp = peerKinds.filter(({ transport }) => transport !== 'sse')

describe.each(stdioAndHttp)('a dry run by the $title', (kind) => {
  let client: PeerClient

  beforeAll(async () => {
    client = await kind.connect(wayOf(kind))
    // Clients check results against the output schemas that they have seen.
    await client.tools()
  })
  afterAll(() => client.close())

  it('writes nothing, and the same call then writes', async () => {
    const path = join(data, `${kind.title.replaceAll(/\W/g, '-')}.txt`)
    const given = { path, content: kind.title }
    const [before, asked] = [contents(), client.asked.length]
    const tried = await client.call('files_write_file', { ...given, _dry_run: true })
    expect(tried.text).toContain('Dry run. Nothing was done. The call would run (write_file on files).')
    expect(tried.text).toContain(JSON.stringify(given))
    expect(tried.text).toContain('Confirmation: required, by the user')
    expect(client.asked).toHaveLength(asked)
    const created = { entities: [{ name: path, entityType: 'file', observations: [] }] }
    const alsoTried = await client.call('memory_create_entities', { ...created, _dry_run: true })
    expect(alsoTried.text).toContain('The call would run (create_entities on memory)')
    expect(contents()).toBe(before)

    const written = await client.call('files_write_file', given)
    expect(written).toMatchObject({ isError: false })
    expect(readFileSync(path, 'utf8')).toBe(kind.title)
    expect(await client.call('memory_create_entities', created)).toMatchObject({ isError: false })
    expect(contents()).not.toBe(before)
  })

  it('has structured content where the tool declares none', async () => {
    const tried = await client.call('everything_echo', { message: 'hello', _dry_run: true })
    expect(tried.isError).toBe(false)
    expect(tried.structured).toMatchObject({
      dry_run: true,
      would_call: { server: 'everything', tool: 'echo' },
      arguments: { message: 'hello' },
    })
  })

  it('is what a sandbox answers to writes, and reads pass', async () => {
    const before = contents()
    const path = join(data, 'of-the-sandbox.txt')
    const tried = await client.call('sandbox_write_file', { path, content: 'x' })
    expect(tried.text).toContain('sandbox is a sandbox, so nothing was done.')
    expect(contents()).toBe(before)
    const listed = await client.call('sandbox_list_directory', { path: data })
    expect(listed.isError).toBe(false)
    expect(listed.text).not.toContain('of-the-sandbox')
  })
})
