import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { watchFile, type FileWatcher } from '../../../src/config/watch.ts'

let folder = ''
let file = ''
let seen: string[] = []
let unusable: string[] = []
let watched: FileWatcher | undefined

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'gatehouse-watch-'))
  file = join(folder, 'gateway.config.yaml')
  seen = []
  unusable = []
})

afterEach(() => {
  watched?.close()
  rmSync(folder, { recursive: true, force: true })
})

function start(text: string, every = 10_000): void {
  watched = watchFile(file, {
    text,
    quiet: 5,
    every,
    onChange: (changed) => seen.push(changed),
    onUnusable: (state) => unusable.push(state),
  })
}

async function sees(...texts: string[]): Promise<void> {
  await vi.waitFor(() => expect(seen).toEqual(texts), { timeout: 3000, interval: 5 })
}

test('a file that is overwritten in place is read again', async () => {
  writeFileSync(file, 'a')
  start('a')
  writeFileSync(file, 'b')
  await sees('b')
})

test('a change between reading and watching is detected', async () => {
  writeFileSync(file, 'b')
  start('a', 20)
  await sees('b')
})

test('a file that is replaced by a rename is read again each time', async () => {
  writeFileSync(file, 'a')
  start('a')
  for (const [index, text] of ['b', 'c'].entries()) {
    writeFileSync(`${file}.tmp`, text)
    renameSync(`${file}.tmp`, file)
    await sees(...['b', 'c'].slice(0, index + 1))
  }
})

test.each([
  ['missing', () => rmSync(file)],
  ['empty', () => writeFileSync(file, '')],
  ['empty', () => writeFileSync(file, ' \n')],
])('a file that is %s is reported once and read again once it has content', async (state, change) => {
  writeFileSync(file, 'a')
  start('a', 20)
  change()
  await vi.waitFor(() => expect(unusable).toEqual([state]), { timeout: 3000, interval: 5 })
  writeFileSync(file, 'b')
  await sees('b')
  expect(unusable).toEqual([state])
})

test('a file that is deleted and created again is read again', async () => {
  writeFileSync(file, 'a')
  start('a')
  rmSync(file)
  writeFileSync(file, 'b')
  await sees('b')
})

test('a symbolic link that is switched to another folder, as in Kubernetes, is followed', async () => {
  for (const text of ['a', 'b']) {
    mkdirSync(join(folder, `..${text}`))
    writeFileSync(join(folder, `..${text}`, 'gateway.config.yaml'), text)
  }
  symlinkSync('..a', join(folder, '..data'))
  symlinkSync(join('..data', 'gateway.config.yaml'), file)
  start('a')
  symlinkSync('..b', join(folder, '..data_tmp'))
  renameSync(join(folder, '..data_tmp'), join(folder, '..data'))
  await sees('b')
})

test('a file in another folder behind a link is polled', async () => {
  const elsewhere = mkdtempSync(join(tmpdir(), 'gatehouse-watch-'))
  writeFileSync(join(elsewhere, 'real.yaml'), 'a')
  symlinkSync(join(elsewhere, 'real.yaml'), file)
  start('a', 20)
  writeFileSync(join(elsewhere, 'real.yaml'), 'b')
  await sees('b')
  rmSync(elsewhere, { recursive: true })
})

test('a folder that is removed and created again is watched again', async () => {
  writeFileSync(file, 'a')
  start('a', 20)
  rmSync(folder, { recursive: true })
  mkdirSync(folder)
  writeFileSync(file, 'b')
  await sees('b')
})

test('unchanged or empty text is not reported', async () => {
  writeFileSync(file, 'a')
  start('a', 20)
  writeFileSync(file, 'a')
  writeFileSync(file, '')
  writeFileSync(file, 'b')
  await sees('b')
})

test('nothing is reported after close', async () => {
  writeFileSync(file, 'a')
  const other: string[] = []
  start('a')
  const second = watchFile(file, { text: 'a', quiet: 5, every: 20, onChange: (text) => other.push(text) })
  watched?.close()
  writeFileSync(file, 'b')
  await vi.waitFor(() => expect(other).toEqual(['b']), { timeout: 3000, interval: 5 })
  second.close()
  expect(seen).toEqual([])
})
