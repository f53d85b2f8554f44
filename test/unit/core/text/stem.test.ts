import { describe, expect, it } from 'vitest'
import { queryWords, stem, wordsIn } from '../../../../src/core/text/words.ts'

describe('query words', () => {
  it.each([
    [['relation', 'relations', 'relationship', 'related', 'relating']],
    [['compress', 'compresses', 'compressed', 'compression', 'compressing']],
    [['observe', 'observed', 'observing', 'observation', 'observations']],
    [['log', 'logs', 'logged', 'logging']],
    [['query', 'queries']],
    [['box', 'boxes']],
    [['size', 'sizes']],
    [['file', 'files']],
    [['annotate', 'annotated', 'annotations']],
  ])('all forms of a word have one stem: %s', (forms) => {
    expect([...new Set(forms.map(stem))]).toHaveLength(1)
  })

  it.each([
    ['file', 'fill'],
    ['form', 'format'],
    ['status', 'state'],
    ['thing', 'the'],
    ['press', 'pres'],
  ])('words with different meanings have different stems: %s and %s', (one, other) => {
    expect(stem(one)).not.toBe(stem(other))
  })

  it('words are extracted from names and texts without stop words', () => {
    expect(wordsIn('getHTTPStatus_of-the.page 2')).toEqual(['get', 'http', 'status', 'page', '2'])
    expect(wordsIn('Größe, écran; 大小')).toEqual(['größe', 'écran', '大小'])
  })

  it('an address is replaced by url and a file name by file', () => {
    expect(queryWords('open https://example.com/secret?x=1')).toEqual(['open', 'url'])
    expect(queryWords('look at example.com')).toEqual(['look', 'url'])
    expect(queryWords('move ~/a/b.tar.gz, then (notes.md)')).toEqual(['move', 'file', 'file'])
    expect(queryWords('e.g. version 1.2')).toEqual(['e', 'g', 'version', '1', '2'])
  })
})
