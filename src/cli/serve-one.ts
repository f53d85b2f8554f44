/** Serves a gateway in front of one server to one client over stdio, or to any over HTTP, until it is stopped. */
import type { Gateway } from '../gateway/gateway.ts'
import { type Io, write } from './io.ts'
import { bindProblem, SHUTDOWN_TIMEOUT_MS } from './serve.ts'

/** Serves over stdio without a port. Resolves when the input ends, or at a signal; the gateway is closed then. */
export async function serveOne(gateway: Gateway, port: number | undefined, io: Io): Promise<void> {
  try {
    if (port === undefined) {
      await Promise.race([gateway.stdio(io.stdin, io.stdout), io.untilStopped({ onHangUp: true })])
      return
    }
    const stopped = io.untilStopped({ onHangUp: io.stderr.isTTY })
    const listener = await gateway.listen().catch((error: unknown) => {
      throw new Error(bindProblem(error, gateway.settings), { cause: error })
    })
    write(`Gatehouse serves ${listener.url}/mcp\n`, io)
    await stopped
    await listener.drain(SHUTDOWN_TIMEOUT_MS)
    await listener.close()
  } finally {
    await gateway.close()
    io.stdin.destroy()
  }
}
