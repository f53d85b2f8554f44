// What an owner does on the timeline: pause writes, and take back what was done since a point in time.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { auditLines } from '../../support/audit-lines.ts'
import { CookieBrowser, type Shown } from '../../support/auth/browser.ts'
import { until } from '../../support/condition.ts'
import { type RunningGateway, startGateway } from '../../support/gateway.ts'
import { publishedServer } from '../../support/peers/servers.ts'
import { isScattered } from '../../support/scattered.ts'

const root = mkdtempSync(join(tmpdir(), 'gatehouse-rewind-page-'))
const data = join(root, 'data')
const file = join(data, 'a.txt')
const audit = join(root, 'audit.jsonl')
mkdirSync(data)
writeFileSync(file, 'old')
const browser = new CookieBrowser()
let gateway: RunningGateway
let client: Client

function url(path: string): URL {
  return new URL(path, gateway.url)
}

/** The text of the result of a call. */
async function call(name: string, given: Readonly<Record<string, unknown>>): Promise<string> {
  return JSON.stringify(await client.callTool({ name, arguments: given }))
}

/** Submits a form of a page: its hidden fields of this action, and others. */
function submit(
  page: Shown,
  action: string,
  fields: Readonly<Record<string, string>> = {},
  headers?: Readonly<Record<string, string>>,
): Promise<Shown> {
  const forms =
    page.text.match(/<form method="post"[^]*?<\/form>|<form class="search" method="post"[^]*?<\/form>/g) ?? []
  const form = forms.find((each) => each.includes(`name="action" value="${action}"`)) ?? ''
  const hidden = [...form.matchAll(/type="hidden" name="(\w+)" value="([^"]*)"/g)]
  const given = Object.fromEntries(hidden.map(([, name = '', value = '']) => [name, value]))
  const target = new URL(/action="([^"]+)"/.exec(form)?.[1] ?? '', page.url)
  const body = new URLSearchParams({ ...given, ...fields })
  return browser.open(target, { method: 'POST', body, headers: headers ?? { origin: target.origin } })
}

/** The plan of a rewind; of several gateways, each waits only for what it is about to record itself. */
async function planned(form: Shown): Promise<Shown> {
  const plan = (): Promise<Shown> => submit(form, 'plan', { since: '1h' })
  if (!isScattered()) return plan()
  return until(async () => {
    const shown = await plan()
    return (
      /<strong>(\d+)<\/strong> of \1 actions/.test(shown.text) && !shown.text.includes('cannot tell') && shown
    )
  }, 'a plan of what all have recorded')
}

beforeAll(async () => {
  gateway = await startGateway({
    store: join(root, 'store'),
    observe: { audit },
    upstreams: {
      files: { command: publishedServer('@modelcontextprotocol/server-filesystem', data), trust: true },
    },
  })
  client = new Client({ name: 'trier', version: '1.0.0' }, { capabilities: {} })
  await client.connect(new StreamableHTTPClientTransport(new URL(gateway.url)))
  const [code = ''] = /[A-Z0-9]{4}-[A-Z0-9]{4}/.exec(gateway.stdout()) ?? []
  await browser.submit(url('/console'), { code })
})

afterAll(async () => {
  await client.close()
  await gateway.close()
  rmSync(root, { recursive: true, force: true })
})

function audited(order: string): readonly unknown[] {
  return auditLines(audit).filter((line) => line['order'] === order)
}

