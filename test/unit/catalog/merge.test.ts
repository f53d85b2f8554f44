import { expect, it } from 'vitest'
import { nameUris } from '../../../src/catalog/aggregate.ts'
import { Payload } from '../../../src/core/payload.ts'

const big = '"n":9007199254740993,"one":1.0'

it.each([
  `{"content":[{"type":"text","text":"t",${big}},{"type":"resource_link","uri":"a:b",${big}}]}`,
  `{"content":[{"type":"resource","resource":{"uri":"a:b","text":"t",${big}},"_meta":{${big}}}]}`,
  `{"contents":[{"uri":"a:b","text":"t",${big}}]}`,
  `{"messages":[{"role":"user","content":{"type":"resource_link","uri":"a:b",${big}},${big}}]}`,
])('URIs are qualified with the name of their server and all other JSON text is preserved: %s', (text) => {
  const named = nameUris(Payload.text(text), (uri) => `one+${uri}`, 'one')
  expect(named.text).toBe(text.replaceAll('"a:b"', '"one+a:b"'))
})
