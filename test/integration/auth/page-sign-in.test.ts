import { dirname, join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import {
  type AuthorizationServer,
  pagesClient,
  startAuthorizationServer,
} from '../../support/auth/authorization-server.ts'
import { CookieBrowser, type Shown } from '../../support/auth/browser.ts'
import {
  type Approving,
  approvingGateway,
  bearer,
  pageOf,
  peopleNamed,
  textIn,
} from '../../support/approving.ts'
import { auditLines } from '../../support/audit-lines.ts'
import { until } from '../../support/condition.ts'
import { isObject, type Json } from '../../support/server/json.ts'

const AUDIENCE = 'gatehouse-of-a-test'

interface Site extends Approving {
  readonly issuer: AuthorizationServer
  /** A call as this person. */
  callAs(person: string, args: Json): Promise<Json>
}

interface Given {
  /** What `auth.jwt` says besides. */
  readonly jwt?: Json
  readonly auth?: Json
  readonly config?: Json
  readonly rules?: Json
}

const client = { client_id: pagesClient.id, client_secret: pagesClient.secret }

/** A gateway whose callers are people of a real issuer. */
async function site({ jwt = client, auth = {}, config = {}, rules = {} }: Given = {}): Promise<Site> {
  const issuer = await startAuthorizationServer()
  onTestFinished(() => issuer.close())
  const approving = await approvingGateway({
    config: {
      auth: {
        jwt: { issuer: issuer.issuer, audience: AUDIENCE, ...jwt },
        scope_map: { '*': ['read:disks', 'write:disks', 'delete:disks'] },
        ...auth,
      },
      ...config,
    },
    rules,
  })
  const callAs: Site['callAs'] = async (person, args) =>
    approving.call(args, await issuer.personToken(person, AUDIENCE))
  return { ...approving, issuer, callAs }
}

/** Goes to a page, by signing in where it asks for that. */
async function opened(browser: CookieBrowser, url: string): Promise<Shown> {
  const page = await browser.open(url)
  expect(page.status).toBe(401)
  const link = /href="([^"]+\/sign-in\?[^"]+)"/.exec(page.text)?.[1]
  if (link === undefined) throw new Error(`There is no link to sign in by: ${page.text}`)
  return browser.open(link.replaceAll('&#38;', '&'))
}

const titleOf = ({ text }: Shown): string | undefined => /<h1>([^<]*)<\/h1>/.exec(text)?.[1]

function decided(browser: CookieBrowser, page: Shown, verdict: 'approved' | 'denied'): Promise<Shown> {
  const token = /name="token" value="([^"]+)"/.exec(page.text)?.[1] ?? ''
  return browser.submit(page.url, { token, verdict })
}

