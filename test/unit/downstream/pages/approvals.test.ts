import type { HttpBindings } from '@hono/node-server'
import { Hono } from 'hono'
import { Readable } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { Bodies } from '../../../../src/downstream/http/body.ts'
import { addConfirmPages } from '../../../../src/downstream/pages/approvals.ts'
import { PageEntry } from '../../../../src/downstream/pages/page-entry.ts'
import { createOperator } from '../../../../src/downstream/pages/page-users.ts'
import { deciding } from '../../../../src/gateway/owner.ts'
import { loadSettings } from '../../../../src/config/load.ts'
import type { ApprovalStep } from '../../../../src/core/audit-step.ts'
import { GatewayError } from '../../../../src/core/error.ts'
import { parseJson } from '../../../../src/core/json/read.ts'
import { type ApprovalRequest, Approvals } from '../../../../src/records/approvals.ts'
import type { PauseState } from '../../../../src/records/pause.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { type Json, parse } from '../../../support/server/json.ts'
import { silentLog } from '../../../support/silent-log.ts'

const keys = [Buffer.alloc(32, 7)]

const upstreams = { files: { command: 'files' } }
const tokens = [{ id: 'agent', hash: `sha256:a-long-salt:${'0'.repeat(64)}` }]
const password_hash = `scrypt:a-long-salt:${'0'.repeat(64)}`
const users = [
  { name: 'anna', password_hash, approves_as: 'anna' },
  { name: 'bert', password_hash, approves_as: 'bert' },
  { name: 'scraper', password_hash },
]
const byCode: Json = { upstreams }
const byPassword: Json = { upstreams, auth: { opaque: { tokens }, basic: { users } } }

const draft: ApprovalRequest = {
  kind: 'out_of_band',
  caller: 'token:agent',
  upstream: 'files',
  tool: 'delete_file',
  arguments: { path: '/srv/a' },
  digest: 'sha256:1',
  risk: 'destructive',
  message: 'Delete /srv/a?',
  needed: 1,
  approvers: [],
  ttl: 300_000,
}

interface Site {
  readonly operator: ReturnType<typeof createOperator>
  readonly steps: readonly ApprovalStep[]
  /** Advances the clock by milliseconds. */
  wait(time: number): void
  ask(given?: Partial<ApprovalRequest>): Promise<string>
  status(id: string): Promise<string | undefined>
  get(path: string, headers?: Record<string, string>): Promise<Response>
  post(path: string, form: Json | string, headers?: Record<string, string>): Promise<Response>
}

const signInLink = (): undefined => undefined

/** The request that the listener would have got. */
function incomingOf(headers: Record<string, string>, body: unknown): object {
  const text = typeof body === 'string' ? body : ''
  const length = { 'content-length': String(Buffer.byteLength(text)) }
  return Object.assign(Readable.from([Buffer.from(text)]), { headers: { ...length, ...headers } })
}

/** The approval pages, for people whose password is their name. */
function site(config: Json = byPassword, pause?: PauseState): Site {
  const { settings } = loadSettings(JSON.stringify(config), { file: '/tmp/gateway.config.yaml', env: {} })
  const app = new Hono<{ Bindings: HttpBindings }>()
  let now = 1_000_000
  const store = new MemoryStore(() => now)
  const approvals = new Approvals(store, () => now)
  const operator = createOperator({ now: () => now, keys: () => keys, isOfOther: async () => false })
  const steps: ApprovalStep[] = []
  const enter = async ({ env }: { env: HttpBindings }): Promise<{ id: string }> => {
    const [scheme, name] = (env.incoming.headers.authorization ?? '').split(' ')
    if (scheme === 'Basic') return { id: `service:${name}` }
    if (scheme === 'Bearer') return { id: `token:${name}` }
    throw new GatewayError('AUTHENTICATION_REQUIRED', 'Authentication is required.')
  }
  const entry = new PageEntry(enter, {
    store: () => store,
    settings: () => settings,
    operator,
    bodies: new Bodies(),
    signInLink,
    places: [],
    needs: async () => undefined,
    log: silentLog,
    now: () => now,
  })
  addConfirmPages(app, entry, {
    ...deciding(
      () => approvals,
      (step) => void steps.push(step),
    ),
    pauseFor: () => pause,
    inputSchema: async () => undefined,
    now: () => now,
  })
  const request = async (
    path: string,
    init: RequestInit,
    given: Record<string, string>,
  ): Promise<Response> => {
    const headers = { host: 'gateway.test', ...given }
    return app.request(
      `http://gateway.test${path}`,
      { ...init, headers },
      { incoming: incomingOf(headers, init.body) },
    )
  }
  return {
    operator,
    steps,
    wait: (time) => void (now += time),
    ask: async (given) => (await approvals.request({ ...draft, ...given })).approval.id,
    status: async (id) => (await approvals.find(id))?.status,
    get: (path, headers = {}) => request(path, {}, headers),
    post: (path, form, headers = {}) => {
      const type = headers['content-type'] ?? 'application/x-www-form-urlencoded'
      const isJson = type === 'application/json'
      const encoded = (): string =>
        isJson ? JSON.stringify(form) : new URLSearchParams(form as Record<string, string>).toString()
      const body = typeof form === 'string' ? form : encoded()
      return request(path, { method: 'POST', body }, { ...headers, 'content-type': type })
    },
  }
}

