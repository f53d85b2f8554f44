import { describe, expect, test } from 'vitest'
import { originalUri, ownUri } from '../../../src/catalog/strict-names.ts'

describe('the URI of a resource in the scheme of its server', () => {
  test.each([
    ['file:///srv/notes.md', 'files://file//srv/notes.md'],
    ['https://a.example/x?y=1#z', 'files://https/a.example/x?y=1#z'],
    ['urn:isbn:123', 'files://urn~/isbn:123'],
    ['demo://item/{id}', 'files://demo/item/{id}'],
    ['{+uri}', 'files://~/{+uri}'],
    ['README.md', 'files://~/README.md'],
    ['files://own', 'files://files/own'],
    ['FILE:///x', 'files://~/FILE:///x'],
    ['data:,a/b', 'files://data~/,a/b'],
    ['x://', 'files://x/'],
    ['', 'files://~/'],
  ])('URI %s is exposed as %s and maps back', (uri, own) => {
    expect(ownUri('files', uri)).toBe(own)
    expect(originalUri('files', own)).toBe(uri)
  })

  test.each(['file:///srv/notes.md', 'other://file//srv', 'files://', 'files://nothing'])(
    'URI %s is not in the scheme of a server and is unchanged',
    (uri) => {
      expect(originalUri('files', uri)).toBe(uri)
    },
  )
})
