// Data as files: what a server on this machine finds at the path that it gets, and what is left afterwards.
import { createHash } from 'node:crypto'
import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import type { Outcome } from '../../../../src/core/call.ts'
import { Payload } from '../../../../src/core/payload.ts'
import type { Principal } from '../../../../src/core/principal.ts'
import { ProcessScope } from '../../../../src/durable/process-scope.ts'
import { fileName } from '../../../../src/features/references/kept-data.ts'
import {
  GatewayFiles,
  type NewFile,
  ReferenceFiles,
} from '../../../../src/features/references/transfer/files.ts'
import { bytesOf } from '../../../support/bytes-of.ts'
import { argumentSchema, referenceSettings, referenceWorld } from '../../../support/reference-world.ts'
import type { Json } from '../../../support/server/json.ts'
import { silentLog } from '../../../support/silent-log.ts'
import { toolCall } from '../../../support/tool-call.ts'

const command = ['node', 'server.js']
const done: Outcome = { kind: 'result', result: Payload.of({ content: [] }) }

let root = ''
let folder = ''
let scope = new ProcessScope()
beforeEach(() => {
  scope = new ProcessScope()
  root = realpathSync(mkdtempSync(join(tmpdir(), 'gatehouse-files-')))
  folder = join(root, 'files')
})
afterEach(() => rmSync(root, { recursive: true, force: true }))

/** A tool of a server on this machine, and what it finds at the path that it gets in `value`. */
function machine(
  serve: (path: string, round: number) => Outcome | Promise<Outcome> = () => done,
  given: Json = {},
) {
  const found: { path: string; data: Buffer; modes: number[] }[] = []
  const world = referenceWorld({
    settings: { ...referenceSettings, folder },
    command,
    scope,
    definition: argumentSchema({ type: 'string' }),
    serve: ({ value }) => {
      const path = String(value)
      const modes = [path, dirname(path), folder].map((each) => lstatSync(each).mode & 0o777)
      found.push({ path, data: readFileSync(path), modes })
      return serve(path, found.length)
    },
    ...given,
  })
  return { ...world, found }
}

/** The name of the folder of a call. */
function nameOf(digit: number): string {
  return `gatehouse-${String(digit).repeat(32)}`
}

/** The files of a call that are written without it. */
function callFiles(principal: Principal) {
  return new ReferenceFiles({ folder, total: 10_000, files: scope.once(GatewayFiles), log: silentLog }).begin(
    toolCall({ principal }),
  )
}

function fileOf(name: string, size: number): NewFile {
  return { key: [name], name, type: 'text/plain', bytes: bytesOf('x'.repeat(size)) }
}

