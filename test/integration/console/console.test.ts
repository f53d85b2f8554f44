import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { auditLines } from '../../support/audit-lines.ts'
import { until } from '../../support/condition.ts'
import {
  agentToken,
  consoleWorld,
  type ConsoleWorld,
  hostile,
  password,
  type people,
} from '../../support/console-world.ts'
import { CookieBrowser } from '../../support/auth/browser.ts'
import { authorizationServer, followLink } from '../../support/authorization-server.ts'
import { localGateway } from '../../support/local-gateway.ts'
import { protectedServer, unauthorized } from '../../support/protected-server.ts'
import { openSession, toolCall } from '../../support/raw-session.ts'
import { post as send } from '../../support/client/raw.ts'
import { alone } from '../../support/scattered.ts'
import { objectAt, parse } from '../../support/server/json.ts'

type Person = keyof typeof people

let world: ConsoleWorld
beforeAll(async () => {
  world = await consoleWorld()
})
afterAll(() => world?.close())

const credentials = (who: Person): string => `Basic ${Buffer.from(`${who}:${password}`).toString('base64')}`

/** A page as a person sees it. */
async function page(path: string, who: Person, headers: Record<string, string> = {}) {
  const response = await fetch(`${world.gateway.origin}${path}`, {
    redirect: 'manual',
    headers: { accept: 'text/html', authorization: credentials(who), ...headers },
  })
  return { status: response.status, text: await response.text(), headers: response.headers }
}

/** What a program gets that has the credentials of a person. */
async function json(path: string, who: Person): Promise<unknown> {
  return parse((await page(path, who, { accept: 'application/json' })).text)
}

/** The forms that everybody sees have the token that all forms of the console have. */
const formsOf = (who: Person): string =>
  who === 'anna' ? '/console/needs' : '/console/try?server=disks&tool=format'

/** Submits a form to a page. */
async function submit(
  path: string,
  who: Person,
  fields: Record<string, string>,
  headers: Record<string, string> = {},
) {
  const { text } = await page(formsOf(who), who)
  const token = /name="token" value="([^"]+)"/.exec(text)?.[1] ?? ''
  const response = await fetch(`${world.gateway.origin}${path}`, {
    method: 'POST',
    redirect: 'manual',
    headers: {
      authorization: credentials(who),
      accept: 'text/html',
      origin: world.gateway.origin,
      ...headers,
    },
    body: new URLSearchParams({ token, ...fields }),
  })
  return { status: response.status, text: await response.text(), location: response.headers.get('location') }
}

/** Calls a tool of the disks as the agent; its result, or the error. */
async function call(tool: string, args: Record<string, unknown>): Promise<string> {
  const url = `${world.gateway.origin}/mcp/disks`
  const auth = { authorization: `Bearer ${agentToken}` }
  const { headers } = await openSession(url, '2025-11-25', {}, auth)
  const { text, events } = await send(url, JSON.stringify(toolCall(1, tool, args)), { ...headers, ...auth })
  return events.at(-1)?.data ?? text
}

const orders = () =>
  auditLines(join(world.folder, 'audit.jsonl')).filter(
    ({ event }) => event === 'order' || event === 'approval',
  )

