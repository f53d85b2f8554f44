import { expect, test } from 'vitest'
import { type ServerLists, unmatchedNames } from '../../../src/catalog/name-check.ts'
import { loadSettings } from '../../../src/config/load.ts'
import { ConfigError } from '../../../src/config/problem.ts'
import { knownScopes } from '../../../src/core/principal.ts'

const schema = (...names: string[]) => ({
  type: 'object',
  properties: Object.fromEntries(names.map((name) => [name, { type: 'string' }])),
})

const tickets: ServerLists = {
  tools: [
    { name: 'list_tickets', inputSchema: schema('status') },
    { name: 'create_ticket', inputSchema: schema('title', 'key') },
    { name: 'delete_ticket', inputSchema: schema('id') },
    { name: 'call_api', inputSchema: { type: 'object' } },
  ],
  prompts: [{ name: 'triage', arguments: [{ name: 'team' }] }],
  resources: [{ uri: 'file:///pub/readme.md' }],
  resourceTemplates: [{ uriTemplate: 'ticket://{id}/body' }],
  hasResources: true,
}

function found(own: object, top: object = {}): string[] {
  const text = JSON.stringify({ ...top, upstreams: { tickets: { url: 'https://one.example', ...own } } })
  const { settings } = loadSettings(text, { file: 'f', env: {} })
  const scopes = settings.upstreams.flatMap(knownScopes)
  const known = { lists: new Map([['tickets', tickets]]), isWhole: true, scopes }
  return unmatchedNames(settings.names, known).map(({ path, message, isMinor }) => {
    return `${isMinor ? 'minor' : 'error'} ${path.slice(path[0] === 'upstreams' ? 2 : 0).join('.')}: ${message}`
  })
}

const none = 'tickets lists no matching tool, prompt or resource; did you mean'

test.each<[object, string]>([
  [{ deny: { delete_tikcet: 'on' } }, `error deny.delete_tikcet: ${none} delete_ticket?`],
  [{ deny: { 'delte_*': 'on' } }, `error deny.delte_*: ${none} delete_*?`],
  [{ allow: { crate_ticket: { title: 'a*' } } }, `error allow.crate_ticket: ${none} create_ticket?`],
  [{ scopes: { 'read:x': ['lst_*'] } }, `error scopes.read:x.0: ${none} list_*?`],
  [{ scopes: { 'read:x': 'traige' } }, `error scopes.read:x: ${none} triage?`],
  [
    { deny: { 'flie:///pub/*': 'on' } },
    'error deny.flie:///pub/*: tickets lists no matching tool, prompt or resource',
  ],
  [
    { deny: { delete_ticket: { idd: '*' } } },
    'error deny.delete_ticket.idd: delete_ticket of tickets takes no argument idd; did you mean id?',
  ],
  [
    { deny: { triage: { tem: '*' } } },
    'error deny.triage.tem: triage of tickets takes no argument tem; did you mean team?',
  ],
  [
    { deny: { 'file:///pub/*': { path: '*' } } },
    'error deny.file:///pub/*.path: a resource has no arguments: write `on` to deny it entirely',
  ],
  [
    { tools: { crate_ticket: { pivot: true } } },
    'minor tools.crate_ticket: tickets lists no matching tool; did you mean create_ticket?',
  ],
  [
    { tools: { delete_ticket: { type_to_confirm: 'idd' } } },
    'minor tools.delete_ticket.type_to_confirm: delete_ticket of tickets takes no argument idd; did you mean id?',
  ],
  [
    { tools: { create_ticket: { key_argument: 'kee' } } },
    'minor tools.create_ticket.key_argument: create_ticket of tickets takes no argument kee; did you mean key?',
  ],
  [
    { tools: { delete_ticket: { confirm: 'Delete {idd}?' } } },
    'minor tools.delete_ticket.confirm: delete_ticket of tickets takes no argument idd; did you mean id?',
  ],
  [
    { tools: { create_ticket: { provenance: { source: 'x:{titl}' } } } },
    'minor tools.create_ticket.provenance.source: create_ticket of tickets takes no argument titl; did you mean title?',
  ],
  [
    { tools: { create_ticket: { examples: [{ input: { titl: 'a' } }] } } },
    'minor tools.create_ticket.examples.0.input.titl: create_ticket of tickets takes no argument titl; did you mean title?',
  ],
  [
    { tools: { call_api: { deprecated: 'use creat_ticket, until 2030-01-01' } } },
    'minor tools.call_api.deprecated: tickets lists no matching tool; did you mean create_ticket?',
  ],
  [
    { intent: [{ when: 'new', on: 'lst_*', suggest: 'create_ticket' }] },
    'minor intent.0.on: tickets lists no matching tool; did you mean list_*?',
  ],
  [
    { features: { mask: { rules: [{ pattern: 'x+', tools: 'lsit_tickets' }] } } },
    'minor features.mask.rules.0.tools: tickets lists no matching tool; did you mean list_tickets?',
  ],
  [
    { features: { permissions: { approval: { 'wirte:*': 'never' } } } },
    'minor features.permissions.approval.wirte:*: has no effect: no server has this scope',
  ],
])('a configured name that matches nothing is reported: %j', (own, expected) => {
  const all = found(own)
  expect(all).toEqual([expect.stringContaining(expected)])
})

