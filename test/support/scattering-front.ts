import { once } from 'node:events'
import { createServer, request } from 'node:http'
import { onTestFinished } from 'vitest'

/** A load balancer that is not sticky, in front of gateways. */
export interface ScatteringFront {
  readonly origin: string
  /** The endpoint of all servers together. */
  readonly url: string
  /** How many requests each gateway got. */
  readonly counts: readonly number[]
  /** Sends all further requests to one gateway, or to each in turn again. */
  only(index: number | undefined): void
  close(): Promise<void>
}

interface Gateway {
  readonly origin: string
}

/** Sends each request to the next of these gateways, until the test is over. */
export async function scatteringFront(gateways: readonly Gateway[]): Promise<ScatteringFront> {
  const front = await openFront(gateways)
  onTestFinished(() => front.close())
  return front
}

/** Sends each request to the gateway that `pick` says, by default to the next one, until it is closed. */
export async function openFront(
  gateways: readonly Gateway[],
  options: { pick?(): number } = {},
): Promise<ScatteringFront> {
  const counts: number[] = gateways.map(() => 0)
  let next = 0
  let fixed: number | undefined
  const { pick = () => next++ % gateways.length } = options
  const server = createServer((incoming, outgoing) => {
    const index = fixed ?? pick()
    counts[index] = (counts[index] ?? 0) + 1
    const { method, headers, url = '' } = incoming
    const passed = request(new URL(url, gateways[index]?.origin), { method, headers, agent: false })
    passed.on('response', (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers)
      outgoing.flushHeaders()
      answer.pipe(outgoing)
      answer.on('error', () => outgoing.destroy())
    })
    passed.on('error', () => outgoing.destroy())
    outgoing.on('close', () => passed.destroy())
    incoming.pipe(passed)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  const origin = `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`
  return {
    origin,
    url: `${origin}/mcp`,
    counts,
    only: (index) => void (fixed = index),
    close: async () => {
      server.close()
      server.closeAllConnections()
    },
  }
}
