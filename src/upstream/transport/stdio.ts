/** A server as a child process: one JSON-RPC message per line. */
import { once } from 'node:events'
import { GatewayError } from '../../core/error.ts'
import type { Log } from '../../core/log.ts'
import { withoutSecrets } from '../../core/text/redact.ts'
import type { CommandReach } from '../../core/settings.ts'
import { encodeLine, lines } from '../../protocol/lines.ts'
import { Child, type Variables, type LastLines } from './child.ts'
import { type OpenTransport, type UpstreamTransport, MAX_MESSAGE } from './transport.ts'

/** How much may wait to be written to a child that does not read, in bytes. */
const MAX_UNREAD = 64 * 1024 * 1024

/** Reaches a server by starting it as a child process. */
export function stdioConnect(
  reach: CommandReach,
  environment: Variables,
  { log, lastLines }: { readonly log: Log; readonly lastLines: LastLines },
): OpenTransport {
  return async (receiver) => {
    const child = await Child.start(reach, environment)
    lastLines.clear()
    const tooLong = (bytes: number): void => log.warn('upstream.line_too_long', { bytes })
    child.stdout.on(
      'data',
      lines(MAX_MESSAGE, (line) => receiver.receive(line), tooLong),
    )
    child.stderr.on(
      'data',
      lines(
        65_536,
        (line) => {
          lastLines.add(line)
          log.info('upstream.stderr', { line: withoutSecrets(line) })
        },
        tooLong,
      ),
    )
    // What was on its way out of the process is read before its end counts.
    const drained = Promise.allSettled([once(child.stdout, 'close'), once(child.stderr, 'close')])
    void child.ended.then(async (how) => {
      await Promise.race([drained, new Promise((resolve) => setTimeout(resolve, 200).unref())])
      receiver.closed(new Error(`The server's process ${how}.`))
    })
    return new StdioTransport(child)
  }
}

class StdioTransport implements UpstreamTransport {
  readonly hasProvenance = false
  readonly #child: Child

  constructor(child: Child) {
    this.#child = child
  }

  async send(message: string): Promise<void> {
    const { stdin } = this.#child
    if (!stdin.writable) {
      throw new GatewayError('SERVER_UNAVAILABLE', "The server's process has ended.", { isUnsent: true })
    }
    if (stdin.writableLength > MAX_UNREAD)
      throw new GatewayError('OVERLOADED', 'The server does not read its input.')
    stdin.write(encodeLine(message))
  }

  close(): Promise<void> {
    return this.#child.stop()
  }
}
