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

test.each([{ approvals: 2 }, { approvers: ['user:a'] }])('%j is refused with inline approval', (rule) => {
  const [key] = Object.keys(rule)
  expect(problem({ approval: 'inline', ...rule })).toBe(
    `upstreams.one.tools.t.${key}: requires \`approval: out_of_band\`: inline approval asks only the caller`,
  )
})

test('the number of approvals cannot exceed the number of approvers', () => {
  expect(problem({ approvals: 3, approvers: ['user:a', 'user:b'] })).toMatch(
    /approvals: more than the 2 in `approvers`/,
  )
  expect(problem({ approvals: 2, approvers: 'user:a' })).toMatch(/approvals: more than the 1 in `approvers`/)
  expect(problem({ approvals: 2, approvers: ['user:a', 'user:b'] })).toBe('')
  expect(problem({ approvals: 2 })).toBe('')
})

test('several approvals require auth to distinguish the approvers', () => {
  expect(problem({ approvals: 2 }, {})).toMatch(/approvals: needs `auth`/)
  expect(problem({ approvals: 1 }, {})).toBe('')
})

test.each(['on', 'true', true, ''])('the argument for the idempotency key cannot be named %j', (value) => {
  expect(problem({ key_argument: value })).toMatch(/must be the name of an argument, or off/)
})

test('an empty confirmation question is refused', () => {
  expect(problem({ confirm: '' })).toMatch(/must be on, never, or a question/)
})

test.each(['off', 'false', false])('%j switches remembered approvals off', (remember) => {
  const settings = load({}, { features: { confirm: { remember } } })
  expect(featureSettings(settings, 'confirm')).toMatchObject({ remember: false })
})

test.each(['on', true])('%j is refused as the duration for remembered approvals', (remember) => {
  expect(problem({}, { features: { confirm: { remember } } })).toMatch(/must be off, or a mapping/)
})