const anna = { authorization: 'Basic anna' }
const scraper = { authorization: 'Basic scraper' }
const program = {
  authorization: 'Bearer boss',
  'content-type': 'application/json',
  accept: 'application/json',
}

async function tokenOn(page: Response): Promise<string> {
  return /name="token" value="([^"]+)"/.exec(await page.text())?.[1] ?? ''
}

describe('the approval page', () => {
  it('the page and the list name the client of the call, as far as it is known', async () => {
    const { ask, get } = site()
    const told = await ask({ client: 'claude-code 2.1' })
    const untold = await ask({ digest: 'sha256:2' })
    const page = async (path: string): Promise<string> => (await get(path, anna)).text()
    const words = 'with <bdi>claude-code 2.1</bdi>, by its own account'
    expect(await page(`/confirm/${told}`)).toContain(words)
    expect((await page('/confirm')).split(words)).toHaveLength(2)
    expect(await page(`/confirm/${untold}`)).not.toContain('by its own account')
  })

  it('the page shows the call, its caller, its risk and all of its arguments', async () => {
    const { ask, get } = site()
    const id = await ask({ arguments: { path: '/srv/a', text: 'x'.repeat(100_000) } })
    const page = await get(`/confirm/${id}`, anna)
    const text = await page.text()
    expect(page.status).toBe(200)
    for (const part of ['Delete /srv/a?', 'delete_file', 'files', 'token:agent', 'Destructive', '0 of 1'])
      expect(text).toContain(part)
    expect(text).toContain('x'.repeat(100_000))
    expect(text).toContain('(in 5 minutes)')
  })

  it('the page cannot be cached, framed or scripted', async () => {
    const { ask, get } = site()
    const { headers } = await get(`/confirm/${await ask()}`, anna)
    expect(headers.get('cache-control')).toBe('no-store')
    expect(headers.get('x-frame-options')).toBe('DENY')
    expect(headers.get('content-security-policy')).toMatch(
      /^default-src 'none'; style-src 'sha256-[^']+'; script-src 'sha256-[^']+'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'$/,
    )
  })

  it('names and questions are shown as text with hidden characters escaped', async () => {
    const { ask, get } = site()
    const id = await ask({ tool: '<img src=x>', message: '"><script>1</script>\u202e', caller: "token:'b" })
    const text = await (await get(`/confirm/${id}`, anna)).text()
    expect(text).not.toMatch(/<script>1|<img|\u202e/)
    expect(text).toContain('&#60;script&#62;1&#60;/script&#62;<mark>U+202E</mark>')
  })

  it('the page is 404 for an unknown id and 410 after the expiry', async () => {
    const { ask, get, wait } = site()
    const id = await ask()
    expect((await get('/confirm/nothing', anna)).status).toBe(404)
    expect((await get('/confirm/%00%2e%2e', anna)).status).toBe(404)
    wait(300_001)
    const page = await get(`/confirm/${id}`, anna)
    expect(page.status).toBe(410)
    expect(await page.text()).toContain('The time to decide this call is over.')
  })

  it('a person without the right to decide sees the reason and nothing of the call', async () => {
    const { ask, get } = site()
    const id = await ask({ approvers: ['bert', 'carl'] })
    const page = await get(`/confirm/${id}`, anna)
    const text = await page.text()
    expect(page.status).toBe(403)
    expect(text).toContain('You are anna. This call needs the approval of one of bert, carl.')
    expect(text).not.toContain('/srv/a')
  })

  it('a browser without a password sees instructions if callers use tokens', async () => {
    const { ask, get } = site({ upstreams, auth: { opaque: { tokens } } })
    const page = await get(`/confirm/${await ask()}`)
    expect(page.status).toBe(401)
    expect(await page.text()).toMatch(/auth\.basic.*gatehouse approvals/s)
  })
})