describe('the pages, for people who sign in at the issuer', () => {
  test('the caller signs in, comes to the page of its call, and approves it', async () => {
    const { callAs, ran, gateway } = await site({ config: { observe: { audit: { file: './audit.jsonl' } } } })
    const asked = await callAs('someone', { disk: 'a' })
    expect(textIn(asked)).toContain(`Approve or deny it at ${pageOf(asked)}, or with \`gatehouse approvals`)
    const browser = new CookieBrowser()
    const page = await opened(browser, pageOf(asked))
    expect(page.url.href).toBe(pageOf(asked))
    expect(titleOf(page)).toBe('Approve this call?')
    expect(page.text).toContain('You decide as <bdi>user:someone</bdi> (sign-in)')
    const lines = [...browser.cookies.values()].map(({ line }) => line)
    const session = lines.find((line) => line.startsWith('gatehouse-session-'))
    expect(session).toMatch(/; Path=\/; Max-Age=3600; HttpOnly; SameSite=Lax$/)
    expect(lines.filter((line) => line.startsWith('gatehouse-sign-in-'))).toEqual([])
    const after = await decided(browser, page, 'approved')
    expect(titleOf(after)).toBe('Approved')
    expect(after.text).toContain('by <bdi>user:someone</bdi> (sign-in)')
    expect(textIn(await callAs('someone', { disk: 'a' }))).toBe('wiped')
    expect(ran).toEqual([{ disk: 'a' }])
    const list = await browser.open(`${gateway.origin}/confirm`)
    expect(list.status).toBe(200)
    const audit = join(dirname(gateway.configFile), 'audit.jsonl')
    const recorded = (event: string) => auditLines(audit).find((line) => line['event'] === event)
    await until(() => recorded('approval') !== undefined, 'the line of the decision')
    expect(recorded('sign_in')).toMatchObject({ step: 'finished', principal: 'user:someone' })
    expect(recorded('approval')).toMatchObject({ principal: 'user:someone', via: 'sign_in' })
  })

  test('only the caller decides, and the token of the caller does not', async () => {
    const { callAs, issuer, ran } = await site()
    const url = pageOf(await callAs('someone', { disk: 'a' }))
    issuer.person = 'mallory'
    const other = await opened(new CookieBrowser(), url)
    expect(other.status).toBe(403)
    expect(other.text).toContain('You are user:mallory')
    const authorization = `Bearer ${await issuer.personToken('someone', AUDIENCE)}`
    const byToken = await fetch(url, {
      method: 'POST',
      headers: { authorization, 'content-type': 'application/json', accept: 'application/json' },
      body: JSON.stringify({ verdict: 'approved' }),
    })
    expect(byToken.status).toBe(403)
    expect(ran).toEqual([])
  })

  test('an approver who signs in approves what is out of band, and the caller does not', async () => {
    const { callAs, issuer, ran } = await site({
      config: { features: { confirm: { wait: '1s' } } },
      rules: { approval: 'out_of_band', approvers: ['user:boss'] },
    })
    const url = pageOf(await callAs('someone', { disk: 'a' }))
    expect((await opened(new CookieBrowser(), url)).status).toBe(403)
    issuer.person = 'boss'
    const browser = new CookieBrowser()
    const page = await opened(browser, url)
    expect(titleOf(await decided(browser, page, 'approved'))).toBe('Approved')
    expect(textIn(await callAs('someone', { disk: 'a' }))).toBe('wiped')
    expect(ran).toHaveLength(1)
  })

  test('no call is made by a session, and other pages decide nothing by it', async () => {
    const { callAs, ran, gateway } = await site()
    const url = pageOf(await callAs('someone', { disk: 'a' }))
    const browser = new CookieBrowser()
    const page = await opened(browser, url)
    const cookie = [...browser.cookies].map(([name, { value }]) => `${name}=${value}`).join('; ')
    const headers = {
      cookie,
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
    }
    const message = { jsonrpc: '2.0', id: 1, method: 'tools/list' }
    const body = JSON.stringify(message)
    expect((await fetch(gateway.url, { method: 'POST', headers, body })).status).toBe(401)
    expect((await fetch(`${gateway.origin}/permissions`, { headers })).status).toBe(401)
    const verdict = JSON.stringify({ verdict: 'approved' })
    expect((await fetch(url, { method: 'POST', headers, body: verdict })).status).toBe(403)
    const token = /name="token" value="([^"]+)"/.exec(page.text)?.[1] ?? ''
    const form = new URLSearchParams({ token, verdict: 'approved' })
    for (const origin of ['https://evil.example', 'null', 'http://127.0.0.1:1']) {
      const sent = await fetch(url, { method: 'POST', headers: { cookie, origin }, body: form })
      expect(sent.status).toBe(403)
    }
    // A token that was made for this page and another person.
    const forged = new URLSearchParams({ token: token.replace(/^./, 'x'), verdict: 'approved' })
    const origin = gateway.origin
    expect((await fetch(url, { method: 'POST', headers: { cookie, origin }, body: forged })).status).toBe(403)
    expect(ran).toEqual([])
  })

  test('the front page and the documents know the person, until signing out', async () => {
    const { gateway } = await site({ config: { features: { confirm: { wait: '1s' } } } })
    const browser = new CookieBrowser()
    const closed = await browser.open(`${gateway.origin}/`)
    expect(closed.text).toContain('Sign in')
    expect(closed.text).not.toContain('Signed in as')
    const link = /href="([^"]+\/sign-in\?[^"]+)"/.exec(closed.text)?.[1] ?? ''
    const front = await browser.open(link)
    expect(front.url.href).toBe(`${gateway.origin}/`)
    expect(front.text).toContain('Signed in as <bdi>user:someone</bdi>')
    expect(front.text).toContain('wipe')
    for (const path of ['/llms-full.txt', '/capabilities', '/metrics', '/confirm'])
      expect((await browser.open(gateway.origin + path)).status).toBe(200)
    const evil = await browser.open(`${gateway.origin}/sign-out`, {
      method: 'POST',
      headers: { origin: 'https://evil.example' },
    })
    expect(evil.status).toBe(403)
    const kept = new Map(browser.cookies)
    const after = await browser.submit(`${gateway.origin}/sign-out`, {})
    expect(after.url.href).toBe(`${gateway.origin}/`)
    expect(after.text).not.toContain('Signed in as')
    expect((await browser.open(`${gateway.origin}/metrics`)).status).toBe(401)
    // Who kept the cookie has nothing of it.
    for (const [name, cookie] of kept) browser.cookies.set(name, cookie)
    expect((await browser.open(`${gateway.origin}/metrics`)).status).toBe(401)
  })

  test('who comes back without having begun here, or with an error, is not signed in', async () => {
    const { gateway } = await site()
    const back = (query: string): Promise<Shown> =>
      new CookieBrowser().open(`${gateway.origin}/sign-in/callback?${query}`)
    for (const query of ['', `code=a&state=${'a'.repeat(43)}`, 'error=access_denied&state=x']) {
      const shown = await back(query)
      expect(shown.status).toBe(400)
      expect(titleOf(shown)).toBe('Not signed in')
      expect(shown.headers.get('set-cookie')).toBeNull()
    }
  })

  test('people with passwords still have the other way', async () => {
    const { basic } = peopleNamed('anna')
    const { gateway } = await site({ auth: { basic } })
    const browser = new CookieBrowser()
    const page = await browser.open(`${gateway.origin}/confirm`)
    expect(page.headers.get('www-authenticate')).not.toContain('Basic')
    expect(page.text).toContain('<a href="?sign-in">Use a name and password</a>')
    const asked = await browser.open(`${gateway.origin}/confirm?sign-in`)
    expect(asked.headers.get('www-authenticate')).toContain('Basic')
    const program = await fetch(`${gateway.origin}/confirm`)
    expect(program.headers.get('www-authenticate')).toContain('Basic')
  })
})