describe('data as a file', () => {
  it('is private while the call runs, and gone afterwards', async () => {
    const { call, keep, found } = machine()
    const bytes = Buffer.from(Array.from({ length: 90_000 }, (_none, index) => index % 251))
    await call({ value: `${await keep(bytes, 'image/png', { name: 'a picture' })}?as=path` })
    const [file] = found
    expect(file?.modes).toEqual([0o600, 0o700, 0o700])
    expect(file?.data.equals(bytes)).toBe(true)
    expect(basename(file?.path ?? '')).toBe('a_picture.png')
    expect(readdirSync(folder)).toEqual([])
  })

  it('is gone after a call that failed, and after a file that the server moved away', async () => {
    const { call, keep } = machine((path, round) => {
      if (round === 1) throw new Error('it failed')
      rmSync(path)
      return done
    })
    const value = `${await keep('data')}?as=path`
    await expect(call({ value })).rejects.toThrow('it failed')
    expect(readdirSync(folder)).toEqual([])
    await call({ value })
    expect(readdirSync(folder)).toEqual([])
  })

  it.each([
    ['?as=path&rows=2-3', 'one\ntwo\nthree\nfour\n', 'text/plain', 'two\nthree\n'],
    ['?as=path&rows=4', 'one\ntwo\nthree\nfour', 'text/plain', 'four'],
    ['?as=path&bytes=1-3', 'abcdef', 'text/plain', 'bcd'],
    ['?as=path&rows=2-3', '[{"a":1},{"a":2},{"a":3}]', 'application/json', '[{"a":2},{"a":3}]'],
    ['?as=path#/a', '{"a":"hi"}', 'application/json', 'hi'],
  ])('has the part that %s selects', async (form, data, type, expected) => {
    const { call, keep, found } = machine()
    await call({ value: `${await keep(data, type)}${form}` })
    expect(String(found[0]?.data)).toBe(expected)
  })

  it('has rows that are spread over many chunks', async () => {
    const lines = Array.from({ length: 3000 }, (_none, index) => `line ${index + 1}`)
    const store = referenceWorld().store
    const { call, kept, found } = machine(() => done, { store })
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 3000 }),
        fc.integer({ min: 0, max: 500 }),
        fc.integer({ min: 1, max: 9000 }),
        async (from, more, size) => {
          const text = Buffer.from(lines.join('\n'))
          const bytes = (async function* () {
            for (let at = 0; at < text.byteLength; at += size) yield text.subarray(at, at + size)
          })()
          const facts = { server: 'one', name: 'lines', type: 'text/plain', ttl: 60_000 }
          const { id, blob } = await kept.add({ id: 'ada' }, facts, bytes)
          await call({ value: `ref://${id}?as=path&rows=${from}-${from + more}` })
          const expected = lines.slice(from - 1, from + more).join('\n')
          expect(String(found.at(-1)?.data).replace(/\n$/, '')).toBe(expected)
          await store.blobs.delete(blob)
          await store.delete([...(await store.scan('reference')).keys()][0] ?? '')
        },
      ),
      { numRuns: 25 },
    )
  })

  it('is refused if there are no such rows, and leaves nothing', async () => {
    const { call, keep, found } = machine()
    const value = `${await keep('one\ntwo')}?as=path&rows=9`
    await expect(call({ value })).rejects.toMatchObject({ code: 'INVALID_INPUT' })
    expect(found).toEqual([])
    expect(readdirSync(folder)).toEqual([])
  })

  it('has the same path when the call is made again, and another one beside a call that uses it', async () => {
    const { call, keep, found } = machine((path, round) => {
      expect(existsSync(path)).toBe(true)
      return round === 2 ? call({ value }).then(() => done) : done
    })
    const value: string = `${await keep('data')}?as=path`
    await call({ value })
    await call({ value })
    const [first = '', second, third] = found.map(({ path }) => path)
    expect(second).toBe(first)
    expect(third).toBe(join(`${dirname(first)}-2`, basename(first)))
    expect(readdirSync(folder)).toEqual([])
  })

  it('stays for the next round of a call that its server has begun, and not for the one of a question', async () => {
    const asking = { kind: 'input_required', inputRequests: {}, requestState: { other: 1 } } as const
    const { outcome, keep, found } = machine((_path, round) =>
      round === 1 ? { ...asking, isOpen: true } : round === 3 ? asking : done,
    )
    const value = `${await keep('data')}?as=path`
    const open = await outcome({ value })
    expect(open).toMatchObject({ kind: 'input_required', requestState: { other: 1 } })
    expect(readdirSync(folder)).toHaveLength(1)
    const requestState = open.kind === 'input_required' ? open.requestState : {}
    await outcome({ value }, { requestState })
    expect(found[1]?.path).toBe(found[0]?.path)
    expect(readdirSync(folder)).toEqual([])
    expect(await outcome({ value })).toEqual(asking)
    expect(readdirSync(folder)).toEqual([])
  })

  it('is deleted if the question of its server is withdrawn', async () => {
    const withdrawn = new AbortController()
    const { outcome, keep } = machine(() => ({
      kind: 'input_required',
      inputRequests: {},
      requestState: {},
      isOpen: true,
      withdrawn: withdrawn.signal,
    }))
    await outcome({ value: `${await keep('data')}?as=path` })
    expect(readdirSync(folder)).toHaveLength(1)
    withdrawn.abort()
    await expect.poll(() => readdirSync(folder)).toEqual([])
  })

  it('is refused over the size of all files', async () => {
    const settings = { ...referenceSettings, folder, total: 400_000 }
    const { call, keep } = machine(() => done, { settings })
    const value = `${await keep('x'.repeat(40_000))}?as=path`
    await call({ value, a: value })
    // One caller has a quarter.
    await expect(call({ value, a: value, b: value })).rejects.toMatchObject({ code: 'QUOTA_EXHAUSTED' })
    expect(readdirSync(folder)).toEqual([])
    await call({ value })
  })

  it('may have all of the size if callers are not distinguished, and no more', async () => {
    const everybody = callFiles({ id: 'everybody', isEverybody: true })
    await everybody.write(fileOf('one', 4000))
    await expect(everybody.write(fileOf('two', 6001))).rejects.toMatchObject({ code: 'QUOTA_EXHAUSTED' })
    await everybody.remove()
    const [one, other] = [callFiles({ id: 'ada' }), callFiles({ id: 'bob' })]
    await one.write(fileOf('one', 2500))
    await other.write(fileOf('one', 2500))
    await expect(one.write(fileOf('two', 1))).rejects.toMatchObject({ code: 'QUOTA_EXHAUSTED' })
    await Promise.all([one.remove(), other.remove()])
  })

  it('is refused to a caller of whom many calls go on, whose files stay', async () => {
    const asking = new AbortController()
    const open: Outcome = {
      kind: 'input_required',
      inputRequests: {},
      requestState: {},
      isOpen: true,
      withdrawn: asking.signal,
    }
    for (let index = 0; index < 250; index++) {
      const files = callFiles({ id: 'ada' })
      await files.write(fileOf(String(index), 1))
      await files.after(open)
    }
    await expect(callFiles({ id: 'ada' }).write(fileOf('new', 1))).rejects.toMatchObject({
      code: 'OVERLOADED',
    })
    expect(readdirSync(folder)).toHaveLength(250)
    const other = callFiles({ id: 'bob' })
    await other.write(fileOf('new', 1))
    await other.remove()
    asking.abort()
    await expect.poll(() => readdirSync(folder)).toEqual([])
  })
})

