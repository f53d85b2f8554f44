import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { open } from 'lmdb'
import { describe, expect, it, onTestFinished } from 'vitest'
import { inheritedVariables, withThreePipes } from '../../../../src/upstream/transport/child.ts'

describe.skipIf(!existsSync('/proc/self/fdinfo'))('the descriptors of a child (needs /proc)', () => {
  it('are three pipes, while a store is open whose file a plain child would have', () => {
    const file = openStore()
    const list = ['sh', ['-c', 'ls -l /proc/$$/fd']] as const
    expect(spawnSync(...list, { encoding: 'utf8' }).stdout).toContain(file)
    const { stdout } = withThreePipes((stdio) => spawnSync(...list, { encoding: 'utf8', stdio }))
    const links = [...stdout.matchAll(/ (\d+) -> (\S+)$/gm)].map(([, number, link]) => [Number(number), link])
    expect(links.filter(([number]) => Number(number) < 3)).toHaveLength(3)
    expect(links.filter(([number, link]) => Number(number) > 2 && link !== '/dev/null')).toEqual([])
  })

  it('are closed here when the start fails', () => {
    openStore()
    const before = openDescriptors()
    const start = (): never => {
      throw new Error('no such program')
    }
    expect(() => withThreePipes(start)).toThrow('no such program')
    expect(openDescriptors()).toBe(before)
  })
})

describe('the environment of a child', () => {
  it('has what programs need, and neither secrets nor shell functions', () => {
    const environment = { PATH: '/bin', LC_ALL: 'C', TOKEN: 'secret', TERM: '() { evil; }', HOME: undefined }
    expect(inheritedVariables(environment)).toEqual({ PATH: '/bin', LC_ALL: 'C' })
  })
})

/** Opens a database as the store does, and returns the path of its file, which stays open until the test is over. */
function openStore(): string {
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-test-'))
  const database = open({ path: folder, noSubdir: false })
  onTestFinished(async () => {
    await database.close()
    rmSync(folder, { recursive: true })
  })
  return join(folder, 'data.mdb')
}

function openDescriptors(): number {
  return readdirSync('/proc/self/fd').length
}
