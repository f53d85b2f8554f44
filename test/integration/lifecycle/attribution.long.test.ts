import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { textOf } from '../../support/client/options.ts'
import type { FakeClient } from '../../support/fake-client.ts'
import { type FakeServer, startFakeServer } from '../../support/fake-server.ts'
import { reportFigure } from '../../support/figure.ts'
import { type GatewayProcess, startGatewayProcess } from '../../support/gateway-process.ts'
import { clientOf, stdioServer } from '../../support/journey.ts'
import type { Json } from '../../support/server/json.ts'
import { plainFeatures } from '../../support/undescribed.ts'

// Each response repeats its question, so a response to the wrong call is visible in the result.
const answers = {
  'elicitation/create': (params: Json) => ({
    action: 'accept',
    content: { name: `re: ${String(params['message'])}` },
  }),
}
const CALLS = 50
const patient = { askTimeoutMs: 50_000 }

let gateway: GatewayProcess
let servers: readonly FakeServer[]
/** The address of one of the servers behind the gateway. */
const at = (name: string) => ({ url: `${gateway.url}/${name}` })

beforeAll(async () => {
  const own = { revision: '2025-11-25', transport: 'http', ...patient } as const
  servers = await Promise.all([
    startFakeServer(own),
    startFakeServer({ ...own, questions: 'get' }),
    startFakeServer({ ...own, questions: 'get' }),
  ])
  const [http, get, unasked] = servers.map(({ url }) => ({ url }))
  const upstreams = {
    stdio: stdioServer(patient),
    modern: stdioServer({ revision: '2026-07-28' }),
    ...{ http, get, unasked },
  }
  gateway = await startGatewayProcess({ features: plainFeatures(undefined), upstreams })
})
afterAll(async () => {
  await gateway.close()
  await Promise.all(servers.map((each) => each.close()))
})

/** The calls of a test whose responses were compared with their questions. */
let compared = 0
afterEach(({ task }) => {
  if (compared > 0) reportFigure(task, { calls: compared })
  compared = 0
})

describe('each of fifty concurrent calls gets the response to its own question', () => {
  test('from fifty 2026-07-28 clients of an older stdio server', async () => {
    const server = at('stdio')
    const clients = await Promise.all(
      numbers(CALLS).map(() => clientOf(server, { revision: '2026-07-28', answers })),
    )
    await expectOwnAnswers(clients.map((client, index) => [client, `call ${index}`]))
  })

  test('from one 2026-07-28 client of an older stdio server', async () => {
    const server = at('stdio')
    const client = await clientOf(server, { revision: '2026-07-28', answers })
    await expectOwnAnswers(numbers(CALLS).map((index) => [client, `call ${index}`]))
  })

  test('from one client with a session of an older stdio server', async () => {
    const server = at('stdio')
    const client = await clientOf(server, { answers })
    await expectOwnAnswers(numbers(CALLS).map((index) => [client, `call ${index}`]))
  })

  test('from several clients with sessions of an older stdio server', async () => {
    const server = at('stdio')
    const clients = await Promise.all(numbers(5).map(() => clientOf(server, { answers })))
    await expectOwnAnswers(
      clients.flatMap((client, of) => numbers(10).map((index) => [client, `${of} call ${index}`])),
    )
  })

  test('from clients of both eras of an older stdio server', async () => {
    const server = at('stdio')
    const old = await clientOf(server, { answers })
    const recent = await clientOf(server, { revision: '2026-07-28', answers })
    await expectOwnAnswers(numbers(CALLS).map((index) => [index % 2 === 0 ? old : recent, `call ${index}`]))
  })

  describe('from an HTTP server that asks on the stream of the call', () => {
    test('for 2026-07-28 clients', async () => {
      const server = at('http')
      const clients = await Promise.all(
        numbers(CALLS).map(() => clientOf(server, { revision: '2026-07-28', answers })),
      )
      await expectOwnAnswers(clients.map((client, index) => [client, `call ${index}`]))
    })

    test('for clients with sessions', async () => {
      const server = at('http')
      const clients = await Promise.all(numbers(5).map(() => clientOf(server, { answers })))
      await expectOwnAnswers(
        clients.flatMap((client, of) => numbers(10).map((index) => [client, `${of} call ${index}`])),
      )
    })
  })

  // Such a question cannot be attributed, so calls are serialized once a server has asked like this.
  describe('from an HTTP server that asked on the stream of the session before', () => {
    test('for 2026-07-28 clients', async () => {
      const server = at('get')
      const clients = await Promise.all(
        numbers(CALLS).map(() => clientOf(server, { revision: '2026-07-28', answers })),
      )
      await expectOwnAnswers([[await clientOf(server, { revision: '2026-07-28', answers }), 'the first']])
      await expectOwnAnswers(clients.map((client, index) => [client, `call ${index}`]))
    })

    test('for clients with sessions', async () => {
      const server = at('get')
      const clients = await Promise.all(numbers(5).map(() => clientOf(server, { answers })))
      await expectOwnAnswers([[await clientOf(server, { answers }), 'the first']])
      await expectOwnAnswers(
        clients.flatMap((client, of) => numbers(10).map((index) => [client, `${of} call ${index}`])),
      )
    })
  })

  test('from a 2026-07-28 server for a client with a session', async () => {
    const server = at('modern')
    const client = await clientOf(server, { answers })
    await expectOwnAnswers(numbers(CALLS).map((index) => [client, `call ${index}`]))
  })
})

