import { describe, expect, it } from 'vitest'
import {
  callVerdictsOf,
  isDangerous,
  lineOf,
  mistakesOf,
  verdictsOf,
} from '../../../support/judgement-table.ts'
import { writtenServers } from '../../../support/written-tools.ts'

const risks = {
  read: 'safe',
  harmless: 'safe',
  write: 'reversible',
  destructive: 'destructive',
  execute: 'destructive',
} as const

describe.each([true, false])('invented tools of many fields, with trust: %s', (isTrusted) => {
  const verdicts = verdictsOf(writtenServers, isTrusted)
  const { unasked, writingRead, tiresome } = mistakesOf(verdicts)

  it('every tool that destroys or executes requires confirmation', () => {
    expect(unasked.map(lineOf)).toEqual([])
  })

  it('no writing tool is classified as reading', () => {
    expect(writingRead.map(lineOf)).toEqual([])
  })

  it('no tool that only reads requires confirmation', () => {
    expect(tiresome.map(lineOf)).toEqual([])
  })

  it('few tools that only write require confirmation', () => {
    const written = verdicts.filter(({ label }) => label === 'write')
    const asked = written.filter(({ isAlwaysAsked }) => isAlwaysAsked)
    expect(written.length).toBeGreaterThan(20)
    expect(asked.map(lineOf)).toEqual([])
  })

  it('each call is judged by its own arguments', () => {
    const calls = callVerdictsOf(writtenServers, isTrusted)
    const wrong = calls.filter(({ label, risk }) => risk !== risks[label])
    expect(calls.filter(({ label }) => isDangerous(label)).length).toBeGreaterThan(20)
    expect(wrong).toEqual([])
  })
})
