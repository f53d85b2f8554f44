// How long the bodies of requests may take.
import { createServer } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { expect, it, onTestFinished } from 'vitest'
import { Arrivals } from '../../../../src/downstream/http/body.ts'

/** A server whose requests may take 100 ms, except at `/slow`. */
async function listening(): Promise<number> {
  const arrivals = new Arrivals(100)
  const server = createServer((incoming, outgoing) => {
    arrivals.limit(incoming, outgoing)
    if (incoming.url === '/slow') arrivals.exempt(incoming)
    incoming.on('error', () => undefined)
    incoming
      .resume()
      .on('end', () => setTimeout(() => outgoing.end('done'), incoming.url === '/late' ? 300 : 0))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return (server.address() as AddressInfo).port
}

/** What is answered to a request whose last byte is sent after `wait` milliseconds. */
async function answer(port: number, path: string, wait: number): Promise<string> {
  const socket = connect(port, '127.0.0.1')
  let text = ''
  socket.on('data', (data) => (text += String(data)))
  socket.on('error', () => undefined)
  socket.write(`POST ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n\r\nx`)
  setTimeout(() => socket.write('y'), wait)
  await new Promise((resolve) => socket.on('close', resolve))
  return text.split('\r\n', 1)[0] ?? ''
}

it('a body that takes too long ends its connection, unless its request may take longer', async () => {
  const port = await listening()
  const answers = await Promise.all([
    answer(port, '/', 300),
    answer(port, '/slow', 300),
    answer(port, '/', 10),
    // The answer may take longer.
    answer(port, '/late', 10),
  ])
  expect(answers).toEqual([
    'HTTP/1.1 408 Request Timeout',
    'HTTP/1.1 200 OK',
    'HTTP/1.1 200 OK',
    'HTTP/1.1 200 OK',
  ])
})