describe('the folder of files', () => {
  it.each<[what: string, make: () => void]>([
    ['a link', () => symlinkSync(root, folder)],
    ['a file', () => writeFileSync(folder, '')],
    [
      'open to other users',
      () => {
        mkdirSync(folder)
        chmodSync(folder, 0o777)
      },
    ],
    [
      'open to other users, who can change only what is theirs',
      () => {
        mkdirSync(folder)
        chmodSync(folder, 0o1777)
      },
    ],
  ])('is refused if it is %s, without a word about it to the caller', async (_what, make) => {
    make()
    const { call, keep, found } = machine()
    const error: unknown = await call({ value: `${await keep('data')}?as=path` }).catch(
      (each: unknown) => each,
    )
    expect(error).toMatchObject({ code: 'SERVER_UNAVAILABLE' })
    expect(error).not.toMatchObject({ message: expect.stringContaining(root) })
    expect(found).toEqual([])
  })

  it('loses what a process that ended left behind, and nothing else', async () => {
    mkdirSync(folder, { mode: 0o700 })
    const folderOf = (name: string, files: readonly string[], isOld = true): string => {
      const path = join(folder, name)
      mkdirSync(path)
      for (const file of files) writeFileSync(join(path, file), 'another process')
      if (isOld) utimesSync(path, 1, 1)
      return name
    }
    folderOf(nameOf(1), ['.owner', 'data.txt'])
    folderOf(`${nameOf(2)}-2`, ['.owner'])
    folderOf(nameOf(3), [])
    const kept = [
      folderOf(nameOf(4), ['.owner', 'data.txt'], false),
      folderOf(nameOf(5), [], false),
      folderOf(nameOf(6), ['data.txt']),
      folderOf('gatehouse-prod', ['.owner', 'data.txt']),
      folderOf('of a person', []),
    ]
    mkdirSync(join(folder, nameOf(7), '.owner'), { recursive: true })
    utimesSync(join(folder, nameOf(7)), 1, 1)
    await new ReferenceFiles({ folder, total: 1000, files: scope.once(GatewayFiles), log: silentLog }).sweep()
    expect(readdirSync(folder)).toEqual([...kept, nameOf(7)].toSorted())
  })

  it.each([3_600_000, -3_600_000])(
    'is swept by the clock of its file system, not one %i ms off',
    async (off) => {
      vi.useFakeTimers({ now: Date.now() + off, toFake: ['Date'] })
      onTestFinished(() => void vi.useRealTimers())
      mkdirSync(folder, { mode: 0o700 })
      for (const n of [1, 2]) {
        mkdirSync(join(folder, nameOf(n)))
        writeFileSync(join(folder, nameOf(n), '.owner'), 'another process')
      }
      utimesSync(join(folder, nameOf(2)), 1, 1)
      await new ReferenceFiles({
        folder,
        total: 1000,
        files: scope.once(GatewayFiles),
        log: silentLog,
      }).sweep()
      expect(readdirSync(folder)).toEqual([nameOf(1)])
    },
  )

  it('loses nothing if it is a link, or belongs to others too', async () => {
    const others = join(root, 'others')
    const path = join(others, nameOf(1))
    mkdirSync(path, { recursive: true })
    writeFileSync(join(path, '.owner'), '')
    utimesSync(path, 1, 1)
    symlinkSync(others, folder)
    await new ReferenceFiles({ folder, total: 1000, files: scope.once(GatewayFiles), log: silentLog }).sweep()
    chmodSync(others, 0o1777)
    await new ReferenceFiles({
      folder: others,
      total: 1000,
      files: scope.once(GatewayFiles),
      log: silentLog,
    }).sweep()
    expect(existsSync(path)).toBe(true)
  })

  it.skipIf(process.getuid?.() !== 0)(
    'is not among the temporary files of another user, nor below a folder of one (needs root)',
    async () => {
      chownSync(root, 65_534, 65_534)
      vi.stubEnv('TMPDIR', root)
      const files = new ReferenceFiles({
        folder: undefined,
        total: 1000,
        files: scope.once(GatewayFiles),
        log: silentLog,
      })
      const call = files.begin(toolCall())
      await expect(call.write(fileOf('one', 1))).rejects.toThrow('cannot write files for references')
      vi.unstubAllEnvs()

      const all = join(folder, '..', 'all')
      mkdirSync(join(all, 'above'), { recursive: true })
      chmodSync(all, 0o1777)
      chownSync(join(all, 'above'), 65_534, 65_534)
      folder = join(all, 'above', 'files')
      await expect(callFiles({ id: 'ada' }).write(fileOf('one', 1))).rejects.toThrow('cannot write files')
    },
  )

  it('keeps what calls use, also behind a link', async () => {
    mkdirSync(join(root, 'real'))
    symlinkSync(join(root, 'real'), join(root, 'link'))
    folder = join(root, 'link/files')
    const call = callFiles({ id: 'ada' })
    const path = await call.write(fileOf('one', 1))
    utimesSync(dirname(path), 1, 1)
    await new ReferenceFiles({ folder, total: 1000, files: scope.once(GatewayFiles), log: silentLog }).sweep()
    expect(existsSync(path)).toBe(true)
    await call.remove()
  })

  it('keeps what calls use, and says so', async () => {
    let sweeping: Promise<void> | undefined
    const files = new ReferenceFiles({ folder, total: 1000, files: scope.once(GatewayFiles), log: silentLog })
    const { outcome, keep } = machine(() => {
      sweeping = files.sweep()
      return { kind: 'input_required', inputRequests: {}, requestState: {}, isOpen: true }
    })
    const first = await outcome({ value: `${await keep('data')}?as=path` })
    await sweeping
    const [name = ''] = readdirSync(folder)
    utimesSync(join(folder, name), 1, 1)
    await files.sweep()
    expect(lstatSync(join(folder, name)).mtimeMs).toBeGreaterThan(Date.now() - 60_000)
    const requestState = first.kind === 'input_required' ? first.requestState : {}
    expect(requestState).toHaveProperty('reference_files')
  })
})

