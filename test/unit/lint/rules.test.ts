import { describe, expect, it } from 'vitest'
import { GatewayError } from '../../../src/core/error.ts'
import { assertions, audit } from '../../../src/lint/audit.ts'
import { answered, type Difference, listOf, subjectOf, toolOf } from '../../support/audited.ts'
import type { Json } from '../../support/server/json.ts'

/** The verdict of one rule on a server. */
function verdict(id: string, difference: Difference) {
  const found = assertions.find((each) => each.id === id)
  if (!found) throw new Error(`There is no rule ${id}`)
  return found.check(subjectOf(difference))
}

function tool(more: Json): Difference {
  return { tools: [toolOf(more)] }
}

function schema(inputSchema: unknown): Difference {
  return tool({ inputSchema })
}

const url = (text: string): Difference => ({ settings: { reach: { kind: 'url', url: text, headers: {} } } })
const reading = (...contents: Json[]): Difference => ({
  readings: [{ uri: 'notes://one', listed: 'text/plain', contents }],
})
const noMethod = new GatewayError('UNSUPPORTED_OPERATION', 'Method not found')

describe('the evidence of a broken rule', () => {
  it.each<[string, Difference, RegExp]>([
    [
      'C062 finds secrets in the query',
      url('https://x.example/mcp?a=1&api_key=geheim'),
      /^the query contains api_key$/,
    ],
    ['C062 finds credentials before the host', url('https://me:geheim@x.example/mcp'), /before the host/],
    ['C119 finds names with hyphens', tool({ name: 'get-note' }), /^get-note$/],
    ['C119 finds names in camel case', tool({ name: 'getNote' }), /^getNote$/],
    ['C121 finds tools without a schema', schema(undefined), /get_note: has none/],
    [
      'C121 finds types that do not exist',
      schema({ type: 'nonsense' }),
      /get_note: the schema cannot be used/,
    ],
    ['C124 finds hints that are no booleans', tool({ annotations: { readOnlyHint: 'yes' } }), /readOnlyHint/],
    ['C126 finds words of draft-07', schema({ type: 'object', definitions: {} }), /uses definitions/],
    [
      'C126 finds words of draft-07 in what is inside',
      schema({ properties: { list: { items: [{ type: 'string' }] } } }),
      /uses a list of items/,
    ],
    ['C126 finds unknown dialects', schema({ $schema: 'https://example.com/mine' }), /example\.com\/mine/],
    ['C127 finds a schema that is null', schema(null), /get_note: is null/],
    ['C128 finds schemas of no type', schema({ properties: {} }), /type is absent/],
    ['C129 finds schemas without properties', schema({ type: 'object' }), /get_note/],
    ['C130 finds schemas that do not say what is required', schema({ type: 'object' }), /get_note/],
    ['C131 finds schemas that take any argument', schema({ type: 'object' }), /get_note/],
    ['C132 finds arguments that are not described', schema({ properties: { of: {} } }), /get_note: of/],
    ['C159 finds a schema', { prompts: [{ name: 'brief', arguments: { type: 'object' } }] }, /^brief$/],
    [
      'C160 finds arguments of prompts that are not described',
      { prompts: [{ name: 'brief', arguments: [{ name: 'of' }] }] },
      /^brief: of$/,
    ],
    [
      'C161 finds schemes that are not the name of the server',
      { resources: [{ uri: 'demo://x' }] },
      /demo:\/\/x/,
    ],
    ['C162 finds schemes of others', { resources: [{ uri: 'file:///x' }] }, /file:\/\/\/x/],
    ['C170 finds resources without a name', { resources: [{ uri: 'notes://x' }] }, /notes:\/\/x: no name/],
    ['C170 finds resources without a URI', { resources: [{ name: 'x' }] }, /no URI/],
    ['C171 finds contents without a type', reading({ uri: 'notes://one', text: '' }), /no mimeType/],
    ['C171 finds contents without text or bytes', reading({ uri: 'x', mimeType: 'a/b' }), /no text or blob/],
    [
      'C171 finds what cannot be read',
      { readings: [{ uri: 'notes://one', listed: 'a/b', error: noMethod }] },
      /notes:\/\/one: -32601/,
    ],
    [
      'C172 finds templates with open braces',
      { templates: [{ uriTemplate: 'notes://{x', name: 'x' }] },
      /no URI/,
    ],
    [
      'C173 finds words in place of booleans',
      { capabilities: { resources: { subscribe: 1 } } },
      /subscribe is 1/,
    ],
    ['C177 finds bytes that are not base64', reading({ blob: 'abc' }), /not base64/],
    [
      'C177 finds text that claims to be an image',
      reading({ mimeType: 'image/png', text: '' }),
      /image\/png/,
    ],
  ])('%s is reported with its place', (name, difference, evidence) => {
    const { status, evidence: found } = verdict(name.slice(0, 4), difference)
    expect(status).toBe('fail')
    expect(found.join('\n')).toMatch(evidence)
  })

  it.each<[string, string, Difference, RegExp]>([
    [
      'undeclared capabilities',
      'C008',
      { capabilities: {}, lists: listsWith('tools/list', { items: [{}] }) },
      /tools\/list/,
    ],
    ['invalid versions', 'C021', { serverInfo: { version: 'latest' } }, /latest/],
    [
      'declared lists that fail',
      'C087',
      { lists: listsWith('prompts/list', { error: noMethod }) },
      /prompts\/list: -32601/,
    ],
    ['undeclared tools', 'C088', { ...tool({}), capabilities: {} }, /1 tools/],
    ['undeclared logging', 'C089', { capabilities: {} }, /logging/],
    ['responses to an unknown method', 'C100', { unknownMethod: answered({}) }, /with a result/],
    ['oversized pages', 'C102', { lists: listsWith('tools/list', { pages: [10, 500] }) }, /500 entries/],
    ['lists in a changing order', 'C105', { lists: listsWith('tools/list', { isStable: false }) }, /differ/],
    [
      'tasks that no tool supports',
      'C118',
      { capabilities: { tasks: { requests: { tools: {} } } } },
      /no tool/,
    ],
    ['undeclared tasks', 'C118', tool({ execution: { taskSupport: 'required' } }), /get_note/],
    ['tools without a description', 'C120', tool({ description: '' }), /no description/],
    ['descriptions without content', 'C120', tool({ description: 'A note.' }), /description is only/],
    [
      'destructive tools without a warning',
      'C120',
      tool({ name: 'delete_note', annotations: {}, description: 'Takes the note of a given name.' }),
      /does not warn/,
    ],
    ['tools without a title', 'C122', tool({ title: '' }), /get_note/],
    ['unstated side effects', 'C133', tool({ name: 'send', annotations: {} }), /does not mention an effect/],
    [
      'deletions annotated as read-only',
      'C133',
      tool({ name: 'delete_note', description: 'Deletes a note for good.' }),
      /claims readOnlyHint: true/,
    ],
    [
      'changes annotated as read-only',
      'C133',
      tool({ name: 'create_note', description: 'Creates a note.' }),
      /claims readOnlyHint: true/,
    ],
    ['reads not annotated as read-only', 'C143', tool({ annotations: {} }), /readOnlyHint is absent/],
    ['undeclared prompts', 'C152', { capabilities: {}, prompts: [{ name: 'brief' }] }, /not declared/],
    [
      'prompts that cannot be requested',
      'C152',
      { prompt: { name: 'brief', error: noMethod } },
      /prompts\/get brief/,
    ],
    [
      'prompt arguments that are not a list',
      'C158',
      { prompts: [{ name: 'brief', arguments: {} }] },
      /not a list/,
    ],
    ['reserved schemes with another use', 'C164', { resources: [{ uri: 'use://notes' }] }, /use:\/\/notes/],
    [
      'unreadable reserved documents',
      'C163',
      {
        resources: [{ uri: 'use://auth' }],
        readings: [{ uri: 'use://auth', listed: 'text/plain', error: noMethod }],
      },
      /use:\/\/auth/,
    ],
  ])('%s are reported (%s)', (_, id, difference, evidence) => {
    const { status, evidence: found } = verdict(id, difference)
    expect(status).toBe('fail')
    expect(found.join('\n')).toMatch(evidence)
  })
})

