import { describe, expect, it } from 'vitest'
import { chosenText } from '../../../src/cli/undo.ts'
import { maskedArguments, maskedText, secretNames } from '../../../src/core/masked-arguments.ts'
import { chosenView } from '../../../src/records/rewind-plan.ts'
import { toStoredPrincipal } from '../../../src/records/principal.ts'
import { anonymous } from '../../../src/core/principal.ts'
import type { Action } from '../../../src/records/actions.ts'

const schema = {
  type: 'object',
  properties: {
    pin: { type: 'string', format: 'password' },
    login: { type: 'object', properties: { word: { type: 'string', writeOnly: true }, user: {} } },
    list: { type: 'array', items: { $ref: '#/$defs/item' } },
    either: { anyOf: [{ type: 'null' }, { type: 'string', format: 'password' }] },
    phrase: { $ref: '#/$defs/Secret%20Text' },
    own: { allOf: [{ $ref: '#/$defs/Secret%20Text' }] },
    env: { type: 'object', additionalProperties: { writeOnly: true } },
    tree: { $ref: '#/properties/tree' },
  },
  $defs: {
    item: { properties: { inner: { writeOnly: true } } },
    'Secret Text': { type: 'string', format: 'password' },
  },
}

describe('arguments that are secrets', () => {
  it('are named by the schema, at any depth', () => {
    expect(secretNames(schema).toSorted()).toEqual(['either', 'env', 'inner', 'own', 'phrase', 'pin', 'word'])
    for (const none of [undefined, null, true, [], { properties: [] }, { properties: { a: null } }])
      expect(secretNames(none)).toEqual([])
  })

  it('are found where each part of a schema refers to all of it', () => {
    const parts = Array.from({ length: 20 }, () => ({ $ref: '#' }))
    expect(secretNames({ properties: { a: { $ref: '#' }, b: { writeOnly: true } }, allOf: parts })).toEqual([
      'b',
    ])
  })

  it('are masked by schema or name, and nothing else', () => {
    const given = {
      pin: 12,
      login: { word: 'x', user: 'me' },
      api_key: 'k',
      token: true,
      list: [{ inner: 'y' }],
      next_token: 'n',
    }
    expect(maskedArguments(given, secretNames(schema))).toEqual({
      pin: '***',
      login: { word: '***', user: 'me' },
      api_key: '***',
      token: true,
      list: [{ inner: '***' }],
      next_token: 'n',
    })
    const harmless = { a: [1, { b: 'c' }] }
    expect(maskedArguments(harmless, ['pin'])).toBe(harmless)
  })

  it('are masked in a text, with all that has the same key', () => {
    const text = '{"id":12345678901234567890, "password":"a","password":"b"}'
    expect(maskedText(text, { id: 1, password: 'b' })).toBe(
      '{"id":12345678901234567890, "password":"***","password":"***"}',
    )
  })

  it('are not in the history of actions, also of records of earlier versions', () => {
    const action: Action = {
      key: 'k',
      startedAt: 0,
      principal: toStoredPrincipal(anonymous),
      upstream: 'one',
      tool: 'set',
      status: 'ok',
      arguments: { password: 'hunter2-new', pin: '4711' },
      secrets: ['pin'],
      way: {
        kind: 'exact',
        tool: 'set',
        arguments: { password: 'hunter2-old' },
        description: 'set(password="hunter2-old")',
      },
    }
    const chosen = { action, how: 'exactly' } as const
    expect(chosenText(chosen)).toContain('set(password="***", pin="***")')
    expect(`${chosenText(chosen)}${JSON.stringify(chosenView(chosen))}`).not.toMatch(/hunter2|4711/)
  })
})
