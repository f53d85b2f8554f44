import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { stringify } from 'yaml'
import { loadSettings } from '../../../src/config/load.ts'
import { loadStored } from '../../../src/config/load-sections.ts'
import { Redactor, secretsOf } from '../../../src/core/text/redactor.ts'

const folder = mkdtempSync(join(tmpdir(), 'gatehouse-secrets-'))
writeFileSync(join(folder, 'token'), 'from-a-file\n')
const env = {
  TOKEN: 'correct horse battery',
  PLAIN: 'plainly',
  HOME: '/home/alice',
  REGION: 'frankfurt',
  ACME_REGION: 'frankfurt-2',
  URL: 'https://hooks.example/services/T00/AbCdEf1g2h3i4j5k?api_key=in-the-query',
  PORT: '8901234',
  PIN: '482913',
  SHORT: 'abc',
}

/** A text without the secrets of a configuration. */
function shown(config: object, text: string): string {
  const { settings } = loadSettings(stringify(config), { file: join(folder, 'test.yaml'), env })
  const redactor = new Redactor()
  redactor.learn(secretsOf(settings))
  return redactor.text(text)
}

const command = (more: object) => ({ upstreams: { one: { command: 'true', ...more } } })
const url = (more: object) => ({ upstreams: { one: { url: 'https://one.example/mcp', ...more } } })

describe('what a configuration gives as a secret', () => {
  it.each([
    ['a variable of a server by a reference', command({ env: { A: '${TOKEN}' } }), 'correct horse battery'],
    ['a part of a variable by a reference', command({ env: { A: 'x ${TOKEN} y' } }), 'correct horse battery'],
    ['a plain word by a reference', command({ env: { A: '${PLAIN}' } }), 'plainly'],
    ['a file', command({ env: { A: '${file:token}' } }), 'from-a-file'],
    ['a number', command({ env: { A: '${PIN}' } }), '482913'],
    ['a literal under the name of a secret', command({ env: { API_KEY: 'production' } }), 'production'],
    ['a token under any name', command({ env: { A: 'ghp_0123456789abcdef' } }), 'ghp_0123456789abcdef'],
    ['a random text under any name', command({ env: { A: 'q8Zr2tV9xK4mB7nW' } }), 'q8Zr2tV9xK4mB7nW'],
    ['the password of a URL', command({ env: { DATABASE: 'mysql://app:pass-word@db/main' } }), 'pass-word'],
    ['a word of a command', command({ args: ['--token', 'literal-1', 'x'] }), 'literal-1'],
    ['a word of a command with =', command({ args: ['--api-key=literal-2'] }), 'literal-2'],
    ['a word by a reference', command({ args: ['${TOKEN}'] }), 'correct horse battery'],
    ['a header by a reference', url({ headers: { 'x-a': '${TOKEN}' } }), 'correct horse battery'],
    ['an authorization header', url({ headers: { Authorization: 'Bearer literal-3' } }), 'literal-3'],
    ['a token', url({ token: 'literal-4' }), 'literal-4'],
    ['a parameter of a URL', url({ url: 'https://one.example/mcp?api_key=literal-5' }), 'literal-5'],
    ['a step of a URL', url({ url: 'https://one.example/s/q8Zr2tV9xK4mB7nW/mcp' }), 'q8Zr2tV9xK4mB7nW'],
    ['a URL by a reference', command({ env: { A: '${URL}' } }), 'in-the-query'],
    ['a step of a URL by a reference', command({ env: { A: '${URL}' } }), 'AbCdEf1g2h3i4j5k'],
    ['a client secret', url({ oauth: { client_id: 'gw', client_secret: 'literal-6' } }), 'literal-6'],
    [
      'a client secret as the gateway sends it',
      url({ oauth: { client_id: 'gw', client_secret: 'literal+6' } }),
      Buffer.from('gw:literal%2B6').toString('base64'),
    ],
    ['the password of a store', { ...command({}), store: 'redis://:pass-word@127.0.0.1' }, 'pass-word'],
    [
      'the key of the audit log',
      { ...command({}), observe: { audit: { key: 'sixteen characters' } } },
      'sixteen characters',
    ],
  ])('%s is one', (_what, config, secret) => {
    expect(shown(config, `before ${secret} after`)).toBe('before *** after')
  })

  it.each([
    ['a literal under an ordinary name', command({ env: { REGION: 'production' } }), 'production'],
    [
      'a long literal under an ordinary name',
      command({ env: { M: 'gpt-4o-mini-2024-07-18' } }),
      'gpt-4o-mini-2024-07-18',
    ],
    ['a kind of credentials', command({ env: { AUTH_MODE: 'client_secret' } }), 'client_secret'],
    ['a path', command({ env: { DATA: '/srv/data/files' } }), '/srv/data/files'],
    ['the home folder', command({ args: ['${HOME}/notes'] }), '/home/alice'],
    ['a variable that is no secret', command({ env: { A: '${ACME_REGION}' } }), 'frankfurt-2'],
    ['a default', command({ env: { A: '${MISSING:-production}' } }), 'production'],
    ['a value that is very short', command({ env: { A: '${SHORT}' } }), 'abc'],
    ['the host of a URL', command({ env: { A: '${URL}' } }), 'hooks.example'],
    ['a URL without credentials', url({}), 'https://one.example/mcp'],
    [
      'the name of a server',
      { upstreams: { plainly: { command: 'true', env: { A: '${PLAIN}' } } } },
      'plainly',
    ],
    [
      'the name of a server under the name of a secret',
      { upstreams: { postgres: { command: 'true', env: { POSTGRES_PASSWORD: 'postgres' } } } },
      'postgres',
    ],
    ['a reference under an ordinary name', command({ env: { LANG: '${PLAIN}' } }), 'plainly'],
    ['a reference to an ordinary name', command({ env: { A: '${REGION}' } }), 'frankfurt'],
    ['an ordinary header', url({ headers: { 'x-tenant': 'customer-one' } }), 'customer-one'],
    [
      'a store without a password',
      { ...command({}), store: 'redis://127.0.0.1:6379' },
      'redis://127.0.0.1:6379',
    ],
    ['the folder of a store', { ...command({}), store: './.gatehouse' }, './.gatehouse'],
  ])('%s is none', (_what, config, text) => {
    expect(shown(config, `before ${text} after`)).toBe(`before ${text} after`)
  })

  it('commands that need the store alone know the secrets that can be resolved', () => {
    const config = url({ headers: { a: '${TOKEN}', b: '${NOT_SET}' }, token: 'literal-4' })
    const { secrets } = loadStored(stringify({ ...config, store: 'memory' }), {
      file: join(folder, 'x.yaml'),
      env,
    })
    const redactor = new Redactor()
    redactor.learn(secretsOf(secrets))
    expect(redactor.text('correct horse battery, literal-4')).toBe('***, ***')
  })
})
