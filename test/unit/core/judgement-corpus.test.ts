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

/** The judge was built against `tuning`. The others were labelled before it first judged them, in this order. */
const halves = ['tuning', 'held-out', 'fresh', 'third'].flatMap((half) => {
  const folder = fileURLToPath(new URL(`../../fixtures/judgement/${half}`, import.meta.url))
  return existsSync(folder) ? [{ half, servers: labelledServers(folder) }] : []
})

describe.each(halves)('judgement of the $half servers', ({ half, servers }) => {
  const verdicts = verdictsOf(servers, true)
  const { unasked, writingRead, tiresome, share } = mistakesOf(verdicts)

  it('covers several servers, and prints its confusion table', () => {
    console.log(`${half}: ${servers.length} servers, ${verdicts.length} tools\n${confusionTable(verdicts)}`)
    expect(servers.length).toBeGreaterThanOrEqual(8)
  })

  it('asks about every tool that destroys or executes', () => {
    expect(unasked.map(lineOf)).toEqual([])
  })

  it('takes no tool that writes for one that reads', () => {
    expect(writingRead.map(lineOf)).toEqual([])
  })

  it('asks about few tools that only read or change nothing but the session', () => {
    expect({ share, tiresome: tiresome.map(lineOf) }).toEqual({
      share: Math.min(share, limits.overAsked),
      tiresome: expect.anything(),
    })
  })

  it('asks about every tool that destroys or executes where its server is not trusted', () => {
    expect(mistakesOf(verdictsOf(servers, false)).unasked.map(lineOf)).toEqual([])
  })
})
