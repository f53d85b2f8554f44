import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { GatewayError } from '../../../../src/core/error.ts'
import {
  basicCredentials,
  bearerToken,
  checkHeaders,
  checkQuery,
  checkToken,
} from '../../../../src/downstream/auth/authenticator.ts'

const incoming = (authorization: string) => ({ headers: { authorization } })

/** The token, or undefined if the request is refused. */
function understood(message: ReturnType<typeof incoming>): string | undefined {
  try {
    const token = bearerToken(message) ?? ''
    checkToken(token)
    return token
  } catch (error) {
    if (error instanceof GatewayError) return undefined
    throw error
  }
}

describe('credentials of a request', () => {
  it('C070 the token is the value after Bearer', () => {
    expect(bearerToken(incoming('Bearer abc.def-_~+/='))).toBe('abc.def-_~+/=')
    expect(bearerToken(incoming('BEARER abc'))).toBe('abc')
    expect(bearerToken({ headers: {} })).toBeUndefined()
  })

  it.each([
    ['Authorization', 'authorization'],
    ['authorization', 'AUTHORIZATION'],
  ])('credentials in two headers are refused: %s and %s', (one, other) => {
    const rawHeaders = ['Host', 'here', one, 'Bearer a', 'Accept', '*/*', other, 'Bearer b']
    expect(() => checkHeaders({ rawHeaders })).toThrow(expect.objectContaining({ code: 'INVALID_REQUEST' }))
    expect(() => checkHeaders({ rawHeaders: rawHeaders.slice(0, 6) })).not.toThrow()
  })

  it('C079 oversized credentials are refused', () => {
    expect(() => bearerToken(incoming(`Bearer ${'a'.repeat(100_000)}`))).toThrow(
      expect.objectContaining({ extra: expect.objectContaining({ reason: 'too_large' }) }),
    )
  })

  it('C079 arbitrary credentials are either parsed or refused', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
        // Node decodes header bytes as Latin-1.
        const text = Buffer.from(bytes).toString('latin1')
        for (const scheme of ['', 'Bearer ', 'Basic ']) {
          const message = incoming(scheme + text)
          basicCredentials(message)
          const token = understood(message)
          if (token !== undefined && !/^[A-Za-z0-9._~+/-]+=*$/.test(token)) return false
        }
        return true
      }),
    )
  })

  it('C062 credentials in a query are found in every spelling', () => {
    for (const query of ['token=1', 'a=b&Access_Token=1', 'access%5Ftoken=1', 'api_key', 'client_secret=x'])
      expect(() => checkQuery(`/mcp?${query}`)).toThrow(expect.objectContaining({ code: 'INVALID_REQUEST' }))
    for (const query of ['', 'session_id=1', 'q=token', 'tokens=1'])
      expect(() => checkQuery(`/mcp?${query}`)).not.toThrow()
  })
})
