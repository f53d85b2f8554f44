/** What tests need of child processes and ports. */
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'

/** Ends a child process, by force after two seconds. */
export async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exit = once(child, 'exit')
  const force = setTimeout(() => child.kill('SIGKILL'), 2000)
  child.kill('SIGTERM')
  await exit
  clearTimeout(force)
}

const lastActions: (() => void)[] = []

/** Does this as the last of this process, also where a signal ends it: Vitest ends its workers with SIGTERM. */
export function atExit(action: () => void): void {
  const actAll = (): void => lastActions.splice(0).forEach((each) => each())
  if (lastActions.push(action) > 1) return
  process.once('exit', actAll)
  process.once('SIGTERM', () => {
    actAll()
    process.kill(process.pid, 'SIGTERM')
  })
}

/** A TCP port of the loopback interface that nobody listens on. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  await once(server, 'close')
  if (typeof address === 'object' && address) return address.port
  throw new Error('No free port')
}
