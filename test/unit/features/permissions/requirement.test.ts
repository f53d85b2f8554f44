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

describe('the scopes something needs', () => {
  it.each([
    ['read', 'safe', 'read:files'],
    ['write', 'reversible', 'write:files'],
    ['write', 'destructive', 'delete:files'],
    ['delete', 'destructive', 'delete:files'],
    ['delete', 'reversible', 'delete:files'],
    ['admin', 'destructive', 'admin:files'],
    ['admin', 'safe', 'admin:files'],
  ] as const)('C083 follow from what a tool does: %s and %s need %s', (op, risk, scope) => {
    expect(required({ op, risk })).toEqual([[scope]])
  })

  it('are those the configuration names for a tool, all of them', () => {
    const tools = { 't*': { scopes: ['one', 'two'] } }
    expect(required({}, { tools, scopes: { three: ['t'] } })).toEqual([['one'], ['two']])
    expect(required({ kind: 'prompt' }, { tools })).toEqual([['read:files']])
  })

  it('are one of those that open it, that with the most specific glob first', () => {
    const scopes = { 'all:repo': ['*'], 'read:repo': ['get_*', 'list_*'] }
    expect(required({ name: 'get_x' }, { scopes })).toEqual([['read:repo', 'all:repo']])
    expect(required({ name: 'frob' }, { scopes })).toEqual([['all:repo']])
  })

  it('stay the derived ones where no named scope opens it', () => {
    const scopes = { 'read:repo': ['get_*'] }
    expect(required({ name: 'list_x' }, { scopes })).toEqual([['read:files']])
  })

  it.each(['file:///docs/../etc/passwd', 'file:///docs/%2e%2e/etc/passwd', 'file:///docs/a/..//../etc/x'])(
    'C083 are those of every resource a URI could be read as: %s',
    (name) => {
      const scopes = { 'read:docs': ['file:///docs/**'] }
      expect(required({ kind: 'resource', name: 'file:///docs/a' }, { scopes })).toEqual([['read:docs']])
      expect(required({ kind: 'resource', name }, { scopes })).toContainEqual(['read:files'])
    },
  )

  it.each(otherSpellings)('count for a resource in whatever way its URI is spelled: %s', (name) => {
    const scopes = { 'read:private': ['file:///srv/private/**'], 'read:public': ['file:///srv/public/**'] }
    const groups = required({ kind: 'resource', name }, { scopes })
    expect(missingScopes(groups, new Set(['read:files', 'read:public']))).toContain('read:private')
    const known = required({ kind: 'resource', name }, { scopes: { ...scopes, 'all:files': ['*'] } })
    expect(missingScopes(known, new Set(['all:files']))).toEqual([])
  })

  it.each(['file:///srv/public/a', 'file:///srv/public/a;v=1?x=1#y', 'file:///srv/public/100%25'])(
    'are only those of the one place a plain URI names: %s',
    (name) => {
      const scopes = { 'read:public': ['file:///srv/public/**'], 'read:rest': ['file:///srv/**'], all: ['*'] }
      for (const held of ['read:public', 'read:rest', 'all'])
        expect(missingScopes(required({ kind: 'resource', name }, { scopes }), new Set([held]))).toEqual([])
    },
  )

  it('tell no case apart where it is about a place that has scopes of its own', () => {
    const scopes = { 'read:Docs': ['file:///Docs/**'], 'read:docs': ['file:///docs/**'] }
    const groups = required({ kind: 'resource', name: 'file:///Docs/a' }, { scopes })
    expect(missingScopes(groups, new Set(['read:Docs']))).toEqual([])
    expect(missingScopes(groups, new Set(['read:docs']))).not.toEqual([])
  })

  it('open a resource whose URI is encoded like the glob', () => {
    const scopes = { 'read:docs': ['file:///my%20docs/**'] }
    expect(required({ kind: 'resource', name: 'file:///my%20docs/a' }, { scopes })).toEqual([['read:docs']])
  })
})

describe('the scopes a caller lacks', () => {
  it('are exactly those that would be enough', () => {
    const needed = [['a', 'b'], ['c'], ['d']]
    expect(missingScopes(needed, new Set(['b', 'd']))).toEqual(['c'])
    expect(missingScopes(needed, new Set())).toEqual(['a', 'c', 'd'])
    expect(missingScopes(needed, new Set(missingScopes(needed, new Set())))).toEqual([])
    expect(requiredScopes(needed)).toEqual(['a', 'c', 'd'])
  })

  it('are none for a caller without limits', () => {
    expect(missingScopes([['a']], undefined)).toEqual([])
  })
})

it('knows every scope of a server', () => {
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
