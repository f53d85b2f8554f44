import { describe, expect, it, test } from 'vitest'
import { nameEntry, nameUris } from '../../../src/catalog/exposed-uris.ts'
import { uriOf } from '../../../src/catalog/names.ts'
import { exposedUri } from '../../../src/core/text/server-uri.ts'
import { originalUri, ownUri } from '../../../src/catalog/strict-names.ts'
import { Payload } from '../../../src/core/payload.ts'

const big = '"n":9007199254740993,"one":1.0'
const exposed = (uri: string): string => exposedUri('one', uri)

it.each([
  `{"content":[{"type":"text","text":"t",${big}},{"type":"resource_link","uri":"a:b",${big}}]}`,
  `{"content":[{"type":"resource","resource":{"uri":"a:b","text":"t",${big}},"_meta":{${big}}}]}`,
  `{"contents":[{"uri":"a:b","text":"t",${big}}]}`,
  `{"messages":[{"role":"user","content":{"type":"resource_link","uri":"a:b",${big}},${big}}]}`,
])('URIs are qualified with the name of their server and all other JSON text is preserved: %s', (text) => {
  expect(nameUris(Payload.text(text), exposed, 'one').text).toBe(text.replaceAll('"a:b"', '"one+a:b"'))
})

const view = '"ui://a/b?c#d"'
const metas = [
  `{"ui":{"resourceUri":${view},${big}},${big}}`,
  `{"ui/resourceUri":${view},"ui":null}`,
  `{"openai/outputTemplate":${view},"ui":[${view}]}`,
  `{"ui":{"resourceUri":${view}},"ui/resourceUri":${view},"openai/outputTemplate":${view}}`,
]

describe.each(metas)('the views that %s names', (meta) => {
  const named = meta.replaceAll(`:${view}`, ':"ui://one+a/b?c#d"')

  it.each([
    (each: string) => `{"content":[],"_meta":${each}}`,
    (each: string) => `{"content":[{"type":"text","text":"t","_meta":${each}},null]}`,
    (each: string) => `{"content":[{"type":"resource","resource":{"text":"t","_meta":${each}}}]}`,
    (each: string) => `{"contents":[{"text":"t","_meta":${each}},null,7]}`,
    (each: string) => `{"messages":[null,{"role":"user","content":{"type":"text","_meta":${each}}}]}`,
  ])('are qualified in a result', (result) => {
    expect(nameUris(Payload.text(result(meta)), exposed, 'one').text).toBe(result(named))
  })

  it.each([
    ['tools', '"name":"t","uri":"x:y"'],
    ['prompts', '"name":"t","uriTemplate":"x:y"'],
    ['resources', '"name":"t","uri":"x:y"'],
    ['resourceTemplates', '"name":"t","uriTemplate":"x:{y}"'],
  ])('are qualified in an entry of %s, and what identifies it is', (list, members) => {
    const entry = (each: string, own: string): string => `{${own},"_meta":${each}}`
    const names = { uri: exposed, name: (own: string) => `one_${own}` }
    const qualified = list.startsWith('r')
      ? members.replace('"x:', '"one+x:')
      : members.replace('"t"', '"one_t"')
    const found = nameEntry(Payload.text(entry(meta, members)), list, names)
    expect(found?.text).toBe(entry(named, qualified))
  })
})

it.each(['null', '[]', '7', '"ui"', '{}', '{"ui":7}', '{"ui":{"resourceUri":7}}', '{"ui/resourceUri":null}'])(
  'a `_meta` of %s is preserved',
  (meta) => {
    const result = `{"content":[{"type":"text","text":"t","_meta":${meta}}],"_meta":${meta}}`
    expect(nameUris(Payload.text(result), exposed, 'one').text).toBe(result)
  },
)

describe('the URI of a view', () => {
  test.each([
    'ui://weather/view.html',
    'ui:///view',
    'UI://Weather/View',
    'ui://',
    'ui://{+view}',
    'ui://one+a/b',
    'ui://u@h:1/x?y=1#z',
  ])('%s keeps its scheme, and maps back', (uri) => {
    for (const [there, back] of [
      [exposedUri('my-app', uri), (each: string) => uriOf(each, ['my', 'my-app'])?.name],
      [ownUri('my-app', uri), (each: string) => originalUri('my-app', each)],
    ] as const) {
      expect(there.slice(0, 5)).toBe(uri.slice(0, 5))
      expect(there).not.toBe(uri)
      expect(back(there)).toBe(uri)
    }
    expect(uriOf(`my-app+${uri}`, ['my', 'my-app'])).toEqual({ upstream: 'my-app', name: uri })
    expect(originalUri('my-app', uri)).toBe(uri)
  })
})
