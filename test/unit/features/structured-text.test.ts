import { describe, expect, it } from 'vitest'
import { loadSettings } from '../../../src/config/load.ts'
import { Payload } from '../../../src/core/payload.ts'
import { structuredText } from '../../../src/features/structured-text.ts'
import { corporate } from '../../support/local-gateway.ts'
import { featureDeps } from '../../support/feature-deps.ts'
import { toolCall } from '../../support/tool-call.ts'

async function resultOf(result: string): Promise<Payload | undefined> {
  const policy = structuredText.create(() => ({}), featureDeps()).calls?.middleware
  const target = { method: 'tools/call', upstream: 'one', name: 't' }
  const handle = policy?.(target)?.(async () => ({ kind: 'result', result: Payload.text(result) }))
  const outcome = await handle?.(toolCall())
  return outcome?.kind === 'result' ? outcome.result : undefined
}

async function contentOf(result: string): Promise<unknown> {
  return (await resultOf(result))?.fields['content']
}

const text = (words: string) => ({ type: 'text', text: words })

describe('structured content as text', () => {
  it('the JSON text of existing content is preserved', async () => {
    const block = '{"type":"text","text":"done","n":9007199254740993,"one":1.0}'
    const found = await resultOf(`{"content":[${block}],"structuredContent":{"a":1}}`)
    expect(found?.text).toContain(`"content":[${block},{"type":"text","text":"{\\"a\\":1}"}]`)
  })

  it('C151 structured content is also added as text, with its exact JSON text', async () => {
    const structured = '{"n":12345678901234567890,"x":1.0}'
    expect(
      await contentOf(`{"content":[{"type":"text","text":"done"}],"structuredContent":${structured}}`),
    ).toEqual([text('done'), text(structured)])
    expect(await contentOf(`{"structuredContent":${structured}}`)).toEqual([text(structured)])
    expect(await contentOf(`{"content":[{"type":"text","text":"13"}],"structuredContent":3}`)).toEqual([
      text('13'),
      text('3'),
    ])
  })

  it.each(['{"b":[1],"a":"x"}', '{ "a": "x",\n "b": [ 1 ] }', 'It is {"b":[1],"a":"x"}.'])(
    'C151 no text is added if an equal one exists: %s',
    async (words) => {
      const content = [text(words)]
      const result = JSON.stringify({ content, structuredContent: { b: [1], a: 'x' } })
      expect(await contentOf(result)).toEqual(content)
    },
  )

  it('C151 failed results and results without structured content are unchanged', async () => {
    expect(await contentOf('{"content":[],"structuredContent":{},"isError":true}')).toEqual([])
    expect(await contentOf('{"content":[]}')).toEqual([])
  })

  it('C151 the corporate profile adds the text by default', () => {
    const isOn = (more: object, upstream: object = {}): boolean => {
      const file = { ...more, upstreams: { one: { command: 'x', ...upstream } } }
      const { settings } = loadSettings(JSON.stringify(file), { file: 'f.yaml', env: {} })
      return settings.features['structured_text'] !== undefined
    }
    expect(isOn({})).toBe(false)
    expect(isOn(corporate)).toBe(true)
    expect(isOn({ ...corporate, features: { structured_text: 'off' } })).toBe(false)
    expect(isOn({ ...corporate, features: 'none' })).toBe(false)
    expect(isOn({ features: { structured_text: 'on' } })).toBe(true)
    expect(isOn({}, { features: { structured_text: 'on' } })).toBe(true)
  })
})
