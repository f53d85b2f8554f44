// A person sends a file in a browser, and a program sends one that is larger than the memory it may take.
import { createHash } from 'node:crypto'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { peakMegabytes, resetPeak, residentMegabytes } from '../../bench/process-stats.ts'
import { pagesClient, startAuthorizationServer } from '../../support/auth/authorization-server.ts'
import { needsChromium, measured, startChromium } from '../../support/chromium.ts'
import { startGatewayProcess } from '../../support/gateway-process.ts'
import { type LocalGateway, localGateway } from '../../support/local-gateway.ts'
import { freePort } from '../../support/child-process.ts'
import type { Json } from '../../support/server/json.ts'
import { scriptedServer } from '../../support/scripted-server.ts'
import { StatelessClient } from '../../support/stateless-client.ts'

async function gatewayWithServer(config: Json = {}): Promise<LocalGateway> {
  const server = await scriptedServer({ tools: {} }, { 'tools/list': () => ({ tools: [] }) })
  const gateway = await localGateway({
    features: { references: 'on' },
    upstreams: { one: { url: server.url } },
    ...config,
  })
  onTestFinished(async () => {
    await gateway.close()
    await server.close()
  })
  return gateway
}

async function requested(client: StatelessClient, args: Json): Promise<{ url: string; ref: string }> {
  return (await client.call('request_upload', args)).fields['structuredContent'] as {
    url: string
    ref: string
  }
}

describe('in a browser', needsChromium, () => {
  let browser: Browser
  beforeAll(async () => {
    browser = await startChromium()
  })
  afterAll(() => browser?.close())

  async function pageOf(javaScriptEnabled = false, width = 360): Promise<Page> {
    const context = await browser.newContext({ javaScriptEnabled, viewport: { width, height: 640 } })
    onTestFinished(() => context.close())
    return context.newPage()
  }

  const title = (page: Page): Promise<string | null> => page.locator('h1').textContent()
  const file = (text: string) => ({ name: 'notes.txt', mimeType: 'text/plain', buffer: Buffer.from(text) })

  test('a person sends a file without scripts, once', async () => {
    const { url: endpoint } = await gatewayWithServer()
    const client = new StatelessClient({ url: endpoint })
    const { url, ref } = await requested(client, { purpose: 'Your notes, to make a summary of them' })
    const page = await pageOf()
    await page.goto(url)
    expect(await title(page)).toBe('Send a file')
    expect(await page.locator('main').innerText()).toContain('Your notes, to make a summary of them')
    await page.getByLabel('File').setInputFiles(file('what I wrote'))
    await page.getByRole('button', { name: 'Send' }).click()
    expect(await title(page)).toBe('The file was sent')
    expect((await client.call('read_reference', { ref })).texts[0]).toBe('what I wrote')
    await page.goto(url)
    expect(await title(page)).toBe('The file was not sent')
  })

  test('a person reads why a file is refused, and sends another', async () => {
    const { url: endpoint } = await gatewayWithServer()
    const client = new StatelessClient({ url: endpoint })
    const { url, ref } = await requested(client, { max_size: 10 })
    const page = await pageOf()
    await page.goto(url)
    await page.getByLabel('File').setInputFiles(file('more than ten bytes'))
    await page.getByRole('button', { name: 'Send' }).click()
    expect(await page.getByRole('alert').innerText()).toContain('larger than 10 bytes')
    await page.goBack()
    await page.getByLabel('File').setInputFiles(file('short'))
    await page.getByRole('button', { name: 'Send' }).click()
    expect(await title(page)).toBe('The file was sent')
    expect((await client.call('read_reference', { ref })).texts[0]).toBe('short')
  })

  test('the page fits a phone, and is readable in light and dark', async () => {
    const { url: endpoint } = await gatewayWithServer()
    const options = { name: 'x'.repeat(200), types: ['image/*'], purpose: 'y '.repeat(200) }
    const { url } = await requested(new StatelessClient({ url: endpoint }), options)
    const page = await pageOf(true, 320)
    await page.goto(url)
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme })
      const { overflow, size, heights, texts, faint } = await measured(page)
      expect({ overflow, faint }).toEqual({ overflow: 0, faint: [] })
      expect(size).toBeGreaterThanOrEqual(15)
      expect(Math.min(...heights)).toBeGreaterThanOrEqual(44)
      expect(texts).toBeGreaterThan(5)
    }
  })

  test('where people sign in, only the caller who requested the file can send it', async () => {
    const issuer = await startAuthorizationServer()
    onTestFinished(() => issuer.close())
    const { id: client_id, secret: client_secret } = pagesClient
    const jwt = { issuer: issuer.issuer, audience: 'gatehouse', client_id, client_secret }
    const { url: endpoint } = await gatewayWithServer({
      listen: { port: await freePort() },
      auth: { jwt, scope_map: { '*': ['read:one'] } },
    })
    const client = (token: string) => new StatelessClient({ url: endpoint, token })
    const own = client(await issuer.personToken('someone', 'gatehouse'))
    const { url, ref } = await requested(own, {})
    const ofOther = await requested(client(await issuer.personToken('another', 'gatehouse')), {})
    const page = await pageOf(true)
    await page.goto(url)
    expect(await title(page)).toBe('Sign in')
    await page.getByRole('link', { name: 'Sign in' }).click()
    await page.waitForURL(url)
    await page.getByLabel('File').setInputFiles(file('mine'))
    await page.getByRole('button', { name: 'Send' }).click()
    expect(await title(page)).toBe('The file was sent')
    expect((await own.call('read_reference', { ref })).texts[0]).toBe('mine')
    await page.goto(ofOther.url)
    expect(await page.getByRole('alert').innerText()).toContain('Only the caller who requested')
  })
})

