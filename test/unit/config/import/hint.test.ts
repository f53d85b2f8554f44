import { expect, test } from 'vitest'
import { loadSettings } from '../../../../src/config/load.ts'

const load = (text: string) => () => loadSettings(text, { file: '/g.yaml', env: {} })

test.each([
  ['JSON', '{"mcpServers": {"a": {"command": "x", "env": {"K": "sesame"}}}}', '/g.yaml:1:2 mcpServers: '],
  ['JSON with tabs', '{\n\t"servers": {\n\t\t"a": { "command": "sesame" }\n\t}\n}', '/g.yaml:2:2 servers: '],
  ['JSON with comments', '// mine\n{ "servers": {} } // sesame', '/g.yaml:1:1 '],
  ['JSON that ends too early', '{"mcpServers": {"a": {"command": "sesame"', '/g.yaml:1:1 '],
  ['TOML', '[mcp_servers.x]\ncommand = "sesame"\n', '/g.yaml:1:1 '],
  ['YAML', 'mcpServers:\n  - name: a\n    command: sesame\n', '/g.yaml:1:1 mcpServers: '],
])('a pasted configuration of a client in %s says what to run, and nothing else', (_syntax, text, place) => {
  expect(load(text)).toThrow(
    new RegExp(`^${place}this is the configuration of an MCP client.*\`gatehouse init --from FILE\`[^\n]*$`),
  )
  expect(load(text)).not.toThrow('sesame')
})

test('a mistyped `upstreams` in YAML is not taken for a client', () => {
  const text = 'servers:\n  a: npx x\n'
  expect(load(text)).toThrow('upstreams')
  expect(load(text)).not.toThrow('gatehouse init')
})

test('beside `upstreams`, the key of a client alone is wrong', () => {
  expect(load('upstreams: { a: x }\nmcpServers: {}\n')).toThrow(
    /^\/g\.yaml:2:1 mcpServers: unknown key[^\n]*$/,
  )
})
