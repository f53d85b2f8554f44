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
import { alone } from '../../support/scattered.ts'
import { isObject, type Json } from '../../support/server/json.ts'

const AUDIENCE = 'gatehouse-of-a-test'

interface Site extends Approving {
  readonly issuer: AuthorizationServer
  /** A call as this person. */
  callAs(person: string, args: Json): Promise<Json>
}

interface Given {
  /** Additional settings of `auth.jwt`. */
  readonly jwt?: Json
  readonly auth?: Json
  readonly config?: Json
  readonly rules?: Json
}

const client = { client_id: pagesClient.id, client_secret: pagesClient.secret }

/** A gateway whose callers are users of a real issuer. */
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

/** Opens a page, and signs in if the page requires it. */
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

describe('approval pages with sign-in at the issuer', () => {
  test('the caller signs in, opens the page of its call, and approves it', async () => {
    const { callAs, ran, gateway } = await site({ config: { observe: { audit: { file: './audit.jsonl' } } } })
    const asked = await callAs('someone', { disk: 'a' })
    expect(textIn(asked)).toContain(`Approve or deny it at ${pageOf(asked)}.`)
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

  test("only the caller can decide, and the caller's token cannot", async () => {
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

  test('a signed-in approver approves an out-of-band call, and the caller cannot', async () => {
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

  test('a browser session authorizes no MCP call and no decision from another page', async () => {
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
    const otherToken = `${token.startsWith('x') ? 'y' : 'x'}${token.slice(1)}`
    const forged = new URLSearchParams({ token: otherToken, verdict: 'approved' })
    const origin = gateway.origin
    expect((await fetch(url, { method: 'POST', headers: { cookie, origin }, body: forged })).status).toBe(403)
    expect(ran).toEqual([])
  })

  test('the front page and the documents show the signed-in person until sign-out', async () => {
    const { gateway } = await site({ config: { features: { confirm: { wait: '1s' } } } })
    const browser = new CookieBrowser()
    const closed = await browser.open(`${gateway.origin}/`)
    expect(closed.text).toContain('>Sign in</a>')
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
    // A kept cookie is useless after sign-out.
    for (const [name, cookie] of kept) browser.cookies.set(name, cookie)
    expect((await browser.open(`${gateway.origin}/metrics`)).status).toBe(401)
  })

  test('a callback with an error or without a sign-in that began here is refused', async () => {
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

  test('people with passwords can still use Basic authentication', async () => {
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

  test('warns at startup, and its results name the approval command instead of a link', async () => {
    const { callAs, gateway } = await site({ jwt: {} })
    expect(gateway.stderr()).toContain('auth.jwt: no browser can open the approval page')
    const asked = await callAs('someone', { disk: 'a' })
    expect(textIn(asked)).toMatch(/Approve or deny it in a terminal, with the command and the code/)
    expect(textIn(asked)).not.toContain('/confirm')
    expect(metaOf(asked)).not.toHaveProperty('url')
    expect((await new CookieBrowser().open(`${gateway.origin}/sign-in`)).status).toBe(404)
    expect((await fetch(`${gateway.origin}/confirm`)).status).toBe(401)
  })

  test('recommends a client that supports elicitation if no command can read its store', async () => {
    alone('a store in memory is of one gateway')
    const { callAs } = await site({ jwt: {}, config: { store: 'memory' } })
    const text = textIn(await callAs('someone', { disk: 'a' }))
    expect(text).toContain('use a client that supports elicitation')
    expect(text).not.toMatch(/gatehouse approvals|\/confirm/)
  })

  test("shows no link with issued tokens only, unless approval is out of band by a program's token", async () => {
    const { call } = await approvingGateway({ config: { auth: peopleNamed() } })
    const own = await call({ disk: 'a' }, bearer.agent)
    expect(textIn(own)).not.toContain('/confirm')
    const { call: callOther } = await approvingGateway({
      config: { auth: peopleNamed(), features: { confirm: { wait: '1s' } } },
      rules: { approval: 'out_of_band' },
    })
    const asked = await callOther({ disk: 'a' }, bearer.agent)
    expect(textIn(asked)).toContain(
      `at ${pageOf(asked)}, by a program with its bearer token, or in a terminal, with the command and the code`,
    )
  })
})