describe.skipIf(!existsSync('/proc/self/clear_refs'))('a large file (needs /proc)', () => {
  const MEGABYTES = 200

  test('is received and returned in little memory', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'gatehouse-large-'))
    const server = await scriptedServer({ tools: {} }, { 'tools/list': () => ({ tools: [] }) })
    const gateway = await startGatewayProcess({
      store: join(folder, 'store'),
      features: { references: { upload: '300MB', urls: true } },
      upstreams: { one: { url: server.url } },
    })
    onTestFinished(async () => {
      await gateway.close()
      await server.close()
      rmSync(folder, { recursive: true, force: true })
    })
    const chunk = Buffer.alloc(1024 * 1024, 'a line of a large file\n')
    const hash = createHash('sha256')
    const idle = residentMegabytes(gateway.pid)
    resetPeak(gateway.pid)
    const answer = await new Promise<Json>((resolve, reject) => {
      const sending = request(new URL('/uploads', gateway.url), { method: 'POST' }, (response) => {
        let text = ''
        response.setEncoding('utf8').on('data', (part: string) => (text += part))
        response.on('end', () => resolve(JSON.parse(text) as Json))
      })
      sending.on('error', reject)
      const write = async (): Promise<void> => {
        for (let count = 0; count < MEGABYTES; count++) {
          hash.update(chunk)
          if (!sending.write(chunk)) await new Promise((drained) => sending.once('drain', drained))
        }
        sending.end()
      }
      write().catch(reject)
    })
    const sha256 = hash.digest('hex')
    expect(answer).toMatchObject({ size_bytes: MEGABYTES * 1024 * 1024, checksum: { value: sha256 } })
    const returned = createHash('sha256')
    const { body } = await fetch(String(answer['access_url']))
    for await (const part of body ?? []) returned.update(part)
    expect(returned.digest('hex')).toBe(sha256)
    expect(peakMegabytes(gateway.pid) - idle).toBeLessThan(MEGABYTES / 2)
  })
})

describe('a slow transfer', () => {
  test('goes on as long as bytes arrive, and ends if none do', async () => {
    const gateway = await gatewayWithServer()
    /** Sends a byte per interval, in milliseconds, and resolves with the status; undefined if the connection ends. */
    const send = (count: number, interval: number): Promise<number | undefined> =>
      new Promise((resolve) => {
        const headers = { 'content-length': String(count) }
        const sending = request(`${gateway.origin}/uploads`, { method: 'POST', headers }, (response) => {
          response.resume()
          resolve(response.statusCode)
        })
        let sent = 0
        const step = (): void => {
          sending.write('x')
          if (++sent < count) timer = setTimeout(step, interval)
          else sending.end()
        }
        let timer = setTimeout(step, 0)
        sending.on('close', () => clearTimeout(timer))
        sending.on('error', () => resolve(undefined))
      })
    // Other requests have half a minute to arrive.
    expect(await Promise.all([send(5, 10_000), send(2, 80_000)])).toEqual([201, undefined])
    const uploads = () => gateway.lines.filter(({ method }) => method === 'POST /uploads')
    const isOver = (wanted: string) => () => uploads().some(({ outcome }) => outcome === wanted)
    for (const wanted of ['CANCELLED', 'ok']) await expect.poll(isOver(wanted)).toBe(true)
  })

  test('gets all of the data beyond its expiry, when no other reader gets it any more', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'gatehouse-slow-'))
    const gateway = await gatewayWithServer({
      store: join(folder, 'store'),
      features: { references: { urls: true, ttl: '2s' } },
    })
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    const upload = async (): Promise<Json> => {
      const body = Buffer.alloc(40 * 1024 * 1024, 'x')
      return (await (await fetch(`${gateway.origin}/uploads`, { method: 'POST', body })).json()) as Json
    }
    const unused = await upload()
    const used = await upload()
    const { body } = await fetch(String(used['access_url']))
    const reader = body?.getReader()
    let size = (await reader?.read())?.value?.byteLength ?? 0
    const statusOf = async (data: Json) =>
      (await fetch(String(data['access_url']), { method: 'HEAD' })).status
    await expect.poll(() => statusOf(unused)).toBe(404)
    await expect.poll(() => statusOf(used)).toBe(404)
    for (let part = await reader?.read(); part?.done === false; part = await reader?.read())
      size += part.value.byteLength
    expect(size).toBe(40 * 1024 * 1024)
  })
})
