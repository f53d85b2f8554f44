import { describe, expect, it } from 'vitest'
import type { AuthSettings } from '../../../src/core/auth-settings.ts'
import { Secret } from '../../../src/core/text/secret.ts'
import { mayDecide, whoDecidesOnPage } from '../../../src/records/approvals.ts'

type Auth = Parameters<typeof whoDecidesOnPage>[1]

const jwt = {
  issuer: 'https://idp.example.com',
  audiences: [],
  algorithms: ['RS256'],
  requiredClaims: [],
  scopeClaim: 'scope',
}
const none: Auth = { tokens: [], users: [] }
const signed: Auth = { ...none, jwt }
const signIn: Auth = { ...none, jwt: { ...jwt, client: { id: 'pages' } } }
const listed: Auth = { ...none, tokens: [{ id: 'robot', hash: new Secret('x') }] }
const user = (approvesAs?: string): AuthSettings['users'][number] => ({
  name: 'anna',
  passwordHash: new Secret('x'),
  roles: approvesAs === undefined ? [] : ['approver'],
  ...(approvesAs !== undefined && { approvesAs }),
})

describe('deciding on the page of an approval', () => {
  const own = { kind: 'page', caller: 'user:anna', approvers: [] } as const
  const robots = { kind: 'page', caller: 'token:robot', approvers: [] } as const
  const clients = { kind: 'page', caller: 'client:app', approvers: [] } as const
  const others = { kind: 'out_of_band', caller: 'token:robot', approvers: [] } as const
  const named = { ...others, approvers: ['token:boss'] }
  const person = { ...others, approvers: ['token:boss', 'user:bert'] }
  it.each([
    [own, none, 'person'],
    [own, { ...none, users: [user()] }, undefined],
    [own, signed, undefined],
    [own, signIn, 'person'],
    [own, { ...signed, users: [user()] }, undefined],
    [own, { ...signed, users: [user('user:anna')] }, 'person'],
    [own, { ...signed, users: [user('user:bert')] }, undefined],
    [robots, listed, undefined],
    [robots, signIn, undefined],
    [clients, signIn, undefined],
    [others, signed, 'program'],
    [others, listed, 'program'],
    [others, signIn, 'person'],
    [others, { ...signed, users: [user('anna')] }, 'person'],
    [named, signIn, 'program'],
    [named, { ...signed, users: [user('anna')] }, 'program'],
    [person, signIn, 'person'],
  ] as const)('%j with %o: %s', (approval, auth, expected) => {
    expect(whoDecidesOnPage(approval, auth)).toBe(expected)
  })

  it.each([
    [own, 'user:anna', true],
    [own, 'user:bert', false],
    [{ ...own, caller: 'token:robot' }, 'user:anna', false],
    [{ ...others, caller: 'user:anna' }, 'user:anna', false],
    [others, 'user:anna', true],
    [person, 'user:anna', false],
    [person, 'user:bert', true],
  ])('%j by %s, who signed in: %s', (approval, by, expected) => {
    expect(mayDecide(approval, { by, via: 'sign_in' })).toBe(expected)
    if (approval.kind === 'page') expect(mayDecide(approval, { by, via: 'token' })).toBe(false)
  })
})
