import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { FolderBlobs } from '../../../../src/store/blobs/folder.ts'
import { bytesOf } from '../../../support/bytes-of.ts'

describe('blobs in a folder', () => {
  let root = ''
  let folder = ''
  let blobs = new FolderBlobs('')
  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), 'gatehouse-blobs-'))
    folder = join(root, 'blobs')
    blobs = new FolderBlobs(folder)
  })
  afterEach(() => rmSync(root, { recursive: true, force: true }))

  it('are not written, listed or deleted where a link leads to, and nothing there changes', async () => {
    const elsewhere = join(root, 'elsewhere')
    mkdirSync(elsewhere)
    writeFileSync(join(elsewhere, 'notes'), 'mine')
    symlinkSync(elsewhere, folder)
    const refused = {
      code: 'SERVER_UNAVAILABLE',
      message: expect.stringContaining('blobs of the store is a link'),
    }
    await expect(blobs.put('one', bytesOf('data'))).rejects.toMatchObject(refused)
    await expect(blobs.list()).rejects.toMatchObject(refused)
    await expect(blobs.delete('notes')).rejects.toMatchObject(refused)
    expect(readdirSync(elsewhere)).toEqual(['notes'])
  })

  it('are refused where a file is in place of the folder', async () => {
    writeFileSync(folder, 'a file')
    for (const attempt of [
      () => blobs.put('one', bytesOf('data')),
      () => blobs.list(),
      () => blobs.delete('one'),
    ])
      await expect(attempt()).rejects.toMatchObject({ code: 'SERVER_UNAVAILABLE' })
    expect(readFileSync(folder, 'utf8')).toBe('a file')
  })

  it('are not kept if they were deleted while they were written', async () => {
    async function* slow(): AsyncGenerator<Uint8Array> {
      yield Buffer.from('one')
      await blobs.delete('slow')
      yield Buffer.from('two')
    }
    await expect(blobs.put('slow', slow())).rejects.toMatchObject({ code: 'SERVER_UNAVAILABLE' })
    expect(readdirSync(folder)).toEqual([])
  })

  it('are written again once the folder is there again', async () => {
    await blobs.put('one', bytesOf('data'))
    renameSync(folder, join(root, 'old'))
    expect(await blobs.list()).toEqual([])
    expect(await blobs.open('one')).toBeUndefined()
    await blobs.put('two', bytesOf('data'))
    expect(readdirSync(folder)).toEqual(['two'])
  })

  it('are not mixed up with files and links of others in the folder', async () => {
    await blobs.put('one', bytesOf('data'))
    for (const name of ['one.txt', 'one.part', '.hidden', 'a b', 'x'.repeat(65)])
      writeFileSync(join(folder, name), 'mine')
    writeFileSync(join(root, 'secret'), 'mine')
    symlinkSync(join(root, 'secret'), join(folder, 'link'))
    mkdirSync(join(folder, 'inner'))
    expect((await blobs.list()).map(({ id }) => id)).toEqual(['one'])
    expect(await blobs.open('link')).toBeUndefined()
    await blobs.delete('one')
    expect(readdirSync(folder)).toHaveLength(7)
    expect(readFileSync(join(root, 'secret'), 'utf8')).toBe('mine')
  })
})
