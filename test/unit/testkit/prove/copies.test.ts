import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { fromArguments } from '../../../../src/config/arguments.ts'
import type { CommandReach, UpstreamSettings } from '../../../../src/core/settings.ts'
import { Secret } from '../../../../src/core/text/secret.ts'
import { type Copies, copiesOf } from '../../../../src/testkit/prove/copies.ts'

let folder: string
beforeEach(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'gatehouse-originals-')))
  mkdirSync(join(folder, 'docs'))
  writeFileSync(join(folder, 'docs/a.txt'), 'text')
  writeFileSync(join(folder, 'server.js'), '')
})
afterEach(() => rmSync(folder, { recursive: true }))

function serverOf(args: readonly string[], env: Readonly<Record<string, string>> = {}): UpstreamSettings {
  const [plain] = fromArguments(['node'], { env: {} }).upstreams
  if (!plain) throw new Error('no server')
  const secrets = Object.entries(env).map(([name, value]) => [name, new Secret(value)] as const)
  const reach: CommandReach = { kind: 'command', command: 'node', args, env: Object.fromEntries(secrets) }
  return { ...plain, reach }
}

function wordsOf({ server: { reach } }: Copies): {
  readonly args: readonly string[]
  readonly env: Record<string, string>
} {
  if (reach.kind === 'url') throw new Error('no command')
  const env = Object.entries(reach.env).map(([name, value]) => [name, value.reveal()])
  return { args: reach.args, env: Object.fromEntries(env) }
}

describe('copiesOf', () => {
  it('copies the folders of arguments, and leaves programs, files, options and texts as they are', () => {
    const script = join(folder, 'server.js')
    const copies = copiesOf(
      serverOf([script, './docs', `--root=${folder}/docs`, script, '-v', 'docs', '']),
      folder,
    )
    const { args } = wordsOf(copies)
    const [copy = ''] = copies.folders
    expect(args).toEqual([script, join(copy, 'docs'), `--root=${copy}/docs`, script, '-v', 'docs', ''])
    writeFileSync(join(copy, 'docs/a.txt'), 'changed')
    expect(readFileSync(join(folder, 'docs/a.txt'), 'utf8')).toBe('text')
    copies.remove()
    expect(existsSync(copy)).toBe(false)
  })

  it('copies what variables name, also files that do not exist yet, but no programs', () => {
    const program = join(folder, 'program')
    writeFileSync(program, '')
    chmodSync(program, 0o755)
    const env = {
      DATA: join(folder, 'docs/a.txt'),
      NEW: join(folder, 'new.db'),
      PROGRAM: program,
      MODE: 'fast',
      NONE: '/none/at/all',
    }
    const copies = copiesOf(serverOf([], env), folder)
    const found = wordsOf(copies).env
    const [data = '', made = ''] = copies.folders
    expect(found).toEqual({ ...env, DATA: join(data, 'a.txt'), NEW: join(made, 'new.db') })
    expect(existsSync(join(made, 'new.db'))).toBe(false)
    copies.remove()
  })

  it('names the copies in examples of tools', () => {
    const path = join(folder, 'docs')
    const examples = [{ input: { path: `${path}/a.txt`, list: [path, `${path}2`, 7] }, output: path }]
    const copies = copiesOf({ ...serverOf(['server.js', path]), tools: { '*': { examples } } }, folder)
    const [copy = ''] = copies.folders
    expect(copies.server.tools['*']?.examples).toEqual([
      { input: { path: join(copy, 'docs/a.txt'), list: [join(copy, 'docs'), `${path}2`, 7] }, output: path },
    ])
    copies.remove()
  })

  it('refuses what is too large, names it, and leaves nothing behind', () => {
    const large = join(folder, 'docs/large')
    writeFileSync(large, '')
    truncateSync(large, 200_000_000)
    expect(() => copiesOf(serverOf(['server.js', './docs']), folder)).toThrow(
      /docs is not copied.*100 MB: give/,
    )
  })

  it('copies links as links', () => {
    symlinkSync('/etc', join(folder, 'docs/link'))
    const copies = copiesOf(serverOf(['server.js', './docs']), folder)
    const [copy = ''] = copies.folders
    expect(lstatSync(join(copy, 'docs/link')).isSymbolicLink()).toBe(true)
    copies.remove()
  })
})
