import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { HttpReply } from '../../../../src/downstream/http/reply.ts'
import { Ticker } from '../../../../src/downstream/http/edge.ts'
import { open, usual } from '../../../support/client/raw.ts'

/** The text that a client reads from one reply. */
async function read(use: (reply: HttpReply) => void, canStream = true): Promise<string> {
  const ticker = new Ticker()
  const server = createServer((_request, outgoing: ServerResponse) => {
    use(new HttpReply(outgoing, { requestId: 'r' }, { ticker, canStream, onSlow: () => undefined }))
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
