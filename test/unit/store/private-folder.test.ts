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
import { createPrivateFolder, folderProblem } from '../../../src/store/private-folder.ts'

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

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-test-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  return folder
}
