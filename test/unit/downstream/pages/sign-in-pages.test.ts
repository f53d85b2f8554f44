import type { HttpBindings } from '@hono/node-server'
import { Hono } from 'hono'
import { describe, expect, it } from 'vitest'
import { GatewayError } from '../../../../src/core/error.ts'
import { addSignInPages, type SignIns } from '../../../../src/downstream/pages/sign-in.ts'
import { silentLog } from '../../../support/silent-log.ts'

const start = {
  upstream: 'files',
  principal: '<b>alice</b>',
  url: 'https://login.example/auth?a=1&b=%22',
  cookie: { name: 'gatehouse-1', value: 'only-here' },
}

describe('the sign-in start page', () => {
  it('the page names the user and the server and sets a cookie in the browser', async () => {
    const response = await pages({}).request('/oauth/start/1')
    const text = await response.text()
    expect(text).toContain('&#60;b&#62;alice&#60;/b&#62;')
    expect(text).toContain('href="https://login.example/auth?a=1&#38;b=%22"')
    expect(response.headers.get('set-cookie')).toBe(
      'gatehouse-1=only-here; Path=/at/oauth/callback; Max-Age=600; HttpOnly; SameSite=Lax; Secure',
    )
  })

  it('an unknown sign-in is refused with 400', async () => {
    const unknown = () => Promise.reject(new GatewayError('STATE_INVALID', 'This sign-in is not known.'))
    expect((await pages({ start: unknown }).request('/oauth/start/2')).status).toBe(400)
  })
})

function pages(signIns: Partial<SignIns>) {
  const app = new Hono<{ Bindings: HttpBindings }>()
  addSignInPages(app, {
    signIns: {
      start: async () => start,
      finish: async () => 'files',
      document: () => undefined,
      site: () => ({ redirectUri: 'https://gateway.example/at/oauth/callback' }),
      ...signIns,
    },
    log: silentLog,
  })
  return app
}

describe('the sign-in callback page', () => {
  it('the page names the server and cannot be cached or framed', async () => {
    const seen: string[] = []
    const finish: SignIns['finish'] = async (params, cookieOf) => {
      seen.push(params.toString(), String(cookieOf('gatehouse-1')))
      return 'files'
    }
    const headers = { cookie: 'other=1; gatehouse-1=only-here; more=2' }
    const response = await pages({ finish }).request('/oauth/callback?code=a%26b&state=c', { headers })
    expect(response.status).toBe(200)
    expect(await response.text()).toContain('You are signed in to files.')
    expect(seen).toEqual(['code=a%26b&state=c', 'only-here'])
    expect(response.headers.get('cache-control')).toBe('no-store')
    expect(response.headers.get('referrer-policy')).toBe('no-referrer')
    expect(response.headers.get('content-security-policy')).toContain("frame-ancestors 'none'")
  })

  it('query parameters are shown as escaped text only', async () => {
    const finish = () =>
      Promise.reject(new GatewayError('SERVER_UNAVAILABLE', 'It said <script>alert(1)</script>.'))
    const response = await pages({ finish }).request('/oauth/callback?error=<script>')
    expect(response.status).toBe(400)
    expect(await response.text()).not.toContain('<script>')
  })
})

describe('the client metadata document', () => {
  it('the document is served as JSON if the gateway has one', async () => {
    const response = await pages({ document: () => ({ client_id: 'x' }) }).request('/oauth/client.json')
    expect(response.headers.get('content-type')).toContain('application/json')
    expect(await response.json()).toEqual({ client_id: 'x' })
    expect((await pages({}).request('/oauth/client.json')).status).toBe(404)
  })
})
