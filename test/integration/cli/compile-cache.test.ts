import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { runCommandProcess } from '../../support/gateway-process.ts'

// What a compile cache contains is run without a check.
describe('the compile cache of a command', () => {
  it('is a folder of the user alone, and not among the temporary files of all users', async () => {
    const { temporary, cache } = await afterVersion()
    expect(readdirSync(temporary)).toEqual([])
    expect(statSync(cache).mode & 0o777).toBe(0o700)
    expect(readdirSync(cache).length).toBeGreaterThan(0)
  })

  it.skipIf(process.getuid === undefined)(
    'is not used while others can change it (needs user ids)',
    async () => {
      const { cache } = await afterVersion((folder) => {
        mkdirSync(folder, { recursive: true })
        chmodSync(folder, 0o777)
      })
      expect(readdirSync(cache)).toEqual([])
    },
  )
})

/** Runs `gatehouse --version` with folders of its own, after preparing the folder of the cache. */
async function afterVersion(prepare: (cache: string) => void = () => undefined) {
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-test-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const temporary = join(folder, 'temporary')
  mkdirSync(temporary)
  const cache = join(folder, 'cache', 'gatehouse', 'compiled')
  prepare(cache)
  const env = { TMPDIR: temporary, XDG_CACHE_HOME: join(folder, 'cache'), NODE_COMPILE_CACHE: undefined }
  const { code, stdout } = await runCommandProcess(['--version'], { env })
  expect([code, /\d+\.\d+/.test(stdout)]).toEqual([0, true])
  return { temporary, cache }
}
