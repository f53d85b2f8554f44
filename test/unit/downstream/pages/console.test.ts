import type { HttpBindings } from '@hono/node-server'
import { Hono } from 'hono'
import { PassThrough, Readable } from 'node:stream'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { loadSettings } from '../../../../src/config/load.ts'
import type { OrderStep } from '../../../../src/core/audit-step.ts'
import { GatewayError } from '../../../../src/core/error.ts'
import type { Principal } from '../../../../src/core/principal.ts'
import { Bodies } from '../../../../src/downstream/http/body.ts'
import {
  addConsolePages,
  type ConsoleAnswer,
  type ConsolePage,
  type ConsoleRequest,
  placesOf,
} from '../../../../src/downstream/pages/console.ts'
import { html } from '../../../../src/downstream/pages/html.ts'
import { PageEntry } from '../../../../src/downstream/pages/page-entry.ts'
import { createOperator } from '../../../../src/downstream/pages/page-users.ts'
import { roleScopes } from '../../../../src/core/auth-settings.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { silentLog } from '../../../support/silent-log.ts'

const hash = `sha256:a-long-salt:${'0'.repeat(64)}`
const password_hash = `scrypt:a-long-salt:${'0'.repeat(64)}`
const users = [
  { name: 'vera', password_hash, roles: 'viewer' },
  { name: 'otto', password_hash, roles: ['operator'] },
  { name: 'anna', password_hash, approves_as: 'user:anna' },
  { name: 'scraper', password_hash },
]
const protectedBy = { opaque: { tokens: [{ id: 'agent', hash }] }, basic: { users } }

interface Console {
  readonly code: string
  readonly steps: readonly OrderStep[]
  readonly stopped: readonly string[]
  send(method: string, path: string, accept?: string): Promise<Response>
  /** From then on the store does not respond. */
  loseStore(): void
  get(path: string, headers?: Record<string, string>): Promise<Response>
  post(path: string, fields: Record<string, string>, headers?: Record<string, string>): Promise<Response>
}

/** The entry of pages, where the name and the scopes of people are their credentials. */
function entryOf(auth: object | undefined, pages: readonly ConsolePage[] = []) {
  const config = { upstreams: { files: { command: 'files' } }, ...(auth && { auth }) }
  const { settings } = loadSettings(JSON.stringify(config), { file: '/tmp/gateway.config.yaml', env: {} })
  const store = new MemoryStore()
  const operator = createOperator({
    now: Date.now,
    keys: () => [Buffer.alloc(32, 7)],
    isOfOther: async () => false,
  })
  const authenticate = async ({ env }: { env: HttpBindings }): Promise<Principal> => {
    const [scheme, name = '', ...scopes] = (env.incoming.headers.authorization ?? '').split(' ')
    if (scheme === 'Basic') return { id: `service:${name}` }
    if (scheme === 'Bearer') return { id: name, ...(scopes.length > 0 && { scopes: new Set(scopes) }) }
    throw new GatewayError('AUTHENTICATION_REQUIRED', 'Authentication is required.')
  }
  const entry = new PageEntry(authenticate, {
    store: () => store,
    settings: () => settings,
    operator,
    bodies: new Bodies(),
    signInLink: () => undefined,
    places: placesOf(pages),
    needs: async () => 3,
    log: silentLog,
    now: Date.now,
  })
  return { entry, operator, store }
}

