import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'

/** A proxy to a server that can be closed: connections are then refused. */
export interface Door {
  readonly url: string
  shut(): Promise<void>
  open(): Promise<void>
}

/** Opens a proxy to a server, until the test is over. */
export async function doorTo(url: string): Promise<Door> {
  const target = new URL(url)
  const sockets = new Set<Socket>()
  let server: Server
  let port = 0
  const open = async (): Promise<void> => {
    server = createServer((socket) => {
      const behind = connect(Number(target.port), target.hostname)
      for (const each of [socket, behind]) {
        sockets.add(each)
        each.on('error', () => each.destroy()).on('close', () => sockets.delete(each))
      }
      socket.pipe(behind).pipe(socket)
    })
    server.listen(port, '127.0.0.1')
    await once(server, 'listening')
    const address = server.address()
    if (typeof address === 'object' && address) ({ port } = address)
  }
  const shut = async (): Promise<void> => {
    const closed = once(server, 'close')
    server.close()
    for (const socket of sockets) socket.destroy()
    await closed
  }
  await open()
  onTestFinished(() => shut().catch(() => undefined))
  return { url: `http://127.0.0.1:${port}${target.pathname}`, open, shut }
}
