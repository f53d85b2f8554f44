import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { loadSettings } from '../../../src/config/load.ts'
import { interpolate, variablesFor } from '../../../src/config/secrets.ts'
import { importedFile } from '../../support/imported.ts'

const folder = mkdtempSync(join(tmpdir(), 'gatehouse-test-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

execFileSync('sh', ['-c', 'mkfifo "$0"', join(folder, 'pipe')])
writeFileSync(join(folder, 'large'), 'x'.repeat(2_000_000))
writeFileSync(join(folder, 'token'), 'secret\n')

test.each([
  ['/dev/zero', 'it is not a regular file'],
  ['pipe', 'it is not a regular file'],
  ['large', 'it is larger than 1 MB'],
  ['nowhere', 'it does not exist'],
])('a reference to %s is refused immediately', (file, why) => {
  const { problems } = interpolate(`\${file:${file}}`, { env: {}, directory: folder })
  expect(problems).toEqual([expect.stringMatching(new RegExp(`^the file .*${file} cannot be read: ${why}`))])
})

test('a file reference expands to the text of the file', () => {
  expect(interpolate('${file:token}', { env: {}, directory: folder })).toEqual({
    text: 'secret',
    problems: [],
    referenced: [{ value: 'secret' }],
  })
})

test('variables come from the process, then from the named env file, then from .env', () => {
  const config = join(folder, 'gateway.config.yaml')
  writeFileSync(join(folder, '.env'), '# a comment\nFROM_DOT=dot\nexport QUOTED="a b"\nPATH=mine\n')
  const own = { PATH: 'own' }
  expect(variablesFor(config, own)).toEqual({ FROM_DOT: 'dot', QUOTED: 'a b', PATH: 'own' })
  const other = join(folder, 'other.env')
  writeFileSync(other, 'FROM_OTHER=other\n')
  const found = variablesFor(config, own, other)
  expect([found['FROM_OTHER'], found['FROM_DOT']]).toEqual(['other', undefined])
  expect(() => variablesFor(config, own, join(folder, 'absent.env'))).toThrow('it does not exist')
})

test('store commands need the secrets of the store only', () => {
  const text = `
store: \${STORE_PATH}
listen: { port: "\${PORT}" }
auth: { opaque: { introspect: { url: "\${INTROSPECT}", client_id: a, client_secret: "\${SECRET}" } } }
upstreams:
  one: { url: "\${URL}", token: "\${TOKEN}" }
  two: \${COMMAND}
`
  const load = (env: Record<string, string>, isForStore: boolean) =>
    loadSettings(text, { file: join(folder, 'f'), env, isForStore }).settings
  expect(load({ STORE_PATH: '/tmp/kept' }, true).store).toMatchObject({ kind: 'folder', path: '/tmp/kept' })
  expect(() => load({ STORE_PATH: '/tmp/kept' }, false)).toThrow('TOKEN')
  expect(() => load({}, true)).toThrow('STORE_PATH')
})

test('an imported URL loses its user and password', () => {
  const servers = {
    one: { url: 'https://anna:s%40cret@one.example/mcp?x=1' },
    two: { url: 'https://anna@two.example/mcp' },
  }
  const { yaml } = importedFile({ mcpServers: servers })
  expect(yaml).not.toMatch(/s%40cret|s@cret|anna/)
  expect(yaml).toContain('url: https://one.example/mcp?x=1')
  expect(yaml).toContain('authorization: Basic ${ONE_BASIC}')
  expect(yaml).toContain('authorization: Basic ${TWO_BASIC}')
})
