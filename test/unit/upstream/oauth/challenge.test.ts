import { describe, expect, it } from 'vitest'
import { readChallenge } from '../../../../src/upstream/oauth/discovery.ts'

const nothing = { metadata: [], scopes: [], needsDpop: false }
const meta = 'https://s/m'

describe('the challenges of WWW-Authenticate', () => {
  it.each([
    ['', {}],
    ['Bearer', {}],
    ['Basic realm="x"', {}],
    ['Basic realm="x", resource_metadata="https://s/m"', {}],
    ['bearer scope="a b a", error=insufficient_scope', { scopes: ['a', 'b'], error: 'insufficient_scope' }],
    ['BEARER Resource_Metadata = "https://s/m"', { metadata: [meta] }],
    ['Basic realm="x", Bearer resource_metadata="https://s/m"', { metadata: [meta] }],
    ['Basic realm="x" Bearer resource_metadata="https://s/m"', { metadata: [meta] }],
    ['Basic dXNlcjpw==, Bearer resource_metadata=https://s/m', { metadata: [meta] }],
    ['Negotiate, Bearer resource_metadata=https://s/m, scope=a', { metadata: [meta], scopes: ['a'] }],
    ['Basic realm="Bearer scope=no", Bearer scope="yes"', { scopes: ['yes'] }],
    ['Bearer scope="yes", Basic scope="no"', { scopes: ['yes'] }],
    ['Bearer realm="say \\"hi\\", scope=no", scope="yes"', { scopes: ['yes'] }],
    ['Bearer scope=a b, error=insufficient_scope', { scopes: ['a', 'b'], error: 'insufficient_scope' }],
    ['Bearer resource_metadata="/one", resource_metadata="/two"', { metadata: ['/one', '/two'] }],
    ['Bearer error="", scope=""', { error: '' }],
    ['Bearer scope="unterminated', {}],
    [`Bearer scope="a", realm="${'x'.repeat(9000)}"`, {}],
    ['DPoP algs="ES256", resource_metadata="https://s/m"', { metadata: [meta], needsDpop: true }],
    ['Bearer realm="x", DPoP algs="ES256"', {}],
    ['DPoP error="use_dpop_nonce"', { error: 'use_dpop_nonce', needsDpop: true }],
  ])('%s is read', (header, expected) => {
    expect(readChallenge(header)).toEqual({ ...nothing, ...expected })
  })

  it('no header is no challenge', () => {
    expect([readChallenge(null), readChallenge(undefined)]).toEqual([nothing, nothing])
  })
})
