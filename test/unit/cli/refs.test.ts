// `gatehouse refs` on the store of a gateway: what it prints, saves, keeps and deletes.
import { createHash } from 'node:crypto'
import {
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { storeAlone } from '../../../src/cli/config-file.ts'
import { run } from '../../../src/cli/run.ts'
import { anonymous } from '../../../src/core/principal.ts'
import { openSharedStore } from '../../../src/gateway/offline.ts'
import { callerHash } from '../../../src/records/principal.ts'
import { type NewReference, type Reference, References } from '../../../src/records/references.ts'
import { tokenHash } from '../../support/auth/token-hash.ts'
import { auditLines } from '../../support/audit-lines.ts'
import { type MemoryIo, memoryIo } from '../../support/memory-io.ts'
import { silentLog } from '../../support/silent-log.ts'
import { bytesOf } from '../../support/bytes-of.ts'

let folder: string
let store: string
let config: string

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'gatehouse-refs-'))
  store = join(folder, 'store')
  mkdirSync(store)
  config = join(folder, 'gateway.config.yaml')
  configure({})
})
afterEach(() => {
  rmSync(folder, { recursive: true, force: true })
})

function configure(more: object): void {
  const settings = { store, features: { references: 'on' }, upstreams: { one: { command: 'one' } }, ...more }
  writeFileSync(config, JSON.stringify(settings))
}

async function withReferences<Value>(act: (references: References) => Promise<Value>): Promise<Value> {
  const opened = await openSharedStore(storeAlone(store, memoryIo()), silentLog)
  try {
    return await act(new References(opened, { total: 1_000_000 }))
  } finally {
    await opened.close()
  }
}

function keep(content: string, caller = 'ada', more: Partial<NewReference> = {}): Promise<Reference> {
  const facts = { server: 'one', tool: 'read', requestId: 'r-1', name: 'data.txt', type: 'text/plain' }
  return withReferences((references) =>
    references.add({ id: caller }, { ...facts, ttl: 60_000, ...more }, bytesOf(content)),
  )
}

interface Ended {
  readonly code: number
  readonly text: string
  readonly problem: string
}

function refs(...words: string[]): Promise<Ended> {
  return refsIn(memoryIo(), ...words)
}

async function refsIn(io: MemoryIo, ...words: string[]): Promise<Ended> {
  const where = words.includes('--store') ? [] : ['--config', config]
  const code = await run(['refs', ...words, ...where], io)
  return { code, text: io.written.stdout, problem: io.written.stderr }
}

describe('refs list and show', () => {
  it('print what is kept, the oldest first, with text of servers escaped', async () => {
    expect(await refs('list')).toMatchObject({ code: 0, text: 'Nothing is kept.\n' })
    const one = await keep('hello', 'ada', { name: 'evil\u001b[2J\nname' })
    const two = await keep('12', 'bob', { type: 'application/json' })
    const { text } = await refs('list')
    expect(text).not.toContain('\u001b')
    expect(text.split('\n')).toHaveLength(3)
    expect(text.split('\n')[0]).toMatch(
      new RegExp(`^${one.id} .*5 bytes.*from read on one.*ada.*until \\d{4}-`),
    )
    const { references } = JSON.parse((await refs('list', '--json')).text)
    expect(references.map(({ ref_id: id }: { ref_id: string }) => id)).toEqual([one.id, two.id])
    expect(JSON.parse((await refs('list', '--json', '--principal', 'bob')).text).references).toHaveLength(1)
    const byHash = await refs(
      'list',
      '--json',
      '--principal',
      callerHash('bob').slice(0, 8),
      '--store',
      store,
    )
    expect(JSON.parse(byHash.text).references).toMatchObject([{ caller: 'bob', size_bytes: 2 }])
  })

  it('print one by its id, its URI, or a prefix', async () => {
    const { id, sha256 } = await keep('hello')
    for (const word of [id, `ref://${id}`, id.slice(0, 12)]) {
      const { text } = await refs('show', word)
      expect(text).toContain(`sha256      ${sha256}`)
      expect(text).toContain('request id  r-1')
      expect(text).not.toContain('hello')
    }
    expect(JSON.parse((await refs('show', id, '--json')).text)).toMatchObject({ ref_id: id, tool: 'read' })
  })

  it('ask for the caller where several have the same id', async () => {
    await keep('1', 'ada', { id: 'report' })
    await keep('2', 'bob', { id: 'report' })
    const { code, problem } = await refs('show', 'report')
    expect(code).toBe(1)
    expect(problem).toContain('ada, bob have a reference report: give one of them with --principal')
    expect((await refs('show', 'report', '--principal', 'bob')).text).toContain('of          bob')
    const two = await keep('3', 'ada', { id: 'report-2' })
    expect(two.id).toBe('report-2')
    expect((await refs('show', 'report-')).code).toBe(0)
    expect(await refs('show', 'nothing')).toMatchObject({
      code: 1,
      problem: 'gatehouse: no such reference: "nothing". See gatehouse refs list\n',
    })
  })
})

