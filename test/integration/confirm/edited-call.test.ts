import { dirname, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import {
  approvingGateway,
  bearer,
  decideOnPage,
  pageOf,
  password,
  peopleNamed,
  requestedPage,
  textIn,
} from '../../support/approving.ts'
import { CookieBrowser } from '../../support/auth/browser.ts'
import { auditLines } from '../../support/audit-lines.ts'
import { post } from '../../support/client/raw.ts'
import { until } from '../../support/condition.ts'
import { clientOf, gatewayTo, httpServer } from '../../support/journey.ts'
import { connected, eras } from '../../support/peers/confirming.ts'
import { RawJson } from '../../support/server/json.ts'

const waiting = { features: { confirm: { wait: '30s' } } }
const inputSchema = {
  type: 'object',
  properties: { disk: { type: 'string' }, amount: { type: 'number', maximum: 1000 } },
}
const given = { disk: 'a', amount: 300 }
const edited = { verdict: 'approved_with_changes' }
const to = (disk: string, amount = '300') => ({ ...edited, 'argument.disk': disk, 'argument.amount': amount })

describe.each(eras)('a client of the $title', ({ connect }) => {
  test('gets the outcome of the call that its approver changed, and reads what was changed', async () => {
    const approving = await approvingGateway({
      config: { ...waiting, observe: { audit: { file: './audit.jsonl' } } },
      inputSchema,
    })
    const client = await connected(approving, connect)
    const called = client.call('wipe', given)
    const url = await requestedPage(approving)
    const page = await decideOnPage(approving, url, to('b "two"', '20'))
    expect(page.text).toContain('changed <bdi>amount</bdi> to <code><bdi>20</bdi></code>')
    const result = await called
    expect(textIn(result)).toBe(
      'wiped\nGatehouse: the person who approved this call changed its arguments: disk is "b \\"two\\"", amount is 20. This is the outcome of the changed call.',
    )
    const changed = { disk: 'b "two"', amount: 20 }
    expect(result['_meta']).toMatchObject({
      'dev.gatehouse/edited': { arguments: changed, by: ['operator'] },
      'dev.gatehouse/approval': expect.any(String),
    })
    expect(approving.ran).toEqual([changed])

    const file = join(dirname(approving.gateway.configFile), 'audit.jsonl')
    const lines = await until(() => {
      const found = auditLines(file).filter(({ tool }) => tool === 'wipe')
      return found.length === 3 && found
    }, 'the three lines')
    const [decision, own, original] = lines
    expect(decision).toMatchObject({ event: 'approval', principal: 'operator', changed: ['disk', 'amount'] })
    expect(own).toMatchObject({ event: 'call', approval: decision?.['approval'], outcome: 'ok' })
    expect(original).toMatchObject({
      event: 'call',
      approved_by: 'operator',
      edited_as: own?.['request_id'],
      arguments_digest: decision?.['arguments_digest'],
    })
    expect(own).toMatchObject({ edited_from: original?.['request_id'] })
    expect(own?.['arguments_digest']).not.toBe(original?.['arguments_digest'])
    // The approval is used up.
    const again = client.call('wipe', changed)
    expect(await requestedPage(approving)).not.toBe('')
    await client.close()
    await again.catch(() => undefined)
    expect(approving.ran).toHaveLength(1)
  })
})

test('a changed value that is denied is not sent', async () => {
  const approving = await approvingGateway({ inputSchema, server: { deny: { wipe: { disk: 'system*' } } } })
  const client = await connected(approving)
  await decideOnPage(approving, pageOf(await client.call('wipe', given)), to('system-1'))
  const result = await client.call('wipe', given)
  expect(result).toMatchObject({ isError: true, error: { code: 'PERMISSION_DENIED' } })
  expect(textIn(result)).toContain('changed its arguments: disk is "system-1"')
  expect(approving.ran).toEqual([])
})

test('a changed call counts by its own arguments, in place of those of its caller', async () => {
  const approving = await approvingGateway({
    inputSchema,
    config: { limits: { arguments: [{ tool: 'wipe', sum: '$.amount', most: '500/day' }] } },
    rules: { cost: { category: 'metered', units: 5 } },
  })
  const approve = async (amount: string): Promise<string> => {
    await decideOnPage(approving, pageOf(await approving.call(given)), to('a', amount))
    return JSON.stringify(await approving.call(given))
  }
  const refused = await approve('600')
  expect(refused).toContain('500 of 500 are left for this day')
  expect(refused).toContain('changed its arguments: amount is 600')
  expect(await approve('450')).toContain('wiped')
  expect(JSON.stringify(await approving.call(given))).toContain('50 of 500 are left for this day')
  expect(approving.ran).toEqual([{ disk: 'a', amount: 450 }])
})

test('a call with a key gets the outcome of the changed call again', async () => {
  const approving = await approvingGateway({ inputSchema })
  const client = await connected(approving)
  const meta = { 'dev.gatehouse/idempotency_key': 'wipe-a' }
  await decideOnPage(approving, pageOf(await client.call('wipe', given, meta)), to('b'))
  const first = await client.call('wipe', given, meta)
  const second = await client.call('wipe', given, meta)
  expect(textIn(second)).toBe(textIn(first))
  expect(second).toMatchObject({ _meta: { was_replay: true, 'dev.gatehouse/edited': expect.anything() } })
  expect(await client.call('wipe', { ...given, disk: 'b' }, meta)).toMatchObject({
    error: { code: 'IDEMPOTENCY_CONFLICT' },
  })
  expect(approving.ran).toEqual([{ disk: 'b', amount: 300 }])
})

test('a step of a transaction is undone with the changed arguments', async () => {
  const approving = await approvingGateway({
    inputSchema,
    rules: { undo: 'wipe(disk=$.args.disk, amount=0)' },
    server: { features: { confirm: { wait: 'off' } } },
  })
  const client = await connected(approving)
  await client.call('begin_transaction', { transaction_id: 't1' })
  const meta = { 'dev.gatehouse/transaction_id': 't1' }
  await decideOnPage(approving, pageOf(await client.call('wipe', given, meta)), to('b'))
  expect(textIn(await client.call('wipe', given, meta))).toContain('wiped')
  await client.call('rollback_transaction', { transaction_id: 't1' })
  expect(approving.ran).toEqual([
    { disk: 'b', amount: 300 },
    { disk: 'b', amount: 0 },
  ])
})

test('what cannot be sent stays on the page as it was typed, with the reason beside it', async () => {
  const approving = await approvingGateway({ inputSchema })
  const client = await connected(approving)
  const url = pageOf(await client.call('wipe', given))
  for (const [amount, reason] of [
    ['2000', /must be (?:&lt;=|<=|at most) ?1000|1000/],
    ['<b>', 'This is not valid JSON.'],
    ['"20"', 'must be number'],
  ] as const) {
    const page = await decideOnPage(approving, url, to('<other>', amount))
    expect(page.status).toBe(400)
    expect(page.text).toMatch(reason)
    expect(page.text).toContain('Nothing was decided.')
    expect(page.text).toContain('&#60;other&#62;</textarea>')
    expect(page.text).toContain('aria-invalid="true"')
  }
  expect((await decideOnPage(approving, url, to('a'))).text).toContain('No argument was changed.')
  expect((await decideOnPage(approving, url, { ...edited, 'argument.other': '1' })).status).toBe(400)
  expect((await decideOnPage(approving, url, { verdict: 'denied' })).text).toContain('<h1>Denied</h1>')
})

test('digits that a double does not have are sent as they are typed', async () => {
  const server = await httpServer()
  const echo = { url: server.url, tools: { echo: { confirm: true } } }
  const gateway = await gatewayTo({ one: echo }, { config: { features: { confirm: { wait: 'off' } } } })
  const code = /enter the code (\S+)/.exec(gateway.stdout())?.[1] ?? ''
  const client = await clientOf(gateway)
  const args = new RawJson('{"text":"a","id":9007199254740993,"other":12345678901234567890.10}')
  const call = { name: 'echo', arguments: args }
  const asked = await client.request('tools/call', call)
  const url = pageOf(asked.result ?? {})
  const page = await decideOnPage({ code }, url, { ...edited, 'argument.id': '9007199254740995' })
  expect(page.text).toContain('9007199254740995')
  const result = await client.request('tools/call', call)
  expect(result.text).toContain('id is 9007199254740995')
  const sent = server.seen.filter(({ text }) => text.includes('tools/call')).map(({ text }) => text)
  expect(sent).toHaveLength(1)
  expect(sent[0]).toContain('"text":"a","id":9007199254740995,"other":12345678901234567890.10')
})

describe('the arguments of a call cannot be changed', () => {
  test.each([
    ['if several people approve', { approvals: 2 }, {}],
    ['if a text has to be typed', { type_to_confirm: 'disk' }, {}],
    ['if the configuration says so', {}, { edit: 'off' }],
  ])('%s', async (_why, rules, confirm) => {
    const approving = await approvingGateway({
      inputSchema,
      rules: { approval: 'out_of_band', ...rules },
      config: { auth: peopleNamed('anna'), features: { confirm } },
    })
    const url = pageOf(await approving.call(given, bearer.agent))
    const authorization = `Basic ${Buffer.from(`anna:${password}`).toString('base64')}`
    const page = await (await fetch(url, { headers: { authorization } })).text()
    expect(page).toContain('Approve')
    expect(page).not.toContain('name="argument.')
    expect(approving.ran).toEqual([])
  })

  test('by the token of a program', async () => {
    const approving = await approvingGateway({
      inputSchema,
      rules: { approval: 'out_of_band' },
      config: { auth: peopleNamed() },
    })
    const url = pageOf(await approving.call(given, bearer.agent))
    const headers = {
      authorization: `Bearer ${bearer.other}`,
      accept: 'application/json',
      'content-type': 'application/json',
    }
    const body = JSON.stringify({ ...edited, arguments: { disk: 'b' } })
    expect((await post(url, body, headers)).status).toBe(403)
    expect(approving.ran).toEqual([])
  })

  test('that are secrets or have characters that are not seen', async () => {
    const secret = { type: 'object', properties: { disk: { type: 'string' }, api_key: { type: 'string' } } }
    const approving = await approvingGateway({ inputSchema: secret })
    const url = pageOf(await approving.call({ disk: 'a', api_key: 'sk-1234567890', odd: 'x\u202Ey' }))
    const page = await new CookieBrowser().submit(url, { code: approving.code })
    expect(page.text).toContain('name="argument.disk"')
    expect(page.text).not.toContain('name="argument.api_key"')
    expect(page.text).not.toContain('name="argument.odd"')
    const changed = { ...edited, 'argument.api_key': 'another' }
    expect((await decideOnPage(approving, url, changed)).status).toBe(400)
  })
})

test('arguments of any name are changed', async () => {
  const approving = await approvingGateway({ inputSchema: { type: 'object' } })
  const args = JSON.parse('{"disk":"a","constructor":"b","__proto__":"c"}')
  const changed = { ...edited, 'argument.constructor': 'd', 'argument.__proto__': 'e' }
  await decideOnPage(approving, pageOf(await approving.call(args)), changed)
  expect(textIn(await approving.call(args))).toContain('wiped')
  expect(JSON.stringify(approving.ran)).toBe('[{"disk":"a","constructor":"d","__proto__":"e"}]')
})

test('changed arguments are not approved as they were', async () => {
  const approving = await approvingGateway({ inputSchema })
  const url = pageOf(await approving.call(given))
  const page = await decideOnPage(approving, url, { ...to('b'), verdict: 'approved' })
  expect(page.status).toBe(400)
  expect(page.text).toContain('choose “Approve with these arguments”')
  expect(page.text).toMatch(/<details open>[^]*\nb<\/textarea>/)
  await decideOnPage(approving, url, { ...to('a'), verdict: 'approved' })
  expect(textIn(await approving.call(given))).toBe('wiped')
  expect(approving.ran).toEqual([given])
})
