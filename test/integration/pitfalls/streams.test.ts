import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { textOf } from '../../support/client/options.ts'
import { events } from '../../support/client/raw.ts'
import { goodAnswer, welcome } from '../../support/faults.ts'
import { startGateway } from '../../support/gateway.ts'
import { freePort } from '../../support/child-process.ts'
import { clientOf, gatewayTo, httpServer, stdioServer } from '../../support/journey.ts'
import { alone } from '../../support/scattered.ts'
import { answerTo as listing, sessionServer } from '../../support/session-server.ts'
import { parse } from '../../support/server/json.ts'
import { codeOf } from '../../support/structured-error.ts'

const answers = { 'elicitation/create': () => ({ action: 'accept', content: { name: 'Ada' } }) }
const revisions = ['2025-11-25', '2026-07-28'] as const

describe.each(revisions)('for a client of %s', (revision) => {
  test('questions on the GET stream are received during the very first call', async () => {
    const server = await httpServer({ questions: 'get' })
    const gateway = await gatewayTo({ fake: server.url })
    const client = await clientOf(gateway, { revision, answers })
    const reply = await client.request('tools/call', { name: 'ask_form' })
    expect(textOf(reply)).toContain('Ada')
  })

  test('a server that answers with JSON only cannot ask, and the call still ends', async () => {
    const server = await httpServer({ jsonOnly: true })
    const gateway = await gatewayTo({ fake: server.url }, { config: { limits: { timeout: '700ms' } } })
    const client = await clientOf(gateway, { revision, answers })
    expect(codeOf(await client.request('tools/call', { name: 'ask_form' }))).toBe('OPERATION_TIMEOUT')
    expect((await client.request('tools/call', { name: 'big' })).error).toBeUndefined()
  })

  test('a cancelled call releases a stream that the server would never end', async () => {
    const server = await httpServer({ keepsCancelledStream: true })
    const gateway = await gatewayTo({ fake: server.url })
    const client = await clientOf(gateway, { revision })
    const { id, reply } = client.start('tools/call', { name: 'hang' })
    void reply.catch(() => undefined)
    await server.until(({ text }) => text.includes('"hang"'))
    await client.cancel(id)
    await server.until(({ kind }) => kind === 'cancelled')
    await server.until(({ kind }) => kind === 'disconnected')
    expect((await client.request('tools/call', { name: 'big' })).error).toBeUndefined()
  })

  test('progress is sent with the token of the client, increasing, and not after the response', async () => {
    const gateway = await gatewayTo({ fake: stdioServer() })
    const client = await clientOf(gateway, { revision })
    const values: unknown[] = []
    const options = {
      progressToken: 'mine',
      onProgress: (note: Record<string, unknown>) => void values.push(note['progress']),
    }
    await client.request('tools/call', { name: 'slow', arguments: { ms: 5, steps: 5 } }, options)
    expect(values).toHaveLength(5)
    expect(values).toEqual(values.toSorted((one, other) => Number(one) - Number(other)))
    expect(client.violations).toEqual([])
  })
})

