import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, describe, expect, test } from 'vitest'
import { outsideOf, readSandbox } from '../../../../src/testkit/prove/sandbox.ts'

const root = mkdtempSync(join(tmpdir(), 'gatehouse-sandbox-'))
const folder = join(root, 'sandbox')
const beside = join(root, 'beside')
for (const each of [folder, beside]) mkdirSync(each)
symlinkSync(beside, join(folder, 'link'))
symlinkSync(join(beside, 'new.txt'), join(folder, 'nowhere'))
symlinkSync(homedir(), join(root, 'home'))
afterAll(() => rmSync(root, { recursive: true, force: true }))

type Arguments = Readonly<Record<string, unknown>>

function isOutside(texts: readonly string[], args: Arguments): boolean {
  return outsideOf(readSandbox(texts, root), args, { mustBind: true }) !== undefined
}

describe('a sandbox', () => {
  test.each<[string, readonly string[], Arguments]>([
    ['a path in its folder', [folder], { path: join(folder, 'a.txt') }],
    ['the folder itself', [folder], { path: folder }],
    [
      'a path in its folder, given as a relative one',
      [`./${basename(folder)}`],
      { path: join(folder, 'a.txt') },
    ],
    ['a file URL in its folder', [folder], { uri: pathToFileURL(join(folder, 'a.txt')).href }],
    ['a nested path in its folder', [folder], { files: [{ path: join(folder, 'a', 'b') }] }],
    ['the named value', ['repo=scratch'], { repo: 'scratch', title: 'any' }],
    ['a value with the named beginning', ['key=test:*'], { key: 'test:1' }],
    ['a relative path at a named place', ['vault=scratch'], { vault: 'scratch', path: 'a.md' }],
    ['anything that a server for tests keeps', ['server'], { repo: 'any', title: 'any' }],
    ['text with a slash in it', [folder], { path: folder, content: 'and/or' }],
  ])('contains %s', (_what, texts, args) => {
    expect(outsideOf(readSandbox(texts, root), args, { mustBind: true })).toBeUndefined()
  })

  test.each<[string, readonly string[], Arguments]>([
    ['a path beside its folder', [folder], { path: join(beside, 'a.txt') }],
    ['a path that begins like its folder', [folder], { path: `${folder}-2` }],
    ['a path up from its folder', [folder], { path: `${folder}/../beside/a.txt` }],
    ['a path through a link', [folder], { path: join(folder, 'link', 'a.txt') }],
    ['a link to what does not exist', [folder], { path: join(folder, 'nowhere') }],
    ['a relative path', [folder], { path: 'a.txt' }],
    ['a file URL beside its folder', [folder], { uri: pathToFileURL(beside).href }],
    ['another URL', [folder], { path: folder, url: 'https://example.com/' }],
    ['a second place outside', [folder], { source: folder, destination: beside }],
    ['a place under another name', [folder], { path: folder, output: join(beside, 'a') }],
    ['a place as a key', [folder], { path: folder, changes: { [beside]: 'x' } }],
    ['another value', ['repo=scratch'], { repo: 'production' }],
    ['another beginning', ['key=test:*'], { key: 'live:1' }],
    [
      'an unnamed place beside the named one',
      ['repo=scratch'],
      { repo: 'scratch', owner: 'somebody', project: 'x' },
    ],
    ['a call without a place', [folder], { title: 'any' }],
    ['a path at a server for tests', ['server'], { path: '/etc/hosts' }],
    ['the folder of the user at a server for tests', ['server'], { path: '~/a' }],
  ])('does not contain %s', (_what, texts, args) => {
    expect(isOutside(texts, args)).toBe(true)
  })

  test.each(['scratch', '/', homedir(), './home', './home/../home/', ''])('cannot be %j', (text) => {
    expect(() => readSandbox([text], root)).toThrow(/--sandbox/)
  })
})
