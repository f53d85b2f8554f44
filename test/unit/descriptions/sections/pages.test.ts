import { describe, expect, it } from 'vitest'
import { manifestOf } from '../../../../src/descriptions/formats/manifest.ts'
import { bestPractices } from '../../../../src/descriptions/sections/sections.ts'
import { describedServer, type Given } from '../../../support/described-server.ts'

const inputSchema = { type: 'object', properties: { cursor: { type: 'string' } } }
const outputSchema = {
  type: 'object',
  properties: { items: { type: 'array' }, nextCursor: { type: 'string' } },
}
const listing = { name: 'list_items', description: 'Lists items.', inputSchema, outputSchema }

function described(given: Given) {
  const server = describedServer(given)
  return {
    practices: bestPractices(server).join('\n'),
    streaming: JSON.stringify(manifestOf(server)).includes('"supports_streaming":true'),
  }
}

describe('the documents about a tool with pages', () => {
  it('say that its pages can be collected, if the gateway collects them', () => {
    const { practices, streaming } = described({
      tools: [listing],
      facts: { list_items: { isCollectable: true } },
    })
    expect(practices).toContain('`_meta["dev.gatehouse/stream"]: true` collects all pages of `list_items`')
    expect(streaming).toBe(true)
  })

  it('say nothing of it where the gateway does not, or where nothing says that results have pages', () => {
    const { outputSchema: _output, ...undeclared } = listing
    for (const given of [
      { tools: [listing] },
      { tools: [undeclared], facts: { list_items: { isCollectable: true } } },
    ] as const) {
      const { practices, streaming } = described(given)
      expect(practices).not.toContain('dev.gatehouse/stream')
      expect(streaming).toBe(false)
    }
  })

  it('say it once results had pages', () => {
    const { outputSchema: _output, ...undeclared } = listing
    const { streaming } = described({
      tools: [undeclared],
      facts: { list_items: { isCollectable: true } },
      seen: { types: [], hasCursor: true },
    })
    expect(streaming).toBe(true)
  })
})
