import { describe, expect, it } from 'vitest'
import { classify } from '../../../../src/core/judgement/classify.ts'
import { asCalled, atLeast } from '../../../../src/core/judgement/call.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { serverSettings } from '../../../support/server-settings.ts'

type Properties = Readonly<Record<string, unknown>>

interface Given {
  readonly name?: string
  readonly description?: string
  readonly annotations?: Readonly<Record<string, boolean>>
  readonly properties?: Properties
  readonly required?: readonly string[]
  readonly [key: string]: unknown
}

function entryOf({ properties, required = [], ...given }: Given) {
  const definition = {
    name: 'manage_users',
    description: 'Manage users.',
    inputSchema: { type: 'object', properties, required },
    ...given,
  }
  const classification = classify(definition, serverSettings({ trust: false }))
  return { upstream: 'desk', kind: 'tool', name: definition.name, definition, classification } as const
}

function riskOf(given: Given, args: unknown): string {
  const params = Payload.of(args === undefined ? {} : { arguments: args })
  return asCalled(entryOf(given), { params }).classification.risk
}

const verbs = ['list', 'create', 'delete']
const action: Given = { properties: { action: { type: 'string', enum: verbs } }, required: ['action'] }

describe('a call of a tool whose argument selects what it does', () => {
  it.each([
    ['a value that reads', { action: 'list' }, 'safe'],
    ['a value that writes', { action: 'create' }, 'reversible'],
    ['a value that deletes', { action: 'delete' }, 'destructive'],
    ['upper case', { action: 'DELETE' }, 'destructive'],
    ['upper case that reads', { action: 'List' }, 'safe'],
    ['spaces', { action: ' list ' }, 'safe'],
    ['an unknown value', { action: 'list2' }, 'destructive'],
    ['a name of every object', { action: 'constructor' }, 'destructive'],
    ['another name of every object', { action: '__proto__' }, 'destructive'],
    ['null', { action: null }, 'destructive'],
    ['a number', { action: 1 }, 'destructive'],
    ['an object', { action: { type: 'list' } }, 'destructive'],
    ['a list of values that read', { action: ['list'] }, 'safe'],
    ['a list of values of which one deletes', { action: ['list', 'delete'] }, 'destructive'],
    ['an empty list', { action: [] }, 'destructive'],
    ['a list in a list', { action: [['list']] }, 'destructive'],
    ['no value', {}, 'destructive'],
    ['no arguments', undefined, 'destructive'],
    ['arguments that are null', null, 'destructive'],
    ['arguments that are a list', [], 'destructive'],
    ['another case of the argument', { Action: 'list' }, 'destructive'],
  ])('with %s', (_, args, expected) => {
    expect(riskOf(action, args)).toBe(expected)
  })

  const objects = (schema: unknown): Given => ({ properties: { operation: schema }, required: ['operation'] })
  const typed = { type: 'object', properties: { type: { type: 'string', enum: verbs } }, required: ['type'] }

  it.each([
    ['in an object', objects(typed), { operation: { type: 'list' } }, 'safe'],
    ['in an object, deleting', objects(typed), { operation: { type: 'delete' } }, 'destructive'],
    ['in an object that is a text', objects(typed), { operation: 'list' }, 'destructive'],
    ['in an object that is null', objects(typed), { operation: null }, 'destructive'],
    ['in an empty object', objects(typed), { operation: {} }, 'destructive'],
    ['in items', objects({ type: 'array', items: typed }), { operation: [{ type: 'list' }] }, 'safe'],
    [
      'in items of which one deletes',
      objects({ type: 'array', items: typed }),
      { operation: [{ type: 'list' }, { type: 'delete' }] },
      'destructive',
    ],
    [
      'in items that are null',
      objects({ type: 'array', items: typed }),
      { operation: [null] },
      'destructive',
    ],
    [
      'by a reference',
      {
        ...objects(undefined),
        inputSchema: { $defs: { verb: { enum: verbs } }, properties: { action: { $ref: '#/$defs/verb' } } },
      },
      { action: 'list' },
      'safe',
    ],
    [
      'by constants',
      objects({ oneOf: [{ const: 'list' }, { const: 'delete' }] }),
      { operation: 'delete' },
      'destructive',
    ],
    [
      'or null',
      objects({ anyOf: [{ type: 'string', enum: verbs }, { type: 'null' }], default: null }),
      { operation: 'list' },
      'safe',
    ],
    [
      'in variants of the arguments',
      {
        inputSchema: {
          oneOf: [
            { properties: { action: { const: 'list' } }, required: ['action'] },
            { properties: { action: { const: 'delete' }, id: { type: 'string' } }, required: ['action'] },
          ],
        },
      },
      { action: 'delete', id: '1' },
      'destructive',
    ],
    [
      'in variants of the arguments, reading',
      {
        inputSchema: {
          oneOf: [
            { properties: { action: { const: 'list' } } },
            { properties: { action: { const: 'delete' } } },
          ],
        },
      },
      { action: 'list' },
      'safe',
    ],
    ['in camel case', objects({ enum: ['listUsers', 'deleteUser'] }), { operation: 'listUsers' }, 'safe'],
    [
      'with a subject',
      objects({ enum: ['list_users', 'delete_user'] }),
      { operation: 'delete_user' },
      'destructive',
    ],
    [
      'listed in a description',
      objects({ type: 'string', description: "One of 'list', 'delete'" }),
      { operation: 'list' },
      'safe',
    ],
    [
      'not listed in a description',
      objects({ type: 'string', description: "One of 'list', 'delete'" }),
      { operation: 'wipe' },
      'destructive',
    ],
    ['that is a free text', objects({ type: 'string' }), { operation: 'list' }, 'destructive'],
  ])('declared %s', (_, given, args, expected) => {
    expect(riskOf(given, args)).toBe(expected)
  })

  const optional = (fallback: unknown): Given => ({
    properties: {
      action: { type: 'string', enum: verbs, ...(fallback !== undefined && { default: fallback }) },
    },
  })

  it.each([
    ['a default that reads', optional('list'), 'safe'],
    ['a default that deletes', optional('delete'), 'destructive'],
    ['a default that is no value', optional('other'), 'destructive'],
    ['no default', optional(undefined), 'destructive'],
    [
      'a default in the description',
      { properties: { action: { enum: verbs, description: 'What to do (default: list)' } } },
      'safe',
    ],
  ])('without the argument, with %s', (_, given, expected) => {
    expect(riskOf(given, {})).toBe(expected)
  })

  it.each([
    ['a destructive hint of the tool', { readOnlyHint: false, destructiveHint: true }, 'list', 'safe'],
    ['a destructive hint that a value explains', { destructiveHint: true }, 'create', 'reversible'],
  ] as const)('is judged by its value also under %s', (_, annotations, value, expected) => {
    expect(riskOf({ ...action, annotations }, { action: value })).toBe(expected)
  })

  it('a destructive hint that no value explains raises values that write', () => {
    const given: Given = {
      properties: { action: { enum: ['list', 'create'] } },
      required: ['action'],
      annotations: { destructiveHint: true },
    }
    expect(riskOf(given, { action: 'create' })).toBe('destructive')
    expect(riskOf(given, { action: 'list' })).toBe('safe')
  })

  it('what is listed of a tool is its worst value, and its most harmless call is known', () => {
    const entry = entryOf(action)
    expect(entry.classification.risk).toBe('destructive')
    expect(atLeast(entry).classification.risk).toBe('safe')
  })

  it('the evidence has the effect of each value, and of others', () => {
    const { evidence } = entryOf(action).classification
    expect(evidence).toContain(
      'action selects what a call does: list (reads), create (writes), delete (destroys)',
    )
    expect(evidence).toContain('another value of action destroys, a call without it destroys')
  })

  it('an argument of a tool that gets something filters', () => {
    const given: Given = {
      name: 'get_history',
      description: 'Gets the history.',
      properties: { action: { enum: ['create', 'delete'] } },
    }
    expect(riskOf(given, { action: 'delete' })).toBe('safe')
  })

  it('the subject of an action counts: a change of a secret', () => {
    const given: Given = {
      name: 'cloud_tokens',
      description: 'Manages tokens.',
      properties: { action: { enum: ['list', 'create'] } },
      required: ['action'],
    }
    expect(riskOf(given, { action: 'create' })).toBe('destructive')
  })
})

