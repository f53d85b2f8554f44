import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createRanking, type Described } from '../../../../src/core/text/ranking.ts'

const names = (documents: readonly Described[], query: string): string[] =>
  createRanking(documents)
    .rank(query)
    .map(({ of }) => of.name)

describe('ranking of tools', () => {
  it('words in names match in any case and inflection', () => {
    const tools = ['getPageStatus', 'delete_old_relations', 'list-directories', 'other'].map((name) => ({
      name,
    }))
    expect(names(tools, 'the status of pages')).toEqual(['getPageStatus'])
    expect(names(tools, 'a relation that was related')[0]).toBe('delete_old_relations')
    expect(names(tools, 'listing a directory')[0]).toBe('list-directories')
  })

  it('synonyms of verbs match', () => {
    const tools = ['create_entities', 'delete_entities', 'search_entities'].map((name) => ({ name }))
    expect(names(tools, 'make an entity')[0]).toBe('create_entities')
    expect(names(tools, 'erase an entity')[0]).toBe('delete_entities')
    expect(names(tools, 'look for an entity')[0]).toBe('search_entities')
  })

  it('a match in the name outranks the title, then the description, then the parameters', () => {
    const tools = [
      { name: 'd', parameters: ['weather'] },
      { name: 'c', description: 'Tells the weather.' },
      { name: 'b', title: 'The weather' },
      { name: 'weather' },
    ]
    expect(names(tools, 'weather')).toEqual(['weather', 'b', 'c', 'd'])
  })

  it('ties are broken by the shorter name, then alphabetically', () => {
    const tools = ['longer_b', 'short_b', 'short_a'].map((name) => ({ name, title: 'Weather' }))
    expect(names(tools, 'weather')).toEqual(['short_a', 'short_b', 'longer_b'])
  })

  it('repeated words do not improve the rank', () => {
    const honest = { name: 'weather_of_place', description: 'Tells the weather of a place.' }
    const greedy = { name: 'x', description: `Anything. ${'weather place '.repeat(2000)}` }
    expect(names([greedy, honest], 'the weather of a place')[0]).toBe('weather_of_place')
  })

  it('a web address matches URL and a file name matches file', () => {
    const tools = [{ name: 'go', description: 'Navigate to a URL' }, { name: 'read_file' }]
    expect(names(tools, 'https://example.com/a?b=c')).toEqual(['go'])
    expect(names(tools, 'what does "notes.txt" say')).toEqual(['read_file'])
  })

  it('an empty query and an unknown word match nothing', () => {
    const tools = [{ name: 'create_entities', description: 'Create entities' }]
    expect(names(tools, '')).toEqual([])
    expect(names(tools, 'the of and')).toEqual([])
    expect(names(tools, 'pizza')).toEqual([])
    expect(names([], 'anything')).toEqual([])
  })

  it('the match score is the matched share of the query', () => {
    const ranking = createRanking([{ name: 'get_weather' }, { name: 'send_mail' }])
    const [whole] = ranking.rank('weather')
    const [part] = ranking.rank('weather in the swamps of Mordor at noon')
    expect(whole?.match).toBeGreaterThan(0.66)
    expect(part?.match).toBeLessThan(0.33)
  })

  it('the ranking is deterministic, independent of tool order and bounded for any text', () => {
    const text = fc.string({ unit: 'grapheme', maxLength: 60 })
    const tool = fc.record({
      name: text,
      title: text,
      description: text,
      parameters: fc.array(text, { maxLength: 3 }),
    })
    fc.assert(
      fc.property(
        fc.uniqueArray(tool, { maxLength: 12, selector: ({ name }) => name }),
        fc.oneof(text, fc.constantFrom('list the files', 'create_page')),
        (tools, query) => {
          const found = createRanking(tools).rank(query)
          expect(names(tools.toReversed(), query)).toEqual(found.map(({ of }) => of.name))
          for (const { score, match } of found) {
            expect(score).toBeGreaterThan(0)
            expect(match).toBeGreaterThanOrEqual(0)
            expect(match).toBeLessThanOrEqual(1)
          }
        },
      ),
    )
  })

  it('ranking is fast for long queries and many tools', () => {
    const tools = Array.from({ length: 500 }, (_, at) => ({
      name: `tool_${at}_create_page`,
      description: `Create page number ${at} of the knowledge graph, with files and folders.`,
    }))
    const ranking = createRanking(tools)
    const query = 'please create a new page with files in the folder of the graph'
    ranking.rank(query)
    const times = Array.from({ length: 21 }, () => {
      const started = performance.now()
      ranking.rank(query)
      return performance.now() - started
    })
    // All 500 tools match; the bound is ten times the usual duration, for slow machines.
    expect(times.toSorted((one, other) => one - other)[10]).toBeLessThan(20)
    const started = performance.now()
    ranking.rank('a.'.repeat(100_000))
    ranking.rank(`${'x'.repeat(50_000)}.txt ${'/a'.repeat(5000)} ${'relation '.repeat(20_000)}`)
    expect(performance.now() - started).toBeLessThan(500)
  })
})
