// Connections to Redis that are given up while they open.
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { expect, it, onTestFinished } from 'vitest'
import { readRedisUrl } from '../../../src/core/redis-url.ts'
import { locate } from '../../../src/store/redis/master.ts'

it('a connection to a sentinel that opens after its time, as the process was stopped, is closed', async () => {
  const sockets: Socket[] = []
  const server = createServer((socket) => {
    sockets.push(socket)
    socket.on('error', () => undefined)
  }).listen(0, '127.0.0.1')
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const driver = await import('@redis/client')
  const location = readRedisUrl(`redis+sentinel://127.0.0.1:${port}/mymaster`)
  const located = locate(driver, location)
  // Nothing of this process runs until its time is over: then it learns of that, and of the connection.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1100)
  await expect(located).rejects.toThrow('no response in time')
  if (sockets.length === 0) await once(server, 'connection')
  const [socket] = sockets
  if (!socket?.destroyed) await once(socket ?? expect.unreachable(), 'close')
  expect(sockets).toHaveLength(1)
})
