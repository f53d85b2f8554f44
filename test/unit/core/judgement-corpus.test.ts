import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import {
  confusionTable,
  labelledServers,
  limits,
  lineOf,
  mistakesOf,
  verdictsOf,
} from '../../support/judgement-table.ts'

/** The classifier was tuned on `tuning`. The others were labelled before their first evaluation, in this order. */
const halves = ['tuning', 'held-out', 'fresh', 'third'].flatMap((half) => {
  const folder = fileURLToPath(new URL(`../../fixtures/judgement/${half}`, import.meta.url))
  return existsSync(folder) ? [{ half, servers: labelledServers(folder) }] : []
})

describe.each(halves)('classification of the $half servers', ({ half, servers }) => {
  const verdicts = verdictsOf(servers, true)
  const { unasked, writingRead, tiresome, share } = mistakesOf(verdicts)

  it('the corpus covers several servers, and the confusion table is printed', () => {
    console.log(`${half}: ${servers.length} servers, ${verdicts.length} tools\n${confusionTable(verdicts)}`)
    expect(servers.length).toBeGreaterThanOrEqual(8)
  })

  it('every tool that destroys or executes requires confirmation', () => {
    expect(unasked.map(lineOf)).toEqual([])
  })

  it('no writing tool is classified as reading', () => {
    expect(writingRead.map(lineOf)).toEqual([])
  })

  it('few tools that only read or change session state require confirmation', () => {
    expect({ share, tiresome: tiresome.map(lineOf) }).toEqual({
      share: Math.min(share, limits.overAsked),
      tiresome: expect.anything(),
    })
  })

  it('every tool that destroys or executes requires confirmation on an untrusted server', () => {
    expect(mistakesOf(verdictsOf(servers, false)).unasked.map(lineOf)).toEqual([])
  })
})