describe('HTTP+SSE', () => {
  test.each(['https://mcp.example.com/gate/', 'https://mcp.example.com/gate', 'https://mcp.example.com'])(
    'its endpoint event has the path of the public URL %s',
    async (publicUrl) => {
      const server = await httpServer()
      const config = { listen: { legacy_sse: true, public_url: publicUrl } }
      const gateway = await startGateway(
        { ...config, upstreams: { fake: server.url } },
        { port: await freePort() },
      )
      onTestFinished(() => gateway.close())
      const stream = events(new URL('/sse', gateway.url).href)
      const { value } = await stream.next()
      const prefix = new URL(publicUrl).pathname.replace(/\/$/, '')
      expect(value).toMatchObject({ event: 'endpoint' })
      expect(String(value?.data)).toMatch(new RegExp(`^${prefix}/messages\\?session_id=[\\w&=-]+$`))
      await stream.return(undefined)
    },
  )

  test('the endpoint that a server names is used only on its own origin', async () => {
    alone('the server answers one connection')
    const endpoints = [
      ['/messages?x=1', 'good'],
      ['messages?x=1', 'good'],
      ['http://192.0.2.1/messages', 'UPSTREAM_ERROR'],
      ['//192.0.2.1/messages', 'UPSTREAM_ERROR'],
      ['http://[', 'UPSTREAM_ERROR'],
      ['file:///etc/passwd', 'UPSTREAM_ERROR'],
    ] as const
    const urls = await Promise.all(endpoints.map(([endpoint]) => sseServer(endpoint)))
    const gateway = await gatewayTo(
      Object.fromEntries(urls.map((url, index) => [`web-${index}`, { url, transport: 'sse' }])),
    )
    const ends = await Promise.all(
      urls.map(async (_url, index) => {
        const way = { url: `${gateway.url}/web-${index}` }
        const client = await clientOf(way, { revision: '2026-07-28', handshake: false })
        const reply = await client.request('tools/call', { name: 'good' })
        return reply.error || reply.result?.['isError'] === true ? codeOf(reply) : textOf(reply)
      }),
    )
    expect(ends).toEqual(endpoints.map(([, end]) => end))
  })
})

test('409 for the GET stream does not prevent calls', async () => {
  const url = await streamableServer((response) => response.writeHead(409).end())
  const gateway = await gatewayTo({ web: { url, revision: '2025-11-25' } })
  const client = await clientOf(gateway)
  for (let call = 0; call < 3; call++)
    expect(textOf(await client.request('tools/call', { name: 'good' }))).toBe('good')
})

test('a server that answers 202 and responds on the GET stream is used', async () => {
  alone('the server answers one connection')
  let stream: ServerResponse | undefined
  const { url, counts } = await sessionServer({
    get: (response) => {
      stream = response.writeHead(200, { 'content-type': 'text/event-stream' })
      stream.flushHeaders()
    },
    post: (message, response) => {
      if (message.id === undefined || message.method === 'initialize') return false
      response.writeHead(202).end()
      stream?.write(`event: message\ndata: ${listing(message)}\n\n`)
      return true
    },
  })
  const gateway = await gatewayTo({ web: url.href })
  for (const revision of revisions) {
    const client = await clientOf(gateway, { revision })
    expect((await client.request('tools/list')).result?.['tools']).toHaveLength(1)
  }
  expect(counts['initialize']).toBeLessThan(6)
})

/** An HTTP+SSE server that names this endpoint. */
async function sseServer(endpoint: string): Promise<string> {
  let stream: ServerResponse | undefined
  return `${await webServer((text, response) => {
    if (text === '') {
      stream = response.writeHead(200, { 'content-type': 'text/event-stream' })
      stream.write(`event: endpoint\ndata: ${endpoint}\n\n`)
      return
    }
    response.writeHead(202).end()
    const answer = answerTo(text)
    if (answer !== undefined) stream?.write(`data: ${answer}\n\n`)
  })}/sse`
}

/** A Streamable HTTP server that answers GET in this way. */
async function streamableServer(onGet: (response: ServerResponse) => void): Promise<string> {
  return `${await webServer((text, response) => {
    if (text === '') return onGet(response)
    const answer = answerTo(text)
    if (answer === undefined) return void response.writeHead(202).end()
    response.writeHead(200, { 'content-type': 'application/json', 'mcp-session-id': 's' }).end(answer)
  })}/mcp`
}

async function webServer(answer: (text: string, response: ServerResponse) => void): Promise<string> {
  const server = createServer((request, response) => {
    let text = ''
    request.setEncoding('utf8').on('data', (part: string) => void (text += part))
    request.on('end', () => answer(text, response))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  return `http://127.0.0.1:${port}`
}

function answerTo(text: string): string | undefined {
  const { id, method } = parse(text) as { id?: unknown; method?: string }
  if (id === undefined) return undefined
  return method === 'initialize' ? JSON.stringify(welcome(id)) : goodAnswer(id)
}
