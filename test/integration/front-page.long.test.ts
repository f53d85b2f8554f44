import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import type { Browser, BrowserContextOptions, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { openPage } from '../../src/downstream/pages/shell.ts'
import { reportsFrame, reportsPage } from '../../src/features/conformance/page.ts'
import { password, peopleNamed } from '../support/approving.ts'
import { needsChromium, measured, startChromium } from '../support/chromium.ts'
import { type LocalGateway, localGateway } from '../support/local-gateway.ts'
import { scriptedServer } from '../support/scripted-server.ts'

const { resolve } = createRequire(import.meta.url)
const real = (name: string, ...args: readonly string[]) => {
  const script = resolve(`@modelcontextprotocol/${name}/dist/index.js`)
  return { command: process.execPath, args: [script, ...args] }
}
const upstreams = {
  files: {
    ...real('server-filesystem', tmpdir()),
    tools: {
      create_directory: { cost: '2 API credits', latency: 'instant', confirm: 'Make {path}?' },
      move_file: { undo: 'move_file(source=$.args.destination, destination=$.args.source)' },
    },
  },
  memory: { ...real('server-memory'), homepage: 'https://memory.example/' },
  broken: { command: '/nowhere/server' },
}

/** Expands everything that can be expanded on a page. */
const openAll = 'for (const each of document.querySelectorAll("details")) each.open = true'

describe('the front page in a browser', needsChromium, () => {
  let browser: Browser
  let gateway: LocalGateway
  beforeAll(async () => {
    browser = await startChromium()
    gateway = await localGateway({ upstreams })
  })
  afterAll(() => Promise.all([browser?.close(), gateway?.close()]))

  /** A page with the problems found on it. */
  async function opened(url: string, options: BrowserContextOptions = {}) {
    const context = await browser.newContext(options)
    onTestFinished(() => context.close())
    const page = await context.newPage()
    const problems: string[] = []
    page.on('console', (message) => void problems.push(message.text()))
    page.on('pageerror', (error) => void problems.push(error.message))
    page.on('requestfailed', (request) => void problems.push(request.url()))
    await page.goto(url)
    return { page, problems }
  }

  test('the page of conformance reports is readable and does not scroll sideways, on narrow and wide screens', async () => {
    const result = {
      test_id: 'CONF-IDEMPOTENCY-REPLAY-001',
      proposal_ref: 'proposal-5-idempotency-and-retries',
      category: 'error_handling',
      description:
        'A call that is repeated with its key returns the same result, and the tool does not run again.',
      status: 'failed' as const,
      message: `expected ${'x'.repeat(300)}`,
      duration_ms: 1,
    }
    const report = {
      server_name: 'files',
      server_version: '1.0.0',
      suite_version: '1.0.0',
      tested_at: '2026-11-26T21:00:00.000Z',
      results: [result, { ...result, status: 'passed' as const }],
      summary: { passed: 1, failed: 1, skipped: 0, errors: 0 },
    }
    const history = [20, 90].map((score) => ({ tested_at: report.tested_at, passed: 1, failed: 1, score }))
    const coverage = { called: 3, listed: 9 }
    const quality = { report: { ...report, score: { total: 90 }, coverage }, history }
    const conformance = { report, history: history.slice(1) }
    for (const [width, colorScheme] of [
      [360, 'light'],
      [1280, 'dark'],
    ] as const) {
      const context = await browser.newContext({ viewport: { width, height: 740 }, colorScheme })
      onTestFinished(() => context.close())
      const page = await context.newPage()
      const content = reportsPage([{ name: 'files', quality, conformance }], true)
      await page.setContent(openPage(content, reportsFrame, '/conformance').text)
      const { overflow, faint } = await measured(page)
      expect(overflow).toBeLessThanOrEqual(0)
      expect(faint).toEqual([])
      expect(await page.getByText('does not run again').first().isVisible()).toBe(true)
      expect(await page.getByText('90/100 · 3 of 9 tools').first().isVisible()).toBe(true)
    }
  })

  const shown = (page: Page): Promise<string[]> => page.locator('.tool:visible .name').allInnerTexts()
  const count = (page: Page): Promise<string> => page.getByRole('status').innerText()

  test('shows servers, their state and their tools without script errors', async () => {
    const { page, problems } = await opened(gateway.origin)
    expect(await page.getByRole('heading', { level: 1 }).innerText()).toBe('3 servers, 2 ready')
    const servers = page.locator('.server')
    expect(await servers.locator('h3').allInnerTexts()).toEqual(['files', 'memory', 'broken'])
    expect(await servers.locator('.state').allInnerTexts()).toEqual(['ready', 'ready', 'unavailable'])
    const made = page.locator('.tool', { hasText: 'create_directory' })
    expect(await made.locator('.mark').allInnerTexts()).toEqual([
      'Write',
      'Asks first',
      'Costs 2 API credits',
      'Less than a second',
    ])
    expect(await page.locator('.tool', { hasText: 'move_file' }).innerText()).toContain('Undone by move_file')
    expect(problems).toEqual([])
  })

  test('can be used with the keyboard alone to find and open a tool', async () => {
    const { page, problems } = await opened(gateway.origin)
    const focused = (): Promise<string> =>
      page.evaluate('document.activeElement.id || document.activeElement.textContent.trim()')
    await page.keyboard.press('Tab')
    expect(await focused()).toBe('Skip to the servers')
    await page.keyboard.press('Enter')
    await page.keyboard.press('Tab')
    expect(await focused()).toBe('q')
    await page.keyboard.type('Entire  graph')
    expect(await shown(page)).toEqual(['read_graph'])
    expect(await count(page)).toBe('1 of 23 tools match')
    expect(await page.locator('.server:visible h3').allInnerTexts()).toEqual(['memory'])
    expect(new URL(page.url()).search).toBe('?q=Entire%20%20graph')
    const isFocused = () => page.evaluate('document.activeElement.closest(".tool") !== null')
    for (let tabs = 0; tabs < 12 && !(await isFocused()); tabs++) await page.keyboard.press('Tab')
    expect(await page.evaluate('getComputedStyle(document.activeElement).outlineStyle')).toBe('solid')
    await page.keyboard.press('Enter')
    expect(await page.locator('.tool:visible').innerText()).toContain('Details')
    await page.getByLabel('Find tools').press('Escape')
    expect(await shown(page)).toHaveLength(23)
    expect(new URL(page.url()).search).toBe('')
    await page.keyboard.type('zebra')
    expect(await shown(page)).toEqual([])
    expect(await page.locator('#nothing').isVisible()).toBe(true)
    await page.getByRole('link', { name: 'Show all' }).click()
    expect(await shown(page)).toHaveLength(23)
    expect(problems).toEqual([])
  })

  test('finds the same with its form and without JavaScript', async () => {
    const { page, problems } = await opened(gateway.origin, { javaScriptEnabled: false })
    await page.getByLabel('Find tools').fill('Entire graph')
    await page.getByLabel('Find tools').press('Enter')
    await page.waitForURL('**/?q=*')
    expect(await shown(page)).toEqual(['read_graph'])
    expect(await count(page)).toBe('1 of 23 tools match')
    expect(await page.getByLabel('Find tools').inputValue()).toBe('Entire graph')
    await page.getByRole('link', { name: 'Show all' }).click()
    expect(await shown(page)).toHaveLength(23)
    expect(problems).toEqual([])
  })

  test('can be linked with its search query, and searched beyond it', async () => {
    const { page } = await opened(`${gateway.origin}/?q=delete`)
    // Three tools that delete, and two that they undo.
    expect(await shown(page)).toHaveLength(5)
    await page.getByLabel('Find tools').fill('read_graph')
    expect(await shown(page)).toEqual(['read_graph'])
  })

  test('has only links that resolve', async () => {
    const { page } = await opened(gateway.origin)
    const links = await page.evaluate('[...document.links].map((each) => each.href)')
    const own = [...new Set(links as string[])].filter((url) => url.startsWith(gateway.origin))
    const paths = own.map((url) => new URL(url).pathname)
    for (const path of ['/llms.txt', '/llms-full.txt', '/ai-help', '/capabilities', '/skills/files/SKILL.md'])
      expect(paths).toContain(path)
    expect(paths).toEqual(expect.arrayContaining(['/health', '/ready', '/metrics', '/confirm']))
    const statuses = await Promise.all(
      own.map(async (url) => `${new URL(url).pathname} ${(await fetch(url)).status}`),
    )
    // These pages exist, and require the terminal code.
    const others = statuses.filter((each) => !each.endsWith(' 200'))
    expect(others.toSorted()).toEqual(['/confirm 401', '/console 401'])
    expect(await page.locator('a[href^="https:"]').getAttribute('rel')).toBe('noopener noreferrer')
  })

  test('copies settings with a button', async () => {
    const { page } = await opened(gateway.origin, { permissions: ['clipboard-read', 'clipboard-write'] })
    await page.getByText('Claude Code', { exact: true }).click()
    await page.getByRole('button', { name: 'Copy the settings for Claude Code' }).click()
    const copied = await page.evaluate('navigator.clipboard.readText()')
    expect(JSON.parse(String(copied))).toEqual({
      mcpServers: { gatehouse: { type: 'http', url: gateway.url } },
    })
  })

  test('shows hostile names and descriptions as text', async () => {
    const hostile = `"><script>window.ran = 1</script><img src=x onerror="window.ran = 1">\u202e`
    const tool = { name: hostile, title: hostile, description: hostile, inputSchema: { type: 'object' } }
    const server = await scriptedServer({ tools: {} }, { 'tools/list': () => ({ tools: [tool] }) })
    onTestFinished(() => server.close())
    const evil = { url: server.url, transport: 'streamable', revision: '2025-11-25' }
    const bad = await localGateway({ upstreams: { evil } })
    onTestFinished(() => bad.close())
    const { page, problems } = await opened(`${bad.origin}/?q=${encodeURIComponent(hostile)}`)
    await page.getByLabel('Find tools').fill('script')
    expect(await page.locator('.tool').innerText()).toContain('<script>window.ran = 1</script>')
    expect(await page.evaluate('"ran" in window')).toBe(false)
    expect(await page.locator('img').count()).toBe(0)
    expect(problems).toEqual([])
  })

  test('shows the tools to people who sign in', async () => {
    const closed = await localGateway({ upstreams, auth: peopleNamed('anna') })
    onTestFinished(() => closed.close())
    const httpCredentials = { username: 'anna', password }
    const { page } = await opened(closed.origin, { httpCredentials })
    expect(await page.locator('.tool').count()).toBe(0)
    await page.getByRole('link', { name: 'Sign in' }).click()
    expect(await shown(page)).toHaveLength(23)
    expect(await page.locator('.mark', { hasText: 'Scope read:memory' }).count()).toBe(3)
    await page.goto(closed.origin)
    expect(await shown(page)).toHaveLength(23)
  })

  test.each(['light', 'dark'] as const)('is legible on a phone, in %s', async (colorScheme) => {
    const viewport = { width: 360, height: 740 }
    const { page } = await opened(gateway.origin, { colorScheme, viewport })
    // Kept for visual inspection.
    await page.screenshot({ path: `out/gatehouse-page-${colorScheme}.png`, fullPage: true })
    await page.evaluate(openAll)
    const { overflow, size, heights, texts, faint } = await measured(page)
    expect(overflow).toBeLessThanOrEqual(0)
    expect(size).toBeGreaterThanOrEqual(14)
    expect(Math.min(...heights.filter((height) => height > 0))).toBeGreaterThanOrEqual(44)
    expect(texts).toBeGreaterThan(200)
    expect(faint).toEqual([])
  })

  test('is legible for people who are not signed in', async () => {
    const closed = await localGateway({ upstreams, auth: peopleNamed('anna') })
    onTestFinished(() => closed.close())
    const { page, problems } = await opened(closed.origin, { viewport: { width: 360, height: 740 } })
    await page.evaluate(openAll)
    const { overflow, faint } = await measured(page)
    expect(overflow).toBeLessThanOrEqual(0)
    expect(faint).toEqual([])
    expect(problems).toEqual([])
  })

  test('shows 500 tools at once, and filters them between two frames', async () => {
    const tools = Array.from({ length: 500 }, (_, index) => {
      return { name: `do_it_${index}`, description: 'Does it. '.repeat(20), inputSchema: { type: 'object' } }
    })
    const server = await scriptedServer({ tools: {} }, { 'tools/list': () => ({ tools }) })
    onTestFinished(() => server.close())
    const many = { url: server.url, transport: 'streamable', revision: '2025-11-25' }
    const large = await localGateway({ upstreams: { many } })
    onTestFinished(() => large.close())
    const { page } = await opened(large.origin)
    // This many are shown once a person searches for them or expands their server.
    expect(await shown(page)).toEqual([])
    await page.getByLabel('Find tools').fill('do_it_49')
    expect(await shown(page)).toHaveLength(11)
    await page.getByLabel('Find tools').fill('')
    expect(await shown(page)).toEqual([])
    await page.locator('.server > summary').click()
    expect(await shown(page)).toHaveLength(500)
  })
})
