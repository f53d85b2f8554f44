// The view of an approval in a host with MCP Apps: in a sandboxed frame, as hosts show it, with the messages of the extension.
import type { Browser, FrameLocator, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ExactNumber } from '../../../src/core/json/exact-number.ts'
import { measured, needsChromium, startChromium } from '../../support/chromium.ts'
import { until } from '../../support/condition.ts'
import { odd, type OperatorGateway, startOperatorGateway } from '../../support/operator-gateway.ts'
import { isObject, type Json } from '../../support/server/json.ts'

/** What hosts permit content that names no other origin. */
const policy =
  "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; connect-src 'none'"

let field: OperatorGateway
let browser: Browser

beforeAll(async () => {
  field = await startOperatorGateway()
  browser = await startChromium()
})
afterAll(async () => {
  await browser.close()
  await field.close()
})

interface Host {
  readonly page: Page
  readonly view: FrameLocator
  /** What the view sent, in order. */
  readonly sent: readonly Json[]
  /** What the browser complained about. */
  readonly complaints: readonly string[]
  close(): Promise<void>
}

/** A host that shows an approval to its user: the messages of a view are answered as the extension says. */
async function hostOf(id: string, width = 480): Promise<Host> {
  const client = await field.client('approver')
  const { contents } = await client.readResource({ uri: 'ui://gatehouse/approval' })
  const [content] = contents
  const html = content && 'text' in content ? content.text : ''
  const result = await client.callTool({ name: 'get_approval', arguments: { id } })
  const page = await browser.newPage({ viewport: { width, height: 800 } })
  const sent: Json[] = []
  const complaints: string[] = []
  page.on('console', (message) => void complaints.push(message.text()))
  page.on('pageerror', (error) => void complaints.push(String(error)))
  const deliver = async (message: Json): Promise<void> => {
    const text = JSON.stringify({ jsonrpc: '2.0', ...message })
    await page.evaluate(`document.querySelector('iframe').contentWindow.postMessage(${text}, '*')`)
  }
  await page.exposeFunction('fromView', async (message: Json) => {
    sent.push(message)
    const { id: asked, method, params } = message
    if (method === 'ui/initialize')
      await deliver({
        id: asked,
        result: {
          protocolVersion: '2026-01-26',
          hostInfo: { name: 'host', version: '1.0.0' },
          hostCapabilities: { serverTools: {} },
          hostContext: { theme: 'dark' },
        },
      })
    if (method === 'ui/notifications/initialized') {
      await deliver({ method: 'ui/notifications/tool-input', params: { arguments: { id } } })
      await deliver({ method: 'ui/notifications/tool-result', params: result })
    }
    if (method === 'tools/call' && isObject(params)) {
      const given = isObject(params['arguments']) ? params['arguments'] : {}
      const answer = await client.callTool({ name: String(params['name']), arguments: given })
      await deliver({ id: asked, result: answer })
    }
  })
  await page.setContent('<!doctype html><html lang="en"><title>Host</title><body></body></html>')
  const withPolicy = `<head><meta http-equiv="content-security-policy" content="${policy}">`
  // Another window than the view has nothing to say.
  await page.evaluate(`
    const frame = document.createElement('iframe')
    addEventListener('message', ({ source, data }) => void (source === frame.contentWindow && fromView(data)))
    frame.setAttribute('sandbox', 'allow-scripts')
    frame.setAttribute('style', 'width:100%;height:760px;border:0')
    frame.srcdoc = ${JSON.stringify(html.replace('<head>', withPolicy))}
    document.body.append(frame)`)
  return {
    page,
    view: page.frameLocator('iframe'),
    sent,
    complaints,
    close: async () => {
      await page.close()
      await client.close()
    },
  }
}

describe('the view of an approval', needsChromium, () => {
  it('shows the call, inert, and approves it with the keyboard alone', async () => {
    // A number that no double holds: the view shows the digits that the server gets.
    const given = { disk: odd, lines: 'one\ntwo', serial: new ExactNumber('9007199254740993') }
    const id = await field.waiting('agent', 'wipe', given)
    const { page, view, sent, complaints, close } = await hostOf(id)
    await view.getByRole('button', { name: 'Approve' }).waitFor()
    const text = await view.locator('main').innerText()
    expect(text).toContain('wipe')
    expect(text).toContain('token:agent')
    expect(text).toContain('9007199254740993')
    expect(text).toContain('<img src=x')
    expect(text).toContain('\\u202e')
    expect(text).not.toMatch(/[\u{202e}]/u)
    expect(await view.locator('img, [onerror], iframe').count()).toBe(0)
    const [, frame] = page.frames()
    expect(await frame?.evaluate('window.pwned')).toBeUndefined()
    expect(await frame?.evaluate('document.documentElement.dataset.theme')).toBe('dark')
    await view.locator('#reason').focus()
    await page.keyboard.press('Tab')
    await page.keyboard.press('Enter')
    await until(async () => (await view.locator('#status').innerText()) === 'Approved.', 'the decision')
    expect(sent.filter(({ method }) => method === 'tools/call')).toMatchObject([
      { params: { name: 'decide_approval', arguments: { id, verdict: 'approved' } } },
    ])
    expect(await view.getByRole('button').count()).toBe(0)
    expect(complaints).toEqual([])
    await close()
    await field.call('agent', 'wipe', given)
    expect(field.ran).toMatchObject([{ name: 'wipe' }])
  })

  it('shows what the call would change', async () => {
    await field.call('agent', 'put', { id: 'd', value: odd })
    const { view, complaints, close } = await hostOf(
      await field.waiting('agent', 'replace', { id: 'd', value: 'new' }),
    )
    await view.getByRole('button', { name: 'Approve' }).waitFor()
    const text = await view.locator('#change').innerText()
    expect(text).toContain('What would be lost')
    expect(text).toContain('<img src=x')
    expect(complaints).toEqual([])
    await close()
  })

  it('denies with a reason, fits a telephone, and says what the gateway refuses', async () => {
    const id = await field.waiting('agent', odd, { note: 'x' })
    const { page, view, complaints, close } = await hostOf(id, 360)
    await view.getByRole('button', { name: 'Deny' }).waitFor()
    expect(await view.locator('#facts').innerText()).toContain('\\u202e')
    const [, frame] = page.frames()
    expect(
      await frame?.evaluate('document.documentElement.scrollWidth - document.documentElement.clientWidth'),
    ).toBe(0)
    expect(await measured(page)).toMatchObject({ overflow: 0 })
    const other = await field.client('boss')
    await other.callTool({ name: 'decide_approval', arguments: { id, verdict: 'denied', reason: 'first' } })
    await other.close()
    await view.locator('#reason').fill('not today')
    await view.getByRole('button', { name: 'Deny' }).click()
    await until(
      async () => (await view.locator('#status').innerText()).includes('already denied'),
      'the refusal',
    )
    expect(complaints).toEqual([])
    await close()
  })
})
