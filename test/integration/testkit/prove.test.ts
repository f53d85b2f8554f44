// What `gatehouse prove` says of servers that lie, and of published servers, whose packs are part of the gateway.
import { createHash } from 'node:crypto'
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import filesystem from '../../../src/core/judgement/packs/filesystem.json' with { type: 'json' }
import memory from '../../../src/core/judgement/packs/memory.json' with { type: 'json' }
import redis from '../../../src/core/judgement/packs/redis.json' with { type: 'json' }
import { inRepository, readDocument } from '../../support/document.ts'
import { foreignFile } from '../../support/foreign.ts'
import { type Finished, runCommand } from '../../support/gateway.ts'
import { configFile } from '../../support/gateway-with.ts'
import { publishedServer } from '../../support/peers/servers.ts'
import { needsRedis, type RedisServer, startRedis } from '../../support/redis-server.ts'
import type { Json } from '../../support/server/json.ts'

const root = mkdtempSync(join(tmpdir(), 'gatehouse-prove-'))
const sandbox = join(root, 'sandbox')
const beside = join(root, 'beside')
mkdirSync(sandbox)
mkdirSync(beside)
writeFileSync(join(beside, 'kept.txt'), 'kept')
symlinkSync(beside, join(sandbox, 'link'))
afterAll(() => rmSync(root, { recursive: true, force: true }))

const liar = fileURLToPath(new URL('../../fixtures/lying-server/main.ts', import.meta.url))
const verify = 'find_notes(title=$.args.title) -> $.result.items[0]'

interface Report {
  readonly results: readonly { readonly test_id: string; readonly status: string; readonly message: string }[]
  readonly pack: { readonly tools: Readonly<Record<string, Json>> }
}

/** Runs the command in front of one server. */
async function run(server: Json, args: readonly string[], config: Json = {}, env = {}): Promise<Finished> {
  const file = await configFile({ store: 'memory', ...config, upstreams: { one: server } })
  const finished = await runCommand(['prove', 'one', '--config', file.path, ...args], { env })
  await file.remove()
  return finished
}

async function report(
  server: Json,
  args: readonly string[],
  config: Json = {},
): Promise<Report & { code: number | null }> {
  const { stdout, stderr, code } = await run(server, ['--json', ...args], config)
  if (stdout === '') throw new Error(stderr)
  return { ...JSON.parse(stdout), code }
}

function lying(mode: string, tools: Json = {}): Json {
  return { command: process.execPath, args: [liar, mode], revision: '2025-11-25', tools }
}

function command([program = '', ...args]: readonly string[], more: Json = {}): Json {
  return { command: program, args, revision: '2025-11-25', ...more }
}

function verdictOf({ results }: Report, id: string): string {
  const found = results.find(({ test_id: test }) => test === id)
  return found ? `${found.status}: ${found.message}` : 'missing'
}

const notes = ['--sandbox', 'server', '--tool', 'create_note']