test.each<[object, string]>([
  [
    { features: { mask: { rules: [{ pattern: 'x+', tools: ['lst_*'] }] } } },
    'minor features.mask.rules.0.tools.0: no server lists a matching tool; did you mean list_*?',
  ],
  [
    { auth: { principal: { id: 'me', scopes: ['raed:tickets'] } } },
    'minor auth.principal.scopes.0: has no effect: no server has this scope; did you mean read:tickets?',
  ],
  [
    { auth: { scope_map: { all: 'raed:tickets' } } },
    'minor auth.scope_map.all: has no effect: no server has this scope; did you mean read:tickets?',
  ],
])('a name in the settings for all servers that matches nothing is reported: %j', (top, expected) => {
  expect(found({}, top)).toEqual([expected])
})

test.each<object>([
  { deny: { delete_ticket: 'on', 'delete_*': { ID: '*' }, call_api: { anything: '*' } } },
  { deny: { 'file:///pub/*': 'on', 'ticket://7/body': 'on', '/pub/*': 'on', 'FILE:/pub/readme.md': 'on' } },
  { scopes: { 'read:x': ['list_*', 'triage', 'ticket://*'] } },
  { tools: { '*': { rate: '1/second' }, delete_ticket: { confirm: 'never', type_to_confirm: 'id' } } },
  { tools: { create_ticket: { key_argument: 'off', provenance: { source: '$.result.url' } } } },
  { tools: { gone: { deprecated: 'use list_tickets' } } },
  { deny: { delete_tikcet: 'on', 'old_*': { id: '*' } }, optional: ['delete_tikcet', 'old_*'] },
  { deny: { delete_ticket: { idd: '*' } }, optional: ['idd'] },
  { scopes: { 'read:x': ['lst_*'] }, optional: '*' },
])('a name that matches, or that does not have to match, is not reported: %j', (own) => {
  expect(found(own)).toEqual([])
})

test('the names of a server that could not be listed are not reported', () => {
  const text = JSON.stringify({ upstreams: { one: { url: 'https://one.example', deny: { nothing: 'on' } } } })
  const { settings } = loadSettings(text, { file: 'f', env: {} })
  expect(unmatchedNames(settings.names, { lists: new Map(), isWhole: false, scopes: [] })).toEqual([])
})

test('an optional name that appears nowhere else causes a warning', () => {
  const text = JSON.stringify({ upstreams: { one: { url: 'https://one.example', optional: ['nothing'] } } })
  const { warnings } = loadSettings(text, { file: 'f', env: {} })
  expect(warnings.map(({ path }) => path)).toEqual(['upstreams.one.optional[0]'])
})

test.each<object>([
  { scopes: { 'read x': ['list_*'] } },
  { tools: { list_tickets: { scopes: ['read x'] } } },
  { tools: { list_tickets: { scopes: 'read x' } } },
  { features: { permissions: { approval: { 'read x': 'auto' } } } },
])('a scope that contains a space is refused: %j', (own) => {
  const text = JSON.stringify({ upstreams: { one: { url: 'https://one.example', ...own } } })
  expect(() => loadSettings(text, { file: 'f', env: {} })).toThrow(ConfigError)
})
