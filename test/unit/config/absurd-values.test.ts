import { expect, test } from 'vitest'
import { loadSettings } from '../../../src/config/load.ts'
import { ConfigError } from '../../../src/config/problem.ts'

/** The messages of the problems of a file, with their keys. */
function problemsIn(text: string): readonly string[] {
  try {
    loadSettings(text, { file: '/x/gateway.config.yaml', env: {} })
    return []
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return error.problems.map(({ path, message }) => `${path}: ${message}`)
  }
}

const server = (settings: string) => `upstreams: { a: { command: x, ${settings} } }\n`
const tool = (settings: string) => server(`tools: { t: { ${settings} } }`)
const top = (text: string) => `${text}\nupstreams: { a: { command: x } }\n`

test.each([
  ['no', 'never'],
  ['No', 'never'],
  ['n', 'never'],
  ['none', 'never'],
  ['"off."', 'never'],
  ['disabled', 'never'],
  ['nevr', 'never'],
  ['Never', 'never'],
  ['"never ask"', 'never'],
  ['no confirmation', 'never'],
  ['yes', 'on'],
  ['Yes', 'on'],
  ['y', 'on'],
  ['always', 'on'],
  ['Always!', 'on'],
  ['required', 'on'],
  ['ask', 'on'],
])('nobody is asked the question %j: %s is meant', (written, meant) => {
  expect(problemsIn(tool(`confirm: ${written}`))).toEqual([
    expect.stringMatching(
      `^upstreams.a.tools.t.confirm: must be on, never, or a question .*; did you mean \`${meant}\`\\?$`,
    ),
  ])
})

test.each([
  'on',
  'off',
  'never',
  'true',
  '"Delete {id}?"',
  'Really?',
  '"{id}"',
  'Remove all of it',
  '削除しますか',
  '"No way back. Delete {id}?"',
])('a confirmation is configured with %s', (written) => {
  expect(problemsIn(tool(`confirm: ${written}`))).toEqual([])
})

test.each([
  [
    tool('key_argument: no'),
    'upstreams.a.tools.t.key_argument: must be the name of an argument, or off; did you mean `off`?',
  ],
  [
    tool('type_to_confirm: off'),
    /tools\.t\.type_to_confirm: must be the name of an argument; leave the line out/,
  ],
  [tool('type_to_confirm: yes'), /tools\.t\.type_to_confirm: must be the name of an argument/],
  [tool('pivot: yes'), /pivot: must be on or off; did you mean `on`\?/],
  [tool('hide: flase'), /hide: must be on or off; did you mean `off`\?/],
  [server('prefix: no'), /prefix: must be one of auto, always, never; did you mean `never`\?/],
  [top('features: { breaker: disabled }'), /breaker: must be on, off, .*did you mean `off`\?/],
  [top('observe: { audit: no }'), /observe\.audit: must be on, off, the path .*did you mean `off`\?/],
  [top('observe: { audit: audit }'), /observe\.audit: must be on, off, the path of a file/],
  [top('observe: { audit: { file: log } }'), /observe\.audit\.file: must be the path of a file/],
  [top('limits: { body: 1 }'), 'limits.body: must be from 1KB to 256MB: a number without a unit is bytes'],
  [top('limits: { body: 0 }'), /limits\.body: must be from 1KB to 256MB/],
  [top('limits: { body: 900GB }'), /limits\.body: must be from 1KB to 256MB/],
  [top('limits: { body: -1 }'), /limits\.body: must be a size/],
  [top('limits: { body: 10 mb }'), /limits\.body: must be a size .*did you mean `10MB`\?/],
  [top('limits: { body: 10M }'), /did you mean `10MB`\?/],
  [top('limits: { result: 0 }'), /limits\.result: must be from 1KB to 256MB/],
  [server('limits: { result: 5B }'), /upstreams\.a\.limits\.result: must be from 1KB to 256MB$/],
  [top('limits: { timeout: 1ms }'), 'limits.timeout: must be from 100ms to 3650d'],
  [top('limits: { timeout: 0s }'), /limits\.timeout: must be from 100ms/],
  [top('limits: { timeout: 30 }'), /limits\.timeout: must be a duration .*did you mean `30s`\?/],
  [top('limits: { timeout: 30 sec }'), /did you mean `30s`\?/],
  [top('limits: { timeout: 2 Hours }'), /did you mean `2h`\?/],
  [top('limits: { max_timeout: 5ms }'), /limits\.max_timeout: must be from 100ms/],
  [tool('timeout: 1ms'), /tools\.t\.timeout: must be from 100ms/],
  [tool('auto_key: 0s'), /tools\.t\.auto_key: must be from 1ms/],
  [server('start_timeout: 10ms'), /start_timeout: must be from 100ms/],
  [server('idle: 99999d'), /idle: must be from 1ms to 3650d/],
  [top('listen: { aggregate_timeout: 1ms }'), /aggregate_timeout: must be from 100ms/],
  [top('listen: { port: 70000 }'), /listen\.port: must be a whole number from 0/],
  [top('limits: { rate: 10 per minute }'), /limits\.rate: .*did you mean `10\/minute`\?/],
  [top('limits: { rate: 5rps }'), /did you mean `5\/second`\?/],
  [top('features: { confirm: { ttl: 0s } }'), /features\.confirm\.ttl: must be from 1ms/],
  [top('observe: { audit: { file: ./a.log, max_size: 10 } }'), /max_size: must be at least 1KB/],
])('an absurd value is a problem with its place and a fix: %s', (text, problem) => {
  const [found = 'none', ...more] = problemsIn(text)
  expect(more).toEqual([])
  if (typeof problem === 'string') expect(found).toBe(problem)
  else expect(found).toMatch(problem)
})

