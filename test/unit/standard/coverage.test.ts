import { describe, expect, it } from 'vitest'
import { assertions } from '../../../src/lint/audit.ts'
import { gaps, left, namedInSources, pending, rows } from '../../support/standard.ts'

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

  it('every pending row belongs to one area', () => {
    expect(left.map(([id]) => id).toSorted()).toEqual([...pending.keys()].toSorted())
  })

  it("every row that applies to servers or the gateway's additions is audited, at its own level", () => {
    const audited = assertions.map(({ id, level }) => `${id} ${level}`)
    const wanted = rows.filter(({ who }) => /[AL]/.test(who)).map(({ id, level }) => `${id} ${level}`)
    expect(audited).toEqual(wanted)
  })
})
