import { expect, test } from 'vitest'
import { loadSettings } from '../../../src/config/load.ts'
import { ConfigError } from '../../../src/config/problem.ts'
import { features } from '../../../src/features/index.ts'
import { featureSettings } from '../../../src/core/settings.ts'

const auth = { jwt: { issuer: 'https://idp.example.com', audience: 'x' } }

function load(tool: object, file: object = { auth }) {
  const text = JSON.stringify({
    upstreams: { one: { url: 'https://one.example', tools: { t: tool } } },
    ...file,
  })
  return loadSettings(text, { file: 'f', env: {}, features }).settings
}

function problem(tool: object, file?: object): string {
  try {
    load(tool, file)
    return ''
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return error.problems.map(({ path, message }) => `${path}: ${message}`).join('\n')
  }
}

test.each([{ approvals: 2 }, { approvers: ['user:a'] }])('%j is nothing for who is asked inline', (rule) => {
  const [key] = Object.keys(rule)
  expect(problem({ approval: 'inline', ...rule })).toBe(
    `upstreams.one.tools.t.${key}: requires \`approval: out_of_band\`: inline approval asks only the caller`,
  )
})

test('as many people as have to approve may do so', () => {
  expect(problem({ approvals: 3, approvers: ['user:a', 'user:b'] })).toMatch(
    /approvals: more than the 2 in `approvers`/,
  )
  expect(problem({ approvals: 2, approvers: 'user:a' })).toMatch(/approvals: more than the 1 in `approvers`/)
  expect(problem({ approvals: 2, approvers: ['user:a', 'user:b'] })).toBe('')
  expect(problem({ approvals: 2 })).toBe('')
})

test('people are told apart where several have to approve', () => {
  expect(problem({ approvals: 2 }, {})).toMatch(/approvals: needs `auth`/)
  expect(problem({ approvals: 1 }, {})).toBe('')
})

test.each(['on', 'true', true, ''])('no argument that takes the key is called %j', (value) => {
  expect(problem({ key_argument: value })).toMatch(/must be the name of an argument, or off/)
})

test('the question is not empty', () => {
  expect(problem({ confirm: '' })).toMatch(/must be on, never, or a question/)
})

test.each(['off', 'false', false])('%j remembers no approval', (remember) => {
  const settings = load({}, { features: { confirm: { remember } } })
  expect(featureSettings(settings, 'confirm')).toMatchObject({ remember: false })
})

test.each(['on', true])('%j does not say for how long an approval is remembered', (remember) => {
  expect(problem({}, { features: { confirm: { remember } } })).toMatch(/must be off, or a mapping/)
})
