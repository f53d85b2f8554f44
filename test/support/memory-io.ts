/** The process of a command as the command sees it, in memory: several commands run in one real process. */
import { PassThrough, Writable } from 'node:stream'
import { StringDecoder } from 'node:string_decoder'
import type { Io } from '../../src/cli/io.ts'

/** What a command writes to, what it reads, and how it is stopped. */
export interface MemoryIo extends Io {
  readonly stdin: PassThrough
  /** The output so far. */
  readonly written: { readonly stdout: string; readonly stderr: string }
  /** Does what a stop signal does. */
  stop(): void
}

/** By default, a command has no variables, and runs in the folder of this process. */
export function memoryIo({
  env = {},
  cwd = process.cwd(),
  isTerminal = false,
}: Partial<Pick<Io, 'env' | 'cwd'>> & { readonly isTerminal?: boolean } = {}): MemoryIo {
  const written = { stdout: '', stderr: '' }
  const stopped = Promise.withResolvers<void>()
  return {
    stdin: Object.assign(new PassThrough(), { isTTY: isTerminal }),
    stdout: textSink((text) => void (written.stdout += text)),
    stderr: Object.assign(
      textSink((text) => void (written.stderr += text)),
      { isTTY: isTerminal },
    ),
    log: (lines) => void (written.stderr += lines),
    env,
    cwd,
    untilStopped: () => stopped.promise,
    written,
    stop: stopped.resolve,
  }
}

function textSink(add: (text: string) => void): Writable {
  const decoder = new StringDecoder()
  return new Writable({
    write(chunk: Buffer, _encoding, done) {
      add(decoder.write(chunk))
      done()
    },
  })
}
