import { expect, it } from 'vitest'
import { renameProblems } from '../../../../src/config/sections/upstream.ts'

const path = ['upstreams', 'jira', 'tools']

it.each([
  ['a pattern', { 'get_*': { rename: 'get' } }, 'get_*', 'give one name'],
  ['the same name', { get: { rename: 'get' } }, 'get', 'already its name'],
  ['a name given twice', { a: { rename: 'c' }, b: { rename: 'c' } }, 'b', 'also the new name of a'],
  ['a name with its own settings', { a: { rename: 'b' }, b: { risk: 'safe' } }, 'a', 'next to the new name'],
])('rename checks find %s', (_what, tools, at, message) => {
  expect(renameProblems(tools, path)).toEqual([
    { path: [...path, at, 'rename'], message: expect.stringContaining(message) },
  ])
})

it.each([
  [{ a: { rename: 'b' }, b: { rename: 'a' } }],
  [{ a: { rename: 'c' }, b: { hide: true } }],
  [undefined],
])('rename checks find no problem in %j', (tools) => {
  expect(renameProblems(tools, path)).toEqual([])
})
