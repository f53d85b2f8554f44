import { describe, expect, it } from 'vitest'
import { queryWords, stem, wordsIn } from '../../../../src/core/text/words.ts'

describe('words', () => {
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
  ])('are one in all their forms: %s', (forms) => {
    expect([...new Set(forms.map(stem))]).toHaveLength(1)
  })

  it.each([
    ['file', 'fill'],
    ['form', 'format'],
    ['status', 'state'],
    ['thing', 'the'],
    ['press', 'pres'],
  ])('of another meaning stay apart: %s and %s', (one, other) => {
    expect(stem(one)).not.toBe(stem(other))
  })

  it('are found in names and texts, without those every text has', () => {
    expect(wordsIn('getHTTPStatus_of-the.page 2')).toEqual(['get', 'http', 'status', 'page', '2'])
    expect(wordsIn('Größe, écran; 大小')).toEqual(['größe', 'écran', '大小'])
  })

  it('stand for what an address or a file is', () => {
    expect(queryWords('open https://example.com/secret?x=1')).toEqual(['open', 'url'])
    expect(queryWords('look at example.com')).toEqual(['look', 'url'])
    expect(queryWords('move ~/a/b.tar.gz, then (notes.md)')).toEqual(['move', 'file', 'file'])
    expect(queryWords('e.g. version 1.2')).toEqual(['e', 'g', 'version', '1', '2'])
  })
})
