import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { fromArguments } from '../../../../src/config/load.ts'
import type { CommandReach, UpstreamSettings } from '../../../../src/core/settings.ts'
import { Secret } from '../../../../src/core/text/secret.ts'
import { copiesOf } from '../../../../src/testkit/prove/copies.ts'
import { isBelow } from '../../../../src/testkit/prove/sandbox.ts'

let folder: string
let note: string
beforeEach(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'gatehouse-originals-')))
  note = join(folder, 'docs/a.txt')
  mkdirSync(join(folder, 'docs'))
  writeFileSync(note, 'text')
  writeFileSync(join(folder, 'server.js'), '')
})
afterEach(() => rmSync(folder, { recursive: true }))

interface Command {
  readonly command?: string
  readonly args?: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  readonly tools?: UpstreamSettings['tools']
}

function serverOf({ command = 'node', args = [], env = {}, tools = {} }: Command): UpstreamSettings {
  const [plain] = fromArguments(['node'], { env: {} }).upstreams
  if (!plain) throw new Error('no server')
  const secrets = Object.entries(env).map(([name, value]) => [name, new Secret(value)] as const)
  const reach: CommandReach = { kind: 'command', command, args, env: Object.fromEntries(secrets) }
  return { ...plain, reach, tools }
}

/** The words, variables and tools of a server that works on copies, which are deleted after the test. */
async function copied(command: Command, PATH = '/usr/bin') {
  const { server, folders, remove } = await copiesOf(serverOf(command), { cwd: folder, env: { PATH } })
  onTestFinished(remove)
  if (server.reach.kind === 'url') throw new Error('no command')
  const env = Object.entries(server.reach.env).map(([name, value]) => [name, value.reveal()] as const)
  return {
    args: server.reach.args,
    env: Object.fromEntries(env) as Readonly<Record<string, string>>,
    tools: server.tools,
    folders,
    remove,
  }
}

/** Expects a file to be a copy: what is written to it does not change the original. */
function expectApart(copy: string | undefined, original = note): void {
  const before = readFileSync(original, 'utf8')
  expect(readFileSync(copy ?? '', 'utf8')).toBe(before)
  writeFileSync(copy ?? '', 'changed')
  expect(readFileSync(original, 'utf8')).toBe(before)
}