describe('what needs a person', () => {
  test('a waiting call is approved from the list, runs once, and the decision is audited', async () => {
    const waiting = call('wipe', { disk: 'a' })
    const { text } = await until(async () => {
      const found = await page('/console/needs', 'anna')
      return found.text.includes('Deny') ? found : undefined
    }, 'the approval')
    expect(text).toContain('Called by <bdi>token:agent</bdi> with <bdi>raw 1</bdi>, by its own account')
    // Who only decides sees nothing else.
    expect(text).not.toContain('Transactions that need attention')
    const id = /name="id" value="(\w+)"/.exec(text)?.[1] ?? ''
    const done = await submit('/console/needs', 'anna', { action: 'decide', id, verdict: 'approved' })
    expect([done.status, done.location]).toEqual([303, 'needs?done=decide'])
    expect(await waiting).toContain('wiped')
    expect(world.wiped).toEqual([{ disk: 'a' }])
    expect((await page('/console/needs?done=decide', 'anna')).text).toContain('Your decision is recorded.')
    await until(() => orders().find(({ approval }) => approval === id), 'the audit line')
    // The person who sees everything may not decide what others have to.
    expect(
      (await submit('/console/needs', 'olga', { action: 'decide', id, verdict: 'approved' })).status,
    ).toBe(403)
  })

  test('an operator handles a transaction that could not be undone', async () => {
    const needs = await json('/console/needs', 'olga')
    const [transaction] = objectAt({ needs }, 'needs')['transactions'] as { key: string; status: string }[]
    expect(transaction?.status).toBe('partially_rolled_back')
    const fields = { key: transaction?.key ?? '', transaction: 'tx-1' }
    expect((await submit('/console/needs', 'vic', { action: 'acknowledge', ...fields })).status).toBe(403)
    // The gateway tries again, and fails again, as nothing is known that undoes the step.
    expect((await submit('/console/needs', 'olga', { action: 'roll_back', ...fields })).status).toBe(303)
    const again = await until(async () => {
      const { text } = await page('/console/needs?done=roll_back', 'olga')
      return text.includes('not all undone') ? text : undefined
    }, 'the rollback to end')
    expect(again).toContain('Mark as handled')
    expect((await submit('/console/needs', 'olga', { action: 'acknowledge', ...fields })).status).toBe(303)
    expect((await page('/console/needs?done=acknowledge', 'olga')).text).not.toContain('Mark as handled')
    await until(
      () => orders().filter(({ order }) => order === 'ack' || order === 'rollback').length === 2,
      'the audit',
    )
    expect(orders().find(({ order }) => order === 'rollback')).toMatchObject({
      principal: 'service:olga',
      via: 'password',
      transaction: 'tx-1',
    })
  })

  test('an operator settles an outcome in doubt', async () => {
    const { text } = await page('/console/needs', 'olga')
    expect(text).toContain('Outcomes in doubt')
    const key = /name="key" value="(\w+-doubt)"/.exec(text)?.[1] ?? ''
    expect((await submit('/console/needs', 'olga', { action: 'settle', key })).status).toBe(303)
    expect((await page('/console/needs?done=settle', 'olga')).text).not.toContain('Outcomes in doubt')
    expect((await submit('/console/needs', 'olga', { action: 'settle', key: 'none' })).status).toBe(404)
  })

  test('a server that is away, and a change that may break clients, are told', async () => {
    const { text } = await page('/console/needs', 'vic')
    expect(text).toMatch(/<bdi>gone<\/bdi><\/a> <span class="state unavailable">/)
    expect(text).toContain('changed in a way that may break clients')
  })
})

describe('a server whose users sign in themselves', () => {
  test('needs the sign-in of the person, who is sent there, until it is done', async () => {
    const authority = await authorizationServer()
    const server = await protectedServer(async (token, url) => {
      const claims = token && (await authority.verify(token, url).catch(() => undefined))
      return claims ? undefined : unauthorized(url, 'read')
    })
    server.metadata = { resource: server.url, authorization_servers: [authority.issuer] }
    const gateway = await localGateway({ upstreams: { one: { url: server.url, oauth: {} } } })
    onTestFinished(() => gateway.close())
    const browser = new CookieBrowser()
    const needs = `${gateway.origin}/console/needs`
    await browser.submit(needs, { code: gateway.code })
    const before = await browser.open(needs)
    expect(before.text).toContain('needs your sign-in')
    const token = /name="token" value="([^"]+)"/.exec(before.text)?.[1] ?? ''
    const start = await browser.submit(needs, { token, action: 'sign_in', server: 'one' })
    expect(start.url.pathname).toMatch(/^\/oauth\/start\//)
    expect(start.text).toContain('The account you sign in to will be used by')
    expect(await followLink(start.url.href, 'alice')).toContain('You are signed in to one.')
    await until(
      async () => !(await browser.open(needs)).text.includes('needs your sign-in') || undefined,
      'the end',
    )
  })
})