describe('a decision on the approval page', () => {
  it('a decision submitted with the form is recorded and logged', async () => {
    const { ask, get, post, status, steps } = site()
    const id = await ask()
    const token = await tokenOn(await get(`/confirm/${id}`, anna))
    const page = await post(`/confirm/${id}`, { token, verdict: 'approved', reason: ' fine ' }, anna)
    const text = await page.text()
    expect(page.status).toBe(200)
    expect(text).toContain('<h1>Approved</h1>')
    expect(text).toContain('<bdi>fine</bdi>')
    expect(text).not.toContain('<form')
    expect(await status(id)).toBe('approved')
    expect(steps).toEqual([
      {
        by: 'anna',
        via: 'password',
        verdict: 'approved',
        approval: id,
        caller: 'token:agent',
        upstream: 'files',
        tool: 'delete_file',
        given: { path: '/srv/a' },
      },
    ])
  })

  it('a decision is accepted once', async () => {
    const { ask, get, post, steps } = site()
    const id = await ask()
    const token = await tokenOn(await get(`/confirm/${id}`, anna))
    await post(`/confirm/${id}`, { token, verdict: 'denied' }, anna)
    const again = await post(`/confirm/${id}`, { token, verdict: 'approved' }, anna)
    expect(again.status).toBe(409)
    expect(steps).toHaveLength(1)
    expect(await (await get(`/confirm/${id}`, anna)).text()).toContain('<h1>Denied</h1>')
  })

  it('a second required approval remains open after the first', async () => {
    const { ask, get, post, status } = site()
    const id = await ask({ needed: 2 })
    const token = await tokenOn(await get(`/confirm/${id}`, anna))
    const page = await (await post(`/confirm/${id}`, { token, verdict: 'approved' }, anna)).text()
    expect(page).toContain('1 of 2')
    expect(page).not.toContain('<form')
    const bert = { authorization: 'Basic bert' }
    const other = await tokenOn(await get(`/confirm/${id}`, bert))
    await post(`/confirm/${id}`, { token: other, verdict: 'approved' }, bert)
    expect(await status(id)).toBe('approved')
  })

  it('the confirmation text must be typed unless the call is denied', async () => {
    const { ask, get, post, status } = site()
    const id = await ask({ typed: 'srv <a>' })
    const page = await get(`/confirm/${id}`, anna)
    const token = await tokenOn(page)
    const wrong = await post(`/confirm/${id}`, { token, verdict: 'approved', typed: 'srv' }, anna)
    expect(wrong.status).toBe(400)
    expect(await wrong.text()).toMatch(/role="alert".*name="typed"/s)
    expect(await status(id)).toBe('pending')
    expect(
      (await post(`/confirm/${id}`, { token, verdict: 'approved', typed: 'srv <a>' }, anna)).status,
    ).toBe(200)
    const other = await ask({ typed: 'b', digest: 'sha256:2' })
    const form = { token: await tokenOn(await get(`/confirm/${other}`, anna)), verdict: 'denied' }
    expect((await post(`/confirm/${other}`, form, anna)).status).toBe(200)
  })

  it.each<[string, Record<string, string>]>([
    ['from another site', { origin: 'https://evil.test' }],
    ['from another port of the host', { origin: 'http://gateway.test:1' }],
    ['without an origin', { origin: 'null' }],
    ['with cross-site fetch metadata', { 'sec-fetch-site': 'cross-site' }],
    ['with same-site fetch metadata', { 'sec-fetch-site': 'same-site' }],
  ])('a decision sent %s is refused', async (_name, headers) => {
    const { ask, get, post, status } = site()
    const id = await ask()
    const token = await tokenOn(await get(`/confirm/${id}`, anna))
    const page = await post(`/confirm/${id}`, { token, verdict: 'approved' }, { ...anna, ...headers })
    expect(page.status).toBe(403)
    expect(await status(id)).toBe('pending')
  })

  it('a decision from the page itself is accepted, also through a proxy', async () => {
    const config = { ...byPassword, listen: { public_url: 'https://people.test/at/' } }
    for (const origin of ['http://gateway.test', 'https://people.test']) {
      const { ask, get, post } = site(config)
      const id = await ask()
      const token = await tokenOn(await get(`/confirm/${id}`, anna))
      const headers = { ...anna, origin, 'sec-fetch-site': 'same-origin' }
      expect((await post(`/confirm/${id}`, { token, verdict: 'approved' }, headers)).status).toBe(200)
    }
  })

  it('a decision without the token for that person and approval is refused', async () => {
    const { ask, get, post, status } = site()
    const id = await ask()
    const other = await ask({ digest: 'sha256:2' })
    const foreign = await tokenOn(await get(`/confirm/${id}`, { authorization: 'Basic bert' }))
    const elsewhere = await tokenOn(await get(`/confirm/${other}`, anna))
    for (const token of ['', 'x', foreign, elsewhere])
      expect((await post(`/confirm/${id}`, { token, verdict: 'approved' }, anna)).status).toBe(403)
    expect((await post(`/confirm/${id}`, { verdict: 'approved' }, anna)).status).toBe(403)
    expect(await status(id)).toBe('pending')
  })

  it.each<[string, Json, number]>([
    ['no verdict', {}, 400],
    ['an unknown verdict', { verdict: 'maybe' }, 400],
    ['a long reason', { verdict: 'approved', reason: 'x'.repeat(1001) }, 400],
    ['a large form', { verdict: 'approved', reason: 'x'.repeat(70_000) }, 413],
  ])('a decision with %s is refused', async (_name, form, expected) => {
    const { ask, get, post, status } = site()
    const id = await ask()
    const token = await tokenOn(await get(`/confirm/${id}`, anna))
    expect((await post(`/confirm/${id}`, { ...form, token }, anna)).status).toBe(expected)
    expect(await status(id)).toBe('pending')
  })
})