describe('gateways of one process', () => {
  const waiting: Outcome = { kind: 'input_required', inputRequests: {}, requestState: {}, isOpen: true }

  it('do not count the files of each other', async () => {
    for (const own of [new ProcessScope(), new ProcessScope()]) {
      scope = own
      const { outcome, keep } = machine(() => waiting, {
        settings: { ...referenceSettings, folder, total: 400 },
      })
      const round = await outcome({ value: `${await keep('x'.repeat(80))}?as=path` })
      expect(round.kind).toBe('input_required')
    }
    expect(readdirSync(folder)).toHaveLength(2)
  })

  it('leave the files of each other alone', async () => {
    const call = callFiles({ id: 'ada' })
    const path = await call.write(fileOf('one', 1))
    scope = new ProcessScope()
    await new ReferenceFiles({ folder, total: 1000, files: scope.once(GatewayFiles), log: silentLog }).sweep()
    expect(existsSync(path)).toBe(true)
    await call.remove()
  })
})

describe('the name of a file', () => {
  it.each([
    ['a picture', 'image/png', 'a_picture.png'],
    ['report.PDF', 'application/pdf', 'report.PDF'],
    ['../../etc/passwd', 'text/plain', 'etc_passwd.txt'],
    ['..', 'application/json', 'data.json'],
    ['.owner', 'text/plain', 'owner.txt'],
    ['C:\\a\\b.csv', 'text/csv', 'C_a_b.csv'],
    ['logo', 'image/svg+xml; charset=utf-8', 'logo.svg'],
    ['x', 'application/vnd.api+json', 'x.json'],
    ['', 'nonsense', 'data.bin'],
  ])('of %j with %s is %s', (name, type, expected) => {
    expect(fileName(name, type)).toBe(expected)
  })

  it('is one plain segment, whatever servers send', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.string(), (name, type) => {
        expect(fileName(name, type)).toMatch(/^[A-Za-z0-9][A-Za-z0-9._-]{0,98}\.[A-Za-z0-9]{1,10}$/)
      }),
    )
  })
})

