import { expect, it } from 'vitest'
import { loadSettings } from '../../../src/config/load.ts'

function load(provenance: object) {
  const text = JSON.stringify({
    upstreams: { a: { url: 'https://a.example', tools: { t: { provenance } } } },
  })
  return loadSettings(text, { file: '/tmp/gateway.config.yaml', env: {} }).settings
}

it('provenance is a text with arguments, or a path', () => {
  const given = { source: 'file:{path}', version: '$.result.items[0].sha', json_path: '$.data' }
  const { source, version, json_path: jsonPath } = given
  expect(load(given).upstreams[0]?.tools).toEqual({ t: { provenance: { source, version, jsonPath } } })
  expect(() => load({ source: '$.args.path' })).not.toThrow()
})

it.each([
  ['$.snapshot.a', 'begins with $.args or $.result'],
  ['$.result.', 'is no path'],
  ['$result', 'is no path'],
  ['$.result.a b', 'is no path'],
])('a path %s is refused', (path, words) => {
  expect(() => load({ version: path })).toThrow(words)
  expect(() => load({ source: path })).toThrow(words)
})
