import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { exposedName, ownerOf, Naming, uriOf } from '../../../src/catalog/names.ts'
import { exposedUri } from '../../../src/core/text/server-uri.ts'

const upstreams = fc.uniqueArray(fc.stringMatching(/^[a-z][a-z0-9-]{0,6}$/), { minLength: 1, maxLength: 5 })

describe('names in an aggregate of servers', () => {
  it('an exposed name belongs to the server with the longest matching prefix, in any order of servers', () => {
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

  it('an exposed name has underscores for the hyphens of the server name', () => {
    expect(exposedName('my-files', 'read_file')).toBe('my_files_read_file')
    expect(ownerOf('my_files_read_file', ['my', 'my-files'])).toEqual({
      upstream: 'my-files',
      name: 'read_file',
    })
    expect(ownerOf('other_read_file', ['my-files'])).toBeUndefined()
  })

  it('an exposed resource URI maps back to its server and URI', () => {
    const property = fc.property(upstreams, fc.string(), (names, uri) => {
      for (const upstream of names)
        expect(uriOf(exposedUri(upstream, uri), names)).toEqual({ upstream, name: uri })
    })
    fc.assert(property)
    expect(uriOf('file:///x', ['one'])).toBeUndefined()
  })

  it('a listed name fits 64 characters, is in the namespace of its server, and unchanged if it fits', () => {
    const naming = new Naming()
    const property = fc.property(fc.string({ minLength: 40, maxLength: 90 }), (tool) => {
      const whole = exposedName('my-files', tool)
      const listed = naming.prefixed('my-files', tool)
      expect(whole.length <= 64 ? listed === whole : /^my_files_[\w-]{55}$/.test(listed)).toBe(true)
    })
    fc.assert(property)
    for (const tool of ['\ud83d'.repeat(70), '🙂'.repeat(40), `${'a'.repeat(46)}🙂${'b'.repeat(20)}`])
      expect(naming.prefixed('my-files', tool)).toMatch(/^my_files_[\w-]{55}$/)
  })
})
