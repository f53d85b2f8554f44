/** `gatehouse record`: runs in front of one server and writes what passes to a file. */
import { accessSync, constants, existsSync } from 'node:fs'
import { dirname } from 'node:path'
import type { Writable } from 'node:stream'
import { finished } from 'node:stream/promises'
import { isSecretName } from '../core/text/secret-names.ts'
import { openLog } from '../observability/log.ts'
import { Gateway } from '../gateway/gateway.ts'
import { cassetteMask, recordingInterceptor } from '../testkit/recorder.ts'
import { plainSettings } from '../testkit/settings.ts'
import { readNamed } from './options.ts'
import { type Io, pathOf, printError } from './io.ts'
import { privateFile } from './private-file.ts'
import { serveOne } from './serve-one.ts'
import { UsageError } from './words.ts'

/** `gatehouse record SERVER -o FILE`: serves a server and records it. */
export async function record(args: readonly string[], io: Io): Promise<number> {
  const allowed = ['config', 'port', 'output', 'force', 'log-level']
  const { source, server, words, options } = readNamed(args, allowed, io, { isOne: true })
  const { output, port } = options
  if (!server) throw new UsageError('give a server of the configuration')
  if (words.length > 0) throw new UsageError(`"${words[0]}" is not expected: give one server`)
  if (output === undefined) throw new UsageError('give the file to write with -o FILE')
  if (existsSync(pathOf(output, io)) && !options.force)
    throw new Error(`${output} exists. Give another file, or --force to replace it`)
  const file = new RecordingFile(output, io)
  const { settings } = source
  const plain = plainSettings(settings, server)
  const intercept = recordingInterceptor({
    mask: cassetteMask(settings, server.name, secretVariables(io)),
    now: Date.now,
    write: (line) => file.write(line),
  })
  const gateway = new Gateway(
    { ...plain, listen: { ...plain.listen, ...(port !== undefined && { port }) } },
    { variables: io.env, log: openLog(options.logLevel ?? 'warn', io), intercept },
  )
  await serveOne(gateway, port, io)
  if (await file.close()) return 0
  printError(`nothing was requested, so ${output} was not written`, io)
  return 0
}

/** The file of a recording, which is opened by the first line. */
class RecordingFile {
  readonly #name: string
  readonly #path: string
  #file: Writable | undefined
  #end: Promise<Error | undefined> = Promise.resolve(undefined)

  /** @throws Error if files cannot be written there */
  constructor(name: string, io: Io) {
    this.#name = name
    this.#path = pathOf(name, io)
    try {
      accessSync(dirname(this.#path), constants.W_OK)
    } catch (cause) {
      throw new Error(`${name} cannot be written: its folder does not exist, or is not writable`, { cause })
    }
  }

  write(line: string): void {
    this.#file ??= this.#open()
    this.#file.write(line)
  }

  #open(): Writable {
    const file = privateFile(this.#path)
    this.#end = finished(file).then(
      () => undefined,
      (error: unknown) => (error instanceof Error ? error : new Error(String(error))),
    )
    return file
  }

  /** Whether anything was written. @throws Error if not all of it could be */
  async close(): Promise<boolean> {
    this.#file?.end()
    const problem = await this.#end
    if (problem) throw new Error(`${this.#name} could not be written: ${problem.message}`)
    return this.#file !== undefined
  }
}

/** The folders of a shell, whose names look like those of passwords. */
const folders: readonly string[] = ['PWD', 'OLDPWD']

/** The values of variables that are secret by their names: a server may have got them in another way. */
export function secretVariables({ env }: Pick<Io, 'env'>): readonly string[] {
  return Object.entries(env).flatMap(([name, value]) =>
    value !== undefined && isSecretName(name) && !folders.includes(name) ? [value] : [],
  )
}
