import { describe, expect, it } from 'vitest'
import type { Operation, Risk } from '../../../../src/core/descriptor.ts'
import type { UpstreamSettings } from '../../../../src/core/settings.ts'
import { missingScopes, requiredScopes, requirementOf } from '../../../../src/features/permissions/gate.ts'
import { knownScopes } from '../../../../src/core/principal.ts'
import { serverSettings } from '../../../support/server-settings.ts'
import { otherSpellings } from '../../../support/uri-spellings.ts'

interface Asked {
  readonly kind?: 'tool' | 'prompt' | 'resource'
  readonly name?: string
  readonly op?: Operation
  readonly risk?: Risk
}

function required(asked: Asked, given: Partial<UpstreamSettings> = {}): readonly (readonly string[])[] {
  const { kind = 'tool', name = 't', op = 'read', risk = 'safe' } = asked
  return requirementOf({ kind, name, classification: { op, risk } }, serverSettings(given))
}

describe('required scopes', () => {
  it.each([
    ['read', 'safe', 'read:files'],
    ['write', 'reversible', 'write:files'],
    ['write', 'destructive', 'delete:files'],
    ['delete', 'destructive', 'delete:files'],
    ['delete', 'reversible', 'delete:files'],
    ['admin', 'destructive', 'admin:files'],
    ['admin', 'safe', 'admin:files'],
  ] as const)('C083 scopes are derived from the classification: %s and %s need %s', (op, risk, scope) => {
    expect(required({ op, risk })).toEqual([[scope]])
  })

  it('the scopes configured for a tool are all required', () => {
    const tools = { 't*': { scopes: ['one', 'two'] } }
    expect(required({}, { tools, scopes: { three: ['t'] } })).toEqual([['one'], ['two']])
    expect(required({ kind: 'prompt' }, { tools })).toEqual([['read:files']])
  })

  it('one of the named scopes that cover a tool is required, the most specific first', () => {
    const scopes = { 'all:repo': ['*'], 'read:repo': ['get_*', 'list_*'] }
    expect(required({ name: 'get_x' }, { scopes })).toEqual([['read:repo', 'all:repo']])
    expect(required({ name: 'frob' }, { scopes })).toEqual([['all:repo']])
  })

  it('the derived scope is required if no named scope covers the tool', () => {
    const scopes = { 'read:repo': ['get_*'] }
    expect(required({ name: 'list_x' }, { scopes })).toEqual([['read:files']])
  })

  it.each(['file:///docs/../etc/passwd', 'file:///docs/%2e%2e/etc/passwd', 'file:///docs/a/..//../etc/x'])(
    'C083 every resource that a URI could refer to is covered: %s',
    (name) => {
      const scopes = { 'read:docs': ['file:///docs/**'] }
      expect(required({ kind: 'resource', name: 'file:///docs/a' }, { scopes })).toEqual([['read:docs']])
      expect(required({ kind: 'resource', name }, { scopes })).toContainEqual(['read:files'])
    },
  )

  it.each(otherSpellings)('scopes apply to every spelling of a URI: %s', (name) => {
    const scopes = { 'read:private': ['file:///srv/private/**'], 'read:public': ['file:///srv/public/**'] }
    const groups = required({ kind: 'resource', name }, { scopes })
    expect(missingScopes(groups, new Set(['read:files', 'read:public']))).toContain('read:private')
    const known = required({ kind: 'resource', name }, { scopes: { ...scopes, 'all:files': ['*'] } })
    expect(missingScopes(known, new Set(['all:files']))).toEqual([])
  })

  it.each(['file:///srv/public/a', 'file:///srv/public/a;v=1?x=1#y', 'file:///srv/public/100%25'])(
    'a plain URI requires the scopes of exactly one resource: %s',
    (name) => {
      const scopes = { 'read:public': ['file:///srv/public/**'], 'read:rest': ['file:///srv/**'], all: ['*'] }
      for (const held of ['read:public', 'read:rest', 'all'])
        expect(missingScopes(required({ kind: 'resource', name }, { scopes }), new Set([held]))).toEqual([])
    },
  )

  it('paths are case-sensitive for scopes of their own', () => {
    const scopes = { 'read:Docs': ['file:///Docs/**'], 'read:docs': ['file:///docs/**'] }
    const groups = required({ kind: 'resource', name: 'file:///Docs/a' }, { scopes })
    expect(missingScopes(groups, new Set(['read:Docs']))).toEqual([])
    expect(missingScopes(groups, new Set(['read:docs']))).not.toEqual([])
  })

  it('a scope covers a URI that is percent-encoded like its glob', () => {
    const scopes = { 'read:docs': ['file:///my%20docs/**'] }
    expect(required({ kind: 'resource', name: 'file:///my%20docs/a' }, { scopes })).toEqual([['read:docs']])
  })
})

describe('missing scopes', () => {
  it('the missing scopes are exactly those that would suffice', () => {
    const needed = [['a', 'b'], ['c'], ['d']]
    expect(missingScopes(needed, new Set(['b', 'd']))).toEqual(['c'])
    expect(missingScopes(needed, new Set())).toEqual(['a', 'c', 'd'])
    expect(missingScopes(needed, new Set(missingScopes(needed, new Set())))).toEqual([])
    expect(requiredScopes(needed)).toEqual(['a', 'c', 'd'])
  })

  it('an unrestricted caller has no missing scopes', () => {
    expect(missingScopes([['a']], undefined)).toEqual([])
  })
})

it('all scopes of a server are known', () => {
  const given = { scopes: { 'read:repo': ['get_*'] }, tools: { t: { scopes: ['special'] } } }
  expect(knownScopes(serverSettings(given))).toEqual([
    'read:files',
    'write:files',
    'delete:files',
    'admin:files',
    'execute:files',
    'read:repo',
    'special',
  ])
})
