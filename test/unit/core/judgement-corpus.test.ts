import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import {
  callVerdictsOf,
  confusionTable,
  isDangerous,
  labelledServers,
  limits,
  lineOf,
  mistakesOf,
  verdictsOf,
} from '../../support/judgement-table.ts'

/**
 * The classifier was tuned on `tuning`. The others were labelled before their first evaluation, in this order; `fourth` has
 * single tools of many servers, and calls of those whose arguments decide.
 */
const halves = ['tuning', 'held-out', 'fresh', 'third', 'fourth'].flatMap((half) => {
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

  it('few tools of untrusted servers that only read or change session state require confirmation', () => {
    const { share: untrusted, tiresome: lines } = mistakesOf(verdictsOf(servers, false))
    expect({ untrusted, lines: lines.map(lineOf) }).toEqual({
      untrusted: Math.min(untrusted, limits.overAsked),
      lines: expect.anything(),
    })
  })

  it.each([true, false])(
    'every call that destroys or executes requires confirmation, with trust: %s',
    (isTrusted) => {
      const unaskedCalls = callVerdictsOf(servers, isTrusted).filter(
        ({ label, risk }) => isDangerous(label) && risk !== 'destructive',
      )
      expect(unaskedCalls).toEqual([])
    },
  )
})
