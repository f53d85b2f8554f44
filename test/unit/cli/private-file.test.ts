import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeEach, expect, it } from 'vitest'
import { run } from '../../../src/cli/run.ts'
import { writePrivate } from '../../../src/cli/private-file.ts'
import { memoryIo } from '../../support/memory-io.ts'

let folder = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'gatehouse-private-'))
  return () => rmSync(folder, { recursive: true, force: true })
})

const modeOf = (file: string): string => (statSync(file).mode & 0o777).toString(8)

it('a file that a command writes is readable by its owner alone, also if it was there before', () => {
  const [fresh, known] = [join(folder, 'new'), join(folder, 'known')]
  writeFileSync(known, 'what was there, which is longer', { mode: 0o644 })
  for (const file of [fresh, known]) {
    writePrivate(file, 'text')
    expect([modeOf(file), readFileSync(file, 'utf8')]).toEqual(['600', 'text'])
  }
  expect(() => writePrivate(known, 'other', { isNew: true })).toThrow('EEXIST')
  expect(readFileSync(known, 'utf8')).toBe('text')
})

it('a configuration that init writes or overwrites is private', async () => {
  const file = join(folder, 'gateway.config.yaml')
  for (const more of [[], ['--force']]) {
    expect(await run(['init', '--config', file, ...more], memoryIo({ env: {}, cwd: folder }))).toBe(0)
    expect(modeOf(file)).toBe('600')
    rmSync(file)
    writeFileSync(file, '', { mode: 0o644 })
  }
})

it('no command writes files in another way', () => {
  const commands = join(import.meta.dirname, '../../../src/cli')
  const writers = readdirSync(commands).filter((name) =>
    /\b(?:writeFile|createWriteStream|appendFile|copyFile)/.test(readFileSync(join(commands, name), 'utf8')),
  )
  expect(writers.toSorted()).toEqual(['private-file.ts'])
})
