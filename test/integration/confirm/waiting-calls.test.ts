import { readFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { describe, expect, onTestFinished, test } from 'vitest'
import { approvingGateway, decideOnPage, pageOf, requestedPage, textIn } from '../../support/approving.ts'
import { CookieBrowser } from '../../support/auth/browser.ts'
import { enveloped, mirrorHeaders } from '../../support/client/modern-request.ts'
import { post } from '../../support/client/raw.ts'
import { until } from '../../support/condition.ts'
import { startGateway } from '../../support/gateway.ts'
import { folder } from '../../support/journey.ts'
import { connected, connectLegacy, connectModern, eras } from '../../support/peers/confirming.ts'
import { isObject, parse } from '../../support/server/json.ts'

const waiting = { features: { confirm: { wait: '30s' } } }

describe.each(eras)('a client of the $title without elicitation', ({ connect }) => {
  test('waits for the approval on the page of its call, which then runs once', async () => {
    const approving = await approvingGateway({ config: waiting })
    const client = await connected(approving, connect)
    const messages: unknown[] = []
    const called = client.call('wipe', { disk: 'a' }, undefined, (message) => void messages.push(message))
    const url = await requestedPage(approving)
    await until(() => messages.length > 0, 'the progress')
    expect(messages[0]).toContain(`Waiting for approval of wipe: approve or deny it at ${url}`)
    expect((await decideOnPage(approving, url, { verdict: 'approved' })).text).toContain('<h1>Approved</h1>')
    expect(textIn(await called)).toBe('wiped')
    expect(approving.ran).toEqual([{ disk: 'a' }])
  })

  test('receives a denial at once', async () => {
    const approving = await approvingGateway({ config: waiting })
    const client = await connected(approving, connect)
    const called = client.call('wipe', { disk: 'a' })
    await decideOnPage(approving, await requestedPage(approving), {
      verdict: 'denied',
      reason: 'not that one',
    })
    expect(await called).toMatchObject({ isError: true, error: { code: 'CONFIRMATION_DECLINED' } })
    expect(approving.ran).toEqual([])
  })

  test('leaves while it waits: the approval stays, and the next equal call runs, once', async () => {
    const approving = await approvingGateway({ config: waiting })
    const client = await connected(approving, connect)
    const left = client.call('wipe', { disk: 'a' }).catch(String)
    const url = await requestedPage(approving)
    // The call is an operation by then, which outlives its request.
    await pause(1100)
    const opened = new CookieBrowser()
    await opened.submit(url, { code: approving.code })
    const page = async (): Promise<string> => (await opened.open(url)).text
    expect(await page()).not.toContain('approving it does not run it')
    await client.close()
    await left
    await until(
      async () =>
        (await page()).includes('approving it does not run it: the client has to make the same call again'),
      'the page to say that the client has left',
    )
    const { text } = await decideOnPage(approving, url, { verdict: 'approved' })
    expect(text).toContain('it runs once, when the client makes the same call again')
    await pause(500)
    expect(approving.ran).toEqual([])
    const next = await connected(approving, connect)
    expect(textIn(await next.call('wipe', { disk: 'a' }))).toBe('wiped')
    expect(approving.ran).toEqual([{ disk: 'a' }])
  })

  test('gets the link after the wait, and what a model reads approves nothing', async () => {
    const approving = await approvingGateway({ config: { features: { confirm: { wait: '300ms' } } } })
    const client = await connected(approving, connect)
    const asked = await client.call('wipe', { disk: 'a' })
    expect(textIn(asked)).toContain(
      'Once it is approved, repeat exactly the same call: it then runs once. If you repeat it before that, it waits for the approval again.',
    )
    expect(JSON.stringify(asked)).not.toContain('approvals approve')
    expect(JSON.stringify(asked)).not.toContain(approving.code)
    const again = client.call('wipe', { disk: 'a' })
    await decideOnPage(approving, pageOf(asked), { verdict: 'approved' })
    await again
    await client.call('wipe', { disk: 'a' })
    expect(approving.ran).toHaveLength(1)
  })
})

test('a waiting call with a key runs once, and its retry gets the outcome', async () => {
  const approving = await approvingGateway({ config: waiting })
  const [first, second] = [
    await connected(approving, connectLegacy),
    await connected(approving, connectModern),
  ]
  const meta = { 'dev.gatehouse/idempotency_key': 'wipe-a' }
  const both = [first.call('wipe', { disk: 'a' }, meta), second.call('wipe', { disk: 'a' }, meta)]
  await decideOnPage(approving, await requestedPage(approving), { verdict: 'approved' })
  for (const result of await Promise.all(both)) expect(textIn(result)).toBe('wiped')
  expect(await second.call('wipe', { disk: 'a' }, meta)).toMatchObject({ _meta: { was_replay: true } })
  expect(approving.ran).toHaveLength(1)
})

test('equal calls that wait at two gateways with one store run once', async () => {
  const approving = await approvingGateway({ config: { ...waiting, store: folder() } })
  const config = parse(readFileSync(approving.gateway.configFile, 'utf8'))
  const other = await startGateway(isObject(config) ? config : {})
  onTestFinished(() => other.close())
  const here = await connected(approving, connectLegacy)
  const there = await connected({ gateway: other }, connectModern)
  const both = [here.call('wipe', { disk: 'a' }), there.call('wipe', { disk: 'a' })]
  const url = await requestedPage(approving)
  await pause(500)
  await decideOnPage(approving, url, { verdict: 'approved' })
  expect(textIn(await Promise.race(both))).toBe('wiped')
  expect(approving.ran).toHaveLength(1)
})

test('a client that asked for log messages gets the address where the call is approved', async () => {
  const approving = await approvingGateway({ config: waiting })
  const params = enveloped({ name: 'wipe', arguments: { disk: 'a' } }, '2026-07-28', {}, 'info')
  const message = { jsonrpc: '2.0', id: 8, method: 'tools/call', params }
  const headers = mirrorHeaders('tools/call', params, new Map())
  const called = post(approving.gateway.url, JSON.stringify(message), headers)
  const page = await requestedPage(approving)
  await decideOnPage(approving, page, { verdict: 'approved' })
  const { events } = await called
  expect(events.map(({ data }) => parse(data ?? ''))).toMatchObject([
    { method: 'notifications/message', params: { level: 'notice', data: expect.stringContaining(page) } },
    { id: 8, result: { content: [{ text: 'wiped' }] } },
  ])
})
