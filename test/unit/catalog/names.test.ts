import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { canCollide, exposedName, exposedUri, namesOf, uriOf } from '../../../src/catalog/names.ts'

const upstreams = fc.uniqueArray(fc.stringMatching(/^[a-z][a-z0-9-]{0,6}$/), { minLength: 1, maxLength: 5 })

describe('names where servers are offered together', () => {
  it('lead back to their server', () => {
    const property = fc.property(upstreams, fc.string(), (names, tool) => {
      for (const upstream of names) {
        expect(namesOf(exposedName(upstream, tool), names)).toContainEqual({ upstream, name: tool })
      }
    })
    fc.assert(property)
  })

  it('are of one server alone unless two prefixes can be confused', () => {
    const property = fc.property(upstreams, fc.string(), (names, tool) => {
      for (const upstream of names) {
        const isAlone = names.every((other) => !canCollide(upstream, other))
        if (isAlone) expect(namesOf(exposedName(upstream, tool), names)).toHaveLength(1)
      }
    })
    fc.assert(property)
  })

  it('have underscores for the hyphens of the server', () => {
    expect(exposedName('my-files', 'read_file')).toBe('my_files_read_file')
    expect(namesOf('my_files_read_file', ['my-files', 'my'])).toEqual([
      { upstream: 'my-files', name: 'read_file' },
      { upstream: 'my', name: 'files_read_file' },
    ])
    expect(namesOf('other_read_file', ['my-files'])).toEqual([])
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
