import { describe, expect, it } from 'vitest'
import { bestPractices } from '../../../../src/descriptions/sections/sections.ts'
import { describedServer } from '../../../support/described-server.ts'

const writing = { name: 'create_item', description: 'Creates an item.', inputSchema: { type: 'object' } }

describe('the best practices of a server', () => {
  it.each([
    ['on_request', '`_meta["dev.gatehouse/dry_run"]: true` has a result say'],
    ['always', 'This is a sandbox for `create_item`: calls that would write are not made'],
  ] as const)('say which calls are dry runs: %s', (dryRuns, sentence) => {
    const server = describedServer({ tools: [writing], facts: { create_item: { dryRuns } } })
    expect(bestPractices(server).join('\n')).toContain(sentence)
  })

  it('say nothing of dry runs where they are off', () => {
    expect(bestPractices(describedServer({ tools: [writing] })).join('\n')).not.toMatch(/dry_run|sandbox/)
  })
})