describe('an argument that takes a path', () => {
  const described = (description: string): Json => ({ type: 'string', description })
  it.each<[tool: string, op: 'read' | 'write', name: string, property: Json, isPath: boolean]>([
    ['read_text_file', 'read', 'path', { type: 'string' }, true],
    ['get_file_info', 'read', 'path', { type: 'string' }, true],
    ['list_directory', 'read', 'path', { type: 'string' }, false],
    ['write_file', 'write', 'path', { type: 'string' }, false],
    ['write_file', 'write', 'content', { type: 'string' }, false],
    ['edit_file', 'write', 'path', { type: 'string' }, false],
    ['move_file', 'write', 'source', { type: 'string' }, false],
    ['upload_file', 'write', 'file_path', { type: 'string' }, true],
    ['importTable', 'write', 'filePath', { type: 'string' }, true],
    ['send_mail', 'write', 'attachment', described('The path of the file to attach'), true],
    ['take_screenshot', 'read', 'filename', described('File name to save the screenshot to.'), false],
    ['transcribe', 'read', 'audio', described('Absolute path to the audio file'), true],
    ['run_code', 'read', 'source', described('The source code.'), false],
    ['read_file', 'read', 'path', { type: 'string', format: 'byte' }, false],
    ['convert', 'read', 'output_path', { type: 'string' }, false],
  ])('%s (%s) %s: %j is %s', async (...[tool, op, name, property, isPath]) => {
    const { call, keep, got } = referenceWorld({
      settings: { ...referenceSettings, folder },
      command,
      op,
      definition: { name: tool, ...argumentSchema(property, name) },
    })
    await call({ [name]: await keep('data\nof two lines') })
    expect(String(got[0]?.[name]).startsWith(folder)).toBe(isPath)
  })

  it('gets paths in a list that is described as one', async () => {
    const description = 'The absolute paths to the files to upload. Can be single file or multiple files.'
    const { call, keep, got } = referenceWorld({
      settings: { ...referenceSettings, folder },
      command,
      op: 'write',
      definition: {
        name: 'browser_file_upload',
        ...argumentSchema({ type: 'array', description, items: { type: 'string' } }, 'paths'),
      },
    })
    await call({ paths: [await keep('one', 'text/plain', { name: 'a.txt' }), '/b.txt'] })
    const [one, two] = (got[0]?.['paths'] ?? []) as string[]
    expect(one).toMatch(/\/gatehouse-[0-9a-f]{32}\/a\.txt$/)
    expect(two).toBe('/b.txt')
  })

  it.each<[what: string, data: string, form: string, given: Json]>([
    ['the data is a path itself', '/var/log/syslog\n', '', { command }],
    ['a value is selected', '{"a":"/var/log/syslog"}', '#/a', { command }],
    [
      'its server may see other files',
      'data\nof two lines',
      '',
      { command: ['/usr/bin/docker', 'run', 'x'] },
    ],
    ['its server is reached by a URL', 'data\nof two lines', '', {}],
    ['the caller chose another form', 'data\nof two lines', '?as=text', { command }],
  ])('gets the data if %s', async (_what, data, form, given) => {
    const { call, keep, got } = referenceWorld({
      settings: { ...referenceSettings, folder },
      definition: { name: 'read_text_file', ...argumentSchema({ type: 'string' }, 'path') },
      ...given,
    })
    const type = data.startsWith('{') ? 'application/json' : 'text/plain'
    await call({ path: `${await keep(data, type)}${form}` })
    expect(got).toEqual([{ path: form === '#/a' ? '/var/log/syslog' : data }])
    expect(existsSync(folder)).toBe(false)
  })
})

it('a file has the bytes of its reference', async () => {
  const { call, keep, kept, found } = machine()
  const uri = await keep(Buffer.alloc(50_000, 'abc'))
  await call({ value: `${uri}?as=path` })
  const reference = await kept.find({ id: 'ada' }, uri.slice('ref://'.length))
  const sum = createHash('sha256')
    .update(found[0]?.data ?? '')
    .digest('hex')
  expect(sum).toBe(reference?.sha256)
})
