// The pages of the console about calls: the timeline, its search, and the story of a call.
import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { CookieBrowser } from '../../support/auth/browser.ts'
import { until } from '../../support/condition.ts'
import { type RunningGateway, runCommand, startGateway } from '../../support/gateway.ts'
import { publishedServer } from '../../support/peers/servers.ts'
import type { Json } from '../../support/server/json.ts'

const run = promisify(execFile)
const root = mkdtempSync(join(tmpdir(), 'gatehouse-timeline-'))
const data = join(root, 'data')
mkdirSync(data)
writeFileSync(join(data, "it's.txt"), 'the content')
const odd = '<img src=x onerror=alert(1)> \u{202e}\u{1b}[31m'
const browser = new CookieBrowser()
let gateway: RunningGateway
let client: Client

async function call(name: string, given: Json): Promise<void> {
  await client.callTool({ name, arguments: given }).catch(() => undefined)
}

/** A page of the console. */
async function shown(path: string): Promise<string> {
  return (await browser.open(new URL(path, gateway.url).href)).text
}

beforeAll(async () => {
  gateway = await startGateway({
    store: join(root, 'store'),
    observe: { calls: { keep: 'results' } },
    upstreams: {
      files: {
        command: publishedServer('@modelcontextprotocol/server-filesystem', data),
        deny: { read_text_file: { path: '**/secret*' } },
      },
    },
  })
  client = new Client({ name: odd, version: '1.0.0' }, { capabilities: {} })
  await client.connect(new StreamableHTTPClientTransport(new URL(gateway.url)))
  await call('read_text_file', { path: join(data, "it's.txt") })
  await call('read_text_file', { path: join(data, 'secret.txt') })
  await call(odd, { [odd]: odd })
  const [code = ''] = /[A-Z0-9]{4}-[A-Z0-9]{4}/.exec(gateway.stdout()) ?? []
  const signIn = await browser.open(new URL('/console', gateway.url).href)
  await browser.submit(signIn.url, { code })
  const isThere = async (): Promise<boolean> => (await shown('/console')).includes('mark end-failed')
  await until(isThere, 'the calls on the timeline')
})

afterAll(async () => {
  await client.close()
  await gateway.close()
  rmSync(root, { recursive: true, force: true })
})

/** The address of the story of the first call that a search finds. */
async function storyOf(query: string): Promise<string> {
  const page = await shown(`/console?q=${encodeURIComponent(query)}`)
  const [, id] = /href="\.\/console\/calls\/([^"]+)"/.exec(page) ?? []
  return `/console/calls/${id}`
}

describe('the timeline', () => {
  it('shows the newest calls first, and what servers and callers wrote is inert', async () => {
    const page = await shown('/console')
    const [last = '', all = ''] = page.split('id="calls"')
    for (const part of [last, all]) expect(endsIn(part)).toEqual(['failed', 'denied', 'ok'])
    expect(page).toContain('&#60;img')
    for (const raw of ['<img', '\u{202e}', '\u{1b}']) expect(page).not.toContain(raw)
  })

  it('finds calls, and says what is wrong with a search', async () => {
    const denied = await shown('/console?q=status%3Adenied')
    expect(endsIn(denied)).toEqual(['denied'])
    const wrong = await browser.open(new URL('/console?q=status%3A%3Cb%3E', gateway.url).href)
    expect(wrong.status).toBe(400)
    expect(wrong.text).toContain('status: is one of')
    expect(wrong.text).not.toContain('<b>')
  })

  it('is not there for who is not signed in', async () => {
    const response = await fetch(new URL(await storyOf('status:ok'), gateway.url))
    expect(response.status).toBe(401)
    expect(await response.text()).not.toContain('read_text_file')
  })
})

/** How the calls that a page shows ended, in its order. */
function endsIn(page: string): (string | undefined)[] {
  return [...page.matchAll(/class="mark end-(\w+)"/g)].map(([, end]) => end)
}

describe('the story of a call', () => {
  it('says which feature ended it and why, and which it did not reach', async () => {
    const page = await shown(await storyOf('status:denied'))
    expect(page).toMatch(/class="gate ended"[^]*?permissions[^]*?rule: arguments/)
    expect(page).toMatch(/class="gate passed"/)
    expect(page).toMatch(/class="gate not_reached"/)
    expect(page).toContain('PERMISSION_DENIED')
    expect(page).toMatch(/<dt>Reason<\/dt><dd>[^<]*not permitted/i)
  })

  it('shows its arguments and its result, and whose time it took', async () => {
    const page = await shown(await storyOf('status:ok'))
    expect(page).toContain('the content')
    expect(page).toMatch(/The gateway took [\d.]+ m?s, the server [\d.]+ m?s, people 0 ms\./)
    expect(page).not.toMatch(/class="gate (?:ended|not_reached)"/)
  })

  it('shows one whose names and arguments are odd', async () => {
    const page = await shown(await storyOf('status:failed'))
    for (const raw of ['<img', '\u{202e}', '\u{1b}']) expect(page).not.toContain(raw)
  })

  it('gives commands that make the same call', async () => {
    const { text } = await browser.open(new URL(await storyOf('status:ok'), gateway.url).href)
    const copies = [...text.matchAll(/aria-label="As ([^"]+)">(.*?)<\/pre>/gs)].map(([, name, html = '']) => {
      const plain = html.replaceAll(/<\/?bdi>/g, '')
      const unescaped = plain.replaceAll(/&#(\d+);/g, (_all, code) => String.fromCharCode(Number(code)))
      return [name, unescaped] as const
    })
    const { curl = '', 'gatehouse call': command = '', test = '' } = Object.fromEntries(copies)
    const answered = await run('sh', ['-c', `${curl} --silent`])
    expect(answered.stdout).toContain('the content')
    const words = (await run('sh', ['-c', `printf '%s\\n' ${command}`])).stdout.trim().split('\n').slice(1)
    const called = await runCommand([...words, '--config', gateway.configFile])
    expect(called.stdout).toContain('the content')
    expect(test).toContain('client.callTool({ "name": "read_text_file"')
    expect(test).toContain('.not.toMatchObject({ isError: true })')
  })

  it('is a page for a person also if there is no such call', async () => {
    const missing = await browser.open(new URL('/console/calls/nothing', gateway.url).href)
    expect(missing.status).toBe(404)
    expect(missing.text).toContain('not in the log of calls')
  })
})
