import { exportJWK, generateKeyPair } from 'jose'
import { describe, expect, it } from 'vitest'
import { createKeys, type FindKey } from '../../../../src/downstream/auth/jwt.ts'

const { publicKey } = await generateKeyPair('ES256')
const jwk = { ...(await exportJWK(publicKey)), alg: 'ES256' }

/** An issuer with controlled keys, availability and clock. */
function issuer(...kids: string[]) {
  const state = { kids, fetches: 0, isDown: false, now: 0 }
  const load = async (): Promise<unknown> => {
    state.fetches++
    if (state.isDown) throw new Error('down')
    return { keys: state.kids.map((kid) => ({ ...jwk, kid })) }
  }
  const keys = createKeys(load, () => state.now)
  return { state, keys }
}

const find = (keys: FindKey, kid: string) => keys({ alg: 'ES256', kid })
const unknown = { code: 'ERR_JWKS_NO_MATCHING_KEY' }
const unavailable = { code: 'SERVER_UNAVAILABLE' }

describe('signing keys of an issuer', () => {
  it('C221 keys are fetched once for any number of tokens', async () => {
    const { state, keys } = issuer('one')
    await Promise.all(Array.from({ length: 50 }, () => find(keys, 'one')))
    expect(state.fetches).toBe(1)
  })

  it('C210 keys report whether they are available', async () => {
    const { state, keys } = issuer('one')
    expect(await keys.works()).toBe(true)
    state.isDown = true
    state.now = 11 * 60_000
    expect(await keys.works()).toBe(false)
    expect(await keys.works()).toBe(false)
    expect(state.fetches).toBe(2)
  })

  it('C221 keys are refreshed in the background after five minutes and never used after ten', async () => {
    const { state, keys } = issuer('one')
    await find(keys, 'one')
    state.now = 5 * 60_000
    state.kids = ['two']
    await find(keys, 'one')
    expect(state.fetches).toBe(2)
    await find(keys, 'two')
    state.isDown = true
    state.now += 10 * 60_000
    await expect(find(keys, 'two')).rejects.toMatchObject(unavailable)
  })

  it('C221 keys are fetched immediately for an unknown key id', async () => {
    const { state, keys } = issuer('one')
    await find(keys, 'one')
    state.kids = ['two']
    await find(keys, 'two')
    expect(state.fetches).toBe(2)
  })

  it('C221 keys are fetched a bounded number of times for any key ids', async () => {
    const { state, keys } = issuer('one')
    for (let second = 0; second < 600; second++) {
      state.now = second * 1000
      await expect(find(keys, `made-up-${second}`)).rejects.toMatchObject(unknown)
      await expect(find(keys, `made-up-too-${second}`)).rejects.toMatchObject(unknown)
    }
    // Immediately, then after 1, 2, 4, … and every 60 seconds, and once in the background.
    expect(state.fetches).toBeLessThanOrEqual(18)
    await find(keys, 'one')
  })

  it('C221 rotated keys are found within a minute during a flood of unknown key ids', async () => {
    const { state, keys } = issuer('one')
    for (let second = 0; second < 300; second++) {
      state.now = second * 1000
      await find(keys, `made-up-${second}`).catch(() => undefined)
    }
    state.kids = ['two']
    state.now += 60_000
    await find(keys, 'two')
  })

  it('fetches back off while the keys are unavailable', async () => {
    const { state, keys } = issuer('one')
    state.isDown = true
    for (let tenth = 0; tenth < 600; tenth++) {
      state.now = tenth * 100
      await expect(find(keys, 'one')).rejects.toMatchObject(unavailable)
    }
    expect(state.fetches).toBeLessThanOrEqual(7)
    state.isDown = false
    state.now += 60_000
    await find(keys, 'one')
  })

  it('a response that is not a key set is rejected', async () => {
    const keys = createKeys(
      async () => ({ keys: 'none' }),
      () => 0,
    )
    await expect(find(keys, 'one')).rejects.toMatchObject(unavailable)
  })
})
