import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { principalOf, scopesIn, scopesToAskFor } from '../../../../src/downstream/auth/verified.ts'

const scopesOf = (claims: Record<string, unknown>, map = {}) => [
  ...(principalOf('token', { sub: 'someone', ...claims }, 'scope', map).scopes ?? []),
]

describe('what a token allows', () => {
  it('C227 is nothing where it names no scopes', () => {
    expect(scopesOf({})).toEqual([])
    expect(scopesOf({ scope: 7 })).toEqual([])
  })

  it('is what its scopes stand for here', () => {
    const map = { 'mcp.all': ['read:a', 'write:a'], '*': ['read:b'] }
    expect(scopesOf({ scope: 'mcp.all other' }, map)).toEqual(['read:a', 'write:a', 'other', 'read:b'])
    expect(scopesOf({ scope: ['mcp.all'] }, map)).toEqual(['read:a', 'write:a', 'read:b'])
    expect(scopesOf({}, map)).toEqual(['read:b'])
    expect(scopesOf({ scope: 'toString __proto__' }, map)).toEqual(['toString', '__proto__', 'read:b'])
  })

  it('can be had by asking for the scopes that stand for it', () => {
    const name = fc.stringMatching(/^[a-z]{1,3}$/)
    const map = fc.dictionary(name, fc.uniqueArray(name, { minLength: 1, maxLength: 3 }))
    fc.assert(
      fc.property(map, fc.uniqueArray(name, { maxLength: 4 }), (mapped, needed) => {
        // A name that stands for others alone cannot be had.
        const meant = new Set(Object.values(mapped).flat())
        const possible = needed.filter((scope) => meant.has(scope) || !Object.hasOwn(mapped, scope))
        const held = scopesOf({ scope: scopesToAskFor(possible, mapped).join(' ') }, mapped)
        for (const scope of possible) expect(held).toContain(scope)
      }),
    )
  })

  it('belongs to whom it names, by a name of bounded length', () => {
    expect(principalOf('token', { sub: 'a' }, 'scope', {}).id).toBe('user:a')
    expect(principalOf('token', { client_id: 'a' }, 'scope', {}).id).toBe('client:a')
    for (const sub of ['', 7, {}])
      expect(() => principalOf('token', { sub, client_id: 'a' }, 'scope', {})).toThrow('has no subject')
    for (const claims of [{}, { sub: '' }, { sub: 7 }, { sub: 'a'.repeat(513) }])
      expect(() => principalOf('token', claims, 'scope', {})).toThrow('has no subject')
  })

  it('is read from a text or a list', () => {
    expect(scopesIn('a  b ')).toEqual(['a', 'b'])
    expect(scopesIn(['a', 7, 'b'])).toEqual(['a', 'b'])
  })
})