describe('a call of a tool that makes HTTP requests', () => {
  const request: Given = {
    name: 'http_request',
    description: 'Makes an HTTP request.',
    properties: { url: { type: 'string' }, method: { type: 'string', enum: ['GET', 'POST', 'DELETE'] } },
    required: ['url', 'method'],
  }
  it.each([
    ['GET', 'safe'],
    ['get', 'safe'],
    ['DELETE', 'destructive'],
    ['POST', 'destructive'],
    ['PURGE', 'destructive'],
  ])('with the method %s is %s', (method, expected) => {
    expect(riskOf(request, { url: 'https://example.com', method })).toBe(expected)
  })
})

describe('a call with a switch', () => {
  const tool = (name: string, property: unknown, more: Given = {}): Given => ({
    name: 'copy_table',
    description: 'Copies a table.',
    properties: { [name]: property },
    ...more,
  })
  const flag = { type: 'boolean' }
  const create: Given = { name: 'create_user', description: 'Creates a user.' }

  it.each([
    ['truncateFirst', flag, true],
    ['truncate_target', flag, true],
    ['deleteExisting', flag, true],
    ['drop_if_exists', flag, true],
    ['overwrite', flag, true],
    ['force', flag, true],
    ['overwrite', { anyOf: [{ type: 'boolean' }, { type: 'null' }] }, true],
    ['truncateFirst', flag, 'true'],
    ['truncateFirst', flag, 1],
    ['mode', { enum: ['append', 'overwrite'] }, 'overwrite'],
    ['mode', { enum: ['append', 'overwrite'] }, 'OVERWRITE'],
    ['mode', { enum: ['append', 'overwrite'] }, 'other'],
    ['if_exists', { enum: ['fail', 'replace', 'append'] }, 'replace'],
    ['fresh', { type: 'boolean', description: 'If true, delete all rows first' }, true],
    ['clean', { type: 'boolean', description: 'Whether to overwrite what exists' }, true],
  ])('%s of %j, given as %j, is destructive', (name, property, value) => {
    expect(riskOf(tool(name, property), { [name]: value })).toBe('destructive')
    expect(riskOf(tool(name, property), {})).toBe('reversible')
  })

  it.each([
    ['superuser', true],
    ['is_admin', true],
    ['isSuperuser', true],
    ['bypass_mfa', true],
    ['disable_verification', true],
  ])('%s creates a user with rights', (name, value) => {
    const given = { ...create, properties: { [name]: flag } }
    expect(riskOf(given, { [name]: value })).toBe('destructive')
    expect(riskOf(given, { [name]: false })).toBe('reversible')
  })

  it('a role among the values gives rights', () => {
    const given = { ...create, properties: { role: { enum: ['viewer', 'admin'] } } }
    expect(riskOf(given, { role: 'admin' })).toBe('destructive')
    expect(riskOf(given, { role: 'viewer' })).toBe('reversible')
  })

  it.each([
    ['include_deleted', flag],
    ['stop_on_error', flag],
    ['skip_delete', flag],
    ['no_overwrite', flag],
  ])('%s is not destructive', (name, property) => {
    expect(riskOf(tool(name, property), { [name]: true })).toBe('reversible')
  })

  it('a default that is on applies to calls without the switch', () => {
    const given = tool('truncateFirst', { type: 'boolean', default: true })
    expect(riskOf(given, {})).toBe('destructive')
    expect(riskOf(given, { truncateFirst: null })).toBe('destructive')
    expect(riskOf(given, { truncateFirst: false })).toBe('reversible')
  })

  it.each([
    [{ dry_run: true }, 'safe'],
    [{ dry_run: 'true' }, 'destructive'],
    [{ dry_run: 1 }, 'destructive'],
    [{ dry_run: false }, 'destructive'],
    [{}, 'destructive'],
  ])('only a dry run that is true changes nothing: %j', (args, expected) => {
    const given: Given = { name: 'purge_logs', description: 'Purges logs.', properties: { dry_run: flag } }
    expect(riskOf(given, args)).toBe(expected)
  })
})
