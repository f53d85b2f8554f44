import { chownSync, mkdtempSync, realpathSync, rmSync } from 'node:fs'
import { homedir, tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { userFolder } from '../../../src/config/user-folders.ts'

const isAdministrator = process.getuid?.() === 0
const OTHER_USER = 65_534
const ofDatabase = (): string => join(userInfo().homedir, '.cache')

describe.skipIf(process.platform !== 'linux')('a folder of the user (on Linux)', () => {
  it('is below the variable for it, or below HOME', () => {
    const [own, home] = [newFolder(), newFolder()]
    vi.stubEnv('HOME', home)
    expect(homedir()).toBe(home)
    expect(userFolder('state', { XDG_STATE_HOME: own })).toBe(own)
    expect(userFolder('state', {})).toBe(join(home, '.local', 'state'))
  })

  it.each([
    ['relative', 'home'],
    ['empty', ''],
    ['missing', undefined],
  ])('is below the home folder of the database of users if HOME is %s', (_what, home) => {
    vi.stubEnv('HOME', home)
    expect(userFolder('cache', { XDG_CACHE_HOME: home })).toBe(ofDatabase())
  })

  it.skipIf(!isAdministrator)('is not in the home folder of another user (needs root)', () => {
    const other = newFolder()
    chownSync(other, OTHER_USER, OTHER_USER)
    vi.stubEnv('HOME', other)
    expect(userFolder('cache', {})).toBe(ofDatabase())
  })
})

function newFolder(): string {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'gatehouse-test-')))
  onTestFinished(() => {
    vi.unstubAllEnvs()
    rmSync(folder, { recursive: true })
  })
  return folder
}