test.each([
  'limits: { body: 1KB, result: 256MB, timeout: 100ms }',
  'features: { confirm: { wait: 0s } }',
  'limits: { timeout: 30d }',
])('a value at the end of its range is accepted: %s', (text) => {
  expect(problemsIn(top(text))).toEqual([])
})

test.each([
  [server('type: http'), /^upstreams\.a\.type: unknown key: remove it; `url` or `command` says/],
  [server('alwaysAllow: [x]'), /unknown key: .*confirm: never/],
  [server('disabledTools: [x]'), /unknown key: .*hide: on/],
  [server('timeout: 3s'), 'upstreams.a.timeout: unknown key; did you mean `limits: { timeout: … }`?'],
  [top('port: 80'), 'port: unknown key; did you mean `listen: { port: … }`?'],
])('a key of another format has a short hint: %s', (text, problem) => {
  const [found = 'none'] = problemsIn(text)
  expect(found.length).toBeLessThan(200)
  if (typeof problem === 'string') expect(found).toBe(problem)
  else expect(found).toMatch(problem)
})

test('a list of many keys is cut', () => {
  const [found = ''] = problemsIn(server('zzzzzz: 1'))
  expect(found).toMatch(
    /unknown key; allowed here: (?:\w+, ){16}and \d+ more, which docs\/configuration\.md lists$/,
  )
})

test.each([
  ['(', 'unterminated group, at character 1'],
  ['ab)', "unmatched ')', at character 3"],
  ['x[a', 'unterminated character class, at character 2'],
  ['a**', 'nothing to repeat, at character 3'],
  ['[z-a]', 'range out of order in character class, at character 4'],
  ['(?P<n>x)', 'invalid group, at character 2'],
])('a bad regular expression names its cause and place: %s', (pattern, cause) => {
  const quoted = JSON.stringify(pattern)
  const message = `must be a regular expression: ${cause}`
  expect(problemsIn(server(`errors: [{ match: ${quoted}, code: NOT_FOUND }]`)).join()).toContain(message)
  expect(problemsIn(top(`features: { mask: { rules: [{ pattern: ${quoted} }] } }`)).join()).toContain(message)
  expect(
    problemsIn(server(`intent: [{ when: ${JSON.stringify(`/${pattern}/`)}, suggest: t }]`)).join(),
  ).toContain(message)
})

test('a relative path of the audit log is a warning that says which file it is', () => {
  const { warnings } = loadSettings(top('observe: { audit: ./audit.jsonl }'), {
    file: '/x/gateway.config.yaml',
    env: {},
  })
  expect(warnings.map(({ path, message }) => `${path}: ${message}`)).toEqual([
    expect.stringMatching(/^observe\.audit: this path is relative .*: write \/x\/audit\.jsonl/),
  ])
})
