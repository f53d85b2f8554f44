import { describe, expect, it } from 'vitest'
import { classify } from '../../../../src/core/judgement/classify.ts'
import { Descriptors } from '../../../../src/catalog/tool-descriptors.ts'
import { surroundingsOf } from '../../../../src/core/judgement/surroundings.ts'
import { serverSettings } from '../../../support/server-settings.ts'

const filled = { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true }
const settings = serverSettings({ name: 'demo', trust: false })

type Definition = Readonly<Record<string, unknown>>

function tool(
  name: string,
  description: string,
  annotations?: Readonly<Record<string, boolean>>,
): Definition {
  return { name, description, ...(annotations && { annotations }) }
}

const weather = tool('get_weather', 'Get the weather.', filled)
const notes = tool('delete_note', 'Delete a note.', filled)

describe('hints that a library fills in', () => {
  it('say nothing if all tools of a server have them', () => {
    const around = surroundingsOf([weather, notes])
    expect(classify(weather, settings, around)).toMatchObject({ op: 'read', risk: 'safe', idempotent: true })
    expect(classify(notes, settings, around)).toMatchObject({ op: 'delete', risk: 'destructive' })
    expect(classify(weather, settings, around).evidence).toContain(
      'its hints are not counted: all tools of its server have the defaults of MCP, which a library fills in',
    )
  })

  it('leave a tool that nothing describes destructive', () => {
    const unknown = tool('frobnicate', 'Frobnicates the record.', filled)
    expect(classify(unknown, settings, surroundingsOf([unknown])).risk).toBe('destructive')
  })

  it('count if the list is not known, or others have chosen', () => {
    const reader = tool('list_notes', 'List notes.', { readOnlyHint: true })
    expect(classify(weather, settings).risk).toBe('destructive')
    expect(classify(weather, settings, surroundingsOf([weather, reader])).risk).toBe('destructive')
  })

  it('say nothing of a tool that plainly reads if all tools have all four hints', () => {
    const reader = tool('list_notes', 'List notes.', { ...filled, readOnlyHint: true })
    const around = surroundingsOf([weather, notes, reader])
    expect(classify(weather, settings, around).risk).toBe('safe')
    expect(classify(reader, settings, around).risk).toBe('safe')
    expect(classify(tool('export_note', 'Exports a note.', filled), settings, around).risk).toBe(
      'destructive',
    )
  })
})

describe('a prefix that many names share', () => {
  it('is no verb', () => {
    const names = ['list_send', 'list_create', 'list_get', 'list_delete']
    const list = names.map((name) => tool(name, ''))
    const around = surroundingsOf(list)
    const risks = list.map((each) => classify(each, settings, around).risk)
    expect(risks).toEqual(['destructive', 'reversible', 'safe', 'destructive'])
  })

  it('is not what many tools get', () => {
    const names = ['get_send_limit', 'get_delete_policy', 'get_create_form', 'get_order']
    const list = names.map((name) => tool(name, ''))
    const around = surroundingsOf(list)
    expect(list.map((each) => classify(each, settings, around).risk)).toEqual(names.map(() => 'safe'))
  })

  it('may contain a word that can be a verb', () => {
    const list = ['ha_config_get_script', 'ha_config_set_script', 'ha_config_remove_script'].map((name) =>
      tool(name, ''),
    )
    const around = surroundingsOf(list)
    expect(list.map((each) => classify(each, settings, around).risk)).toEqual([
      'safe',
      'destructive',
      'destructive',
    ])
  })

  it('is not read as a verb either where the list is not known but the next word is one', () => {
    expect(classify(tool('config_get_value', ''), settings).risk).toBe('safe')
    expect(classify(tool('list_send', 'Lists what was sent.'), settings).risk).toBe('safe')
    expect(classify(tool('list_send', 'Sends to a list.'), settings).risk).toBe('destructive')
  })
})

describe('descriptors of listed tools', () => {
  const descriptors = () =>
    new Descriptors({
      server: () => settings,
      tool: () => undefined,
      own: () => undefined,
      resolve: (call) => call,
    })

  it('are judged with their list, and later with the last known one', () => {
    const { listed } = descriptors()
    expect(listed('demo', weather)?.classification.risk).toBe('destructive')
    expect(listed('demo', weather, [weather, notes])?.classification.risk).toBe('safe')
    expect(listed('demo', weather)?.classification.risk).toBe('safe')
    expect(listed('demo', { ...weather })?.classification.risk).toBe('safe')
  })

  it('are judged again if the list says otherwise, and are the same objects if it does not', () => {
    const { listed } = descriptors()
    const first = listed('demo', weather, [weather, notes])
    expect(listed('demo', weather, [weather, { ...notes }])).toBe(first)
    expect(listed('demo', weather, [weather, tool('list_notes', '')])?.classification.risk).toBe(
      'destructive',
    )
  })

  it('of one server say nothing of another one', () => {
    const { listed } = descriptors()
    listed('demo', weather, [weather, notes])
    expect(listed('other', { ...weather })?.classification.risk).toBe('destructive')
  })
})