describe('copiesOf', () => {
  it('copies the files and folders of arguments, and leaves the program, options and texts as they are', async () => {
    const script = join(folder, 'server.js')
    const args = [script, './docs', `--root=${folder}/docs`, script, './docs/a.txt', '-v', 'docs', '', '/mcp']
    const copies = await copied({ args })
    const [docs = '', file = ''] = copies.folders
    expect(copies.args).toEqual([
      ...[script, docs, `--root=${docs}`, script, join(file, 'a.txt')],
      ...['-v', 'docs', '', '/mcp'],
    ])
    expectApart(join(docs, 'a.txt'))
    expectApart(join(file, 'a.txt'))
    await copies.remove()
    expect([existsSync(docs), existsSync(file)]).toEqual([false, false])
  })

  it('copies what variables name, also files that do not exist yet', async () => {
    const env = { DATA: note, NEW: join(folder, 'new.db'), MODE: 'fast', NONE: '/none/at/all', URL: '/mcp' }
    const copies = await copied({ env })
    const [data = '', made = ''] = copies.folders
    expect(copies.env).toEqual({ ...env, DATA: join(data, 'a.txt'), NEW: join(made, 'new.db') })
    expect(existsSync(join(made, 'new.db'))).toBe(false)
    expectApart(copies.env['DATA'])
  })

  it('copies what relative paths in variables name', async () => {
    const name = basename(folder)
    const { env } = await copied({ env: { DATA: './docs/a.txt', DIR: `../${name}/docs` } })
    expectApart(env['DATA'])
    expectApart(join(env['DIR'] ?? '', 'a.txt'))
  })

  it('copies files that may be executed, but neither the command nor programs of the path', async () => {
    const command = join(folder, 'server')
    const browser = join(folder, 'bin/browser')
    mkdirSync(dirname(browser))
    for (const file of [command, browser, note]) {
      writeFileSync(file, 'text')
      chmodSync(file, 0o755)
    }
    const programs = { SERVER: command, BROWSER: browser }
    const copies = await copied({ command, env: { DATA: note, ...programs } }, dirname(browser))
    expect(copies.env).toMatchObject(programs)
    expectApart(copies.env['DATA'])
  })

  it('copies what links name, not the links', async () => {
    symlinkSync(note, join(folder, 'link.txt'))
    symlinkSync('docs', join(folder, 'link'))
    const { env, args } = await copied({
      args: ['server.js', './link'],
      env: { FILE: join(folder, 'link.txt'), DIR: join(folder, 'docs') },
    })
    expectApart(env['FILE'])
    expectApart(join(args[1] ?? '', 'a.txt'))
    // A folder that has two names is one folder for the server.
    expect(env['DIR']).toBe(args[1])
  })

  it('copies links within a folder as links within the copy, and files that links out of it name', async () => {
    const docs = join(folder, 'docs')
    writeFileSync(join(folder, 'outside.txt'), 'outside')
    mkdirSync(join(docs, 'sub'))
    symlinkSync(note, join(docs, 'sub/absolute'))
    symlinkSync('../a.txt', join(docs, 'sub/relative'))
    symlinkSync(docs, join(docs, 'sub/above'))
    symlinkSync(join(docs, 'new.txt'), join(docs, 'dangling'))
    symlinkSync(join(folder, 'outside.txt'), join(docs, 'outside'))
    const { args } = await copied({ args: ['server.js', './docs'] })
    const copy = args[1] ?? ''
    expect(readdirSync(copy).toSorted()).toEqual(['a.txt', 'dangling', 'outside', 'sub'])
    for (const link of ['sub/absolute', 'sub/relative', 'sub/above'])
      expect([link, isBelow(copy, realpathSync(join(copy, link)))]).toEqual([link, true])
    writeFileSync(join(copy, 'dangling'), 'made')
    expect(existsSync(join(docs, 'new.txt'))).toBe(false)
    expect(lstatSync(join(copy, 'outside')).isFile()).toBe(true)
    expectApart(join(copy, 'outside'), join(folder, 'outside.txt'))
  })

  it.each([
    ['a folder', '/etc'],
    ['nothing', '/tmp/gatehouse-is-not-there/new.db'],
    ['a device', '/dev/null'],
  ])('refuses a link out of a folder to %s, names it, and leaves nothing behind', async (_kind, target) => {
    const place = join(folder, 'tmp')
    mkdirSync(place)
    vi.stubEnv('TMPDIR', place)
    onTestFinished(() => void vi.unstubAllEnvs())
    symlinkSync(target, join(folder, 'docs/link'))
    await expect(copied({ args: ['server.js', './docs'] })).rejects.toThrow(
      `docs is not copied, because the link link in it leads to ${target}: give`,
    )
    expect(readdirSync(place)).toEqual([])
  })

  it('refuses what is too large, also behind a link, and names it', async () => {
    const large = join(folder, 'docs/large')
    writeFileSync(large, '')
    truncateSync(large, 200_000_000)
    symlinkSync('docs', join(folder, 'link'))
    for (const path of ['./docs', './link'])
      await expect(copied({ args: ['server.js', path] })).rejects.toThrow(/docs is not copied.*100 MB: give/)
  })

  it('names the copies in examples of tools, and generated paths are in a copied folder', async () => {
    const path = join(folder, 'docs')
    const examples = [{ input: { path: `${path}/a.txt`, list: [path, `${path}2`, 7] }, output: path }]
    const { tools, folders, args } = await copied({
      args: ['server.js', './server.js2', path],
      tools: { '*': { examples } },
    })
    const [copy = ''] = folders
    expect(args[2]).toBe(copy)
    expect(tools['*']?.examples).toEqual([
      { input: { path: join(copy, 'a.txt'), list: [copy, `${path}2`, 7] }, output: path },
    ])
  })
})
