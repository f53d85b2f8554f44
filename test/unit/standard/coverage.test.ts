import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { assertions } from '../../../src/lint/audit.ts'
import { inRepository } from '../../support/document.ts'
import { deviations, filesOfRows, gaps, left, namedInSources, pending, rows } from '../../support/standard.ts'

describe('the rows of the corporate standard', () => {
  const found = gaps(namedInSources())

  it('every row exists once, in order', () => {
    const ids = Array.from({ length: 231 }, (_, index) => `C${String(index + 1).padStart(3, '0')}`)
    expect(rows.map(({ id }) => id)).toEqual(ids)
  })

  it('every row has a test or is pending', () => {
    expect(found.untested).toEqual([])
  })

  it('no pending row has a test', () => {
    expect(found.pendingButTested).toEqual([])
  })

  it('test titles name existing rows only, and pending rows apply to the gateway', () => {
    expect(found.unknown).toEqual([])
    expect(found.pendingForNobody).toEqual([])
  })

  it('every deviation has a test, and its reason is in the manual', () => {
    expect(found.deviatingUntested).toEqual([])
    const manual = readFileSync(inRepository('docs/guard.md'), 'utf8').replaceAll(/\s+/g, ' ')
    for (const reason of deviations.values()) expect(manual).toContain(reason)
  })

  it('the files of rows are those with a title of a row, or that import one', () => {
    const files = filesOfRows().map((file) => file.replace(/.*\/test\//, ''))
    expect(files).toEqual(
      expect.arrayContaining(['unit/features/faces.test.ts', 'unit/store/memory.test.ts']),
    )
    expect(files).not.toContain('unit/standard/report.test.ts')
  })

  it('every pending row belongs to one area', () => {
    expect(left.map(([id]) => id).toSorted()).toEqual([...pending.keys()].toSorted())
  })

  it("every row that applies to servers or the gateway's additions is audited, at its own level", () => {
    const audited = assertions.map(({ id, level }) => `${id} ${level}`)
    const wanted = rows.filter(({ who }) => /[AL]/.test(who)).map(({ id, level }) => `${id} ${level}`)
    expect(audited).toEqual(wanted)
  })
})
