import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { until } from '../../support/condition.ts'
import { type Reply, textOf } from '../../support/client/options.ts'
import type { FakeClient } from '../../support/fake-client.ts'
import { type GatewayProcess, startGatewayProcess } from '../../support/gateway-process.ts'
import {
  clientOf,
  codeOf,
  gatewayProcessTo,
  httpServer,
  serverJournal,
  stdioServer,
} from '../../support/journey.ts'
import { childrenRunning, hasProcessTree } from '../../support/process-tree.ts'
import { isObject, type Json, objectAt } from '../../support/server/json.ts'
import { plainFeatures } from '../../support/undescribed.ts'

const answers = { 'elicitation/create': () => ({ action: 'accept', content: { name: 'Ada' } }) }
const modern = { revision: '2026-07-28', answers, auto: false } as const
const never = () => new Promise<Json>(() => undefined)

let gateway: GatewayProcess
/** The address of one of the servers behind the gateway. */
const at = (name: string) => ({ url: `${gateway.url}/${name}` })
beforeAll(async () => {
  const patient = stdioServer({ askTimeoutMs: 60_000 })
  const upstreams = { one: stdioServer(), two: stdioServer(), patient }
  gateway = await startGatewayProcess({ features: plainFeatures(undefined), upstreams })
})
afterAll(() => gateway.close())

describe('a suspended call of a 2026-07-28 client', () => {
  test('is resumed by the retry', async () => {
    const client = await clientOf(at('one'), modern)
    const retry = retryOf(await ask(client))
    expect(answerIn(await client.request('tools/call', retry))).toEqual({
      action: 'accept',
      content: { name: 'Ada' },
    })
  })

  test('is resumed once: a used state is refused', async () => {
    const client = await clientOf(at('one'), modern)
    const retry = retryOf(await ask(client))
    await client.request('tools/call', retry)
    const again = await client.request('tools/call', retry)
    expect(again.error).toMatchObject({ code: -32602 })
    expect(codeOf(again)).toBe('STATE_INVALID')
  })

  test('is resumed by one of two concurrent retries', async () => {
    const client = await clientOf(at('one'), modern)
    const retry = retryOf(await ask(client))
    const replies = await Promise.all([
      client.request('tools/call', retry),
      client.request('tools/call', retry),
    ])
    expect(replies.filter(({ result }) => result !== undefined)).toHaveLength(1)
    expect(replies.filter((reply) => codeOf(reply) === 'STATE_INVALID')).toHaveLength(1)
  })

  test('is not resumed with a modified state, and still is with the right one', async () => {
    const client = await clientOf(at('one'), modern)
    const retry = retryOf(await ask(client))
    const state = String(retry['requestState'])
    const other = state.at(-5) === 'A' ? 'B' : 'A'
    const forged = [
      `${state.slice(0, -5)}${other}${state.slice(-4)}`,
      state.slice(0, -4),
      `${state}AAAA`,
      'x',
      '',
      '{}',
    ]
    for (const requestState of forged) {
      const reply = await client.request('tools/call', { ...retry, requestState })
      expect(codeOf(reply)).toBe('STATE_INVALID')
    }
    expect((await client.request('tools/call', { ...retry, requestState: 7 })).error).toMatchObject({
      code: -32602,
    })
    expect(answerIn(await client.request('tools/call', retry))).toMatchObject({ action: 'accept' })
  })

  test('is not resumed by a call on another server or with other arguments', async () => {
    const client = await clientOf(at('one'), modern)
    const elsewhere = await clientOf(at('two'), modern)
    const retry = retryOf(await ask(client))
    const refused = [
      await client.request('tools/call', { ...retry, arguments: { message: 'another' } }),
      await client.request('tools/call', { ...retry, name: 'ask_two' }),
      await client.request('prompts/get', { ...retry }),
      await elsewhere.request('tools/call', retry),
    ]
    for (const reply of refused) expect(codeOf(reply)).toBe('STATE_INVALID')
    expect(answerIn(await client.request('tools/call', retry))).toMatchObject({ action: 'accept' })
  })

  test('is unknown to a restarted gateway', async () => {
    const client = await clientOf(at('one'), modern)
    const retry = retryOf(await ask(client))
    const restarted = await clientOf(await gatewayProcessTo({ one: stdioServer() }), modern)
    expect(codeOf(await restarted.request('tools/call', retry))).toBe('STATE_INVALID')
  })

  test('asks again for the responses that the retry omits', async () => {
    const client = await clientOf(at('one'), modern)
    const first = await client.request('tools/call', { name: 'ask_two', arguments: {} })
    const retry = retryOf(first, { name: 'ask_two' })
    const [key = ''] = Object.keys(objectAt(retry, 'inputResponses'))
    const inputResponses = { [key]: answers['elicitation/create'](), unknown: { action: 'accept' } }
    const second = await client.request('tools/call', { ...retry, inputResponses })
    expect(Object.keys(objectAt(second.result, 'inputRequests'))).toHaveLength(1)
    const whole = await client.request('tools/call', retryOf(second, { name: 'ask_two' }))
    expect(JSON.parse(textOf(whole))).toMatchObject({
      first: { action: 'accept' },
      second: { action: 'accept' },
    })
  })

  test('returns the result of a server that stopped waiting', async () => {
    const journal = serverJournal()
    const server = stdioServer({ askTimeoutMs: 1000, seenFile: journal.file })
    const client = await clientOf(await gatewayProcessTo({ one: server }), modern)
    const first = await ask(client)
    // The server withdraws its question, and its call ends while no request of the client is open.
    await client.request('tools/call', { name: 'slow', arguments: { ms: 1500, steps: 1 } })
    const late = await client.request('tools/call', retryOf(first))
    expect(late.text).toContain('No answer to elicitation/create within 1000 ms')
    expect(journal.calls('ask_form')).toBe(1)
  })

  test('returns the result of a server that did not wait for the response', async () => {
    const client = await clientOf(at('one'), modern)
    const first = await ask(client, { waits: false })
    await client.request('tools/call', { name: 'slow', arguments: { ms: 200, steps: 1 } })
    const retry = retryOf(first, { name: 'ask_form', arguments: { waits: false } })
    expect(textOf(await client.request('tools/call', retry))).toBe('did not wait')
  })

  test('does not block other calls', async () => {
    const client = await clientOf(at('patient'), modern)
    await Promise.all(Array.from({ length: 20 }, () => ask(client)))
    const replies = await Promise.all(
      Array.from({ length: 20 }, async () => {
        await client.request('tools/call', { name: 'echo' })
        return client.request('tools/call', retryOf(await ask(client)))
      }),
    )
    for (const reply of replies) expect(answerIn(reply)).toMatchObject({ action: 'accept' })
  })
})