describe('a question that could belong to several calls', () => {
  test('reaches its own call even if other calls of the client end while it is pending', async () => {
    const server = at('stdio')
    const client = await clientOf(server, { answers })
    const asked = expectOwnAnswers(numbers(10).map((index) => [client, `call ${index}`]))
    const others = numbers(40).map((index) =>
      client.request('tools/call', { name: 'slow', arguments: { ms: index % 10, steps: 1 } }),
    )
    await asked
    for (const { error } of await Promise.all(others)) expect(error).toBeUndefined()
  })

  test('is refused rather than sent to the wrong client', async () => {
    const server = at('unasked')
    const clients = await Promise.all(
      numbers(10).map(() => clientOf(server, { revision: '2026-07-28', answers })),
    )
    const asked = clients.map(async (client, index) => {
      const message = `call ${index}`
      const text = textOf(await client.request('tools/call', { name: 'ask_form', arguments: { message } }))
      expect(text === JSON.stringify({ answer: accepted(`re: ${message}`) }) || text.includes('-32601')).toBe(
        true,
      )
      expect(client.asked.every(({ params }) => params['message'] === message)).toBe(true)
    })
    await Promise.all(asked)
  })
})

describe('calls that ask several times', () => {
  test('are kept apart in every round', async () => {
    const server = at('stdio')
    const client = await clientOf(server, { revision: '2026-07-28', answers })
    const calls = numbers(10).map(async () => {
      const reply = await client.request('tools/call', { name: 'ask_rounds', arguments: { n: 3 } })
      const told = [1, 2, 3].map((round) => [`round_${round}`, accepted(`re: Round ${round}?`)] as const)
      expect(JSON.parse(textOf(reply))).toEqual(Object.fromEntries(told))
    })
    await Promise.all(calls)
    expect(client.asked).toHaveLength(30)
    expect(client.violations).toEqual([])
  })

  test('get all simultaneous questions in one round', async () => {
    const server = at('stdio')
    const client = await clientOf(server, { revision: '2026-07-28', answers })
    const reply = await client.request('tools/call', { name: 'ask_two' })
    expect(reply.rounds).toBe(2)
    expect(JSON.parse(textOf(reply))).toEqual({
      first: accepted('re: First?'),
      second: accepted('re: Second?'),
    })
  })
})

async function expectOwnAnswers(calls: readonly (readonly [FakeClient, string])[]): Promise<void> {
  const replies = calls.map(async ([client, message]) => {
    const reply = await client.request('tools/call', { name: 'ask_form', arguments: { message } })
    return textOf(reply) === '' ? reply.text : JSON.parse(textOf(reply))
  })
  expect(await Promise.all(replies)).toEqual(
    calls.map(([, message]) => ({ answer: accepted(`re: ${message}`) })),
  )
  compared += calls.length
  const clients = [...new Set(calls.map(([client]) => client))]
  for (const client of clients) {
    const own = calls.flatMap(([of, message]) => (of === client ? [message] : []))
    expect(client.asked.map(({ params }) => String(params['message'])).toSorted()).toEqual(own.toSorted())
  }
  expect(clients.flatMap(({ violations }) => violations)).toEqual([])
}

function accepted(name: string): Json {
  return { action: 'accept', content: { name } }
}

function numbers(count: number): number[] {
  return Array.from({ length: count }, (_each, index) => index)
}
