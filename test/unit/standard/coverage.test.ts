import { describe, expect, it } from 'vitest'
import { assertions } from '../../../src/lint/audit.ts'
import { gaps, left, namedInSources, pending, rows } from '../../support/standard.ts'

describe('the rows of the corporate standard', () => {
  const found = gaps(namedInSources())

  it('are all there, once, in order', () => {
    const ids = Array.from({ length: 231 }, (_, index) => `C${String(index + 1).padStart(3, '0')}`)
    expect(rows.map(({ id }) => id)).toEqual(ids)
  })

  it('each have a test, or are left to a later area', () => {
    expect(found.untested).toEqual([])
  })

  it('have no test while they are pending', () => {
    expect(found.pendingButTested).toEqual([])
  })

  it('are the only numbers in names of tests, and pending ones bind the gateway', () => {
    expect(found.unknown).toEqual([])
    expect(found.pendingForNobody).toEqual([])
  })

  it('are pending in one area only', () => {
    expect(left.map(([id]) => id).toSorted()).toEqual([...pending.keys()].toSorted())
  })

  it('are audited wherever the gateway adds something or a server is asked, at their own level', () => {
    const audited = assertions.map(({ id, level }) => `${id} ${level}`)
    const wanted = rows.filter(({ who }) => /[AL]/.test(who)).map(({ id, level }) => `${id} ${level}`)
    expect(audited).toEqual(wanted)
  })
})
