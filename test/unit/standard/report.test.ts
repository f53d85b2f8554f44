import { describe, expect, it } from 'vitest'
import { binding, pending } from '../../support/standard.ts'
import { type Ran, standardReport } from '../../support/standard-report.ts'

const everything: readonly Ran[] = binding
  .filter(({ id }) => !pending.has(id))
  .map(({ id }) => ({ names: ['a group', `${id} is kept`], state: 'passed' }))
const deviating = 'C180'
const [first = ''] = everything.map(({ names }) => names[1]?.slice(0, 4))

describe('the report on the standard', () => {
  it('the report is complete when every row that is not pending has a passing test', () => {
    const { text, isComplete } = standardReport(everything)
    expect(isComplete).toBe(true)
    expect(text).toMatch(new RegExp(`^\\| ${first} \\| \\w+ \\| [GAL ]+ \\| passed \\| is kept \\|$`, 'm'))
    expect(text.match(/^\| C\d{3} /gm)).toHaveLength(231)
  })

  it.each<[string, readonly Ran[], string]>([
    ['a row without a test', everything.slice(1), `${first} has neither a test`],
    [
      'a failing test',
      [...everything, { names: [`${first} is also kept`], state: 'failed' }],
      `${first} has a test that did not pass`,
    ],
    [
      'an unknown row number',
      [...everything, { names: [`C${999} is kept`], state: 'passed' }],
      `C${999} is no row`,
    ],
    [
      'a file that was not loaded',
      [...everything, { names: ['test/broken.test.ts'], state: 'not loaded' }],
      'test/broken.test.ts could not be loaded',
    ],
  ])('the report is incomplete with %s', (_, tests, problem) => {
    const { text, isComplete } = standardReport(tests)
    expect(isComplete).toBe(false)
    expect(text).toContain(`- ${problem}`)
  })

  it('a row that the gateway deviates from has its reason, and does not count as passed', () => {
    const { text, isComplete } = standardReport(everything)
    expect(isComplete).toBe(true)
    expect(text).toContain(
      `- ${deviating} (must) deviates: -32601 and -32002 have status 200 within a session.`,
    )
    expect(text).toMatch(new RegExp(`^\\| ${deviating} \\| must \\| G \\| deviates \\|`, 'm'))
    const [, passed, all, deviations] =
      /^(\d+) of (\d+) rows pass, (\d+) deviate on purpose/m.exec(text) ?? []
    expect(Number(passed) + Number(deviations)).toBe(Number(all) - pending.size)
    expect(Number(deviations)).toBeGreaterThan(0)
  })

  it('a deviation whose test fails is a failure', () => {
    const failing: Ran = { names: [`${deviating} is otherwise`], state: 'failed' }
    const { text, isComplete } = standardReport([...everything, failing])
    expect(isComplete).toBe(false)
    expect(text).toMatch(new RegExp(`^\\| ${deviating} .*\\| failed \\|`, 'm'))
  })

  it('a test counts for every row its title begins with', () => {
    const second = everything[1]?.names[1]?.slice(0, 4) ?? ''
    const both: Ran = { names: [`${first} ${second} are kept`], state: 'passed' }
    const { text, isComplete } = standardReport([...everything.slice(2), both])
    expect(isComplete).toBe(true)
    expect(text).toMatch(new RegExp(`^\\| ${second} .*\\| are kept \\|$`, 'm'))
  })

  it('the tests of a group named after a row count for that row', () => {
    const grouped: Ran = { names: [`${first} says this`, 'here'], state: 'passed' }
    expect(standardReport([...everything.slice(1), grouped]).isComplete).toBe(true)
  })
})
