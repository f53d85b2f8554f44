import { expect, it } from 'vitest'
import { isCaller } from '../../../src/gateway/operator-tool.ts'

it.each([
  ['user:anna', true],
  ['client:agent', true],
  ['client:app', true],
  ['user:agent', false],
  ['user:ben', false],
])('a person who acts by an OAuth client is the caller %s: %s', (caller, expected) => {
  const claims = { client_id: 'agent', azp: 'app' }
  const principal = { id: 'user:anna', claims }
  expect(isCaller({ by: 'user:anna', via: 'operator_mcp', roles: [], principal }, caller)).toBe(expected)
})
