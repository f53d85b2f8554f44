import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { exposedName, exposedUri, ownerOf, uriOf } from '../../../src/catalog/names.ts'

const upstreams = fc.uniqueArray(fc.stringMatching(/^[a-z][a-z0-9-]{0,6}$/), { minLength: 1, maxLength: 5 })

describe('names where servers are offered together', () => {
  it('have one owner each, which is the server with the longest prefix, in whatever order servers stand', () => {
    const property = fc.property(upstreams, fc.string(), (names, tool) => {
      for (const upstream of names) {
        const exposed = exposedName(upstream, tool)
        const owner = ownerOf(exposed, names)
        expect(ownerOf(exposed, names.toReversed())).toEqual(owner)
        expect(owner && exposedName(owner.upstream, owner.name)).toBe(exposed)
        const longer = names.filter((each) => exposed.startsWith(exposedName(each, '')))
        expect(owner?.upstream.length).toBe(Math.max(...longer.map((each) => each.length)))
      }
    })
    fc.assert(property)
  })

  it('have underscores for the hyphens of the server', () => {
    expect(exposedName('my-files', 'read_file')).toBe('my_files_read_file')
    expect(ownerOf('my_files_read_file', ['my', 'my-files'])).toEqual({
      upstream: 'my-files',
      name: 'read_file',
    })
    expect(ownerOf('other_read_file', ['my-files'])).toBeUndefined()
  })

  it('of resources lead back whatever the URI', () => {
    const property = fc.property(upstreams, fc.string(), (names, uri) => {
      for (const upstream of names)
        expect(uriOf(exposedUri(upstream, uri), names)).toEqual({ upstream, name: uri })
    })
    fc.assert(property)
    expect(uriOf('file:///x', ['one'])).toBeUndefined()
  })
})