describe('a server without faults', () => {
  const sound = subjectOf({
    tools: [
      toolOf(),
      toolOf({
        name: 'delete_note',
        annotations: {},
        description: 'Deletes a note; this cannot be undone.',
      }),
    ],
    prompts: [{ name: 'brief', arguments: [{ name: 'of', description: 'What of.', required: true }] }],
    resources: [{ uri: 'notes://one', name: 'one' }],
    templates: [{ uriTemplate: 'notes://{name}', name: 'any' }],
    readings: [
      {
        uri: 'notes://one',
        listed: 'text/plain',
        contents: [
          { uri: 'notes://one', mimeType: 'text/plain', text: 'one' },
          { uri: 'notes://two', mimeType: 'image/png', blob: 'AAAA' },
        ],
      },
    ],
  })

  it('a server without faults breaks no rule of its own', () => {
    const failing = audit(sound, sound).assertions.filter(({ status }) => status === 'fail')
    const ofGateway = failing.filter(({ fix }) => /^(?:Set|Configure|Give the upstream) /.test(fix ?? ''))
    expect(failing.map(({ id }) => id)).toEqual(ofGateway.map(({ id }) => id))
  })

  it('C174 results keep their form if each tool has an output schema', () => {
    expect(verdict('C174', { tools: [toolOf()] }).status).toBe('pass')
    const unsaid = verdict('C174', tool({ outputSchema: undefined }))
    expect(unsaid).toMatchObject({ status: 'not applicable', isOwnerOnly: true })
    expect(unsaid.evidence.join()).toContain('get_note')
  })

  it('C123 each tool has an output schema, or the owner decides', () => {
    expect(verdict('C123', { tools: [toolOf()] }).status).toBe('pass')
    expect(verdict('C123', tool({ outputSchema: undefined })).isOwnerOnly).toBe(true)
  })

  it('draft-07 schemas that declare their dialect are accepted', () => {
    const old = { $schema: 'http://json-schema.org/draft-07/schema#', type: 'object', definitions: {} }
    expect(verdict('C126', schema(old)).status).toBe('pass')
  })

  it('a tool named open may be read-only', () => {
    const opening = tool({ name: 'open_note', description: 'Returns the note of this name.' })
    expect(verdict('C133', opening).status).toBe('pass')
  })

  it('optional members may be absent', () => {
    const { assertions: found } = audit(subjectOf(), subjectOf())
    const open = ['C118', 'C119', 'C152', 'C170', 'C171', 'C172']
    const statuses = found.filter(({ id }) => open.includes(id)).map(({ status }) => status)
    expect(new Set(statuses)).toEqual(new Set(['not applicable', 'pass']))
  })
})