describe('the approval API for programs', () => {
  it('a program with a token reads and decides in JSON', async () => {
    const { ask, get, post } = site()
    const id = await ask()
    const found = await get(`/confirm/${id}`, program)
    expect(parse(await found.text())).toMatchObject({ id, status: 'pending', arguments: { path: '/srv/a' } })
    const done = await post(`/confirm/${id}`, { verdict: 'approved', reason: 'fine' }, program)
    expect(done.status).toBe(200)
    expect(parse(await done.text())).toMatchObject({
      status: 'approved',
      decisions: [{ by: 'token:boss', via: 'token', verdict: 'approved', reason: 'fine' }],
    })
    expect((await post(`/confirm/${id}`, { verdict: 'approved' }, program)).status).toBe(409)
  })

  it('a program receives errors in JSON', async () => {
    const { ask, post, get } = site()
    const id = await ask({ typed: 'a' })
    const wrong = await post(`/confirm/${id}`, { verdict: 'approved', typed: 'b' }, program)
    expect(wrong.status).toBe(400)
    expect(parse(await wrong.text())).toMatchObject({ error: { code: 'INVALID_INPUT', field: 'typed' } })
    const own = { ...program, authorization: 'Bearer agent' }
    expect((await post(`/confirm/${id}`, { verdict: 'approved' }, own)).status).toBe(403)
    expect((await get('/confirm/nothing', program)).status).toBe(404)
    const broken = await site().post('/confirm/x', [] as unknown as Json, program)
    expect(parse(await broken.text())).toMatchObject({ error: { code: 'INVALID_INPUT' } })
  })

  it('a decision with a key that occurs twice is refused, as JSON and as a form', async () => {
    const { ask, get, post, status } = site()
    const id = await ask()
    const twice = '{"verdict":"denied","verdict":"approved"}'
    expect((await post(`/confirm/${id}`, twice, program)).status).toBe(400)
    const token = await tokenOn(await get(`/confirm/${id}`, anna))
    const form = `token=${encodeURIComponent(token)}&verdict=denied&verdict=approved`
    expect((await post(`/confirm/${id}`, form, anna)).status).toBe(400)
    expect(await status(id)).toBe('pending')
  })

  it('a program cannot decide if people identify themselves with the code from the terminal', async () => {
    const { ask, post, get, operator, status } = site(byCode)
    const id = await ask()
    const session = await operator.createSession(operator.code)
    const cookie = `${session?.name}=${session?.value}`
    expect((await get(`/confirm/${id}`, program)).status).toBe(401)
    expect((await post(`/confirm/${id}`, { verdict: 'approved' }, program)).status).toBe(401)
    expect((await post(`/confirm/${id}`, { verdict: 'approved' }, { ...program, cookie })).status).toBe(403)
    expect(await status(id)).toBe('pending')
  })
})

