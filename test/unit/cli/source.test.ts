import { chownSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { readSource } from '../../../src/cli/source.ts'
import { parse } from '../../../src/cli/command.ts'
import { commands } from '../../../src/cli/commands.ts'
import { memoryIo } from '../../support/memory-io.ts'

test.each([
  '-fJOsp9yiMuTWWcbEtnYkfAgrHeCzZfuhl9lHXPHhPw',
  '--Osp9yiMuTWWcbEtnYkfAgrHeCzZfuhl9lHXPHhPwx',
  'k1',
])('a gateway key is accepted whatever character it begins with: %s', (key) => {
  const [, given] = parse('check', ['http://a.example/mcp', '--gateway-key', key, '--json'], commands)
  expect(given).toMatchObject({ gatewayKey: key, json: true })
  expect(given['servers']).toEqual(['http://a.example/mcp'])
})

test('an option after --gateway-key is not read as the key', () => {
  expect(() => parse('check', ['--gateway-key', '--json'], commands)).toThrow(
    "Option '--gateway-key' argument is ambiguous",
  )
})

test.skipIf(process.getuid?.() !== 0)(
  'a configuration that is found is trusted at each reload (needs root)',
  () => {
    const cwd = mkdtempSync(join(tmpdir(), 'gatehouse-options-'))
    onTestFinished(() => rmSync(cwd, { recursive: true }))
    const text = 'upstreams: { one: "http://127.0.0.1:9/mcp" }'
    const file = join(cwd, 'gateway.config.yaml')
    writeFileSync(file, text)
    const [found, named] = [
      readSource({}, memoryIo({ cwd })),
      readSource({ config: file }, memoryIo({ cwd })),
    ]
    expect(found.read(text).upstreams).toHaveLength(1)
    chownSync(file, 65_534, 65_534)
    expect(() => found.read(text)).toThrow('belongs to another user')
    expect(named.read(text).upstreams).toHaveLength(1)
  },
)
