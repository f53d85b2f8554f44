import { describe, expect, it } from 'vitest'
import { Payload } from '../../../src/core/payload.ts'
import { namesByAlias } from '../../../src/core/text/alias.ts'
import { common, type Dialect, dialects } from '../../../src/protocol/dialects.ts'
import { toolsFor } from '../../../src/protocol/schema-repair.ts'
import { checkedPage } from '../../../src/protocol/server-shapes.ts'
import { brokenLists } from '../../support/broken-lists.ts'
import { refusalsOf, subsetRefusals } from '../../support/refused-schemas.ts'

const GOOD =
  '{"name":"good","inputSchema":{"type":"object","properties":{"n":{"type":"integer","minimum":1.0}}}}'

/** A list as it is for clients of a provider, or as the server has it. */
function listedFor(entries: string, dialect: Dialect | undefined): readonly Payload[] {
  const page = Payload.text(`{"tools":[${GOOD},${entries},${GOOD.replace('good', 'last')}]}`)
  const { payload } = checkedPage(page, 'tools', dialect ? { dialect: common } : {})
  const items = payload.at('tools')?.items ?? []
  return dialect ? toolsFor(items, dialect) : items
}

describe.each(Object.entries({ keep: undefined, ...dialects }))('listed for %s', (provider, dialect) => {
  it.each(brokenLists)('a list with %s has its other tools, as they are', (_title, entries, where) => {
    const listed = listedFor(entries, dialect)
    expect(listed[0]?.text).toBe(GOOD)
    expect(listed.at(-1)?.text).toBe(GOOD.replace('good', 'last'))
    const isListed = where === 'always' || (where === 'kept' && !dialect)
    expect(listed.length > 2).toBe(isListed)
    const names = listed.map(({ fields }) => String(fields.name))
    expect(new Set(names).size).toBe(names.length)
    if (!dialect) return
    for (const { fields, text } of listed) {
      const { name, description } = fields
      const { inputSchema } = JSON.parse(text) as Readonly<Record<string, unknown>>
      expect(name).toMatch(dialect.toolName)
      expect(String(description ?? '').length).toBeLessThanOrEqual(dialect.descriptionLength)
      expect(refusalsOf(inputSchema, dialect.argumentName ?? /^/)).toEqual([])
      if (dialect.subset) expect(subsetRefusals(inputSchema, provider === 'any')).toEqual([])
      // JSON escapes halves of pairs, and backslashes.
      expect(text).not.toMatch(/(?<!\\)\\ud[89a-f]/i)
    }
  })

  it('the listed name of each tool is an alias of it alone', () => {
    const server = brokenLists.flatMap(([, entries]) => {
      const page = checkedPage(Payload.text(`{"tools":[${entries}]}`), 'tools').payload
      return page.at('tools')?.items ?? []
    })
    const names = server.map(({ fields }) => String(fields.name))
    const aliases = namesByAlias(names)
    for (const each of listedFor(brokenLists.map(([, entries]) => entries).join(','), dialect)) {
      const name = String(each.fields.name)
      if (!names.includes(name) && name !== 'good' && name !== 'last')
        expect(aliases.get(name)).toHaveLength(1)
    }
  })
})

it('there are forty broken lists', () => expect(brokenLists.length).toBeGreaterThanOrEqual(40))