describe('rules that the gateway satisfies for a server', () => {
  const guards = new Map<string, unknown>([
    ['validate', { output: 'strict' }],
    ['limits', {}],
    ['permissions', {}],
  ])

  it('a rule is repaired if the feature is on and fails if it is off', () => {
    for (const id of ['C145', 'C148', 'C149', 'C190', 'C194']) {
      expect(verdict(id, { guards }).status).toBe('repaired')
      expect(verdict(id, {}).status).toBe('fail')
    }
    expect(verdict('C189', { guards })).toEqual({
      status: 'fail',
      evidence: ['limits.result is off for this upstream'],
    })
  })

  it('the result schema rule is repaired if invalid results are refused, and otherwise left to the owner', () => {
    const promising = { tools: [toolOf()], guards }
    expect(verdict('C150', promising).status).toBe('repaired')
    const warned = verdict('C150', { ...promising, guards: new Map([['validate', { output: 'warn' }]]) })
    expect(warned.isOwnerOnly).toBe(true)
    expect(verdict('C150', { ...promising, guards: new Map() }).status).toBe('fail')
  })

  it('the document rules are repaired by published documents, and pass if the server has them', () => {
    const on = new Map([['agent_profile', {}]])
    for (const id of ['C011', 'C022', 'C153', 'C157', 'C165', 'C166', 'C169']) {
      expect(verdict(id, { guards: on }).status).toBe('repaired')
      expect(verdict(id, {}).status).toBe('fail')
    }
    expect(verdict('C167', { resources: [{ uri: 'use://auth' }] }).status).toBe('pass')
    expect(verdict('C165', { resources: [{ uri: 'notes://agent/brief' }] }).status).toBe('fail')
    expect(verdict('C153', { prompts: [{ name: 'agent_brief' }] }).status).toBe('pass')
    expect(verdict('C156', { prompts: [{ name: 'agent_brief' }] }).isOwnerOnly).toBe(true)
  })

  it('the version rules are repaired by the contract feature', () => {
    for (const id of ['C016', 'C017', 'C212', 'C215', 'C217', 'C218']) {
      expect(verdict(id, { guards: new Map([['contract', {}]]) }).status).toBe('repaired')
    }
    expect(verdict('C016', {}).status).toBe('fail')
    expect(verdict('C215', {}).isOwnerOnly).toBe(true)
  })

  it('a deprecation without a mark or an end date is reported', () => {
    const old = (description: string): Difference => ({ ...tool({ description }) })
    expect(verdict('C214', {}).isOwnerOnly).toBe(true)
    expect(verdict('C214', old('Deprecated, returns the note.')).evidence).toEqual([
      'get_note: its description does not begin with [DEPRECATED]',
      'get_note: does not state its end of support',
    ])
    expect(verdict('C214', old('[DEPRECATED] use read_note, until 2099-01-01. Reads.')).status).toBe('pass')
    const settings = { tools: { get_note: { deprecated: 'use read_note' } } }
    expect(verdict('C214', { ...tool({}), settings }).status).toBe('fail')
  })

  it('a tool removed before its end date is reported', () => {
    const settings = {
      tools: { old: { deprecated: 'until 2099-01-01' }, older: { deprecated: 'until 2020-01-01' } },
    }
    expect(verdict('C216', { settings })).toEqual({
      status: 'fail',
      evidence: ['old: was removed before its end of support'],
    })
    expect(verdict('C216', { settings, guards: new Map([['contract', {}]]) }).status).toBe('repaired')
    expect(verdict('C216', { ...tool({ name: 'old' }), settings }).isOwnerOnly).toBe(true)
  })

  it('missing statements in descriptions of changing tools are reported', () => {
    const send = { name: 'send_note', annotations: {}, description: 'Sends the note of a given name.' }
    const whole =
      'Sends a note. Risk: medium. Idempotency: none. Retry: never. Timeout: 5 s. Recorded: yes. Approval: none.'
    const ids = ['C134', 'C137', 'C138', 'C139', 'C140', 'C141', 'C142']
    for (const id of ids) {
      expect(verdict(id, tool(send))).toEqual({ status: 'fail', evidence: ['send_note: not documented'] })
      expect(verdict(id, tool({ ...send, description: whole })).status).toBe('pass')
      expect(verdict(id, tool({})).status).toBe('not applicable')
    }
    expect(verdict('C136', tool(send)).status).toBe('fail')
    expect(verdict('C136', tool({ ...send, annotations: { destructiveHint: false } })).status).toBe('pass')
  })

  it('the masking rule is repaired if results are masked, and otherwise left to the owner', () => {
    for (const id of ['C176', 'C231']) {
      expect(verdict(id, { guards: new Map([['mask', {}]]) }).status).toBe('repaired')
      expect(verdict(id, {}).isOwnerOnly).toBe(true)
    }
  })

  it('the permission rule requires deny rules or authenticated callers', () => {
    expect(verdict('C082', { guards }).status).toBe('fail')
    expect(verdict('C082', { guards, isProtected: true }).status).toBe('repaired')
    expect(verdict('C082', { guards, settings: { deny: { 'delete_*': true } } }).status).toBe('repaired')
    expect(verdict('C082', { isProtected: true }).status).toBe('fail')
  })

  it('a rule is repaired if clients no longer see the fault', () => {
    const bad = subjectOf(tool({ name: 'get-note' }))
    const [found] = audit(bad, subjectOf(tool({}))).assertions.filter(({ id }) => id === 'C119')
    expect(found).toMatchObject({ status: 'repaired', evidence: ['repaired for clients', 'get-note'] })
    expect(found?.fix).toBeUndefined()
    const [same] = audit(bad, bad).assertions.filter(({ id }) => id === 'C119')
    expect(same?.status).toBe('fail')
  })

  it('a rule is not repaired if clients see nothing at all', () => {
    const bad = subjectOf(tool({ name: 'get-note' }))
    const [found] = audit(bad, subjectOf()).assertions.filter(({ id }) => id === 'C119')
    expect(found?.status).toBe('fail')
  })
})

function listsWith(name: 'tools/list' | 'prompts/list', more: Parameters<typeof listOf>[1]) {
  return new Map([...subjectOf().lists, [name, listOf([], more)]])
}
