import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { UpstreamSettings } from '../../../../src/core/settings.ts'
import { parseJson } from '../../../../src/core/json/read.ts'
import { rulesFor } from '../../../../src/features/permissions/gate.ts'
import { serverSettings } from '../../../support/server-settings.ts'
import { illFormed, otherSpellings } from '../../../support/uri-spellings.ts'

const deny = { 'read_*': { path: '/srv/docs/private/**' } }

function permits(args: unknown, given: Partial<UpstreamSettings> = { deny }, tool = 'read_file'): boolean {
  return rulesFor(serverSettings(given), tool)?.permits(args) ?? true
}

describe('deny rules', () => {
  it.each([
    '/srv/docs/private/x',
    '/srv/docs/private',
    '/srv/docs/private/',
    '/srv/docs/private/../private/x',
    '/srv/docs/private/../public/x',
    '/srv/docs/../docs/private/x',
    '/srv/docs/public/../private/x',
    '/srv/docs/./private/x',
    '//srv//docs//private//x',
    '/srv/docs/private/./x',
    '/../../srv/docs/private/x',
    '/SRV/Docs/PRIVATE/x',
    '/srv/docs/priVate/x',
    '/srv/docs/%70rivate/x',
    '/srv/docs/%2570rivate/x',
    '/srv/docs/%252570rivate/x',
    '/srv/docs/public/%2e%2e/private/x',
    '/srv/docs/public/%2E%2E%2Fprivate%2fx',
    '/srv/docs%2fprivate%2fx',
    '\\srv\\docs\\private\\x',
    '/srv/docs\\private/x',
    'file:///srv/docs/private/x',
    'FILE:///srv/docs/private/x',
    'file://localhost/srv/docs/private/x',
    'file:/srv/docs/private/x',
    'file:///srv/docs/public/../private/x',
    'file:///srv/docs/%70rivate/x',
    ' /srv/docs/private/x ',
    '"/srv/docs/private/x"',
    "'/srv/docs/private/x",
    '"/srv/docs/public/../private/x"',
    '/srv/docs/private/x\0.txt',
    '/srv/docs/private\0',
    '/srv/docs/private./x',
    '/srv/docs/private /x',
    '/srv/docs/ｐｒｉｖａｔｅ/x',
    '/proc/self/root/srv/docs/private/x',
    '/proc/1/root/srv/docs/private/x',
    '/proc/self/task/7/root/srv/docs/private/x',
    'srv/docs/private/x',
    'docs/private/x',
    'private/x',
    './private/x',
    '../docs/private/x',
    '../../srv/docs/private/x',
    'public/../private/x',
    'PRIVATE/x',
    '~/private/x',
    '~root/docs/private/x',
  ])('a deny rule refuses %j', (path) => {
    expect(permits({ path })).toBe(false)
  })

  it.each([
    '/srv/docs/public/x',
    '/srv/docs/privateer',
    '/srv/docs/notes private/x',
    'notes.txt',
    'privately/x',
    '',
  ])('a deny rule permits %j', (path) => {
    expect(permits({ path })).toBe(true)
  })

  it.each([
    [{ path: ['/srv/docs/public/x', '/srv/docs/private/x'] }],
    [{ path: { file: { at: '/srv/docs/private/x' } } }],
    [{ path: { '/srv/docs/private/x': 'read' } }],
    [{ path: [[['/srv/docs/private/x']]] }],
    [{ Path: '/srv/docs/private/x' }],
    [{ path: '/srv/docs/public/x', PATH: '/srv/docs/private/x' }],
  ])('a deny rule inspects the whole argument: %j', (args) => {
    expect(permits(args)).toBe(false)
  })

  it.each([[['/srv/docs/private/x']], ['/srv/docs/private/x'], [null]])(
    'arguments that are not an object are refused: %j',
    (args) => {
      expect(permits(args)).toBe(false)
    },
  )

  it('a deny rule does not affect other arguments and tools', () => {
    expect(permits({ note: '/srv/docs/private/x' })).toBe(true)
    expect(permits({ path: '/srv/docs/private/x' }, { deny }, 'write_file')).toBe(true)
    expect(permits({})).toBe(true)
    expect(permits(undefined)).toBe(true)
  })

  it('a deny rule with several arguments applies if one of them matches', () => {
    const rule = { move: { from: '/etc/**', to: '/etc/**' } }
    expect(permits({ from: '/tmp/a', to: '/etc/passwd' }, { deny: rule }, 'move')).toBe(false)
    expect(permits({ from: '/tmp/a', to: '/tmp/b' }, { deny: rule }, 'move')).toBe(true)
  })

  it('a deny rule matches numbers and booleans as written', () => {
    const given = { deny: { 'read_*': { page: '7', force: 'true' } } }
    expect([{ page: 7 }, { page: [{ of: 7 }] }, { force: true }].map((args) => permits(args, given))).toEqual(
      [false, false, false],
    )
    expect(permits({ page: 8, force: false }, given)).toBe(true)
  })

  it.each([
    ['5', '5.0'],
    ['5', `5.${'0'.repeat(2000)}`],
    ['5', `5${'0'.repeat(2000)}e-2000`],
    ['5.0', '5'],
    ['0.00000001', '1e-8'],
    ['1e-8', '0.00000001'],
    ['1000000000000000000000', '1e21'],
    ['725653563933458433', '7.25653563933458433e17'],
    ['725653563933458433', `725653563933458433.${'0'.repeat(2000)}`],
  ])('a rule for %s applies to that number however it is written', (number, written) => {
    const args = parseJson(`{"id":[${written}]}`)
    expect(permits(args, { deny: { send: { id: number } } }, 'send')).toBe(false)
    expect(permits(args, { allow: { send: { id: number } } }, 'send')).toBe(true)
    const other = parseJson(`{"id":[${written.replace(/[1-9]/, '4')}]}`)
    expect(permits(other, { deny: { send: { id: number } } }, 'send')).toBe(true)
    expect(permits(other, { allow: { send: { id: number } } }, 'send')).toBe(false)
  })

  it('a rule for a number does not apply to texts that are written in another way', () => {
    expect(permits({ id: '1.1' }, { allow: { send: { id: '1.10' } } }, 'send')).toBe(false)
    expect(permits({ id: '1.1' }, { deny: { send: { id: '1.10' } } }, 'send')).toBe(true)
  })

  it('a deny rule without arguments closes a tool', () => {
    const rules = rulesFor(serverSettings({ deny: { 'read_*': true } }), 'read_file')
    expect(rules).toMatchObject({ isClosed: true })
    expect(rules?.permits({})).toBe(false)
  })

  it.each([
    'file:///srv/private/x',
    'file:///srv/public/../private/x',
    'file:///srv/%70rivate/x',
    'FILE:///srv/private/x',
    ...otherSpellings,
    ...illFormed,
  ])('a deny rule closes a resource in every spelling of its URI: %s', (uri) => {
    const rule = { deny: { 'file:///srv/private/**': true } } as const
    expect(rulesFor(serverSettings(rule), uri, 'resource')?.isClosed).toBe(true)
    expect(rulesFor(serverSettings(rule), 'file:///srv/public/x', 'resource')).toBeUndefined()
  })

  it.each([
    'file:///srv/public/100%25',
    'file:///srv/public/a;v=1?x=%2F#y',
    'memo://insights',
    'notes/1',
    '',
  ])('a deny rule does not affect other resources: %j', (uri) => {
    const rule = { deny: { 'file:///srv/private/**': true } } as const
    expect(rulesFor(serverSettings(rule), uri, 'resource')).toBeUndefined()
  })

  it('a deny rule closes a resource with any query, fragment or user', () => {
    const rule = { deny: { 'file:///srv/key': true, 'db://Main/my%20table': true } } as const
    const closed = ['file:///srv/key?x', 'file:///srv/key#y', 'file:/srv/key?a#b', 'db://main/my table']
    for (const uri of [...closed, 'db://user@MAIN/my%20table?limit=1', 'DB://Main//my%2520table'])
      expect([uri, rulesFor(serverSettings(rule), uri, 'resource')?.isClosed]).toEqual([uri, true])
  })

  it('URIs without a rule are not parsed', () => {
    for (const uri of illFormed) expect(rulesFor(serverSettings({}), uri, 'resource')).toBeUndefined()
  })

  it.each(otherSpellings)('a deny rule covers a URI argument in every spelling: %s', (url) => {
    const rule = { deny: { fetch: { url: 'file:///srv/private/**' } } }
    expect(permits({ url }, rule, 'fetch')).toBe(false)
  })

  it("a deny rule resolves relative paths against the server's directories", () => {
    const reach = { kind: 'command', command: 'x', args: ['/srv/docs/private'], env: {} } as const
    expect(permits({ path: 'x' }, { deny, reach })).toBe(false)
    const inside = { ...reach, args: [], cwd: '/srv/docs/private/deep' }
    expect(permits({ path: 'x' }, { deny, reach: inside })).toBe(false)
    expect(permits({ path: 'x' }, { deny, reach: { ...inside, cwd: '/srv/docs/public' } })).toBe(true)
  })

  it.each([
    'http://169.254.169.254/x',
    'HTTP://169.254.169.254:80/x',
    'http://me@169.254.169.254/x',
    'http://2852039166/x',
  ])('a deny rule covers a URL argument in every spelling: %s', (url) => {
    expect(permits({ url }, { deny: { fetch: { url: 'http://169.254.169.254/**' } } }, 'fetch')).toBe(false)
  })

  it('an argument too large to inspect is refused', () => {
    expect(permits({ path: Array.from({ length: 2000 }, () => 'a') })).toBe(false)
    expect(permits({ path: 'a'.repeat(100_000) })).toBe(false)
  })

  it('a deny rule applies to every spelling of a path', () => {
    const noise = fc.constantFrom('/.', '/', '/a/..', '/%2e', '/b/c/../..', '/x/%2e%2e')
    const spell = fc.constantFrom('private', 'PRIVATE', '%70rivate', 'pri%76ate', 'priv%2561te')
    fc.assert(
      fc.property(noise, noise, spell, noise, (one, two, word, three) => {
        expect(permits({ path: `/srv${one}/docs${two}/${word}${three}/x` })).toBe(false)
      }),
    )
  })
})