describe('the code from the terminal', () => {
  it('the code is required before anything of a call is shown', async () => {
    const { ask, get } = site(byCode)
    const page = await get(`/confirm/${await ask()}`)
    const text = await page.text()
    expect(page.status).toBe(401)
    expect(text).toContain('name="code"')
    expect(text).not.toContain('/srv/a')
  })

  it('the code opens the page in that browser', async () => {
    const { ask, get, post, operator, status } = site(byCode)
    const id = await ask()
    const entered = await post(`/confirm/${id}`, { code: operator.code })
    expect(entered.status).toBe(303)
    expect(entered.headers.get('location')).toBe(id)
    const cookie = entered.headers.get('set-cookie') ?? ''
    expect(cookie).toMatch(
      /^gatehouse-confirm-\w+=[\w.-]+; Path=\/; Max-Age=43200; HttpOnly; SameSite=Strict$/,
    )
    const headers = { cookie: `other=1; ${cookie.split(';', 1)[0]}` }
    const token = await tokenOn(await get(`/confirm/${id}`, headers))
    await post(`/confirm/${id}`, { token, verdict: 'approved' }, headers)
    expect(await status(id)).toBe('approved')
  })

  it('the cookie is restricted to the path and scheme of the public URL', async () => {
    const { post, operator } = site({ ...byCode, listen: { public_url: 'https://people.test/at/' } })
    const entered = await post('/confirm', { code: operator.code })
    expect(entered.headers.get('set-cookie')).toContain('; Path=/at/; ')
    expect(entered.headers.get('set-cookie')).toMatch(/; Secure$/)
    expect(entered.headers.get('location')).toBe('confirm')
  })

  it('a wrong code is refused, and after five no code is checked', async () => {
    const { post, operator, wait } = site(byCode)
    for (let tries = 0; tries < 5; tries++)
      expect((await post('/confirm', { code: 'AAAA-AAAA' })).status).toBe(403)
    const late = await post('/confirm', { code: operator.code })
    expect(late.status).toBe(429)
    expect(late.headers.get('retry-after')).toBe('60')
    expect(late.headers.get('set-cookie')).toBeNull()
    wait(60_001)
    expect((await post('/confirm', { code: operator.code })).status).toBe(303)
  })

  it('the code is ignored if people have passwords', async () => {
    const { post, operator } = site()
    const answer = await post('/confirm', { code: operator.code })
    expect(answer.status).toBe(403)
    expect(answer.headers.get('set-cookie')).toBeNull()
  })
})

