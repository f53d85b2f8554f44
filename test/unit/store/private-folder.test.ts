import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  statSync,
  symlinkSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { createPrivateFolder, folderProblem, isOwnPlace } from '../../../src/store/private-folder.ts'

const isAdministrator = process.getuid?.() === 0
const NOBODY = 65_534

describe.skipIf(process.getuid === undefined)('a private folder (needs user ids)', () => {
  it('is created with those above it, for its user alone', () => {
    const folder = join(newFolder(), 'a', 'b')
    expect(createPrivateFolder(folder)).toBe(folder)
    expect([join(folder, '..'), folder].map((each) => statSync(each).mode & 0o777)).toEqual([0o700, 0o700])
  })

  it('may be in a folder for the temporary files of all users', () => {
    const all = newFolder()
    chmodSync(all, 0o1777)
    expect(createPrivateFolder(join(all, 'own'))).toBe(join(all, 'own'))
  })

  it('is none if others can write to it, or to a folder above it', () => {
    const above = newFolder()
    const folder = join(above, 'own')
    mkdirSync(folder)
    chmodSync(folder, 0o770)
    expect([createPrivateFolder(folder), folderProblem(folder)]).toEqual([
      undefined,
      'can be written by other users',
    ])
    chmodSync(folder, 0o700)
    chmodSync(above, 0o777)
    expect(createPrivateFolder(folder)).toBeUndefined()
    chmodSync(above, 0o755)
    expect(createPrivateFolder(folder)).toBe(folder)
  })

  it('is none if a link on the way to it is in a folder of all users', () => {
    const [all, own] = [newFolder(), newFolder()]
    symlinkSync(own, join(all, 'link'))
    expect(createPrivateFolder(join(all, 'link', 'x'))).toBe(join(own, 'x'))
    chmodSync(all, 0o777)
    expect(createPrivateFolder(join(all, 'link', 'x'))).toBeUndefined()
  })

  it('is none if it is a link, a file, or cannot be created', () => {
    const parent = newFolder()
    symlinkSync(newFolder(), join(parent, 'link'))
    expect(createPrivateFolder(join(parent, 'link'))).toBeUndefined()
    expect(folderProblem(join(parent, 'link'))).toBe('is not a folder')
    expect(createPrivateFolder('/dev/null/x')).toBeUndefined()
    expect(folderProblem(join(parent, 'none'))).toBeUndefined()
  })

  it.skipIf(!isAdministrator)('is none if it, or one above it, belongs to another user (needs root)', () => {
    const above = newFolder()
    const folder = join(above, 'own')
    mkdirSync(folder, { mode: 0o700 })
    chownSync(folder, NOBODY, NOBODY)
    expect([createPrivateFolder(folder), folderProblem(folder)]).toEqual([
      undefined,
      'belongs to another user',
    ])
    chownSync(folder, 0, 0)
    chownSync(above, NOBODY, NOBODY)
    expect(createPrivateFolder(folder)).toBeUndefined()
    expect(existsSync(folder)).toBe(true)
  })
})

describe.skipIf(!isAdministrator)('a place of this user (needs the rights of root)', () => {
  it('is not in a folder of another user, unless all users share it', () => {
    const other = foreignFolder()
    const places = [other, join(other, 'a', 'b')]
    expect(places.map(isOwnPlace)).toEqual([false, false])
    chmodSync(other, 0o1777)
    expect(places.map(isOwnPlace)).toEqual([true, true])
    mkdirSync(join(other, 'a'))
    chownSync(join(other, 'a'), NOBODY, NOBODY)
    expect(places.map(isOwnPlace)).toEqual([true, false])
  })

  it('may be below a folder whose owner is unknown, as in a sandbox', () => {
    const above = foreignFolder()
    mkdirSync(join(above, 'home'))
    expect(isOwnPlace(join(above, 'home', 'cache'))).toBe(true)
  })

  it('is left as it is where it is not', () => {
    const other = foreignFolder()
    expect(createPrivateFolder(join(other, 'a'))).toBeUndefined()
    expect(existsSync(join(other, 'a'))).toBe(false)
  })
})

/** A folder of another user in one of this user. */
function foreignFolder(): string {
  const folder = join(newFolder(), 'foreign')
  mkdirSync(folder)
  chownSync(folder, NOBODY, NOBODY)
  return folder
}

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-test-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  return folder
}