describe('a gateway whose pages no browser can open', () => {
  const metaOf = (result: Json): Json => {
    const meta = result['_meta']
    const found = isObject(meta) ? meta['dev.gatehouse/confirmation'] : undefined
    return isObject(found) ? found : {}
  }

  test('says so when it starts, and its answers name the command in place of a link', async () => {
    const { callAs, gateway } = await site({ jwt: {} })
    expect(gateway.stderr()).toContain('auth.jwt: no browser can open the approval page')
    const asked = await callAs('someone', { disk: 'a' })
    expect(textIn(asked)).toMatch(/Approve or deny it with `gatehouse approvals approve \w+`/)
    expect(textIn(asked)).not.toContain('/confirm')
    expect(metaOf(asked)).not.toHaveProperty('url')
    expect((await new CookieBrowser().open(`${gateway.origin}/sign-in`)).status).toBe(404)
    expect((await fetch(`${gateway.origin}/confirm`)).status).toBe(401)
  })

  test('names a client that asks, where no command reads its store', async () => {
    const { callAs } = await site({ jwt: {}, config: { store: 'memory' } })
    const text = textIn(await callAs('someone', { disk: 'a' }))
    expect(text).toContain('use a client that supports elicitation')
    expect(text).not.toMatch(/gatehouse approvals|\/confirm/)
  })

  test('with tokens given out by hand alone it is the same, and others approve by their programs', async () => {
    const { call } = await approvingGateway({ config: { auth: peopleNamed() } })
    const own = await call({ disk: 'a' }, bearer.agent)
    expect(textIn(own)).not.toContain('/confirm')
    const { call: callOther } = await approvingGateway({
      config: { auth: peopleNamed(), features: { confirm: { wait: '1s' } } },
      rules: { approval: 'out_of_band' },
    })
    const asked = await callOther({ disk: 'a' }, bearer.agent)
    expect(textIn(asked)).toContain(`at ${pageOf(asked)}, by a program with its bearer token, or with \``)
  })
})
