import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { chromiumProgram, needsChromium } from '../../support/chromium.ts'
import { foreignFile } from '../../support/foreign.ts'
import { type RunningGateway, startGateway } from '../../support/gateway.ts'
import { repetitions } from '../../support/soak.ts'

const CLIENTS = repetitions(4, 10)
const CALLS = repetitions(10, 20)
const KEY = 'dev.gatehouse/session_state'

/** A client of the official SDK that speaks 2026-07-28 and sends each state back; otherwise it knows nothing of sessions. */
class Visitor {
  readonly #client = new Client(
    { name: 'visitor', version: '1.0.0' },
    { capabilities: { extensions: { [KEY]: {} } }, versionNegotiation: { mode: { pin: '2026-07-28' } } },
  )
  #state: unknown

  async connect(url: string): Promise<this> {
    await this.#client.connect(new StreamableHTTPClientTransport(new URL(url)))
    return this
  }

  async call(name: string, args: Record<string, unknown> = {}): Promise<string> {
    const meta = this.#state === undefined ? {} : { _meta: { [KEY]: this.#state } }
    const result = await this.#client.callTool({ name, arguments: args, ...meta }, { timeout: 120_000 })
    this.#state = result._meta?.[KEY] ?? this.#state
    const text = JSON.stringify(result.content)
    if (result.isError) throw new Error(text)
    return text
  }

  async close(): Promise<void> {
    await this.#client.close()
  }
}

/** A page that belongs to one visitor, and counts clicks. */
function page(name: string): string {
  return `<!doctype html><title>Page of ${name}</title><p id="seen">clicks of ${name}: 0</p>
<button onclick="this.n = (this.n ?? 0) + 1; seen.textContent = 'clicks of ${name}: ' + this.n">Next</button>`
}

describe('browsers behind the gateway', needsChromium, () => {
  let web: Server
  let gateway: RunningGateway
  let site: string
  beforeAll(async () => {
    web = createServer((request, response) => {
      response.setHeader('content-type', 'text/html').end(page(String(request.url?.slice(1))))
    })
    await new Promise<void>((resolve) => web.listen(0, '127.0.0.1', resolve))
    site = `http://127.0.0.1:${(web.address() as AddressInfo).port}`
    const browser = ['--headless', '--isolated', '--no-sandbox', '--executable-path', chromiumProgram]
    gateway = await startGateway({
      upstreams: {
        browser: { command: [process.execPath, foreignFile('@playwright/mcp/cli.js'), ...browser] },
      },
    })
  })
  afterAll(async () => {
    await gateway?.close()
    web.close()
  })

  test(`${CLIENTS} clients without sessions each come back to their own page for ${CALLS} calls`, async () => {
    const visitors = await Promise.all(
      Array.from({ length: CLIENTS }, () => new Visitor().connect(`${gateway.url}/browser`)),
    )
    const seen = await Promise.all(
      visitors.map(async (visitor, index) => {
        const pages: string[] = []
        await visitor.call('browser_navigate', { url: `${site}/v${index}` })
        for (let number = 1; number <= CALLS / 2; number++) {
          await visitor.call('browser_click', { target: 'button' })
          pages.push(await visitor.call('browser_snapshot'))
        }
        return pages
      }),
    )
    for (const [index, pages] of seen.entries())
      for (const [at, text] of pages.entries())
        expect(text, `visitor ${index}`).toContain(`clicks of v${index}: ${at + 1}`)
    await Promise.all(visitors.map((visitor) => visitor.close()))
  })
})
