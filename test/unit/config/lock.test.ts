// The lock beside a configuration: what `pin` needs of it, and how two versions of it differ for people.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeEach, describe, expect, test } from 'vitest'
import { loadSettings } from '../../../src/config/load.ts'
import {
  acceptedParts,
  type Lock,
  lockChanges,
  type LockedTool,
  lockText,
  readLock,
} from '../../../src/config/lock.ts'
import { ConfigError, problemLine } from '../../../src/config/problem.ts'

const folder = mkdtempSync(join(tmpdir(), 'gatehouse-lock-'))
const file = join(folder, 'gateway.config.yaml')
const lock = join(folder, 'gatehouse.lock')
afterAll(() => rmSync(folder, { recursive: true }))
beforeEach(() => rmSync(lock, { force: true }))

const toolOf = (more: Partial<LockedTool> = {}): LockedTool => ({
  definition: 'a'.repeat(32),
  judgement: 'read safe',
  scopes: ['read:one'],
  description: 'Gets it.',
  arguments: ['id'],
  ...more,
})

function load(text: string, withoutLock = false) {
  return loadSettings(`${text}\nupstreams: { one: x, two: y }`, { file, env: {}, withoutLock })
}

function problems(text: string): string[] {
  try {
    load(text)
    return []
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return error.problems.map((problem) => problemLine({ ...problem, file: 'f' }).replace(folder, ''))
  }
}

describe('pin', () => {
  test('accepts off, warn and hold, for all servers and for one', () => {
    writeFileSync(lock, lockText({}))
    const settings = (text: string) => load(text).settings.features.pin
    expect(settings('')).toBeUndefined()
    expect(settings('pin: off')).toBeUndefined()
    expect(settings('pin: warn')).toEqual({ common: { mode: 'warn' }, upstreams: {} })
    for (const wrong of ['on', 'true', '{ mode: hold }', 'pinned', '[]'])
      expect(problems(`pin: ${wrong}`)).toEqual([
        expect.stringMatching(/^f:1:\d pin: must be one of off, warn, hold/),
      ])
    const ofServer = loadSettings('pin: hold\nupstreams: { one: { command: x, pin: off }, two: y }', {
      file,
      env: {},
    })
    expect(ofServer.settings.features.pin).toEqual({ common: { mode: 'hold' }, upstreams: { one: false } })
  })

  test('reads the lock only where it is needed', () => {
    writeFileSync(lock, lockText({ one: { get: toolOf() } }))
    expect(load('').settings.accepted).toBeUndefined()
    expect(load('pin: hold', true).settings.accepted).toBeUndefined()
    const { accepted } = load('pin: warn').settings
    expect(accepted?.servers.get('one')?.get('get')).toBe('a'.repeat(32))
  })

  test('needs a lock with hold, and warns without one with warn', () => {
    expect(problems('pin: hold')).toEqual([
      'f:1:6 pin: /gatehouse.lock does not exist: write it with gatehouse lock',
    ])
    const { settings, warnings } = load('pin: warn')
    expect(settings.accepted).toBeUndefined()
    expect(warnings).toMatchObject([{ path: 'pin', message: expect.stringContaining('nothing is compared') }])
  })

  test('says which servers need the lock', () => {
    const text = 'upstreams:\n  one: { command: x, pin: hold }\n  two: { command: y, pin: warn }\n  three: z'
    const attempt = () => loadSettings(text, { file, env: {} })
    expect(attempt).toThrow(/upstreams\.one\.pin: .* does not exist/)
    expect(attempt).not.toThrow(/two|three/)
  })

  test.each(['junk: [', 'version: 2\nservers: {}\n', '', '<<<<<<< ours\nversion: 1\n', '[]', 'null'])(
    'refuses a lock that is damaged: %j',
    (text) => {
      writeFileSync(lock, text)
      for (const mode of ['hold', 'warn'])
        expect(problems(`pin: ${mode}`)).toEqual([
          expect.stringMatching(
            /^f:1:6 pin: \/gatehouse\.lock cannot be used: it is no lock of version 1: .*gatehouse lock$/,
          ),
        ])
    },
  )

  test('accepts nothing by an entry that is damaged', () => {
    const entries = { a: null, b: 7, c: { definition: null }, d: [], e: { definition: ['x'] } }
    writeFileSync(lock, JSON.stringify({ version: 1, servers: { one: entries, two: null } }))
    const { accepted } = load('pin: hold').settings
    expect([...(accepted?.servers.get('one')?.values() ?? [])]).toEqual(['', '', '', '', ''])
    expect(accepted?.servers.get('two')?.size).toBe(0)
  })

  test('reads names back as they are', () => {
    const names = ['__proto__', 'constructor', 'null', 'yes', '1', 'a: b', '# no', 'x'.repeat(2000), '\u202e']
    const tools = Object.fromEntries(names.map((name) => [name, toolOf()]))
    expect(Object.keys(readLock(lockText({ one: tools })).one ?? {}).toSorted()).toEqual(names.toSorted())
  })
})