describe('the servers', () => {
  test('each has its state, and one that cannot be reached comes first', async () => {
    const { text } = await page('/console/servers', 'vic')
    expect(text.match(/console\/servers\/(\w+)/g)?.map((each) => each.slice(16))).toEqual([
      'gone',
      'disks',
      'notes',
    ])
    expect(text).toContain('3 servers, 2 ready')
    expect(await json('/console/servers', 'vic')).toMatchObject({
      servers: [
        { name: 'disks', state: 'ready' },
        { name: 'notes', processes: [expect.any(Number)] },
        { state: 'unavailable' },
      ],
    })
    expect((await page('/console/servers/nobody', 'vic')).status).toBe(404)
  })

  test('a tool is shown with the reasons of its judgement, and the contract with its changes', async () => {
    const { text } = await page('/console/servers/disks', 'vic')
    expect(text).toContain('Why it is judged destructive')
    expect(text).toContain('its server says destructiveHint: true')
    expect(text).toContain('approval by other people, out of band')
    expect(text).toContain('may break clients')
    expect(text).not.toContain('Restart')
  })

  test('a restart ends its process and starts another one', async () => {
    alone('each gateway starts servers over stdio')
    const process = async (): Promise<unknown> =>
      (objectAt({ of: await json('/console/servers/notes', 'vic') }, 'of')['processes'] as unknown[])[0]
    const before = await process()
    expect((await submit('/console/servers/notes', 'vic', { action: 'restart' })).status).toBe(403)
    expect((await submit('/console/servers/notes', 'olga', { action: 'restart' })).status).toBe(303)
    const after = await until(process, 'another process')
    expect(after).not.toBe(before)
    expect((await page('/console/servers/notes?done=restart', 'olga')).text).toContain(
      'Knowledge Graph MCP Server',
    )
  })

  test('a drained server takes no calls until it is not drained any more, and still lists its tools', async () => {
    alone('each gateway drains a server for itself')
    expect((await submit('/console/servers/disks', 'olga', { action: 'drain' })).status).toBe(303)
    const refused = await call('read_size', { id: 1 })
    expect(refused).toContain('lets this server take no calls now')
    expect((await page('/console/needs', 'vic')).text).toContain('is drained')
    expect((await page('/console/servers/disks', 'vic')).text).toContain('Why it is judged destructive')
    expect((await submit('/console/servers/disks', 'olga', { action: 'undrain' })).status).toBe(303)
    expect(await call('read_size', { id: 1 })).toContain('window.ran')
    await until(() => orders().some(({ order }) => order === 'undrain'), 'the audit line')
    expect(orders().find(({ order }) => order === 'drain')).toMatchObject({ upstream: 'disks' })
  })

  test('the examination says at which step a server fails, and what to do', async () => {
    const { status, text } = await submit('/console/servers/gone', 'olga', { action: 'doctor' })
    expect(status).toBe(200)
    expect(text).toContain('It fails at: tcp')
    expect(text).toContain('nothing listens there: start the server, or correct the port')
  })
})

describe('trying a tool', () => {
  const size = '/console/try?server=disks&tool=read_size'
  const format = '/console/try?server=disks&tool=format'

  test('a viewer tries a call without effect, sees the question, and may not call', async () => {
    const before = world.wiped.length
    const fields = { 'argument.disk': 'b' }
    const tried = await submit(format, 'vic', { action: 'dry_run', ...fields })
    expect(tried.status).toBe(200)
    expect(tried.text).toContain('Nothing was done. The call would run')
    expect(tried.text).toContain('Run format on disks with disk: b?')
    expect(tried.text).not.toContain('Call it')
    const refused = await submit(format, 'vic', { action: 'call', ...fields })
    expect(refused.status).toBe(403)
    expect(refused.text).toContain('gatehouse:operate')
    expect(world.wiped).toHaveLength(before)
  })

  test('an operator calls, answers the question of the gateway, and sees the result', async () => {
    const before = world.wiped.length
    const asked = await submit(format, 'olga', { action: 'call', 'argument.disk': 'c' })
    expect(asked.text).toContain('The gateway asks before the call is made')
    const hidden = (name: string): string =>
      new RegExp(`name="${name}" value="([^"]*)"`).exec(asked.text)?.[1]?.replaceAll('&#34;', '"') ?? ''
    const [state, given] = [hidden('state'), hidden('given')]
    const declined = await submit(format, 'olga', { action: 'answer', state, given, verdict: 'decline' })
    expect(declined.text).toContain('CONFIRMATION_DECLINED')
    // An answer is for one call, and counts once.
    const used = await submit(format, 'olga', { action: 'answer', state, given, verdict: 'accept' })
    expect(used.text).toMatch(/STATE_INVALID|CONFIRMATION_TOKEN_INVALID/)
    expect(world.wiped).toHaveLength(before)
    const again = await submit(format, 'olga', { action: 'call', 'argument.disk': 'c' })
    const fresh = /name="state" value="([^"]*)"/.exec(again.text)?.[1] ?? ''
    const other = { action: 'answer', state: fresh, given: '{"disk":"d"}', verdict: 'accept' }
    expect((await submit(format, 'olga', other)).text).toContain('STATE_INVALID')
    const third = await submit(format, 'olga', { action: 'call', 'argument.disk': 'c' })
    const last = /name="state" value="([^"]*)"/.exec(third.text)?.[1] ?? ''
    const done = await submit(format, 'olga', { action: 'answer', state: last, given, verdict: 'accept' })
    expect(done.text).toContain('Done')
    expect(world.wiped.slice(before)).toEqual([{ disk: 'c' }])
    // The form is filled as before.
    expect(done.text).toMatch(/name="argument.disk"[^>]*>\nc<\/textarea>/)
  })

  test('numbers reach the server with every digit, and what is no number reaches nobody', async () => {
    const tried = await submit(size, 'olga', { action: 'dry_run', 'argument.id': '12345678901234567890' })
    expect(tried.text).toContain('12345678901234567890')
    const calls = () => world.disks.seen.filter(({ method }) => method === 'tools/call').length
    const before = calls()
    const wrong = await submit(size, 'olga', { action: 'call', 'argument.id': 'twelve' })
    expect([wrong.status, calls()]).toEqual([400, before])
    expect(wrong.text).toContain('must be a number, such as 12 or -0.5.')
    expect(wrong.text).toContain('aria-invalid="true"')
  })

  test('a tool that does not exist is not found', async () => {
    expect((await submit('/console/try?server=disks&tool=none', 'olga', { action: 'call' })).status).toBe(404)
    expect((await page('/console/try?server=nobody', 'olga')).status).toBe(404)
  })
})