/** A console with one page of machines, which an operator can stop. */
function consoleWith(auth: object | undefined): Console {
  const app = new Hono<{ Bindings: HttpBindings }>()
  const steps: OrderStep[] = []
  const stopped: string[] = []
  const answer = async ({ params, root, tokenField }: ConsoleRequest): Promise<ConsoleAnswer> => {
    if (params['name'] === 'none') throw new GatewayError('RESOURCE_NOT_FOUND', 'No such machine.')
    return {
      content: () =>
        html`<h1>${params['name']}</h1><a href="${root}console">up</a><form>${tokenField}</form>`,
      json: () => ({ machine: params['name'] }),
    }
  }
  const page: ConsolePage = {
    path: '/console/machines/:name',
    title: 'Machine',
    place: 'Machines',
    roles: ['viewer'],
    answer,
    actions: {
      stop: {
        role: 'operator',
        done: 'It stops.',
        order: ({ params }) => ({ order: 'drain', upstream: params['name'] ?? '' }),
        run: async ({ params }) => {
          if (params['name'] === 'stuck') throw new GatewayError('CONFLICT', 'It cannot be stopped.')
          stopped.push(params['name'] ?? '')
          return undefined
        },
      },
    },
  }
  const { entry, operator, store } = entryOf(auth, [page])
  addConsolePages(app, entry, {
    pages: [page],
    live: { topics: {}, closing: new AbortController().signal },
    onAction: (step) => void steps.push(step),
    now: Date.now,
  })
  app.notFound((context) => entry.notFound(context, app))
  const request = async (
    path: string,
    init: RequestInit,
    given: Record<string, string>,
  ): Promise<Response> => {
    const headers = { host: 'gateway.test', ...given }
    const text = typeof init.body === 'string' ? init.body : ''
    const length = { 'content-length': String(Buffer.byteLength(text)) }
    const incoming = Object.assign(Readable.from([Buffer.from(text)]), { headers: { ...length, ...headers } })
    return app.request(`http://gateway.test${path}`, { ...init, headers }, { incoming })
  }
  return {
    code: operator.code,
    steps,
    stopped,
    send: (method, path, accept = 'text/html') => request(path, { method }, { accept }),
    loseStore: () => {
      store.get = () => Promise.reject(new GatewayError('SERVER_UNAVAILABLE', 'The store cannot be reached.'))
    },
    get: (path, headers = {}) => request(path, {}, { accept: 'text/html', ...headers }),
    post: (path, fields, headers = {}) => {
      const isJson = headers['content-type'] === 'application/json'
      const body = isJson ? JSON.stringify(fields) : new URLSearchParams(fields).toString()
      const type = { 'content-type': 'application/x-www-form-urlencoded' }
      return request(path, { method: 'POST', body }, { ...type, ...headers })
    },
  }
}

const as = (credentials: string): Record<string, string> => ({ authorization: credentials })
const machine = '/console/machines/mill'

async function tokenOn(page: Response): Promise<string> {
  return /name="token" value="([^"]+)"/.exec(await page.text())?.[1] ?? ''
}