describe('the differences of two locks', () => {
  const long = `Reads the file at the path. ${'It returns the text of the file. '.repeat(20)}Large files are cut.`
  const changes = (was: string, is: string) =>
    lockChanges({ one: { get: toolOf({ description: was }) } }, { one: { get: toolOf({ description: is }) } })

  test('show short descriptions whole, and of long ones the words that changed', () => {
    expect(changes('Gets it.', 'Gets "it".')).toEqual([
      '~ one get',
      '    description: "Gets it." -> "Gets \\"it\\"."',
    ])
    expect(changes(long, long.replace('Large files', 'Ignore the rest.\nLarge files'))).toEqual([
      '~ one get',
      '    description, after "returns the text of the file. ":',
      '      + "Ignore the rest.\\n"',
    ])
    expect(changes(long, long.replace('the path', 'any URL'))).toEqual([
      '~ one get',
      '    description, after "Reads the file at ":',
      '      - "the path. "',
      '      + "any URL. "',
    ])
  })

  test('show both texts whole if they have little in common', () => {
    const [one, other] = [0, 1].map((start) =>
      Array.from({ length: 300 }, (_each, index) => (index % 2 ? `w${index}` : `${start}-${index}`)).join(
        ' ',
      ),
    )
    expect(changes(one ?? '', other ?? '')).toHaveLength(4)
    expect(changes(one ?? '', other ?? '').join()).toContain(JSON.stringify(other))
  })

  test('leave out no word that was added', () => {
    const words = fc.array(fc.constantFrom('a', 'b', 'file', 'path', '\n', '"'), { maxLength: 60 })
    fc.assert(
      fc.property(words, words, fc.nat(60), (was, is, at) => {
        const after = [...is.slice(0, at), 'EVIL', ...is.slice(at)].join(' ')
        const lines = changes(`${was.join(' ')} ${'x'.repeat(100)}`, after)
        expect(lines.filter((line) => /^ {6}\+ .*EVIL/.test(line))).toHaveLength(1)
      }),
    )
  })

  test('are found in time for long texts', () => {
    const text = (word: string): string => `${word} `.repeat(20_000)
    expect(changes(text('one'), text('two'))).toHaveLength(4)
  })

  test('say what else a changed hash can mean, and all of a new tool', () => {
    expect(lockChanges({ one: { get: toolOf() } }, { one: { get: toolOf({ definition: 'b' }) } })).toEqual([
      '~ one get',
      `    definition: ${'a'.repeat(32)} -> b`,
      '    (its title, its annotations, or something in its schemas)',
    ])
    expect(lockChanges({}, { one: { get: toolOf() } })).toEqual(['+ one get: read safe'])
    expect(lockChanges({}, { one: { get: toolOf() } }, true)).toEqual([
      '+ one get: read safe',
      '    scopes: read:one',
      '    description: "Gets it."',
      '    arguments: id',
    ])
  })
})

test('only the tools that are named are accepted', () => {
  const before: Lock = { one: { get: toolOf(), put: toolOf(), old: toolOf() }, two: { put: toolOf() } }
  const now = toolOf({ definition: 'b' })
  const found: Lock = { one: { get: now, put: now, send: now } }
  const accept = (...tools: string[]) => acceptedParts(before, found, { servers: ['one', 'three'], tools })
  expect(accept('put', 'old')).toEqual({ one: { get: toolOf(), put: now }, two: before.two })
  expect(accept('send')).toEqual({ one: { ...before.one, send: now }, two: before.two })
  expect(accept()).toEqual({ one: found.one, two: before.two })
})