describe('the list of approvals', () => {
  it('the list contains the pending approvals a person may decide', async () => {
    const { ask, get, post } = site()
    const own = await ask()
    const done = await ask({ digest: 'sha256:3' })
    await post(`/confirm/${done}`, { verdict: 'approved' }, program)
    await ask({ digest: 'sha256:2', approvers: ['bert'] })
    const text = await (await get('/confirm', anna)).text()
    expect(text.match(/<a href="[^"]+"/g)).toEqual([`<a href="confirm/${own}"`])
    const found = parse(await (await get('/confirm', program)).text())
    expect(found).toMatchObject({ approvals: [{ id: own }] })
  })

  it('an empty list says so', async () => {
    expect(await (await site().get('/confirm', anna)).text()).toContain(
      'There are no calls that you may decide.',
    )
  })
})

describe('arguments whose JSON text differs from their values', () => {
  it('the arguments are also shown as sent', async () => {
    const { ask, get } = site()
    const sent = '{"amount":9007199254740993}'
    const id = await ask({ arguments: { amount: 9_007_199_254_740_992 }, sent })
    expect(await (await get(`/confirm/${id}`, anna)).text()).toContain(
      '<bdi>&#34;amount&#34;</bdi>:9007199254740993}',
    )
    expect(parse(await (await get(`/confirm/${id}`, program)).text())).toMatchObject({ arguments_text: sent })
  })
})

describe('arguments whose JSON text has the digits and keys of their values', () => {
  it.each([
    ['{"id": 9007199254740993}', { id: parseJson('9007199254740993') }],
    [String.raw`{"text":"a\u202eb"}`, { text: 'a\u202eb' }],
  ])('%s is not shown again', async (sent, given) => {
    const { ask, get } = site()
    const id = await ask({ arguments: given, sent })
    expect(await (await get(`/confirm/${id}`, anna)).text()).not.toContain('Arguments as sent')
  })

  it('are shown again with a key that occurs twice', async () => {
    const { ask, get } = site()
    const id = await ask({ arguments: { a: 2 }, sent: '{"a":1,"a":2}' })
    expect(await (await get(`/confirm/${id}`, anna)).text()).toContain('Arguments as sent')
  })
})

describe('what a call would change', () => {
  it('is shown with why it cannot be undone', async () => {
    const { ask, get } = site()
    const change = { kind: 'current', lines: ['a'], notUndone: 'it is large', at: 0 } as const
    const id = await ask({ risk: 'destructive', isUndoable: true, change })
    const page = await (await get(`/confirm/${id}`, anna)).text()
    expect(page).toContain('This call cannot be undone: it is large.')
    expect(page).not.toContain('can be undone as configured')
    expect(parse(await (await get(`/confirm/${id}`, program)).text())).toMatchObject({
      change: { cannot_be_undone: 'it is large' },
    })
  })
})

describe('basic credentials for other paths', () => {
  it('basic credentials for other paths cannot approve a call', async () => {
    const { ask, get, status } = site()
    const id = await ask()
    const page = await get(`/confirm/${id}`, scraper)
    expect(page.status).toBe(403)
    expect(await page.text()).toContain('scraper may not use the pages of the gateway.')
    expect(await status(id)).toBe('pending')
  })
})

describe('while writes are paused', () => {
  it('the page of a call says that an approval does not run it', async () => {
    const { ask, get } = site(byPassword, { version: 1, by: 'olga', since: 0 })
    const page = await (await get(`/confirm/${await ask({})}`, anna)).text()
    expect(page).toContain(
      'Writes are paused since <time datetime="1970-01-01T00:00:00.000Z">1970-01-01 00:00:00 UTC',
    )
    expect(page).toContain('An approval does not run the call until they are resumed')
    const running = site()
    const other = await (await running.get(`/confirm/${await running.ask({})}`, anna)).text()
    expect(other).not.toContain('Writes are paused')
  })
})

it('what a call would change has its time as all pages do', async () => {
  const { ask, get } = site()
  const change = { kind: 'lost', lines: ['- a'], at: 0 } as const
  const page = await (await get(`/confirm/${await ask({ change })}`, anna)).text()
  expect(page).toMatch(
    /<h2>[^<]+, as read at <time datetime="1970-01-01T00:00:00.000Z">1970-01-01 00:00:00 UTC<\/time><\/h2>/,
  )
})

describe('a failing store', () => {
  it('a store failure is reported and no decision is made', async () => {
    const broken = new Hono<{ Bindings: HttpBindings }>()
    const { settings } = loadSettings(JSON.stringify(byPassword), {
      file: '/tmp/gateway.config.yaml',
      env: {},
    })
    const store = new MemoryStore()
    store.get = () => Promise.reject(new GatewayError('SERVER_UNAVAILABLE', 'The store cannot be reached.'))
    const entry = new PageEntry(async () => ({ id: 'service:anna' }), {
      store: () => store,
      settings: () => settings,
      operator: createOperator({ now: Date.now, keys: () => keys, isOfOther: async () => false }),
      bodies: new Bodies(),
      signInLink: () => undefined,
      places: [],
      needs: async () => undefined,
      log: silentLog,
      now: Date.now,
    })
    addConfirmPages(broken, entry, {
      ...deciding(
        () => new Approvals(store, Date.now),
        () => expect.unreachable(),
      ),
      pauseFor: () => undefined,
      inputSchema: async () => undefined,
      now: Date.now,
    })
    const page = await broken.request('/confirm/a', {}, { incoming: { headers: {} } })
    expect(page.status).toBe(503)
    expect(await page.text()).toContain('The store cannot be reached.')
  })
})
