import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { dirname, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { approvingGateway, bearer, pageOf, password, peopleNamed, textIn } from '../../support/approving.ts'
import { auditLines } from '../../support/audit-lines.ts'
import { open } from '../../support/client/raw.ts'
import { until } from '../../support/condition.ts'
import { alone } from '../../support/scattered.ts'
import { type Json, objectAt, parse } from '../../support/server/json.ts'

const form = 'application/x-www-form-urlencoded'
const basic = (name: string, secret = password): string =>
  `Basic ${Buffer.from(`${name}:${secret}`).toString('base64')}`

/** The page of a call whose response names none because no decision is possible there. */
function unnamedPage(result: Json, origin: string): string {
  const { url, approval } = objectAt(result['_meta'], 'dev.gatehouse/confirmation')
  expect(url).toBeUndefined()
  return `${origin}/confirm/${String(approval)}`
}

interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly text: string
}

async function send(
  method: string,
  url: string,
  headers: Record<string, string>,
  body?: string,
): Promise<Answer> {
  const reply = await open(url, { method, headers, ...(body !== undefined && { body }) })
  return { status: reply.status, headers: reply.headers, text: await reply.text() }
}

const get = (url: string, headers: Record<string, string> = {}): Promise<Answer> => send('GET', url, headers)
const post = (url: string, body: string, headers: Record<string, string>): Promise<Answer> =>
  send('POST', url, headers, body)

const asJson = (token: string): Record<string, string> => ({
  authorization: `Bearer ${token}`,
  accept: 'application/json',
  'content-type': 'application/json',
})

/** Posts a body in chunks, without a Content-Length, as proxies do. Resolves with the status. */
async function postChunks(
  url: string,
  headers: Record<string, string>,
  chunks: readonly string[],
): Promise<number> {
  const outgoing = request(url, { method: 'POST', headers: { ...headers, 'transfer-encoding': 'chunked' } })
  const replied = once(outgoing, 'response')
  for (const chunk of chunks) outgoing.write(chunk)
  outgoing.end()
  const [reply]: IncomingMessage[] = await replied
  reply?.resume()
  return reply?.statusCode ?? 0
}

describe('the page at /', () => {
  test('lists pending calls to their approvers and their callers', async () => {
    const { call, gateway } = await approvingGateway({
      config: { auth: peopleNamed('anna', 'bert'), features: { confirm: { wait: '100ms' } } },
      rules: { approval: 'out_of_band', approvers: ['anna'] },
    })
    await call({ disk: 'a' }, bearer.agent)
    const front = async (authorization?: string): Promise<string> =>
      (await get(`${gateway.origin}/`, authorization === undefined ? {} : { authorization })).text
    const anna = await front(basic('anna'))
    expect(anna).toContain('Calls that wait for approval (1)')
    expect(anna).toMatch(
      /<a href="confirm\/\w{32}"><bdi>wipe<\/bdi> on <bdi>disks<\/bdi><\/a>\s*<p>Called by <bdi>token:agent<\/bdi> \d+ seconds? ago; expires in/,
    )
    expect(await front(`Bearer ${bearer.agent}`)).toContain('Calls that wait for approval (1)')
    for (const other of [undefined, basic('bert'), `Bearer ${bearer.other}`])
      expect(await front(other)).not.toContain('wait for approval (1)')
    const metrics = await get(`${gateway.origin}/metrics`, { authorization: `Bearer ${bearer.agent}` })
    expect(metrics.text).toMatch(/^gatehouse_pending_approvals 1$/m)
  })

  test('lists pending calls without arguments if callers are not authenticated', async () => {
    const { call, gateway } = await approvingGateway()
    await call({ disk: 'the disk of the accounts' })
    const { text } = await get(`${gateway.origin}/`)
    expect(text).toContain('Calls that wait for approval (1)')
    expect(text).not.toContain('the disk of the accounts')
  })
})

