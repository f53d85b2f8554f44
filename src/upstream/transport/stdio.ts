/** A server as a child process: one JSON-RPC message per line. */
import { once } from 'node:events'
import { GatewayError } from '../../core/error.ts'
import { background, type Log } from '../../core/log.ts'
import type { CommandReach } from '../../core/settings.ts'
import { MAX_MESSAGE_BYTES } from '../../core/spool.ts'
import { withoutSecrets } from '../../core/text/redact.ts'
import { pause, within } from '../../core/time/waiting.ts'
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
      onVerdict: (error, isFinal) => {
        receiver.speaksNoJson?.(error)
        if (isFinal) leave(error.message)
      },
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
          output.readError(line)
          lastLines.add(line)
          log.info('upstream.stderr', { line: withoutSecrets(line) })
        },
        tooLong,
      ),
    )
    const { promise: over, resolve } = Promise.withResolvers<string>()
    let isOver = false
    const end = (what: string): void => {
      if (isOver) return
      isOver = true
      output.end()
      resolve(what)
      receiver.closed(new Error(what))
    }
    const leave = (why: string): void => {
      end(why)
      background(child.stop(), log)
    }
    // Remaining output of the process is read before its end is reported.
    const drained = Promise.allSettled([once(stdout, 'close'), once(stderr, 'close')])
    void child.ended.then(async (how) => {
      await Promise.race([drained, pause(EXIT_WAIT_MS)])
      end(`The server's process ${how}.${output.printed}`)
    })
    // Without a pipe nothing can be answered, whether or not the process lives on.
    const lose = async (pipe: string): Promise<void> => {
      await Promise.race([child.ended, pause(EXIT_WAIT_MS)])
      if (child.hasEnded) return
      leave(`The server closed its ${pipe}, though its process has not ended.${output.printed}`)
    }
    stdout.once('close', () => void lose('output'))
    stdin.once('error', () => void lose('input'))
    return new StdioTransport(child, output, over)
  }
}

class StdioTransport implements UpstreamTransport {
  readonly hasProvenance = false
  readonly #child: Child
  readonly #output: PlainOutput
  /** Resolves with how it ended. */
  readonly #over: Promise<string>

  constructor(child: Child, output: PlainOutput, over: Promise<string>) {
    this.#child = child
    this.#output = output
    this.#over = over
  }

  get printed(): string {
    return this.#output.printed
  }

  async send(message: string): Promise<void> {
    const { stdin } = this.#child
    if (!stdin.writable) {
      const how = await within(this.#over, 2 * EXIT_WAIT_MS, "The server's process has ended.")
      throw new GatewayError('SERVER_UNAVAILABLE', how, { isUnsent: true })
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
