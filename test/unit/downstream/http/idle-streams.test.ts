import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { HttpReply } from '../../../../src/downstream/http/reply.ts'
import { Ticker } from '../../../../src/downstream/http/edge.ts'
import { open, usual } from '../../../support/client/raw.ts'

/** The text that a client reads from one reply. */
async function read(
  use: (reply: HttpReply, outgoing: ServerResponse) => void,
  canStream = true,
): Promise<string> {
  const ticker = new Ticker()
  const server = createServer((_request, outgoing: ServerResponse) => {
    const options = { ticker, canStream, onSlow: () => undefined }
    use(new HttpReply(outgoing, { requestId: 'r' }, options), outgoing)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    ticker.close()
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  return (await open(`http://127.0.0.1:${port}/`, { method: 'POST', headers: usual })).text()
}

const later = (seconds: number): number => Date.now() + seconds * 1000

test('an idle stream is kept open by one comment every fifteen seconds', async () => {
  const text = await read((reply) => {
    reply.open()
    for (const seconds of [1, 14, 16]) reply.tick(later(seconds))
    reply.end('{"jsonrpc":"2.0","id":1,"result":{}}')
    reply.tick(later(60))
  })
  expect(text.split('\n\n')).toEqual([': keepalive', expect.stringContaining('"result"'), ''])
})

test('a slow call is answered with a stream, so that it can be kept open', async () => {
  const text = await read((reply) => {
    reply.tick(later(14))
    expect(reply.isStream).toBe(false)
    reply.tick(later(16))
    expect(reply.isStream).toBe(true)
    reply.end('{}')
  })
  expect(text).toContain('data: {}')
})

test('a client that does not accept streams receives none, however long the call takes', async () => {
  const text = await read((reply) => {
    reply.tick(later(60))
    reply.emit('{"jsonrpc":"2.0","method":"notifications/message"}')
    reply.end('{"done":true}')
  }, false)
  expect(text).toBe('{"done":true}')
})

test('a request that was refused is not answered again, also if the process was stopped before', async () => {
  const done = Promise.withResolvers<boolean>()
  const text = await read((reply, outgoing) => {
    outgoing.writeHead(503)
    outgoing.end('refused')
    // Both happen in one turn of the event loop when the process continues.
    done.resolve(
      (async () => {
        reply.tick(later(16))
        reply.open()
        return reply.isStream
      })(),
    )
  })
  expect(text).toBe('refused')
  expect(await done.promise).toBe(false)
})