describe('a server whose answers are false', () => {
  it('is proved where they are true: undo, once and verify', async () => {
    const found = await report(lying('honest'), notes)
    expect(found.results.map(({ test_id: id, status }) => `${id} ${status}`)).toEqual([
      'create_note.undo passed',
      'create_note.once passed',
      'create_note.verify passed',
      'create_note.idempotent skipped',
    ])
    expect(found.code).toBe(0)
    expect(found.pack.tools.create_note).toMatchObject({
      settings: { undo: 'delete_note(id=$.result.id)', verify },
      proof: { server: 'lying-server', version: '1.2.3', proved: ['undo', 'once', 'verify'], refuted: [] },
    })
  })

  it('is refuted if its undo does nothing, and the rule is not in the pack', async () => {
    const found = await report(lying('undo'), notes)
    expect(verdictOf(found, 'create_note.undo')).toMatch(
      /^failed: refuted: after the undo, .*find_notes\(.*\) shows items\[0\] as .*, not as absent$/,
    )
    expect(found.pack.tools.create_note?.settings).toEqual({ verify, pivot: true })
    expect(found.code).toBe(1)
  })

  it('is refuted if its verify finds any object', async () => {
    const found = await report(lying('verify'), notes)
    expect(verdictOf(found, 'create_note.verify')).toMatch(/^failed: refuted: it finds .* before the call/)
    expect(found.pack.tools.create_note?.settings).not.toHaveProperty('verify')
  })

  it('is refuted if its verify finds nothing', async () => {
    expect(verdictOf(await report(lying('blind'), notes), 'create_note.verify')).toMatch(
      /^failed: refuted: it finds nothing after the call/,
    )
  })

  it('is not proved if no read shows the effect', async () => {
    const found = await report(lying('unseen'), notes)
    expect(verdictOf(found, 'create_note.undo')).toBe('skipped: no proof: no read shows the effect')
    expect(verdictOf(found, 'create_note.once')).toBe('skipped: no proof: no read shows the effect')
  })

  it('is refuted as called once if the configuration turns idempotency off', async () => {
    const found = await report(lying('honest'), notes, {
      features: { idempotency: 'off', transactions: 'off' },
    })
    expect(verdictOf(found, 'create_note.once')).toMatch(
      /^failed: refuted: the second call with the key had an effect/,
    )
    expect(verdictOf(found, 'create_note.undo')).toMatch(/^passed/)
  })

  it('cannot lead an undo out of the sandbox', async () => {
    const args = ['--sandbox', sandbox, '--tool', 'write_page']
    const tools = { write_page: { undo: 'remove_page(path=$.result.path)' } }
    expect(verdictOf(await report(lying('escape', tools), args), 'write_page.undo')).toMatch(
      /remove_page was not called: the argument "path" is a place outside of the sandbox/,
    )
  })

  it('does not get a secret of the configuration into the report', async () => {
    const server = { ...lying('undo'), env: { NOTES_TOKEN: '${NOTES_TOKEN}' } }
    const token = 'gho_16C7e42F292c6912E7710c838347Ae178B4a'
    const { stdout } = await run(server, notes, {}, { NOTES_TOKEN: token })
    expect(stdout).toContain('refuted')
    expect(stdout).not.toContain(token.slice(0, 20))
  })
})

/** The tools of a pack without what differs in each run. */
function undated(tools: object): object {
  return JSON.parse(JSON.stringify(tools), (key, value: unknown) => (key === 'date' ? 'today' : value))
}

/** A hash of the names and contents in a folder. */
function hashOf(folder: string): string {
  const hash = createHash('sha256')
  for (const name of readdirSync(folder).toSorted())
    hash.update(`${name}\n`).update(readFileSync(join(folder, name)))
  return hash.digest('hex')
}

function given(name: string): string {
  return inRepository(`examples/prove/${name}.json`)
}

const files = publishedServer('@modelcontextprotocol/server-filesystem', root)

describe('the pack of the published server of files', () => {
  it('is what the server proves again, and nothing beside the sandbox changes', async () => {
    const before = hashOf(beside)
    const found = await report(command(files), ['--sandbox', sandbox, '--arguments', given('filesystem')])
    expect(undated(found.pack.tools)).toEqual(undated(filesystem.tools))
    expect(hashOf(beside)).toBe(before)
    expect(readdirSync(root).toSorted()).toEqual(['beside', 'sandbox'])
  })

  it('is not tried with a path that leads out of the sandbox through a link', async () => {
    const before = hashOf(beside)
    const file = join(root, 'arguments.json')
    const path = join(sandbox, 'link', 'kept.txt')
    writeFileSync(file, JSON.stringify({ write_file: { arguments: { path, content: 'changed' } } }))
    const args = ['--sandbox', sandbox, '--tool', 'write_file', '--arguments', file]
    const found = await report(command(files), args).finally(() => rmSync(file))
    expect(verdictOf(found, 'write_file.undo')).toMatch(/no proof: the argument "path" is a place outside/)
    expect(hashOf(beside)).toBe(before)
  })
})

it('the pack of the published server of memory is what the server proves again', async () => {
  const server = publishedServer('@modelcontextprotocol/server-memory')
  // Only a read tells whether others added content since: the proposal of the gateway has none.
  const { undo } = memory.tools.create_entities.settings
  const place = {
    env: { MEMORY_FILE_PATH: join(root, 'memory.jsonl') },
    tools: { create_entities: { undo } },
  }
  const found = await report(command(server, place), ['--sandbox', 'server', '--arguments', given('memory')])
  expect(undated(found.pack.tools)).toEqual(undated(memory.tools))
  expect(verdictOf(found, 'delete_relations.undo')).toMatch(
    /refuted: after the undo, where it had been done before/,
  )
})

