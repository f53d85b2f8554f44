import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, test } from 'vitest'
import { bareCode, codeHash } from '../../scripts/promises/code.ts'
import { promises } from '../../scripts/promises/list.ts'
import { type AllFigures, commandOf, promisesPage } from '../../scripts/promises/page.ts'
import { ruleNames } from '../../src/testkit/simulate/rules/rules.ts'

const root = join(import.meta.dirname, '../..')
const read = (path: string): string => readFileSync(join(root, path), 'utf8')
const figures = JSON.parse(read('scripts/promises/figures.json')) as AllFigures

describe.each(promises)('the promise $id', ({ id, code, proofs }) => {
  const measured = figures[id]

  it('has figures that are as new as the code that keeps it', () => {
    const advice = 'if the code has changed, run npm run promises'
    expect({ advice, code: measured?.code }).toEqual({ advice, code: codeHash(code) })
    expect(measured?.date).toMatch(/^20\d\d-\d\d-\d\d$/)
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

test('a fingerprint of code ignores comments and layout only', () => {
  expect(bareCode('/** Adds.\n * Two. */\n  // three\nconst a = 1 // four\n')).toBe(
    bareCode('const a=1//four'),
  )
  expect(bareCode('const a = 1')).not.toBe(bareCode('const a = 2'))
  expect(codeHash(['core/principal.ts'])).not.toBe(codeHash(['core/error.ts']))
  expect(() => codeHash(['core/absent.ts'])).toThrow('ENOENT')
})
