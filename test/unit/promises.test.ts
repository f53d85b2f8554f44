import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, test } from 'vitest'
import { bareCode, codeHash } from '../../scripts/promises/code.ts'
import { promises } from '../../scripts/promises/list.ts'
import { outdatedReport } from '../../scripts/promises/outdated.ts'
import { type AllFigures, commandOf, promisesPage } from '../../scripts/promises/page.ts'
import { ruleNames } from '../simulate/rules/rules.ts'

const root = join(import.meta.dirname, '../..')
const read = (path: string): string => readFileSync(join(root, path), 'utf8')
const figures = JSON.parse(read('scripts/promises/figures.json')) as AllFigures

describe.each(promises)('the promise $id', ({ id, code, proofs }) => {
  const measured = figures[id]

  it('has figures of a day and of a code, which still exists', () => {
    expect(measured?.date).toMatch(/^20\d\d-\d\d-\d\d$/)
    expect(measured?.code).toMatch(/^[\da-f]{16}$/)
    expect(codeHash(code)).toMatch(/^[\da-f]{16}$/)
  })

  it('has a figure of each proof, which counted something', () => {
    const empty = proofs.map(commandOf).filter((proof) => {
      const { figure = {} } = measured?.measured.find((each) => each.proof === proof) ?? {}
      const counts = Object.values(figure)
      return counts.length === 0 || counts.some((count) => count <= 0)
    })
    expect(empty).toEqual([])
  })

  it('is shown by tests and rules that exist', () => {
    for (const proof of proofs) {
      if (proof.kind === 'simulation') for (const rule of proof.rules) expect(ruleNames).toContain(rule)
      else expect(existsSync(join(root, proof.file))).toBe(true)
      // The seed of the page is the one that the test uses.
      if (proof.kind === 'test' && proof.seed !== undefined)
        expect(read(proof.file).replaceAll('_', '')).toContain(String(proof.seed))
    }
  })
})

test('the page has the promises and their figures', () => {
  expect(read('docs/promises.md')).toBe(promisesPage(figures))
  expect(promises).toHaveLength(10)
})

test('a check names the figures that are older than their code, with the code, and fails if there are any', () => {
  const [first, second, ...others] = promises
  if (!first || !second) throw new TypeError('there are promises')
  const asMeasured = Object.fromEntries(
    promises.map(({ id, code }) => [id, { date: '2026-01-02', measured: [], code: codeHash(code) }]),
  )
  expect(outdatedReport(promises, asMeasured)).toEqual({
    text: 'All figures are as new as their code.',
    code: 0,
  })
  const { [second.id]: _missing, ...rest } = asMeasured
  const older = { ...rest, [first.id]: { date: '2026-01-02', measured: [], code: 'another' } }
  const { text, code } = outdatedReport(promises, older)
  expect(code).toBe(1)
  expect(text.split('\n').slice(1)).toEqual([
    `  ${first.id}, measured 2026-01-02: ${first.code.join(', ')}`,
    `  ${second.id}, measured never: ${second.code.join(', ')}`,
  ])
  for (const { id } of others) expect(text).not.toContain(`  ${id}, measured`)
})

test('a fingerprint of code ignores comments and layout only', () => {
  expect(bareCode('/** Adds.\n * Two. */\n  // three\nconst a = 1 // four\n')).toBe(
    bareCode('const a=1//four'),
  )
  expect(bareCode('const a = 1')).not.toBe(bareCode('const a = 2'))
  expect(codeHash(['core/principal.ts'])).not.toBe(codeHash(['core/error.ts']))
  expect(() => codeHash(['core/absent.ts'])).toThrow('ENOENT')
})