describe('the pack of the published server of Redis', needsRedis, () => {
  let store: RedisServer
  beforeAll(async () => {
    store = await startRedis({ isForgetful: true })
  })
  afterAll(() => store.stop())

  it('is what the server proves again', async () => {
    const server = [
      process.execPath,
      foreignFile('@modelcontextprotocol/server-redis/dist/index.js'),
      store.url,
    ]
    const found = await report(command(server), ['--sandbox', 'key=test:*', '--arguments', given('redis')])
    expect(undated(found.pack.tools)).toEqual(undated(redis.tools))
  })
})

describe('the command line', () => {
  it('refuses to run without a sandbox, and says how it is named', async () => {
    const { code, stderr } = await run(lying('honest'), [])
    expect(code).toBe(2)
    expect(stderr).toMatch(/name the sandbox with --sandbox: the tools are called/)
  })

  it.each([
    ['a sandbox that is no place', ['--sandbox', 'scratch'], 2, /give a folder such as/],
    ['the root folder as the sandbox', ['--sandbox', '/'], 2, /holds more than a sandbox/],
    ['an unknown tool', ['--sandbox', 'server', '--tool', 'create_not'], 2, /did you mean create_note/],
    [
      'no file of arguments',
      ['--sandbox', 'server', '--arguments', 'none.json'],
      1,
      /none\.json cannot be read/,
    ],
    ['an existing pack', ['--sandbox', 'server', '-o', liar], 1, /exists. Give another file, or --force/],
  ])('refuses %s', async (_what, args, code, message) => {
    const finished = await run(lying('honest'), args)
    expect(finished.code).toBe(code)
    expect(finished.stderr).toMatch(message)
  })

  it('calls no tool whose place is not named', async () => {
    const found = await report(lying('honest'), [
      '--sandbox',
      'repo=scratch',
      '--tool',
      'write_page',
      '--tool',
      'create_note',
    ])
    expect(verdictOf(found, 'write_page.undo')).toMatch(
      /say which is in the sandbox with --sandbox path=VALUE/,
    )
    expect(verdictOf(found, 'create_note.undo')).toMatch(/none of its arguments is in the sandbox/)
  })

  it('writes a pack that gatehouse plan proposes, and ignores for another definition', async () => {
    const pack = join(root, 'notes.pack.json')
    const junit = join(root, 'notes.xml')
    const { stdout } = await run(lying('honest'), [...notes, '-o', pack, '--junit', junit])
    expect(readFileSync(junit, 'utf8')).toContain('<testsuites name="lying-server" tests="4" failures="0"')
    expect(stdout).toContain(`gatehouse plan --pack ${pack}`)
    const planned = await runCommand(['plan', '--pack', pack, '--', process.execPath, liar])
    expect(planned.stdout).toMatch(
      /# - proved on \d{4}-\d\d-\d\d with lying-server 1\.2\.3: undo, once, verify\n/,
    )
    expect(planned.stdout).toContain(`verify: "${verify}"`)
    writeFileSync(
      pack,
      readFileSync(pack, 'utf8').replace(/"definitions": \[\s*"[0-9a-f]+"/, '"definitions": ["0"'),
    )
    const other = await runCommand(['plan', '--pack', pack, '--', process.execPath, liar])
    expect(other.stderr).toContain(
      'create_note: the pack is about another definition of this tool, so it is ignored',
    )
    expect(other.stdout).not.toContain('proved on')
    writeFileSync(pack, '{"package": 1}')
    const broken = await runCommand(['plan', '--pack', pack, '--', process.execPath, liar])
    expect(broken).toMatchObject({ code: 1, stderr: expect.stringContaining(`${pack}: tools is missing`) })
  })
})

it('the table of the documentation is what the packs prove', () => {
  const { text } = readDocument('docs/proofs.md')
  const rows = [filesystem, memory, redis].flatMap((pack) =>
    Object.entries(pack.tools).map(([name, { proof }]) => {
      const { proved, refuted }: { proved: readonly string[]; refuted: readonly string[] } = proof
      const cells = ['undo', 'once', 'verify', 'idempotent'].map((claim) =>
        proved.includes(claim) ? 'proved' : refuted.includes(claim) ? 'refuted' : '–',
      )
      const server = pack.package.replace('@modelcontextprotocol/', '')
      return `| \`${server}\` | \`${name}\` | ${cells.join(' | ')} |`
    }),
  )
  const written = text.split('\n').map((line) => line.replaceAll(/ +/g, ' '))
  expect(written).toEqual(expect.arrayContaining(rows))
})