describe('what servers and callers write', () => {
  test.each([
    '/console/needs',
    '/console/servers',
    '/console/servers/disks',
    '/console/try?server=disks',
    '/console/try?server=disks&tool=read_size',
  ])('is only text at %s', async (path) => {
    const { text } = await page(path, 'olga')
    expect(text).not.toMatch(/<script>window|<img|\p{Bidi_Control}|(?!\n)\p{Cc}/u)
    expect(text.match(/<script>/g)).toHaveLength(1)
  })

  test('is only text in the result of a call, and in the log of the gateway', async () => {
    const { text } = await submit('/console/try?server=disks&tool=read_size', 'olga', { action: 'call' })
    expect(text).toContain('&#60;script&#62;window.ran = 1')
    expect(text).not.toMatch(/<script>window|<img|\p{Bidi_Control}|(?!\n)\p{Cc}/u)
    expect(hostile).toContain('\u202e')
  })
})

describe('requests of other sites', () => {
  test.each([
    ['/console/servers/disks', 'drain'],
    ['/console/needs', 'settle'],
    ['/console/try?server=disks&tool=read_size', 'call'],
  ])('cannot act at %s', async (path, action) => {
    for (const headers of [{ origin: 'https://evil.example' }, { 'sec-fetch-site': 'cross-site' }])
      expect((await submit(path, 'olga', { action }, headers)).status).toBe(403)
    expect((await submit(path, 'olga', { action, token: 'x' })).status).toBe(403)
  })

  test('cannot frame a page, nor have it cached', async () => {
    const { headers } = await page('/console/servers', 'olga')
    expect(headers.get('content-security-policy')).toMatch(
      /^default-src 'none'; style-src 'sha256-[^ ]+'; script-src 'sha256-[^ ]+'; connect-src 'self';.*frame-ancestors 'none'$/,
    )
    expect(headers.get('x-frame-options')).toBe('DENY')
    expect(headers.get('cache-control')).toBe('no-store')
  })
})

describe('pages that follow what happens', () => {
  test('get the name of what changed, as long as the gateway serves', async () => {
    alone('each gateway drains a server for itself')
    const controller = new AbortController()
    const response = await fetch(`${world.gateway.origin}/console/live?topics=servers%20nothing`, {
      headers: { authorization: credentials('vic') },
      signal: controller.signal,
    })
    expect(response.headers.get('content-type')).toBe('text/event-stream')
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader()
    let text = ''
    const read = async (): Promise<void> => {
      for (;;) {
        const { value, done } = (await reader?.read()) ?? { done: true }
        if (done) return
        text += value ?? ''
      }
    }
    const ended = read().catch(() => undefined)
    await until(() => text.includes('retry:'), 'the stream')
    await submit('/console/servers/disks', 'olga', { action: 'drain' })
    await until(() => text.includes('data: servers\n\n'), 'the change')
    await submit('/console/servers/disks', 'olga', { action: 'undrain' })
    controller.abort()
    await ended
  })

  test('answer a request for the head alone at once', async () => {
    const { status } = await fetch(`${world.gateway.origin}/console/live?topics=needs`, {
      method: 'HEAD',
      headers: { authorization: credentials('vic') },
    })
    expect(status).toBe(200)
  })

  test('are bounded for each person', async () => {
    alone('each gateway bounds its own streams')
    const controller = new AbortController()
    const open = () =>
      fetch(`${world.gateway.origin}/console/live?topics=needs`, {
        headers: { authorization: credentials('anna'), accept: 'application/json' },
        signal: controller.signal,
      }).then(({ status }) => status)
    const statuses = await Promise.all(Array.from({ length: 21 }, open))
    expect(statuses.filter((status) => status === 200)).toHaveLength(20)
    expect(statuses.filter((status) => status === 503)).toHaveLength(1)
    controller.abort()
  })
})