describe('the pages of the console', () => {
  it.each([
    ['Basic vera', 200],
    ['Basic otto', 200],
    ['Basic anna', 403],
    ['Basic scraper', 403],
    ['Bearer token:agent', 200],
    ['Bearer user:eve gatehouse:view', 200],
    ['Bearer user:eve gatehouse:operate', 200],
    ['Bearer user:eve gatehouse:approve', 403],
    ['Bearer user:eve read:files', 403],
  ])('%s gets status %i', async (credentials, status) => {
    const response = await consoleWith(protectedBy).get(machine, as(credentials))
    expect(response.status).toBe(status)
    if (status === 403) expect(await response.text()).toMatch(/gatehouse:view|may not use the pages/)
  })

  it('has the sign-in of the approval pages, and returns to the page', async () => {
    const { get, post, code } = consoleWith(undefined)
    const closed = await get(`${machine}?a=1`)
    expect(closed.status).toBe(401)
    expect(await closed.text()).toContain('Code (XXXX-XXXX)')
    const entered = await post(`${machine}?a=1`, { code })
    expect(entered.status).toBe(303)
    expect(entered.headers.get('location')).toBe('mill?a=1')
    const cookie = (entered.headers.get('set-cookie') ?? '').split(';', 1)[0] ?? ''
    const opened = await get(machine, { cookie })
    expect(opened.status).toBe(200)
    expect(await opened.text()).toContain('Signed in as <bdi>operator</bdi>')
  })

  it('shows the places that the reader may see, where the reader is, and who the reader is', async () => {
    const { get } = consoleWith(protectedBy)
    const text = await (await get(machine, as('Basic vera'))).text()
    expect(text).toContain('href="../../console/machines/:name"')
    expect(text).toContain('Signed in as <bdi>service:vera</bdi>')
    expect(await (await get('/nothing/there')).text()).toContain('href="../console"')
  })

  it.each([
    ['PUT', machine, 'GET, HEAD, POST'],
    ['DELETE', '/console', 'GET, HEAD, POST'],
    ['POST', '/console/live', 'GET, HEAD'],
    ['PATCH', '/nothing', undefined],
  ])('answers %s of %s with the methods that there are', async (method, path, allow) => {
    const { send } = consoleWith(protectedBy)
    const page = await send(method, path)
    expect([page.status, page.headers.get('allow') ?? undefined]).toEqual([allow ? 405 : 404, allow])
    expect(page.headers.get('content-type')).toContain('text/html')
    const json = await send(method, path, '*/*')
    expect([json.status, json.headers.get('content-type')]).toEqual([page.status, 'application/json'])
  })

  it('gives a program the same facts as JSON', async () => {
    const { get } = consoleWith(protectedBy)
    const response = await get(machine, { ...as('Bearer token:agent'), accept: 'application/json' })
    expect(response.headers.get('content-type')).toBe('application/json')
    expect(await response.json()).toEqual({ machine: 'mill' })
    const missing = await get('/console/machines/none', { ...as('Bearer x'), accept: 'application/json' })
    expect([missing.status, await missing.json()]).toMatchObject([404, { error: {} }])
  })

  it('can neither be framed nor run what is not its own', async () => {
    const { headers } = await consoleWith(protectedBy).get(machine, as('Basic vera'))
    expect(headers.get('x-frame-options')).toBe('DENY')
    const policy = headers.get('content-security-policy') ?? ''
    expect(policy).toContain("default-src 'none'")
    expect(policy).toContain("connect-src 'self'")
    expect(policy).toContain("frame-ancestors 'none'")
    expect(policy).not.toContain('unsafe')
  })

  it('shows the text of others without its markup and its hidden characters', async () => {
    const name = encodeURIComponent('<b>\u202eevil\u001b[31m')
    const response = await consoleWith(protectedBy).get(`/console/machines/${name}`, as('Basic vera'))
    expect(await response.text()).toContain(
      '<h1>&#60;b&#62;<mark>U+202E</mark>evil<mark>U+001B</mark>[31m</h1>',
    )
  })
})

describe('the actions of the console', () => {
  it('an operator acts with the form of the page, is sent back to it, and the action is audited', async () => {
    const { get, post, steps, stopped } = consoleWith(protectedBy)
    const token = await tokenOn(await get(machine, as('Basic otto')))
    const done = await post(machine, { action: 'stop', token }, as('Basic otto'))
    expect([done.status, done.headers.get('location')]).toEqual([303, 'mill?done=stop'])
    expect(stopped).toEqual(['mill'])
    expect(steps).toEqual([{ order: 'drain', upstream: 'mill', by: 'service:otto', via: 'password' }])
    const page = await get(`${machine}?done=stop`, as('Basic otto'))
    expect(await page.text()).toContain('<p class="done" role="status">It stops.</p>')
  })

  it('a viewer may not act, and is told which scope is missing', async () => {
    const { get, post, stopped } = consoleWith(protectedBy)
    const token = await tokenOn(await get(machine, as('Basic vera')))
    const refused = await post(machine, { action: 'stop', token }, as('Basic vera'))
    expect(refused.status).toBe(403)
    expect(await refused.text()).toContain(`lacks the scope ${roleScopes.operator}`)
    expect(stopped).toEqual([])
  })

  it.each([
    ['without a token', {}, {}],
    ['with the token of another person', { token: 'vera' }, {}],
    ['from another site', { token: 'otto' }, { origin: 'https://evil.example' }],
    ['from a site that the browser names', { token: 'otto' }, { 'sec-fetch-site': 'cross-site' }],
  ])('a form %s does nothing', async (_, { token: whose }: { token?: string }, headers) => {
    const { get, post, stopped, steps } = consoleWith(protectedBy)
    const token = whose === undefined ? '' : await tokenOn(await get(machine, as(`Basic ${whose}`)))
    const refused = await post(machine, { action: 'stop', token }, { ...as('Basic otto'), ...headers })
    expect(refused.status).toBe(403)
    expect([stopped, steps]).toEqual([[], []])
  })

  it('a page is shown while the store does not respond, and its forms do nothing until it does', async () => {
    const fresh = consoleWith(protectedBy)
    fresh.loseStore()
    expect((await fresh.get(machine, as('Basic otto'))).status).toBe(200)
    const { get, post, stopped, steps, loseStore } = consoleWith(protectedBy)
    const before = await tokenOn(await get(machine, as('Basic otto')))
    loseStore()
    const token = await tokenOn(await get(machine, as('Basic otto')))
    expect(token).toBe(before)
    const refused = await post(machine, { action: 'stop', token }, as('Basic otto'))
    expect(refused.status).toBe(503)
    expect(await refused.text()).toContain('Nothing was done: the store of the gateway does not respond.')
    expect([stopped, steps]).toEqual([[], []])
  })

  it('an action that fails is audited with its error', async () => {
    const { post, steps } = consoleWith(protectedBy)
    const program = { ...as('Bearer boss'), 'content-type': 'application/json' }
    const failed = await post('/console/machines/stuck', { action: 'stop' }, program)
    expect(failed.status).toBe(409)
    expect(steps).toEqual([{ order: 'drain', upstream: 'stuck', by: 'boss', via: 'token', code: 'CONFLICT' }])
    const done = await post(machine, { action: 'stop' }, program)
    expect(await done.json()).toEqual({ done: 'stop' })
    expect((await post(machine, { action: 'constructor' }, program)).status).toBe(400)
  })
})

