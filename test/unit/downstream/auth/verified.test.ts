import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { principalOf, scopesIn, scopesToAskFor } from '../../../../src/downstream/auth/verified.ts'
import { badSubjects } from '../../../support/auth/bad-subjects.ts'

const scopesOf = (claims: Record<string, unknown>, map = {}) => [
  ...(principalOf('token', { sub: 'someone', ...claims }, 'scope', map).scopes ?? []),
]

describe('the rights of a token', () => {
  it('C227 a token without scopes has no rights', () => {
    expect(scopesOf({})).toEqual([])
    expect(scopesOf({ scope: 7 })).toEqual([])
  })

  it('scopes are translated by the scope map', () => {
    const map = { 'mcp.all': ['read:a', 'write:a'], '*': ['read:b'] }
    expect(scopesOf({ scope: 'mcp.all other' }, map)).toEqual(['read:a', 'write:a', 'other', 'read:b'])
    expect(scopesOf({ scope: ['mcp.all'] }, map)).toEqual(['read:a', 'write:a', 'read:b'])
    expect(scopesOf({}, map)).toEqual(['read:b'])
    expect(scopesOf({ scope: 'toString __proto__' }, map)).toEqual(['toString', '__proto__', 'read:b'])
  })

  it('required scopes are translated back to the scopes of the issuer', () => {
    const name = fc.stringMatching(/^[a-z]{1,3}$/)
    const map = fc.dictionary(name, fc.uniqueArray(name, { minLength: 1, maxLength: 3 }))
    fc.assert(
      fc.property(map, fc.uniqueArray(name, { maxLength: 4 }), (mapped, needed) => {
        // A mapped name that is not itself a scope cannot be granted.
        const meant = new Set(Object.values(mapped).flat())
        const possible = needed.filter((scope) => meant.has(scope) || !Object.hasOwn(mapped, scope))
        const held = scopesOf({ scope: scopesToAskFor(possible, mapped).join(' ') }, mapped)
        for (const scope of possible) expect(held).toContain(scope)
      }),
    )
  })

  it('the principal is the subject or the client of the token, with a bounded length', () => {
    expect(principalOf('token', { sub: 'a' }, 'scope', {}).id).toBe('user:a')
    expect(principalOf('token', { client_id: 'a' }, 'scope', {}).id).toBe('client:a')
    for (const sub of ['', 7, {}])
      expect(() => principalOf('token', { sub, client_id: 'a' }, 'scope', {})).toThrow('has no subject')
    for (const claims of [{}, { sub: '' }, { sub: 7 }, { sub: 'a'.repeat(513) }])
      expect(() => principalOf('token', claims, 'scope', {})).toThrow('has no subject')
  })

  it.each(badSubjects)('a subject or client that %s names no principal', (_what, name) => {
    for (const claims of [{ sub: name }, { sub: name, client_id: 'a' }, { client_id: name }])
      expect(() => principalOf('token', claims, 'scope', {})).toThrow('has no subject')
  })

  it.each(['anna', 'Anna Lee', 'anna@example.com', 'auth0|5f7c', '山田', 'x'.repeat(255), '00u1é'])(
    '%s names a principal',
    (sub) => {
      expect(principalOf('token', { sub }, 'scope', {}).id).toBe(`user:${sub}`)
    },
  )

  it('scopes are read from a string or a list', () => {
    expect(scopesIn('a  b ')).toEqual(['a', 'b'])
    expect(scopesIn(['a', 7, 'b'])).toEqual(['a', 'b'])
  })
})
