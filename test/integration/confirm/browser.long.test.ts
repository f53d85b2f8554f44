import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Browser, BrowserContext, BrowserContextOptions, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import {
  type Approving,
  approvingGateway,
  bearer,
  pageOf,
  password,
  peopleNamed,
  textIn,
} from '../../support/approving.ts'
import { pagesClient, startAuthorizationServer } from '../../support/auth/authorization-server.ts'
import { freePort } from '../../support/child-process.ts'
import { measured, needsChromium, startChromium } from '../../support/chromium.ts'

describe('in a browser', needsChromium, () => {
  let browser: Browser
  beforeAll(async () => {
    browser = await startChromium()
  })
  afterAll(() => browser?.close())

  async function contextOf(options: BrowserContextOptions = {}): Promise<BrowserContext> {
    const context = await browser.newContext({ javaScriptEnabled: false, ...options })
    onTestFinished(() => context.close())
    return context
  }

  /** Opens a page as the person at the terminal. */
  async function opened({ code }: Approving, url: string, options?: BrowserContextOptions): Promise<Page> {
    const page = await (await contextOf(options)).newPage()
    await page.goto(url)
    await page.getByLabel('Code').fill(code)
    const shown = page.waitForResponse((response) => response.status() !== 303)
    await page.getByRole('button').click()
    await shown
    await page.waitForLoadState()
    return page
  }

  const press = (page: Page, name: 'Approve' | 'Deny'): Promise<void> =>
    page.getByRole('button', { name }).click()
  const title = (page: Page): Promise<string | null> => page.locator('h1').textContent()

  test('approve: the next identical call runs, once', async () => {
    const approving = await approvingGateway()
    const { call, ran } = approving
    const asked = await call({ disk: 'a' })
    expect(asked['isError']).toBe(true)
    const page = await opened(approving, pageOf(asked))
    expect(await title(page)).toBe('Approve this call?')
    await page.getByLabel('Reason').fill('spare disk')
    await press(page, 'Approve')
    expect(await title(page)).toBe('Approved')
    expect(await page.locator('body').innerText()).toContain('spare disk')
    expect(ran).toEqual([])
    expect(textIn(await call({ disk: 'a' }))).toBe('wiped')
    const again = await call({ disk: 'a' })
    expect(again['isError']).toBe(true)
    expect(pageOf(again)).not.toBe(pageOf(asked))
    expect(ran).toEqual([{ disk: 'a' }])
  })

  test('the caller signs in at the issuer of its tokens, approves, and signs out', async () => {
    const issuer = await startAuthorizationServer()
    onTestFinished(() => issuer.close())
    const { id: client_id, secret: client_secret } = pagesClient
    const jwt = { issuer: issuer.issuer, audience: 'gatehouse', client_id, client_secret }
    const scope_map = { '*': ['delete:disks'] }
    const { call, ran, gateway } = await approvingGateway({ config: { auth: { jwt, scope_map } } })
    const token = await issuer.personToken('someone', 'gatehouse')
    const url = pageOf(await call({ disk: 'a' }, token))
    const page = await (await contextOf({ javaScriptEnabled: true })).newPage()
    await page.goto(url)
    expect(await title(page)).toBe('Sign in')
    await page.getByRole('link', { name: 'Sign in' }).click()
    await page.waitForURL(url)
    expect(await title(page)).toBe('Approve this call?')
    const cookies = await page.context().cookies(gateway.origin)
    expect(cookies.find(({ name }) => name.startsWith('gatehouse-session-'))).toMatchObject({
      httpOnly: true,
      sameSite: 'Lax',
      path: '/',
    })
    await press(page, 'Approve')
    expect(await title(page)).toBe('Approved')
    expect(textIn(await call({ disk: 'a' }, token))).toBe('wiped')
    expect(ran).toEqual([{ disk: 'a' }])
    await page.goto(gateway.origin)
    expect(await page.getByText('Signed in as').innerText()).toContain('user:someone')
    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.getByRole('link', { name: 'Sign in', exact: true }).waitFor()
    await page.goto(url)
    expect(await title(page)).toBe('Sign in')
  })

  test('Enter in a field submits no decision', async () => {
    const approving = await approvingGateway({ rules: { type_to_confirm: 'disk' } })
    const page = await opened(approving, pageOf(await approving.call({ disk: 'a' })))
    for (const field of await page.locator('form input:not([type=hidden]):not([type=checkbox])').all()) {
      await field.fill('words')
      await field.press('Enter')
    }
    expect(await title(page)).toBe('Approve this call?')
    await page.goto(page.url())
    expect(await page.getByRole('button', { name: 'Approve' }).count()).toBe(1)
  })

  test('the list and the call pages show the caller and local times, and link to each other', async () => {
    const approving = await approvingGateway()
    const [one, two] = [
      pageOf(await approving.call({ disk: 'a' })),
      pageOf(await approving.call({ disk: 'b' })),
    ]
    const page = await opened(approving, one, {
      javaScriptEnabled: true,
      timezoneId: 'Asia/Tokyo',
      locale: 'en-US',
    })
    expect(await page.getByRole('main').count()).toBe(1)
    expect(await page.locator('time').first().innerText()).toMatch(/(?:GMT\+9|JST)$/)
    expect(await page.locator('time').first().getAttribute('title')).toMatch(/UTC$/)
    await press(page, 'Deny')
    await page.getByRole('link', { name: 'Next pending call' }).click()
    expect(page.url()).toBe(two)
    await page.getByRole('link', { name: 'All pending calls' }).click()
    expect(await page.getByRole('main').getByRole('listitem').innerText()).toMatch(
      /Called by anonymous with .+, by its own account\. Called less than/,
    )
    await page.getByRole('link', { name: 'wipe on disks' }).click()
    expect(page.url()).toBe(two)
  })

  test.each([
    [{}, 'data may be lost permanently'],
    [{ undo: 'wipe(disk=$.args.disk)' }, 'can be undone as configured'],
    [{ undo: 'none' }, 'data may be lost permanently'],
  ])('the page shows the risk of a tool with %j', async (rules, words) => {
    const approving = await approvingGateway({ rules })
    const page = await opened(approving, pageOf(await approving.call({ disk: 'a' })))
    expect(await page.locator('.risk').innerText()).toContain(words)
  })

  test('deny: the next identical call is declined', async () => {
    const approving = await approvingGateway()
    const { call, ran } = approving
    const page = await opened(approving, pageOf(await call({ disk: 'a' })))
    await page.getByLabel('Reason').fill('wrong disk')
    await press(page, 'Deny')
    expect(await title(page)).toBe('Denied')
    const denied = textIn(await call({ disk: 'a' }))
    expect(denied).toContain('denied')
    expect(denied).toContain('wrong disk')
    expect(ran).toEqual([])
  })

  test('a call with other arguments than those approved requires its own approval', async () => {
    const approving = await approvingGateway()
    const { call, ran } = approving
    const page = await opened(approving, pageOf(await call({ disk: 'test' })))
    await press(page, 'Approve')
    const other = await call({ disk: 'production' })
    expect(other['isError']).toBe(true)
    expect(ran).toEqual([])
    await page.goto(pageOf(other))
    expect(await title(page)).toBe('Approve this call?')
    expect(await page.locator('pre').innerText()).toContain('production')
  })

  test('an expired approval cannot be decided', async () => {
    const approving = await approvingGateway({ config: { features: { confirm: { ttl: '3s' } } } })
    const { call, ran } = approving
    const page = await opened(approving, pageOf(await call({ disk: 'a' })))
    await expect.poll(async () => (await page.goto(page.url()))?.status()).toBe(410)
    expect(await title(page)).toBe('Approval expired')
    expect((await call({ disk: 'a' }))['isError']).toBe(true)
    expect(ran).toEqual([])
  })

  test('a decided approval cannot be decided again from a page that was left open', async () => {
    const approving = await approvingGateway()
    const { call, ran } = approving
    const url = pageOf(await call({ disk: 'a' }))
    const page = await opened(approving, url)
    const left = await page.context().newPage()
    await left.goto(url)
    await press(page, 'Deny')
    const refused = left.waitForResponse((response) => response.request().method() === 'POST')
    await press(left, 'Approve')
    expect((await refused).status()).toBe(409)
    expect(await title(left)).toBe('Already decided')
    expect((await call({ disk: 'a' }))['isError']).toBe(true)
    expect(ran).toEqual([])
  })

  test('with passwords, the permitted person can decide and another person is refused', async () => {
    const approving = await approvingGateway({
      config: { auth: peopleNamed('anna', 'bert'), features: { confirm: { wait: '1s' } } },
      rules: { approval: 'out_of_band', approvers: ['anna'] },
    })
    const { call, ran } = approving
    const asked = await call({ disk: 'a' }, bearer.agent)
    const url = pageOf(asked)
    const as = (username: string) => contextOf({ httpCredentials: { username, password } })
    const other = await (await as('bert')).newPage()
    expect((await other.goto(url))?.status()).toBe(403)
    expect(await other.locator('body').innerText()).toContain('anna')
    expect(await other.locator('form').count()).toBe(0)
    const page = await (await as('anna')).newPage()
    await page.goto(url)
    await press(page, 'Approve')
    expect(await title(page)).toBe('Approved')
    expect((await call({ disk: 'a' }, bearer.other))['isError']).toBe(true)
    expect(textIn(await call({ disk: 'a' }, bearer.agent))).toBe('wiped')
    expect(ran).toHaveLength(1)
  })

  test('nothing is shown without the code', async () => {
    const approving = await approvingGateway()
    const url = pageOf(await approving.call({ disk: 'a' }))
    const page = await opened({ ...approving, code: 'AAAA-AAAA' }, url)
    expect(await page.getByRole('alert').innerText()).toBe('The code is wrong.')
    expect((await page.goto(url))?.status()).toBe(401)
    expect(await page.locator('body').innerText()).not.toContain('wipe')
  })

  test('approval requires typing the confirmation text', async () => {
    const approving = await approvingGateway({ rules: { type_to_confirm: 'disk' } })
    const { call } = approving
    const page = await opened(approving, pageOf(await call({ disk: 'production' })))
    await page.getByLabel('To approve, type').fill('test')
    await press(page, 'Approve')
    expect(await page.getByRole('alert').innerText()).toContain('Nothing was decided')
    await page.getByLabel('To approve, type').fill('production')
    await press(page, 'Approve')
    expect(await title(page)).toBe('Approved')
  })

  const hostile = `"><script>window.ran = 1</script><img src=x onerror="window.ran = 1">'</pre>\u202etxt.exe\u200b`

  test('names, questions and arguments are shown as text, whatever they contain', async () => {
    const approving = await approvingGateway({
      tool: 'wipe<b>"x"',
      description: hostile,
      rules: { confirm: `Wipe {disk}? ${hostile.replaceAll(/[{}]/g, '')}` },
    })
    const args = { disk: hostile, [hostile]: { '</form><form>': [hostile] } }
    const page = await opened(approving, pageOf(await approving.call(args)), { javaScriptEnabled: true })
    const outside: string[] = []
    page.on('request', (request) => void outside.push(request.url()))
    await page.goto(page.url())
    expect(await title(page)).toBe('Approve this call?')
    expect(await page.evaluate('"ran" in window')).toBe(false)
    expect(await page.locator('img, b').count()).toBe(0)
    expect(await page.locator('script').count()).toBe(1)
    expect(await page.locator('form').count()).toBe(1)
    expect(await page.locator('body').innerText()).toContain('<script>window.ran = 1</script>')
    expect(await page.locator('body').innerText()).not.toMatch(/[\u202e\u200b]/)
    expect(JSON.parse(await page.locator('pre').innerText())).toEqual(args)
    expect(outside.filter((url) => url !== page.url() && !url.startsWith('data:'))).toEqual([])
    await press(page, 'Deny')
    expect(await title(page)).toBe('Denied')
  })

  test('a page of another origin cannot decide, even in a known browser', async () => {
    const approving = await approvingGateway()
    const { call, ran, gateway } = approving
    const url = pageOf(await call({ disk: 'a' }))
    const page = await opened(approving, url, { javaScriptEnabled: true })
    const token = await page.locator('input[name=token]').inputValue()
    const evil = createServer((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/html' })
      response.end(`<form method="post" action="${url}"><input name="token" value="${token}">
<button name="verdict" value="approved">Win</button></form>`)
    }).listen(0, '127.0.0.1')
    onTestFinished(() => void evil.close())
    await new Promise((resolve) => evil.once('listening', resolve))
    await page.goto(`http://127.0.0.1:${(evil.address() as AddressInfo).port}/`)
    const answer = page.waitForResponse((response) => response.url() === url)
    await page.getByRole('button').click()
    const response = await answer
    expect(response.status()).toBe(403)
    const sent = await response.request().allHeaders()
    expect(sent['origin']).not.toBe(gateway.origin)
    await page.goto(url)
    expect(await title(page)).toBe('Approve this call?')
    await page.locator('input[name=token]').evaluate((field) => field.remove())
    const forged = page.waitForResponse((each) => each.request().method() === 'POST')
    await press(page, 'Approve')
    expect((await forged).status()).toBe(403)
    expect((await call({ disk: 'a' }))['isError']).toBe(true)
    expect(ran).toEqual([])
  })

  test('a proxy can serve the page below a path prefix', async () => {
    const port = await freePort()
    const proxy = await stripping('/tools', port)
    const publicUrl = `${proxy}/tools/`
    const config = { listen: { public_url: publicUrl } }
    const approving = await approvingGateway({ config, args: ['--port', String(port)] })
    const { call, gateway } = approving
    expect(gateway.stdout()).toContain(`to approve calls at ${publicUrl}confirm, enter the code`)
    const url = pageOf(await call({ disk: 'a' }))
    expect(url).toMatch(new RegExp(`^${publicUrl}confirm/\\w+$`))
    const page = await opened(approving, `${publicUrl}confirm`)
    expect(await title(page)).toBe('Calls that wait for approval')
    await page.getByRole('main').getByRole('link').click()
    expect(page.url()).toBe(url)
    await press(page, 'Approve')
    expect(await title(page)).toBe('Approved')
    const [cookie] = await page.context().cookies(url)
    expect(cookie).toMatchObject({ path: '/tools/', httpOnly: true, sameSite: 'Strict' })
    expect(textIn(await call({ disk: 'a' }))).toBe('wiped')
  })

  test.each(['light', 'dark'] as const)('the page is legible on a phone, in %s', async (colorScheme) => {
    const approving = await approvingGateway({ rules: { type_to_confirm: 'disk' } })
    const args = {
      disk: 'production',
      note: `x${'y'.repeat(400)}`,
      list: Array.from({ length: 60 }, (_, each) => each),
    }
    const url = pageOf(await approving.call(args))
    const page = await opened(approving, url, {
      javaScriptEnabled: true,
      colorScheme,
      viewport: { width: 360, height: 740 },
    })
    // Kept for visual inspection.
    await page.screenshot({ path: `out/gatehouse-approval-${colorScheme}.png`, fullPage: true })
    const { overflow, size, heights, texts, faint } = await measured(page)
    expect(overflow).toBeLessThanOrEqual(0)
    expect(size).toBeGreaterThanOrEqual(14)
    expect(heights.length).toBe(2)
    expect(Math.min(...heights)).toBeGreaterThanOrEqual(44)
    expect(texts).toBeGreaterThan(20)
    expect(faint).toEqual([])
  })
})

/** The origin of a proxy that strips a path prefix from its URLs. */
async function stripping(path: string, port: number): Promise<string> {
  const proxy = createServer((incoming, outgoing) => {
    const { method, headers, url = '' } = incoming
    const own = { method, headers, path: url.startsWith(path) ? url.slice(path.length) : url }
    const onward = request({ host: '127.0.0.1', port, ...own }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers)
      answer.pipe(outgoing)
    })
    onward.on('error', () => outgoing.destroy())
    incoming.pipe(onward)
  }).listen(0, '127.0.0.1')
  onTestFinished(() => void proxy.close())
  await new Promise((resolve) => proxy.once('listening', resolve))
  return `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`
}
