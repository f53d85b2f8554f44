/** A server as a child process: one JSON-RPC message per line. */
import { once } from 'node:events'
import { GatewayError } from '../../core/error.ts'
import type { Log } from '../../core/log.ts'
import type { CommandReach } from '../../core/settings.ts'
import { MAX_MESSAGE_BYTES } from '../../core/spool.ts'
import { withoutSecrets } from '../../core/text/redact.ts'
import { encodeLine, lines } from '../../protocol/lines.ts'
import { SpoolingReader } from '../../protocol/spooling.ts'
import { Child, type LastLines } from './child.ts'
import type { Variables } from './inheritance.ts'
import { PlainOutput } from './plain-output.ts'
import type { OpenTransport, UpstreamTransport } from './transport.ts'

/** The maximum number of bytes buffered for a child that does not read. */
const MAX_UNREAD = 64 * 1024 * 1024
/** How long a process that closes its output may take to exit, in milliseconds: then its exit is what happened. */
const EXIT_WAIT_MS = 200

/** Connects to a server by starting it as a child process. */
export function stdioConnect(
  reach: CommandReach,
  environment: Variables,
  { log, lastLines }: { readonly log: Log; readonly lastLines: LastLines },
): OpenTransport {
  return async (receiver) => {
    const child = await Child.start(reach, environment)
    lastLines.clear()
    const { stdin, stdout, stderr } = child
    const output = new PlainOutput({
      readable: (line) => lastLines.readable(line),
      onVerdict: (error) => receiver.speaksNoJson?.(error),
    })
    const tooLong = (bytes: number): void => log.warn('upstream.line_too_long', { bytes })
    const messages = new SpoolingReader({
      spool: () => receiver.spool(),
      pass: lines(
        MAX_MESSAGE_BYTES,
        (line) => {
          if (output.read(line)) receiver.receive(line)
          else log.debug('upstream.noise', { text: withoutSecrets(lastLines.readable(line)) })
        },
        tooLong,
      ),
      pause: () => stdout.pause(),
      resume: () => stdout.resume(),
    })
    stdout.on('data', (chunk: Buffer) => {
      messages.write(chunk)
      output.readTail(chunk)
    })
    stdout.on('close', () => messages.abort())
    stderr.on(
      'data',
      lines(
        65_536,
        (line) => {
          output.extend()
          lastLines.add(line)
          log.info('upstream.stderr', { line: withoutSecrets(line) })
        },
        tooLong,
      ),
    )
    let isOver = false
    const end = (what: string): void => {
      if (isOver) return
      isOver = true
      output.end()
      receiver.closed(new Error(`${what}${output.printed}`))
    }
    // Remaining output of the process is read before its end is reported.
    const drained = Promise.allSettled([once(stdout, 'close'), once(stderr, 'close')])
    void child.ended.then(async (how) => {
      await Promise.race([drained, wait()])
      end(`The server's process ${how}.`)
    })
    // Without a pipe nothing can be answered, whether or not the process lives on.
    const lose = async (pipe: string): Promise<void> => {
      await Promise.race([child.ended, wait()])
      if (child.hasEnded) return
      end(`The server closed its ${pipe}, though its process has not ended.`)
      await child.stop()
    }
    stdout.once('close', () => void lose('output'))
    stdin.once('error', () => void lose('input'))
    return new StdioTransport(child, output)
  }
}

function wait(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, EXIT_WAIT_MS).unref())
}

class StdioTransport implements UpstreamTransport {
  readonly hasProvenance = false
  readonly #child: Child
  readonly #output: PlainOutput

  constructor(child: Child, output: PlainOutput) {
    this.#child = child
    this.#output = output
  }

  get printed(): string {
    return this.#output.printed
  }

  async send(message: string): Promise<void> {
    const { stdin } = this.#child
    if (!stdin.writable) {
      throw new GatewayError('SERVER_UNAVAILABLE', "The server's process has ended.", { isUnsent: true })
    }
    if (stdin.writableLength > MAX_UNREAD)
      throw new GatewayError('OVERLOADED', 'The server does not read its input.')
    this.#output.sent(message)
    stdin.write(encodeLine(message))
  }

  close(): Promise<void> {
    this.#output.end()
    return this.#child.stop()
  }
}
