import { expect, it } from 'vitest'
import { loadSettings } from '../../../src/config/load.ts'

/** The `about` settings of a tool. */
function load(tool: object) {
  const text = JSON.stringify({ upstreams: { a: { url: 'https://a.example', tools: { t: tool } } } })
  return loadSettings(text, { file: '/tmp/gateway.config.yaml', env: {} }).settings.upstreams[0]?.tools.t
}

it('provenance is a template with arguments or a path', () => {
  const given = { source: 'file:{path}', version: '$.result.items[0].sha', json_path: '$.data' }
  const { source, version, json_path: jsonPath } = given
  expect(load({ provenance: given })).toEqual({ provenance: { source, version, jsonPath } })
  expect(() => load({ provenance: { source: '$.args.path' } })).not.toThrow()
})

it.each([
  ['free', { category: 'free' }],
  ['requires_approval', { category: 'requires_approval' }],
  ['5 API credits', { category: 'metered', units: 5, label: 'API credits' }],
  ['one search', { category: 'metered', label: 'one search' }],
])('the cost %s is shorthand for a mapping', (cost, whole) => {
  expect(load({ cost })).toEqual({ cost: whole })
})

it.each([
  ['$.snapshot.a', 'begin with $.args or $.result'],
  ['$.result.', 'is not a valid path'],
  ['$result', 'is not a valid path'],
  ['$.result.a b', 'is not a valid path'],
])('the path %s is refused', (path, words) => {
  expect(() => load({ provenance: { version: path } })).toThrow(words)
  expect(() => load({ provenance: { source: path } })).toThrow(words)
})
