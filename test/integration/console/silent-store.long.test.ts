// The console while the store of the gateway does not respond: what needs no store is there, and nothing is changed.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { CookieBrowser } from '../../support/auth/browser.ts'
import { freePort } from '../../support/child-process.ts'
import { type LocalGateway, localGateway } from '../../support/local-gateway.ts'
import { needsRedis, type RedisServer, startRedis } from '../../support/redis-server.ts'

describe('the console while the store does not respond', needsRedis, () => {
  const browser = new CookieBrowser()
  let redis: RedisServer
  let gateway: LocalGateway
  let token = ''
  beforeAll(async () => {
    redis = await startRedis()
    const gone = { url: `http://127.0.0.1:${await freePort()}/mcp` }
    gateway = await localGateway({ store: redis.url, upstreams: { gone } })
    const signIn = await browser.open(`${gateway.origin}/console`)
    const { text } = await browser.submit(signIn.url, { code: gateway.code })
    token = /name="token" value="([^"]+)"/.exec(text)?.[1] ?? ''
    redis.freeze()
  })
  afterAll(async () => {
    redis.thaw()
    await gateway.close()
    await redis.stop()
  })

  test.each([
    ['/console', ['1 unavailable server', 'Pause writes', 'Calls cannot be shown now']],
    ['/console/needs', ['1 thing waits for you.', 'They cannot be shown now: the store does not respond.']],
    ['/console/servers', ['gone', 'unavailable']],
    ['/console/servers/gone', ['Check it step by step']],
    ['/console/rewind', ['Choose a point in time.']],
    ['/console/try', ['Call a tool by hand.']],
  ])('%s says what is known', async (path, texts) => {
    const { status, text } = await browser.open(`${gateway.origin}${path}`)
    expect(status).toBe(200)
    for (const each of texts) expect(text).toContain(each)
  })

  test.each([
    ['/console', { action: 'pause' }],
    ['/console/servers/gone', { action: 'drain' }],
  ])('a form of %s does nothing, and says why', async (path, fields) => {
    const { status, text } = await browser.submit(`${gateway.origin}${path}`, { ...fields, token })
    expect(status).toBe(503)
    expect(text).toContain('Nothing was done: the store of the gateway does not respond.')
  })
})