describe('pausing writes on the timeline', () => {
  it('refuses what may write until it is resumed, says why, and is audited', async () => {
    const paused = await submit(await browser.open(url('/console')), 'pause', {
      reason: 'too many <b>writes</b>',
    })
    expect(paused.text).toContain('Writes are paused.')
    expect(paused.text).toContain('too many &#60;b&#62;writes&#60;/b&#62;')
    expect(await call('write_file', { path: file, content: 'new' })).toContain('WRITES_PAUSED')
    expect(await call('read_text_file', { path: file })).toContain('old')
    const resumed = await submit(paused, 'resume')
    expect(resumed.text).toContain('Writes are allowed again.')
    await call('write_file', { path: file, content: 'new' })
    expect(readFileSync(file, 'utf8')).toBe('new')
    await until(() => audited('resume').length > 0, 'the audit entries')
    expect(audited('pause')).toMatchObject([
      { principal: 'operator', via: 'code', reason: 'too many <b>writes</b>' },
    ])
  })

  it('needs a form of this gateway, and the person', async () => {
    const page = await browser.open(url('/console'))
    const elsewhere = await submit(page, 'pause', {}, { origin: 'https://elsewhere.example' })
    expect(elsewhere.status).toBe(403)
    expect((await submit(page, 'pause', { token: 'forged' })).status).toBe(403)
    expect((await submit(page, 'pause', { action: 'constructor' })).status).toBe(400)
    const stranger = await fetch(url('/console'), {
      method: 'POST',
      body: new URLSearchParams({ action: 'pause' }),
    })
    expect(stranger.status).toBe(401)
    expect((await browser.open(url('/console'))).text).toContain('Pause writes')
  })

  it('is not framed by other pages, and loads nothing', async () => {
    const { headers } = await browser.open(url('/console'))
    expect(headers.get('content-security-policy')).toMatch(/default-src 'none'.*frame-ancestors 'none'/)
    expect(headers.get('x-frame-options')).toBe('DENY')
  })
})

describe('rewinding on the console', () => {
  it('shows the plan first, then does it, and shows what became of it', async () => {
    await call('write_file', { path: file, content: 'newer' })
    const form = await browser.open(url('/console/rewind'))
    const wrong = await submit(form, 'plan', { since: '<b>' })
    expect(wrong.status).toBe(400)
    expect(wrong.text).toContain('Give a duration')
    const plan = await planned(form)
    expect(plan.text).toMatch(/<strong>2<\/strong> of 2 actions will be undone/)
    expect(readFileSync(file, 'utf8')).toBe('newer')
    let progress = await submit(plan, 'carry_out')
    await until(async () => {
      progress = await browser.open(progress.url)
      return progress.text.includes('The rewind has ended.')
    }, 'the end of the rewind')
    expect(progress.text).toContain('2 of 2 actions undone.')
    expect(readFileSync(file, 'utf8')).toBe('old')
    expect(audited('undo')).toMatchObject([{ principal: 'operator', via: 'code' }])
  })

  it('says that there is no such server, and which there are', async () => {
    const form = await browser.open(url('/console/rewind'))
    const { status, text } = await submit(form, 'plan', { since: '1h', server: 'file<b>' })
    expect(status).toBe(400)
    expect(text).toContain('There is no server named “file&#60;b&#62;”. There are files.')
    expect(text).not.toContain('Nothing was changed since')
  })

  it('does nothing if the plan is not as it was shown any more', async () => {
    await call('write_file', { path: file, content: 'one' })
    const plan = await submit(await browser.open(url('/console/rewind')), 'plan', { since: '1h' })
    await call('write_file', { path: file, content: 'two' })
    const changed = await submit(plan, 'carry_out')
    expect(changed.status).toBe(409)
    expect(changed.text).toContain('The plan has changed since it was shown')
    expect(readFileSync(file, 'utf8')).toBe('two')
  })

  it('leaves what somebody else changed since, and shows the difference', async () => {
    await until(async () => {
      const plan = await submit(await browser.open(url('/console/rewind')), 'plan', { since: '1h' })
      return !plan.text.includes('cannot tell')
    }, 'the states to be read')
    writeFileSync(file, 'of somebody else')
    const plan = await submit(await browser.open(url('/console/rewind')), 'plan', { since: '1h' })
    expect(plan.text).toContain('changed by somebody else since')
    expect(plan.text).toContain('of somebody else')
    expect(plan.text).toContain('Undo also what others changed since')
    expect(readFileSync(file, 'utf8')).toBe('of somebody else')
  })
})
