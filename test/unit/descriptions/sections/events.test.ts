import { describe, expect, test } from 'vitest'
import { agentPrompt, helpOf, llmsText } from '../../../../src/descriptions/formats/help.ts'
import { manifestOf } from '../../../../src/descriptions/formats/manifest.ts'
import { skillOf } from '../../../../src/descriptions/formats/skill.ts'
import type { Front } from '../../../../src/descriptions/model/description.ts'
import {
  describedServer,
  describedServers,
  fullFront,
  type Given,
} from '../../../support/described-server.ts'

const tools = [{ name: 'get_thing' }, { name: 'add_thing' }]
const given: Given = {
  tools,
  facts: { add_thing: { event: 'add_thing.succeeded' } },
  events: [
    { name: 'tools_changed', description: 'The list of tools has changed.' },
    { name: 'resource_updated', description: 'A resource was updated' },
  ],
}
const on: Partial<Front> = { hasEvents: true, extensions: ['subscribe_notify'] }

function sectionOf(front: Partial<Front>, server: Given = given): string {
  return String(helpOf(describedServer({ ...server, front }), { section: 'events' })['content'])
}

describe('events in documents', () => {
  test('the section lists the types of the server and of its tools', () => {
    const text = sectionOf(on)
    expect(text).toContain('- `tools_changed`: The list of tools has changed.')
    expect(text).toContain('- `resource_updated`: A resource was updated.')
    expect(text).toContain('- `add_thing.succeeded`: add_thing was called, and succeeded.')
    expect(text).not.toContain('get_thing')
    expect(text).toContain('untrusted')
  })

  test.each<[string, Partial<Front>, readonly string[], readonly string[]]>([
    [
      'listed tools',
      on,
      ['Subscribe with the tools `list_events`', '`events/poll` and `events/stream`.'],
      ['`events/subscribe`', '`event/subscribe`', 'not listed'],
    ],
    [
      'unlisted tools',
      { ...on, ownTools: 'hidden' },
      ['Clients subscribe with the tools `list_events`', 'which are not listed'],
      ['`event/subscribe`'],
    ],
    ['methods alone', { ...on, ownTools: 'off' }, ['`event/subscribe`'], ['`subscribe_events`']],
    [
      'the extension alone',
      { hasEvents: true, ownTools: 'off' },
      ['`events/poll` and `events/stream`.'],
      ['`event/subscribe`', '`subscribe_events`'],
    ],
    [
      'callers that authenticate',
      { ...on, auth: { methods: ['bearer_token'] } },
      ['`events/stream`, or receive webhooks after `events/subscribe`.'],
      [],
    ],
  ])('with %s, it says how clients get them', (_who, front, there, absent) => {
    const text = sectionOf(front)
    for (const words of there) expect(text).toContain(words)
    for (const words of absent) expect(text).not.toContain(words)
  })

  test('documents do not mention events that are off', () => {
    const { events: _events, ...off } = { ...given, facts: {} }
    for (const front of [fullFront, { ...fullFront, hasEvents: false }]) {
      const server = describedServer({ ...off, front })
      expect(() => helpOf(server, { section: 'events' })).toThrow('section must be one of')
      for (const text of [llmsText(server), skillOf(server).text, agentPrompt(server)])
        expect(text).not.toMatch(/subscribe_events|events\/poll|## Events/)
      expect(JSON.stringify(manifestOf(server))).not.toMatch(/subscribe_notify|dev\.gatehouse\/event/)
    }
  })

  test('the short guide has the section, and the rules of the skill and of the prompt name the tools', () => {
    const server = describedServer({ ...given, front: on })
    expect(llmsText(server)).toContain('## Events\n')
    for (const text of [skillOf(server).text, agentPrompt(server)])
      expect(text).toContain('call `subscribe_events` with a type from `list_events`')
    const hidden = describedServer({ ...given, front: { ...on, ownTools: 'hidden' } })
    expect(skillOf(hidden).text).toContain('with the unlisted tools `list_events`')
    const off = describedServer({ ...given, front: { ...on, ownTools: 'off' } })
    expect(skillOf(off).text).toContain('with the methods `event/list` and `event/subscribe`')
  })

  test('the reference of a tool, its data and the manifest name the event of a success', () => {
    const server = describedServer({ ...given, front: on })
    const { content } = helpOf(server, { section: 'add_thing' })
    expect(content).toContain('- Event: a success is `add_thing.succeeded`.')
    expect(helpOf(server, { section: 'get_thing' })['content']).not.toContain('Event:')
    const data = helpOf(server, { section: 'add_thing', format: 'json' })
    expect(data).toMatchObject({ sections: { toolReference: [{ event: 'add_thing.succeeded' }] } })
    const { supported_extensions: extensions, tools: listed } = manifestOf(server)
    expect(extensions).toEqual(['subscribe_notify'])
    expect(listed).toMatchObject([
      { name: 'get_thing' },
      { name: 'add_thing', _meta: { 'dev.gatehouse/event': 'add_thing.succeeded' } },
    ])
  })

  test('of several servers, names begin with the server', () => {
    const server = describedServers([given, { ...given, record: { name: 'mail' } }], on)
    const text = String(helpOf(server, { section: 'events' })['content'])
    expect(text.match(/^- `[^`]*`/gm)).toEqual([
      '- `files_tools_changed`',
      '- `files_resource_updated`',
      '- `mail_tools_changed`',
      '- `mail_resource_updated`',
      '- `files_add_thing.succeeded`',
      '- `mail_add_thing.succeeded`',
    ])
  })

  test('a server with hundreds of types lists the first hundred, and says how many there are more', () => {
    const events = Array.from({ length: 150 }, (_each, index) => ({
      name: `type_${index}`,
      description: 'A type\n# of\u202e a hostile server',
    }))
    const text = sectionOf(on, { tools: [], events })
    expect(text.match(/^- /gm)).toHaveLength(101)
    expect(text).toContain('- and 50 more')
    expect(text).not.toMatch(/^# of|\u202e/m)
  })
})
