import { describe, expect, it, test } from 'vitest'
import {
  aliasOf,
  isPlainName,
  isShortened,
  namesByAlias,
  ownAliasOf,
} from '../../../../src/core/text/alias.ts'

describe('aliases of names', () => {
  test.each([
    ['read_file', 'read_file'],
    ['a__b', 'a__b'],
    ['createJiraIssue', 'create_jira_issue'],
    ['get-tiny-image', 'get_tiny_image'],
    ['files.read', 'files_read'],
    ['HTTPServerStatus', 'http_server_status'],
    ['Echo', 'echo'],
    ['prüfeÜberträge', 'prufe_ubertrage'],
    ['_private_', 'private'],
    ['9lives', 'x_9lives'],
    ['a', 'x_a'],
    ['a b/c:d', 'a_b_c_d'],
  ])('the alias of %s is %s', (name, alias) => {
    expect(aliasOf(name)).toBe(alias)
  })

  it('C119 an alias always matches the pattern and is its own alias', () => {
    const names = ['', '!!', '検索', 'x'.repeat(200), `${'camelCase'.repeat(20)}`, 'A', '1', '-', 'é']
    for (const name of names) {
      const alias = aliasOf(name)
      expect(alias).toMatch(/^[a-z][a-z0-9_]{1,63}$/)
      expect(isPlainName(alias)).toBe(true)
      expect(aliasOf(alias)).toBe(alias)
    }
  })

  it('long names with a common prefix have different aliases', () => {
    const long = 'x'.repeat(70)
    expect(aliasOf(`${long}-one`)).not.toBe(aliasOf(`${long}-two`))
    expect(isShortened(aliasOf(`${long}-one`))).toBe(true)
    expect(isShortened('read_file')).toBe(false)
  })
})

it('every name is listed under its alias, and under one that no other name has', () => {
  expect(namesByAlias(['get-it', 'getIt', 'get_it', 'other', 'other'])).toEqual(
    new Map([
      ['get_it', ['get-it', 'getIt', 'get_it']],
      [ownAliasOf('get-it'), ['get-it']],
      [ownAliasOf('getIt'), ['getIt']],
      ['other', ['other']],
    ]),
  )
})
