import axe from 'axe-core'
import type { Browser, BrowserContext, BrowserContextOptions, Page, Request } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { measured, needsChromium, startChromium } from '../../support/chromium.ts'
import { post } from '../../support/client/raw.ts'
import { until } from '../../support/condition.ts'
import { consoleWorld, type ConsoleWorld, hostile } from '../../support/console-world.ts'
import { openSession, toolCall } from '../../support/raw-session.ts'

/** Runs the rules of axe-core in a page: each violation, with an element. */
const RUN_AXE = `axe.run().then(({ violations }) =>
  violations.map(({ id, nodes }) => id + ': ' + nodes[0].html))`
/** Expands everything that can be expanded. */
const OPEN_ALL = 'for (const each of document.querySelectorAll("details")) each.open = true'

const widths = [360, 1280] as const
const schemes = ['light', 'dark'] as const
const screens = widths.flatMap((width) => schemes.map((colorScheme) => ({ width, colorScheme })))
/** What axe-core judges depends on the width and on the colours, not on both. */
const isJudged = ({ width, colorScheme }: (typeof screens)[number]): boolean =>
  (width === 360) === (colorScheme === 'dark')

describe('the console in a browser', needsChromium, () => {
  let browser: Browser
  let world: ConsoleWorld
  beforeAll(async () => {
    ;[browser, world] = await Promise.all([startChromium(), consoleWorld({ isByCode: true })])
  })
  afterAll(() => Promise.all([browser?.close(), world?.close()]))

  interface Opened {
    readonly page: Page
    /** What the browser complains about. */
    readonly problems: readonly string[]
  }

  /** The cookies of a person who has entered the code with the keyboard. */
  let signedIn: Awaited<ReturnType<BrowserContext['storageState']>> | undefined

  async function signIn(): Promise<NonNullable<typeof signedIn>> {
    const context = await browser.newContext({ javaScriptEnabled: false })
    const page = await context.newPage()
    await page.goto(`${world.gateway.origin}/console`)
    // The field has the focus.
    await page.locator('#code:focus').waitFor()
    await page.keyboard.type(world.gateway.code)
    await Promise.all([page.locator('.who').waitFor(), page.keyboard.press('Enter')])
    const state = await context.storageState()
    await context.close()
    return state
  }

  async function opened(path: string, options: BrowserContextOptions = {}): Promise<Opened> {
    signedIn ??= await signIn()
    const context = await browser.newContext({ storageState: signedIn, ...options })
    onTestFinished(() => context.close())
    const page = await context.newPage()
    const problems: string[] = []
    page.on('console', (message) => void problems.push(message.text()))
    page.on('pageerror', (error) => void problems.push(error.message))
    await page.goto(`${world.gateway.origin}${path}`)
    return { page, problems }
  }

  /** Presses Tab until an element with this text or label has the focus. */
  async function tabTo(page: Page, name: string): Promise<void> {
    for (let presses = 0; presses < 120; presses++) {
      await page.keyboard.press('Tab')
      const focused = await page.evaluate(
        `(() => { const it = document.activeElement; return (it.labels?.[0]?.textContent ?? it.textContent ?? '').trim() })()`,
      )
      if (String(focused).startsWith(name)) return
    }
    throw new Error(`${name} cannot be reached with the keyboard`)
  }

  /** Presses Enter, and waits for the page that it leads to. */
  async function enter(page: Page): Promise<void> {
    await Promise.all([page.waitForEvent('load'), page.keyboard.press('Enter')])
  }

  /** Calls a tool as a client that cannot ask anybody; the answer. */
  async function call(tool: string, args: Record<string, unknown>): Promise<string> {
    const url = `${world.gateway.origin}/mcp/disks`
    const { headers } = await openSession(url, '2025-11-25')
    const { text, events } = await post(url, JSON.stringify(toolCall(1, tool, args)), headers)
    return events.at(-1)?.data ?? text
  }

  const waits = (): Promise<unknown> =>
    until(() => world.gateway.lines.find(({ event }) => event === 'confirm.requested'), 'the approval')

  describe.each(screens)('on a screen of $width px in $colorScheme', (screen) => {
    const { width, colorScheme } = screen
    const options = { viewport: { width, height: 800 }, colorScheme }

    test.each([
      '/console',
      '/console/rewind',
      '/console/needs',
      '/console/servers',
      '/console/servers/disks',
      '/console/servers/gone',
      '/console/try',
      '/console/try?server=disks&tool=format',
      '/',
      '/confirm',
      '/nothing',
    ])('%s is legible and accessible, and runs nothing of others', async (path) => {
      if (path === '/console/needs') {
        void call('wipe', { disk: hostile })
        await waits()
      }
      const { page, problems } = await opened(path, options)
      await page.evaluate(OPEN_ALL)
      const { overflow, size, heights, faint } = await measured(page)
      expect(overflow).toBeLessThanOrEqual(0)
      expect(size).toBeGreaterThanOrEqual(14)
      expect(Math.min(44, ...heights.filter((height) => height > 0))).toBe(44)
      expect(faint).toEqual([])
      if (isJudged(screen)) expect(await page.evaluate(`${axe.source};${RUN_AXE}`)).toEqual([])
      expect(await page.evaluate('window.ran')).toBeUndefined()
      expect(problems.filter((problem) => !problem.includes('404'))).toEqual([])
    })

    test('the first screen says what happened last, what needs somebody, what is away, and how to stop it', async () => {
      await call('read_size', { id: 1 })
      const { page } = await opened('/console', options)
      const last = page.locator('#last li').first()
      await last.waitFor()
      const shown = [last, page.getByText('1 unavailable server')]
      // A phone has the button below.
      if (width > 1000) shown.push(page.getByRole('button', { name: 'Pause writes' }))
      for (const each of shown) {
        const { y = Infinity, height = 0 } = (await each.boundingBox()) ?? {}
        expect(y + height).toBeLessThanOrEqual(800)
      }
      const topOf = async (id: string): Promise<number> =>
        (await page.locator(id).boundingBox())?.y ?? Infinity
      // A phone has the rates below the calls.
      expect((await topOf('#calls')) < (await topOf('#plots'))).toBe(width < 700)
    })

    test('a question of a call is legible and accessible', async () => {
      const { page, problems } = await opened('/console/try?server=disks&tool=format', options)
      await page.getByLabel('disk').fill(hostile)
      await page.getByRole('button', { name: 'Call it' }).click()
      await page.getByText('The gateway asks before the call is made').waitFor()
      const { overflow, faint } = await measured(page)
      expect([overflow <= 0, faint]).toEqual([true, []])
      if (isJudged(screen)) expect(await page.evaluate(`${axe.source};${RUN_AXE}`)).toEqual([])
      expect(problems).toEqual([])
    })
  })

  describe.each(widths)('with the keyboard alone at %i px, without scripts', (width) => {
    const options = { viewport: { width, height: 800 }, javaScriptEnabled: false }

    test('a person approves a waiting call, and it runs', async () => {
      const waiting = call('wipe', { disk: `k${width}` })
      const { page } = await opened('/console/needs', options)
      await until(async () => {
        await page.reload()
        return (await page.locator('main').innerText()).includes(`disk: k${width}?`) || undefined
      }, 'the approval')
      // Others may wait before it.
      const own = page.locator('.item', { hasText: `disk: k${width}?` })
      await own.getByText('Arguments', { exact: true }).focus()
      await page.keyboard.press('Enter')
      await tabTo(page, 'Approve')
      await enter(page)
      expect(await page.getByRole('status').innerText()).toBe('Your decision is recorded.')
      expect(await waiting).toContain('wiped')
    })

    test('a person finds the sick server, and which step fails', async () => {
      const { page } = await opened('/console/needs', options)
      await tabTo(page, 'Servers')
      await enter(page)
      expect(await page.locator('main h2').first().innerText()).toContain('gone')
      await tabTo(page, 'gone')
      await enter(page)
      await tabTo(page, 'Check it step by step')
      await enter(page)
      expect(await page.locator('main').innerText()).toContain('It fails at: tcp')
    })

    test('a person drains a server, and lets it take calls again', async () => {
      const { page } = await opened('/console/servers/notes', options)
      await tabTo(page, 'Drain')
      await enter(page)
      expect(await page.locator('h1').innerText()).toContain('takes no calls')
      await tabTo(page, 'Let it take calls again')
      await enter(page)
      expect(await page.locator('h1').innerText()).not.toContain('takes no calls')
    })

    test('a person tries a tool, calls it, and answers the question', async () => {
      const { page } = await opened('/console/try?server=disks&tool=format', options)
      await tabTo(page, 'disk')
      await page.keyboard.type('k')
      await tabTo(page, 'Try without effect')
      await enter(page)
      expect(await page.locator('main').innerText()).toContain('Run format on disks with disk: k?')
      const before = world.wiped.length
      await tabTo(page, 'Call it')
      await enter(page)
      await tabTo(page, 'Accept')
      await enter(page)
      expect(await page.locator('.ended').innerText()).toContain('wiped')
      expect(world.wiped.slice(before)).toEqual([{ disk: 'k' }])
    })
  })

  test('the keyboard skips to the content, and the focus is always visible', async () => {
    const { page } = await opened('/console/servers')
    await page.keyboard.press('Tab')
    expect(await page.evaluate('document.activeElement.textContent')).toBe('Skip to the content')
    expect(await page.evaluate('getComputedStyle(document.activeElement).outlineStyle')).not.toBe('none')
    await page.keyboard.press('Enter')
    await page.keyboard.press('Tab')
    expect(await page.evaluate('document.activeElement.textContent')).toBe('gone')
  })

  test('a page follows what happens, but not what a person is typing over', async () => {
    const { page, problems } = await opened('/console/needs', { reducedMotion: 'reduce' })
    const waiting = call('wipe', { disk: 'live' })
    const own = page.locator('.item', { hasText: 'disk: live?' })
    await own.waitFor()
    await own.getByText('Add a reason').click()
    await own.getByLabel('Reason').fill('half a rea')
    const other = call('wipe', { disk: 'other' })
    await until(
      async () => (await page.evaluate('document.querySelector("#needs-count").textContent')) !== '',
      'the number',
    )
    expect(await own.getByLabel('Reason').inputValue()).toBe('half a rea')
    await own.getByRole('button', { name: 'Deny' }).click()
    await page.getByText('Your decision is recorded.').waitFor()
    expect(await waiting).toContain('denied')
    await page.locator('.item', { hasText: 'disk: other?' }).getByRole('button', { name: 'Deny' }).click()
    expect(await other).toContain('denied')
    expect(problems).toEqual([])
  })

  test('a page shows a call that was logged after it was made, and before it could follow what happens', async () => {
    const { page } = await opened('/nothing')
    let follow: (() => unknown) | undefined
    await page.route('**/console/live*', (route) => {
      follow = () => route.continue()
    })
    const url = `${world.gateway.origin}/console?q=tool:late`
    await page.goto(url)
    await call('late', {})
    await until(async () => (await (await page.request.get(url)).text()).includes('class="call '), 'the call')
    follow?.()
    await page.locator('.call').waitFor()
  })

  test('a hidden page has no stream, and catches up once it is seen', async () => {
    const { page } = await opened('/nothing')
    const isLive = (request: Request): boolean => request.url().includes('/console/live')
    const isHidden = (value: boolean): Promise<unknown> =>
      page.evaluate(
        `Object.defineProperty(document, 'hidden', { value: ${value}, configurable: true });
        document.dispatchEvent(new Event('visibilitychange'))`,
      )
    const began = page.waitForRequest(isLive)
    await page.goto(`${world.gateway.origin}/console/needs`)
    await began
    await Promise.all([page.waitForEvent('requestfailed', isLive), isHidden(true)])
    const waiting = call('wipe', { disk: 'unseen' })
    await isHidden(false)
    await page.locator('.item', { hasText: 'unseen' }).getByRole('button', { name: 'Deny' }).click()
    expect(await waiting).toContain('denied')
  })

  test('a page of another site cannot frame the console', async () => {
    const { page } = await opened('/console/servers')
    await page.goto('about:blank')
    await page.setContent(`<iframe src="${world.gateway.origin}/console/servers"></iframe>`)
    const frame = await until(() => page.frames().find((each) => each !== page.mainFrame()), 'the frame')
    await page.waitForLoadState()
    await expect.poll(() => frame.url()).toBe('chrome-error://chromewebdata/')
  })
})
