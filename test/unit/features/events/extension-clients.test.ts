import { describe, expect, it } from 'vitest'
import type { Client } from '../../../../src/core/call.ts'
import { hasMethod, profileOf } from '../../../../src/features/events/dialects/extension.ts'

const extension = { extensions: { 'io.modelcontextprotocol/events': {} } }
const sketch = { events: {} }
const chatgpt = { name: 'ChatGPT', version: '1' }
const openai = { name: 'openai-mcp', version: '1.0.0' }

function client(era: Client['era'], capabilities: Client['capabilities'], info?: Client['info']): Client {
  const revision = era === 'modern' ? '2026-07-28' : '2025-03-26'
  return { era, revision, capabilities, ...(info && { info }) }
}

describe('the events that a client has', () => {
  it.each([
    [{}, undefined, 'all', 'sep'],
    [extension, undefined, 'all', 'sep'],
    [{ ...extension, ...sketch }, undefined, 'all', 'sep'],
    [sketch, undefined, 'all', 'sketch'],
    [extension, chatgpt, 'all', 'sketch'],
  ] as const)('in 2026-07-28, with %j and %j: %s, codes of the %s', (capabilities, info, methods, codes) => {
    expect(profileOf(client('modern', capabilities, info))).toEqual({ methods, codes })
  })

  it.each([
    [{}, undefined, 'none'],
    [{ extensions: { other: {} } }, { name: 'editor', version: '1' }, 'none'],
    [{ events: true }, undefined, 'none'],
    [sketch, undefined, 'webhooks'],
    [extension, undefined, 'webhooks'],
    [{}, chatgpt, 'webhooks'],
    [{}, openai, 'webhooks'],
  ] as const)('in older revisions, with %j and %j: %s', (capabilities, info, methods) => {
    expect(profileOf(client('legacy', capabilities, info))).toMatchObject({ methods })
  })

  it('are by webhooks alone in older revisions', () => {
    const all = ['events/list', 'events/poll', 'events/stream', 'events/subscribe', 'events/unsubscribe']
    const had = (of: Client): readonly string[] => all.filter((method) => hasMethod(of, method))
    expect(had(client('modern', {}))).toEqual(all)
    expect(had(client('legacy', sketch))).toEqual(['events/list', 'events/subscribe', 'events/unsubscribe'])
    expect(had(client('legacy', {}))).toEqual([])
  })
})