describe('a stream of changes', () => {
  afterEach(() => void vi.useRealTimers())

  /** A stream whose reader takes nothing: it never closes. */
  async function stream() {
    const closing = new AbortController()
    const app = new Hono<{ Bindings: HttpBindings }>()
    const outgoing = Object.assign(new PassThrough(), { writeHead: () => outgoing, req: { method: 'GET' } })
    const { entry, operator } = entryOf(undefined)
    let version = 0
    addConsolePages(app, entry, {
      pages: [],
      live: { topics: { a: () => String(version++) }, closing: closing.signal },
      onAction: () => undefined,
      now: Date.now,
    })
    const code = new URLSearchParams({ code: operator.code }).toString()
    const headers = { host: 'gateway.test', 'content-type': 'application/x-www-form-urlencoded' }
    const entering = Object.assign(Readable.from([Buffer.from(code)]), {
      headers: { ...headers, 'content-length': String(code.length) },
    })
    const entered = await app.request(
      'http://gateway.test/console',
      { method: 'POST', headers, body: code },
      { incoming: entering },
    )
    const cookie = (entered.headers.get('set-cookie') ?? '').split(';', 1)[0] ?? ''
    const live = 'http://gateway.test/console/live?topics=a'
    const open = () =>
      app.request(live, { headers: { cookie } }, { incoming: { headers: { ...headers, cookie } }, outgoing })
    await open()
    return { outgoing, closing, open }
  }

  it('ends when the gateway closes', async () => {
    const { outgoing, closing, open } = await stream()
    expect(outgoing.writableEnded).toBe(false)
    closing.abort()
    expect(outgoing.writableEnded).toBe(true)
    expect((await open()).status).toBe(503)
  })

  it('gets nothing after its end, though its reader keeps it open', async () => {
    vi.useFakeTimers()
    const { outgoing, closing } = await stream()
    const errors: unknown[] = []
    outgoing.on('error', (error) => errors.push(error))
    await vi.advanceTimersByTimeAsync(3000)
    closing.abort()
    await vi.advanceTimersByTimeAsync(3000)
    expect(String(outgoing.read())).toMatch(/^retry: 2000\n\n(data: a\n\n)+$/)
    expect(errors).toEqual([])
  })
})

describe('a page that does not exist', () => {
  it('is a page for a browser, and JSON for a program', async () => {
    const { get } = consoleWith(protectedBy)
    const page = await get('/nothing')
    expect([page.status, page.headers.get('content-type')]).toEqual([404, 'text/html; charset=UTF-8'])
    expect(await page.text()).toContain('Page not found')
    const json = await get('/nothing', { accept: '*/*' })
    expect([json.status, await json.json()]).toEqual([404, { error: 'Not found. The MCP endpoint is /mcp.' }])
  })
})