describe('a call of a session client with a pending question', () => {
  test.each([
    ['at once if no lost answers are kept', 'off'],
    ['when it can no longer be repeated', '1s'],
  ])('is cancelled at the server after the client cancels it: %s', async (_, lost_answers) => {
    const server = await httpServer({ askTimeoutMs: 20_000 })
    const config = { features: { idempotency: { lost_answers } } }
    const client = await clientOf(await gatewayProcessTo({ one: { url: server.url } }, { config }), {
      answers: { 'elicitation/create': never },
    })
    const { id, reply } = client.start('tools/call', { name: 'ask_form' })
    await until(() => client.asked.length > 0, 'the question')
    const failed = reply.then(() => undefined, String)
    await client.cancel(id)
    expect(await failed).toContain('cancelled')
    await server.until(({ kind }) => kind === 'cancelled')
    expect((await client.request('ping')).result).toEqual({})
    expect([...client.violations, ...client.late, ...server.violations]).toEqual([])
  })

  test('has the question cancelled when the server withdraws it', async () => {
    const client = await clientOf(await gatewayProcessTo({ one: stdioServer({ askTimeoutMs: 1000 }) }), {
      answers: { 'elicitation/create': never },
    })
    const reply = await client.request('tools/call', { name: 'ask_form' })
    expect(reply.text).toContain('No answer to elicitation/create within 1000 ms')
    await until(() => isTakenBack(reply, client), 'the question to be taken back')
    expect(client.violations).toEqual([])
  })

  test('ends at once if the server responds before it has the input response', async () => {
    const client = await clientOf(at('one'), {
      answers: { 'elicitation/create': never },
    })
    const reply = await client.request('tools/call', { name: 'ask_form', arguments: { waits: false } })
    expect(textOf(reply)).toBe('did not wait')
    await until(() => isTakenBack(reply, client), 'the question to be taken back')
    expect(client.violations).toEqual([])
  })

  test.skipIf(!hasProcessTree)('releases the server once it is over', async () => {
    const gateway = await gatewayProcessTo({ one: stdioServer({}, { isolation: 'per_client', idle: '1s' }) })
    const client = await clientOf(gateway, { answers: { 'elicitation/create': never } })
    await client.request('tools/call', { name: 'ask_form', arguments: { waits: false } })
    await client.close()
    await until(() => childrenRunning(gateway.pid, 'fake-server').length === 0, 'the children to be reaped')
  })

  test('is refused by a client that cannot respond, and the server receives the error', async () => {
    const client = await clientOf(at('one'), {
      capabilities: { elicitation: {} },
    })
    expect((await client.request('tools/call', { name: 'ask_form' })).text).toContain('-32601')
  })
})

function ask(client: FakeClient, args: Json = {}) {
  return client.request('tools/call', { name: 'ask_form', arguments: args })
}

function isTakenBack({ notes }: Pick<Reply, 'notes'>, client: FakeClient): boolean {
  return [...notes, ...client.notes].filter(({ method }) => method === 'notifications/cancelled').length === 1
}

/** The params of the call that answers every question of a result. */
function retryOf(
  reply: { readonly result?: Json; readonly text: string },
  call: Json = { name: 'ask_form' },
): Json {
  const { result = {} } = reply
  expect(reply.text).toContain('input_required')
  const inputResponses = Object.fromEntries(
    Object.keys(objectAt(result, 'inputRequests')).map((key) => [key, answers['elicitation/create']()]),
  )
  return { arguments: {}, ...call, inputResponses, requestState: result['requestState'] }
}

function answerIn(reply: { readonly result?: Json; readonly text: string }): unknown {
  const { content } = reply.result ?? {}
  const block: unknown = Array.isArray(content) ? content[0] : undefined
  if (!isObject(block)) throw new Error(`no result: ${reply.text}`)
  return (JSON.parse(String(block['text'])) as Json)['answer']
}
