import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { addToolSettings } from '../../../src/config/add-settings.ts'

const addition = { upstream: 'a', tool: 'make', settings: { undo: 'drop(id=$.result.id)' }, comment: ['why'] }
const tools = { make: { undo: 'drop(id=$.result.id)' } }

test.each([
  ['a mapping', 'upstreams:\n  a:\n    command: x\n', { command: 'x', tools }],
  ['a command line', 'upstreams:\n  a: npx x # mine\n', { command: 'npx x', tools }],
  ['a URL', 'upstreams:\n  a: https://x.example/mcp\n', { url: 'https://x.example/mcp', tools }],
  [
    'a flow mapping',
    'upstreams:\n  a: { url: "https://x.example/mcp" }\n',
    { url: 'https://x.example/mcp', tools },
  ],
  ['JSON', '{"upstreams":{"a":{"command":"x"}}}', { command: 'x', tools }],
  [
    'tools with an empty mapping',
    'upstreams:\n  a:\n    command: x\n    tools: {}\n',
    { command: 'x', tools },
  ],
  ['tools without a value', 'upstreams:\n  a:\n    command: x\n    tools:\n', { command: 'x', tools }],
  [
    'a tool with settings',
    'upstreams:\n  a:\n    command: x\n    tools:\n      # kept\n      make: { confirm: never } # too\n',
    { command: 'x', tools: { make: { confirm: 'never', ...tools.make } } },
  ],
  [
    'a tool with the same setting',
    'upstreams:\n  a:\n    command: x\n    tools:\n      make:\n        undo: other\n',
    { command: 'x', tools: { make: { undo: 'other' } } },
  ],
  ['CRLF', 'upstreams:\r\n  a:\r\n    command: x # c\r\n', { command: 'x', tools }],
  ['odd indentation', 'upstreams:\n     a:\n         command: [x,  y]\n', { command: ['x', 'y'], tools }],
  ['multi-line text', 'upstreams:\n  a:\n    about: one\n      two\n    command: x\n', undefined],
])('settings are added to %s completely or not at all', (_what, text, a) => {
  const added = addToolSettings(text, [addition])
  if (a === undefined) return expect(added).toHaveProperty('problem')
  if ('problem' in added) throw new Error(added.problem)
  expect(parse(added.text)).toEqual({ upstreams: { a } })
  for (const comment of text.match(/#.*/g) ?? []) expect(added.text).toContain(comment.trim())
})

test.each([
  ['invalid YAML', 'upstreams: [\n'],
  ['an alias', 'x: &x { command: x }\nupstreams:\n  a: *x\n'],
  ['an alias as tools', 'x: &x {}\nupstreams:\n  a:\n    command: x\n    tools: *x\n'],
  ['a list', 'upstreams:\n  a: [x, y]\n'],
  ['no such server', 'upstreams:\n  b: x\n'],
])('a file is not changed if it has %s', (_what, text) => {
  expect(addToolSettings(text, [addition])).toEqual({ problem: expect.any(String) })
})