describe('the page of an approval', () => {
  test('accepts a chunked decision body, up to the limit', async () => {
    const { call, gateway } = await approvingGateway({
      config: { auth: peopleNamed('anna'), features: { confirm: { wait: '100ms' } } },
      rules: { approval: 'out_of_band' },
    })
    const url = pageOf(await call({ disk: 'a' }, bearer.agent))
    const page = await get(url, { authorization: basic('anna') })
    const token = /name="token" value="([^"]+)"/.exec(page.text)?.[1] ?? ''
    const headers = { authorization: basic('anna'), 'content-type': form, origin: gateway.origin }
    const large = Array.from({ length: 10 }, () => 'x'.repeat(10_000))
    expect(await postChunks(url, headers, ['reason=', ...large])).toBe(413)
    expect(await postChunks(url, headers, [`token=${encodeURIComponent(token)}&verd`, 'ict=approved'])).toBe(
      200,
    )
  })

  test('requires a password of a browser if people have one, and accepts the decision', async () => {
    const { call, ran, gateway } = await approvingGateway({
      config: {
        auth: peopleNamed('anna'),
        features: { confirm: { wait: '100ms' } },
        observe: { audit: { file: './audit.jsonl' } },
      },
      rules: { approval: 'out_of_band' },
    })
    expect(gateway.stdout()).not.toContain('/confirm, enter the code')
    const url = pageOf(await call({ disk: 'a' }, bearer.agent))
    const asked = await get(url)
    expect(asked.status).toBe(401)
    expect(asked.headers['www-authenticate']).toContain('Basic realm=')
    expect(asked.headers['content-type']).toContain('text/html')
    const page = await get(url, { authorization: basic('anna') })
    expect(page.status).toBe(200)
    const token = /name="token" value="([^"]+)"/.exec(page.text)?.[1] ?? ''
    const body = new URLSearchParams({ token, verdict: 'approved' }).toString()
    const headers = { authorization: basic('anna'), 'content-type': form, origin: gateway.origin }
    expect((await post(url, body, headers)).status).toBe(200)
    expect((await post(url, body, headers)).status).toBe(409)
    expect(textIn(await call({ disk: 'a' }, bearer.agent))).toBe('wiped')
    expect(ran).toHaveLength(1)

    const id = url.split('/').at(-1)
    const line = await gateway.logged(({ event }) => event === 'approval.decided')
    expect(line).toMatchObject({
      approval: id,
      by: 'anna',
      via: 'password',
      verdict: 'approved',
      tool: 'wipe',
    })
    const file = join(dirname(gateway.configFile), 'audit.jsonl')
    const found = await until(
      () => auditLines(file).find(({ event }) => event === 'approval'),
      'the audit line',
    )
    expect(found).toMatchObject({
      approval: id,
      principal: 'anna',
      via: 'password',
      verdict: 'approved',
      caller: 'token:agent',
      upstream: 'disks',
      tool: 'wipe',
    })
    const made = await until(
      () => auditLines(file).find(({ event, outcome }) => event === 'call' && outcome === 'ok'),
      'the line of the call',
    )
    expect(found['arguments_digest']).toBe(made['arguments_digest'])
  })

  test('refuses the token of the caller, and accepts another token if approval is out of band', async () => {
    const { call, ran } = await approvingGateway({
      config: { auth: peopleNamed(), features: { confirm: { wait: '100ms' } } },
      rules: { approval: 'out_of_band' },
    })
    const url = pageOf(await call({ disk: 'a' }, bearer.agent))
    const verdict = JSON.stringify({ verdict: 'approved' })
    expect((await get(url, asJson(bearer.agent))).status).toBe(403)
    expect((await post(url, verdict, asJson(bearer.agent))).status).toBe(403)
    expect((await post(url, verdict, asJson('no-such-token-of-at-least-32-characters'))).status).toBe(401)
    const done = await post(url, verdict, asJson(bearer.other))
    expect(done.status).toBe(200)
    expect(parse(done.text)).toMatchObject({
      status: 'approved',
      decisions: [{ by: 'token:other', via: 'token' }],
    })
    expect(textIn(await call({ disk: 'a' }, bearer.agent))).toBe('wiped')
    expect(ran).toHaveLength(1)
  })

  test('explains to a browser how to continue if callers have tokens and no passwords exist', async () => {
    const { call, gateway } = await approvingGateway({ config: { auth: peopleNamed() } })
    const page = await get(unnamedPage(await call({ disk: 'a' }, bearer.agent), gateway.origin))
    expect(page.status).toBe(401)
    expect(page.text).toMatch(/auth\.basic.*gatehouse approvals/s)
  })

  test('the page accepts no password for the call of a token, since passwords do not identify its caller', async () => {
    const { call, ran, gateway } = await approvingGateway({ config: { auth: peopleNamed('anna') } })
    const url = unnamedPage(await call({ disk: 'a' }, bearer.agent), gateway.origin)
    const page = await get(url, { authorization: basic('anna') })
    expect(page.status).toBe(403)
    expect(page.text).toContain('gatehouse approvals')
    expect((await post(url, JSON.stringify({ verdict: 'approved' }), asJson(bearer.agent))).status).toBe(403)
    expect(ran).toEqual([])
  })

  test('limits password attempts', async () => {
    alone('each gateway counts the attempts that it gets')
    const { gateway } = await approvingGateway({ config: { auth: peopleNamed('anna', 'bert') } })
    const url = `${gateway.origin}/confirm`
    const statuses: number[] = []
    for (let tries = 0; tries < 12; tries++)
      statuses.push((await get(url, { authorization: basic('anna', `guess ${tries}`) })).status)
    expect(statuses.slice(0, 10)).toEqual(Array.from({ length: 10 }, () => 401))
    expect(statuses.slice(10)).toEqual([429, 429])
    expect((await get(url, { authorization: basic('anna') })).status).toBe(429)
    expect((await get(url, { authorization: basic('bert') })).status).toBe(200)
  })

  test('the terminal code is never logged', async () => {
    const { code, gateway, call } = await approvingGateway()
    const url = pageOf(await call({ disk: 'a' }))
    await post(url, new URLSearchParams({ code }).toString(), { 'content-type': form })
    expect(code).toMatch(/^\w{4}-\w{4}$/)
    expect(gateway.stderr()).not.toContain(code)
  })

  test('if no call requires confirmation, the terminal code is for the console alone', async () => {
    const { gateway } = await approvingGateway({ config: { features: { confirm: false } } })
    expect(gateway.stdout()).toContain('To open the console, enter the code')
    expect(gateway.stdout()).not.toContain('/confirm')
  })
})
