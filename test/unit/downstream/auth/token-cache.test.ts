import { describe, expect, it } from 'vitest'
import { GatewayError } from '../../../../src/core/error.ts'
import { unauthorized, unavailable, type Verified } from '../../../../src/downstream/auth/verified.ts'
import { createTokenCache } from '../../../../src/downstream/auth/authenticator.ts'

function cache(verify: (token: string) => Promise<Verified>) {
  const state = { now: 0, looks: 0 }
  const counted = (token: string): Promise<Verified> => {
    state.looks++
    return verify(token)
  }
  const find = createTokenCache(counted, () => state.now)
  return { state, find }
}

const good = (until: number) => async (token: string) => ({ principal: { id: token }, until })

describe('the token cache', () => {
  it('a verified token is found synchronously the second time', async () => {
    const { state, find } = cache(good(1000))
    await find('a')
    expect(find('a')).toMatchObject({ principal: { id: 'a' } })
    expect(state.looks).toBe(1)
  })

  it('C222 a token is verified again at its expiry', async () => {
    const { state, find } = cache(good(1000))
    await find('a')
    state.now = 1000
    await find('a')
    expect(state.looks).toBe(2)
  })

  it('a token is verified again after ten minutes, because keys can be withdrawn', async () => {
    const { state, find } = cache(good(Infinity))
    await find('a')
    state.now = 10 * 60_000 - 1
    expect(find('a')).not.toBeInstanceOf(Promise)
    state.now++
    await find('a')
    expect(state.looks).toBe(2)
  })

  it('concurrent requests with one token share one verification', async () => {
    const { state, find } = cache(good(1000))
    await Promise.all([find('a'), find('a'), find('a')])
    expect(state.looks).toBe(1)
  })

  it('a refused token stays refused for a while without verification', async () => {
    const { state, find } = cache(() => Promise.reject(unauthorized('signature', 'no')))
    await expect(find('a')).rejects.toThrow('no')
    for (let times = 0; times < 100; times++) expect(() => find('a')).toThrow('no')
    expect(state.looks).toBe(1)
    state.now = 10_000
    await expect(find('a')).rejects.toThrow('no')
    expect(state.looks).toBe(2)
  })

  it('a failed verification is not cached as a refusal', async () => {
    const { state, find } = cache(() => Promise.reject(unavailable('later')))
    await expect(find('a')).rejects.toThrow('later')
    await expect(find('a')).rejects.toThrow('later')
    expect(state.looks).toBe(2)
  })

  it('concurrent verifications are limited', () => {
    const { find } = cache(() => new Promise(() => undefined))
    for (let count = 0; count < 256; count++) expect(find(`t${count}`)).toBeInstanceOf(Promise)
    expect(() => find('one more')).toThrow(GatewayError)
  })
})
