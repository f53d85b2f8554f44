import { describe, expect, it, test } from 'vitest'
import { changelogView, contractChangelog } from '../../../src/descriptions/formats/changelog.ts'
import { Contracts } from '../../../src/records/contracts.ts'
import { MemoryStore } from '../../../src/store/memory.ts'
import { contract, toolContract } from '../../support/contracts.ts'

const day = 86_400_000
const start = Date.parse('2026-01-01T12:00:00Z')
const one = contract({ tools: { add_note: toolContract() } })
const two = contract({ tools: { add_note: toolContract(), get_note: toolContract() } })
const announced = contract({
  tools: { add_note: toolContract({ deprecated: 'use put_note' }), get_note: toolContract() },
})

describe('the contract of a server', () => {
  it('the version begins at 1.0.0 and rises with changes', async () => {
    const contracts = new Contracts(new MemoryStore())
    expect(await contracts.record('notes', one, start)).toEqual({ version: '1.0.0' })
    expect(await contracts.record('notes', one, start)).toEqual({ version: '1.0.0' })
    expect(await contracts.record('notes', two, start)).toMatchObject({
      version: '1.1.0',
      changed: { before: '1.0.0', changes: [{ kind: 'added', subject: 'tool get_note' }] },
    })
    expect((await contracts.record('notes', contract(), start)).version).toBe('2.0.0')
    expect((await contracts.list()).map(({ upstream, versions }) => [upstream, versions.length])).toEqual([
      ['notes', 3],
    ])
  })

  it('a version is written once by concurrent gateways', async () => {
    const contracts = new Contracts(new MemoryStore())
    await contracts.record('notes', one, start)
    const noted = await Promise.all([1, 2, 3].map(() => contracts.record('notes', two, start)))
    expect(noted.map(({ version }) => version)).toEqual(['1.1.0', '1.1.0', '1.1.0'])
    expect(noted.filter(({ changed }) => changed)).toHaveLength(1)
    expect((await contracts.find('notes'))?.versions).toHaveLength(2)
  })

  it('the version begins again if the record is unreadable', async () => {
    const store = new MemoryStore()
    const versions = [{ version: '7.0.0', at: start, changes: [{ kind: 'added' }] }]
    const kept = { upstream: 'notes', contract: one, versions }
    for (const broken of [{ versions: [{}] }, kept]) {
      await store.put('contract/notes', JSON.stringify(broken), 1000)
      expect(await new Contracts(store).record('notes', one, start)).toEqual({ version: '1.0.0' })
    }
  })
})

test('C216 a tool is marked if it is removed earlier than three months and two minor versions after its deprecation', async () => {
  const gone = async (days: number, additions: number): Promise<unknown> => {
    const contracts = new Contracts(new MemoryStore())
    await contracts.record('notes', two, start)
    await contracts.record('notes', announced, start)
    for (let index = 0; index < additions; index++)
      await contracts.record('notes', { ...announced, resources: { [`notes://${index}`]: '' } }, start)
    const { get_note: kept } = announced.tools
    const { changed } = await contracts.record(
      'notes',
      contract({ tools: kept ? { get_note: kept } : {} }),
      start + days * day,
    )
    return changed?.changes.find(({ kind, subject }) => kind === 'removed' && subject === 'tool add_note')
      ?.isEarly
  }
  expect(await gone(89, 2)).toBe(true)
  expect(await gone(91, 1)).toBe(true)
  expect(await gone(91, 2)).toBeUndefined()
})

test('C218 C215 the history is a changelog that announces deprecations', async () => {
  const contracts = new Contracts(new MemoryStore())
  await contracts.record('notes', one, start)
  await contracts.record('notes', two, start + day)
  await contracts.record('notes', announced, start + 2 * day)
  await contracts.record('notes', { ...announced, tools: {} }, start + 3 * day)
  const histories = await contracts.list()
  expect(contractChangelog(histories).split('\n').slice(4).join('\n')).toBe(`## [2.0.0] - 2026-01-04

### Removed

- Breaking: tool \`add_note\` was removed. It was not announced early enough.
- Breaking: tool \`get_note\` was removed. It was not announced early enough.

## [1.2.0] - 2026-01-03

### Deprecated

- tool \`add_note\` is deprecated: use put_note.

## [1.1.0] - 2026-01-02

### Added

- tool \`get_note\` was added.

## [1.0.0] - 2026-01-01

First seen.
`)
  expect(changelogView(histories)).toMatchObject({
    servers: [
      { server: 'notes', version: '2.0.0', versions: [{}, { changes: [{ kind: 'deprecated' }] }, {}, {}] },
    ],
  })
})