describe('allow rules', () => {
  const allow = { 'read_*': { path: '/srv/docs/**' } }

  it.each([
    '/srv/docs/a',
    '/srv/docs',
    '/srv/docs/a/../b',
    '/srv/docs/a%20b',
    '/srv/docs/a;b',
    '/srv/docs/a\\b',
  ])('an allow rule permits %j', (path) => {
    expect(permits({ path }, { allow })).toBe(true)
  })

  it.each([
    '/srv/docs/../x',
    '/srv/docs/a/../../x',
    '/srv/docs/%2e%2e/x',
    '/srv/docs/%252e%252e/x',
    '/srv/docs/..%2fx',
    '/srv/docs/..;/x',
    '/srv/docs/a/..;v=1/..;/x',
    '/srv/docs/%2e%2e%3b/x',
    '/srv/docs/..\\x',
    '/srv/docs/a\\..\\..\\x',
    '/SRV/docs/a',
    'a',
    '',
    '/etc/passwd',
  ])('an allow rule refuses %j', (path) => {
    expect(permits({ path }, { allow })).toBe(false)
  })

  it.each([[{}], [{ path: [] }], [{ path: null }], [{ path: ['/srv/docs/a', '/etc/x'] }], [undefined]])(
    'an allow rule requires every value of an argument to match: %j',
    (args) => {
      expect(permits(args, { allow })).toBe(false)
    },
  )

  it('an allow rule requires every named argument to match', () => {
    const both = { create_issue: { owner: 'acme', repo: 'docs-*' } }
    expect(permits({ owner: 'acme', repo: 'docs-1' }, { allow: both }, 'create_issue')).toBe(true)
    expect(permits({ owner: 'acme', repo: 'code' }, { allow: both }, 'create_issue')).toBe(false)
    expect(permits({ owner: 'acme', repo: 'docs-1', Repo: 'x' }, { allow: both }, 'create_issue')).toBe(false)
  })

  it('an allow rule does not affect other tools', () => {
    expect(permits({ path: '/etc/x' }, { allow }, 'stat')).toBe(true)
  })

  it('a more specific allow rule has precedence', () => {
    const more = { ...allow, read_config: { path: '/etc/app/**' } }
    expect(permits({ path: '/etc/app/x' }, { allow: more }, 'read_config')).toBe(true)
    expect(permits({ path: '/srv/docs/x' }, { allow: more }, 'read_config')).toBe(false)
  })

  it("an allow rule resolves relative paths against the server's directories", () => {
    const reach = { kind: 'command', command: 'x', args: ['/srv/docs'], env: {} } as const
    expect(permits({ path: 'a' }, { allow, reach })).toBe(true)
    expect(permits({ path: '../a' }, { allow, reach })).toBe(false)
  })

  it('arguments too long to inspect are refused, as one text or as many', () => {
    const many = Array.from({ length: 10 }, () => '/srv/docs/a'.padEnd(60_000, 'a'))
    expect(permits({ path: many.slice(0, 2) }, { allow })).toBe(true)
    for (const path of [many, '/srv/docs/a'.padEnd(70_000, 'a')]) {
      expect(permits({ path }, { allow })).toBe(false)
      expect(permits({ path }, { deny })).toBe(false)
    }
  })

  it('an allow rule never overrides a deny rule', () => {
    expect(permits({ path: '/srv/docs/private/x' }, { allow, deny })).toBe(false)
    expect(permits({ path: '/srv/docs/x' }, { allow, deny })).toBe(true)
  })
})
