// The forms of data in arguments that callers choose, and data that is not what was kept.
import { describe, expect, it } from 'vitest'
import { Payload } from '../../../../src/core/payload.ts'
import { references } from '../../../../src/features/references/references.ts'
import { argumentSchema, referenceSettings, ada, referenceWorld } from '../../../support/reference-world.ts'
import type { Json } from '../../../support/server/json.ts'
import { toolCall } from '../../../support/tool-call.ts'
import { bytesOf } from '../../../support/bytes-of.ts'

const text = { type: 'string' }

describe('a form that the caller chooses', () => {
  it.each<[form: string, data: string, type: string, property: Json, expected: unknown]>([
    ['?as=text', '{"a":1}', 'application/json', { type: 'object' }, '{"a":1}'],
    ['?as=json', '[1,2]', 'text/plain', text, [1, 2]],
    ['?as=base64', 'hi', 'text/plain', text, 'aGk='],
    ['?as=data_uri', 'hi', 'text/csv', text, 'data:text/csv;base64,aGk='],
    ['?as=base64#/a', '{"a":"hi"}', 'application/json', text, 'aGk='],
    ['?as=data_uri#/a', '{"a":[1]}', 'application/json', text, 'data:application/json;base64,WzFd'],
    ['?rows=2-3&as=json', '[1,2,3,4]', 'application/json', text, [2, 3]],
    ['?as=base64&bytes=0-0', 'hi', 'text/plain', text, 'aA=='],
    ['?as=text#/a', '{"a":{"b":1}}', 'application/json', { type: 'object' }, '{"b":1}'],
  ])(
    '%s is what the server gets, whatever its schema says',
    async (...[form, data, type, property, expected]) => {
      const { call, keep, got } = referenceWorld({ definition: argumentSchema(property) })
      const uri = `${await keep(data, type)}${form}`
      await call({ value: uri })
      await call({ value: { $ref_id: uri.slice('ref://'.length) } })
      expect(got).toEqual([{ value: expected }, { value: expected }])
    },
  )

  it.each([
    ['?as=xml', 'as must be text, json, base64'],
    ['?as=text&as=json', 'it has as twice'],
    ['?form=text', 'form is not rows, bytes or as'],
    ['?as=json', 'takes JSON, and the data is not JSON'],
    ['?as=path', 'cannot be a path'],
  ])('is refused if it is %s', async (form, message) => {
    const { call, keep, got } = referenceWorld({ definition: argumentSchema(text) })
    const uri = `${await keep('just text')}${form}`
    await expect(call({ value: uri })).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      message: expect.stringContaining(message),
    })
    expect(got).toEqual([])
  })

  it('is refused where data is read', async () => {
    const { keep, deps } = referenceWorld()
    const uri = `${await keep('just text')}?as=text`
    const { tools, resources } = references.create(() => referenceSettings, deps).builtins ?? {}
    const read = toolCall({ principal: ada, params: Payload.of({ uri }) })
    await expect(resources?.()[0]?.handle(read)).rejects.toMatchObject({ code: 'INVALID_INPUT' })
    const called = toolCall({
      principal: ada,
      params: Payload.of({ name: 'read_reference', arguments: { ref: uri } }),
    })
    const outcome = await tools
      ?.find(({ definition }) => definition.name === 'read_reference')
      ?.handle(called)
    expect(outcome).toMatchObject({ kind: 'result' })
    expect(JSON.stringify(outcome?.kind === 'result' && outcome.result.value)).toContain('cannot have a form')
  })
})

describe('data that is not what was kept', () => {
  it('is refused before the server is called', async () => {
    const { call, keep, store, got } = referenceWorld()
    const uri = await keep('what was kept')
    const [blob] = await store.blobs.list()
    const id = String(blob?.id)
    await store.blobs.delete(id)
    await store.blobs.put(id, bytesOf('what was KEPT'))
    for (const form of ['', '?as=base64'])
      await expect(call({ value: `${uri}${form}` })).rejects.toMatchObject({
        code: 'CONFLICT',
        extra: { reason: 'checksum' },
      })
    expect(got).toEqual([])
  })
})

describe('a URL of data', () => {
  const upload = { type: 'string', format: 'uri', description: 'The server will download the file from it.' }
  const signed = /^http:\/\/127\.0\.0\.1:8900\/data\/ref_[0-9a-f]{32}\?sig=[\w.~-]+&exp=\d+$/

  it.each<[name: string, property: Json, data: string, isUrl: boolean]>([
    ['value', upload, 'data', true],
    ['image_url', { type: 'string', format: 'uri' }, 'data', true],
    ['image_url', { type: 'string' }, 'data', false],
    ['link', { type: 'string', format: 'uri', description: 'A link for the issue.' }, 'data', false],
    ['image_url', { type: 'string', format: 'uri' }, 'https://example.com/a.png', false],
  ])('is what %s with %j gets, for %s: %s', async (name, property, data, isUrl) => {
    const { call, keep, got } = referenceWorld({ definition: argumentSchema(property, name) })
    await call({ [name]: await keep(data) })
    expect(got[0]?.[name]).toEqual(isUrl ? expect.stringMatching(signed) : data)
  })

  it('is the same in the next round of a call, and another one for another call', async () => {
    const asking = { kind: 'input_required', inputRequests: {}, requestState: {} } as const
    const { outcome, keep, got } = referenceWorld({ serve: () => asking })
    const value = `${await keep('data')}?as=url`
    const first = await outcome({ value })
    await outcome({ value }, { requestState: first.kind === 'input_required' ? first.requestState : {} })
    await outcome({ value })
    const [one, two, three] = got.map((args) => String(args['value']))
    expect(one).toMatch(signed)
    expect(two).toBe(one)
    expect(three).not.toBe(one)
  })

  it('is refused for a part, and where the gateway does not listen for HTTP', async () => {
    const { call, keep, got } = referenceWorld()
    const part = `${await keep('one\ntwo')}?as=url&rows=1`
    await expect(call({ value: part })).rejects.toMatchObject({ message: expect.stringContaining('a part') })
    const silent = referenceWorld({ page: () => undefined, definition: argumentSchema(upload) })
    const uri = await silent.keep('data')
    await expect(silent.call({ value: `${uri}?as=url` })).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      message: expect.stringContaining('does not listen for HTTP'),
    })
    await silent.call({ value: uri })
    expect([...got, ...silent.got]).toEqual([{ value: 'data' }])
  })
})