describe('refs get', () => {
  it('writes data to a program', async () => {
    const { id } = await keep('hello')
    expect(await refs('get', id)).toMatchObject({ code: 0, text: 'hello' })
  })

  it('saves data to a file that only its owner can read, and overwrites none', async () => {
    const { id } = await keep('hello')
    const file = join(folder, 'saved')
    expect(await refs('get', id, '-o', file)).toMatchObject({ code: 0, text: `Saved 5 bytes to ${file}.\n` })
    expect(readFileSync(file, 'utf8')).toBe('hello')
    expect(statSync(file).mode & 0o777).toBe(0o600)
    expect(await refs('get', id, '-o', file)).toMatchObject({ code: 1 })
    expect((await refs('get', id, '-o', file, '--force')).code).toBe(0)
  })

  it('leaves a file as it was if the data has changed, and follows a link to it', async () => {
    const { id, blob } = await keep('hello')
    const file = join(folder, 'saved')
    writeFileSync(file, 'before')
    const link = join(folder, 'link')
    symlinkSync(file, link)
    expect((await refs('get', id, '-o', link, '--force')).code).toBe(0)
    expect(readFileSync(file, 'utf8')).toBe('hello')
    expect(lstatSync(link).isSymbolicLink()).toBe(true)
    writeFileSync(file, 'before')
    const opened = await openSharedStore(storeAlone(store, memoryIo()), silentLog)
    await opened.blobs.delete(blob)
    await opened.blobs.put(blob, bytesOf('jello'))
    await opened.close()
    const { code, problem } = await refs('get', id, '-o', file, '--force')
    expect(code).toBe(1)
    expect(problem).toContain('has changed')
    expect(readFileSync(file, 'utf8')).toBe('before')
    expect(readdirSync(folder).filter((name) => name.startsWith('saved'))).toEqual(['saved'])
  })

  it('does not print data to a terminal', async () => {
    const { id } = await keep('\u001b[2J')
    const io = memoryIo()
    const stdout = Object.assign(io.stdout, { isTTY: true })
    const { code, text, problem } = await refsIn({ ...io, stdout }, 'get', id)
    expect([code, text]).toEqual([1, ''])
    expect(problem).toContain('data is not printed to a terminal')
  })
})

describe('refs put', () => {
  const content = '{"rows":[1,2]}'
  let file: string

  beforeEach(() => {
    file = join(folder, 'rows.json')
    writeFileSync(file, content)
  })

  it('keeps a file for everybody where callers are not authenticated', async () => {
    const { text } = await refs('put', file, '--id', 'rows', '--ttl', '2h')
    expect(text).toMatch(/^Kept as ref:\/\/rows for anonymous, until \d{4}-/)
    const found = await withReferences((references) => references.find(anonymous, 'rows'))
    expect(found).toMatchObject({
      server: '@uploads',
      name: 'rows.json',
      type: 'application/json',
      size: content.length,
      sha256: createHash('sha256').update(content).digest('hex'),
    })
    expect((found?.expiresAt ?? 0) - (found?.createdAt ?? 0)).toBe(7_200_000)
    expect(await refs('put', file, '--id', 'rows')).toMatchObject({ code: 1 })
  })

  it('knows the types of files by their names', async () => {
    const names = ['a.PDF', 'a.b.csv', 'a', 'a.constructor']
    const types = []
    for (const name of names) {
      const { text } = await refs('put', file, '--name', name, '--json')
      types.push(JSON.parse(text).mime_type)
    }
    expect(types).toEqual([
      'application/pdf',
      'text/csv',
      'application/octet-stream',
      'application/octet-stream',
    ])
  })

  it('needs the caller where callers are authenticated, or are not known', async () => {
    configure({ auth: { opaque: { tokens: [{ hash: tokenHash('t'), id: 'ada' }] } } })
    expect(await refs('put', file)).toMatchObject({
      code: 2,
      problem: expect.stringContaining('--principal ID'),
    })
    expect(await refs('put', file, '--store', store)).toMatchObject({ code: 2 })
    const { text } = await refs('put', file, '--principal', 'token:ada', '--json')
    expect(JSON.parse(text)).toMatchObject({ caller: 'token:ada', origin_server: '@uploads' })
  })

  it('refuses a file that is not there or does not fit, and a gateway without references', async () => {
    expect(await refs('put', join(folder, 'none'))).toMatchObject({ code: 1 })
    expect(await refs('put', file, '--id', 'a/b')).toMatchObject({
      code: 1,
      problem: expect.stringContaining('ref_id'),
    })
    expect(await refs('put', file, '--ttl', 'soon')).toMatchObject({ code: 2 })
    configure({ features: { references: { total: '10B' } } })
    expect(await refs('put', file)).toMatchObject({ code: 1, problem: expect.stringContaining('room for') })
    configure({ features: {} })
    expect(await refs('put', file)).toMatchObject({ code: 1, problem: expect.stringContaining('is off') })
    expect((await refs('list')).text).toBe('Nothing is kept.\n')
  })
})

describe('refs drop', () => {
  it('deletes data and its record, once, and the audit log has it', async () => {
    const audit = join(folder, 'audit.jsonl')
    configure({ observe: { audit } })
    const { id, blob, sha256 } = await keep('hello')
    expect((await refs('drop', id)).text).toBe(`Deleted ref://${id} of ada.\n`)
    expect((await refs('drop', id)).code).toBe(1)
    const opened = await openSharedStore(storeAlone(store, memoryIo()), silentLog)
    expect(await opened.blobs.open(blob)).toBeUndefined()
    await opened.close()
    const orders = auditLines(audit).filter(({ event }) => event === 'order')
    expect(orders).toMatchObject([
      { order: 'drop', reference: id, sha256, caller: 'ada', via: 'command_line' },
    ])
  })
})

it.each([
  [['lits'], 'did you mean list?'],
  [['show'], 'show needs the id of a reference'],
  [['put'], 'put needs a file'],
  [['list', 'x'], 'unexpected argument "x"'],
  [['list', '--output', 'x'], '--output is not an option of refs list'],
])('refs %j is wrong usage', async (words, problem) => {
  const found = await refs(...words)
  expect(found.code).toBe(2)
  expect(found.problem).toContain(problem)
})
