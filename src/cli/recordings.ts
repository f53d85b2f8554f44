/**
 * `gatehouse record`, `replay` and `diff`: run in front of one server and write what passes to a file; serve such a recording in the
 * place of its server, or turn a request of it into a test; compare two, or one with what its server answers now.
 */
import { accessSync, constants, readFileSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import type { Writable } from 'node:stream'
import { finished } from 'node:stream/promises'
import { fromArguments } from '../config/load.ts'
import type { Settings } from '../core/settings.ts'
import { oneLine, shortened } from '../core/text/escape.ts'
import type { Gateway } from '../gateway/gateway.ts'
import { openLog } from '../observability/log.ts'
import { type Cassette, parseCassette } from '../testkit/cassette.ts'
import { conversationsOf, testFile } from '../testkit/conversations.ts'
import { createPlayer } from '../testkit/player.ts'
import { cassetteMask, recordingInterceptor } from '../testkit/recorder.ts'
import { plainSettings } from '../testkit/settings.ts'
import { type Given, UsageError, serverWords } from './command.ts'
import { commands } from './commands.ts'
import { inputPath, type Io, pathOf, printError, write } from './io.ts'
import type { Output } from './output.ts'
import { mustBeFree, privateFile, writePrivate } from './private-file.ts'
import { bindProblem, SHUTDOWN_TIMEOUT_MS } from './serve.ts'
import { openGateway, readServer, secretVariables, connected, withGateway } from './source.ts'
import {
  diffCassettes,
  type Comparison,
  type ChangedValue,
  repeatLive,
  type Skipped,
} from '../testkit/diff.ts'

/** `gatehouse record SERVER -o FILE`: serves a server and records it. */
export async function record(given: Given<typeof commands.record>, io: Io): Promise<Output> {
  const { source, server } = readServer(given, io)
  const { output, port } = given
  mustBeFree(output, given.force, io)
  const file = new RecordingFile(output, io)
  const plain = plainSettings(source.settings, server)
  const intercept = recordingInterceptor({
    mask: cassetteMask(source.settings, server.name, secretVariables(io)),
    now: Date.now,
    write: (line) => file.write(line),
  })
  const settings = { ...plain, listen: { ...plain.listen, ...(port !== undefined && { port }) } }
  await serveOne(
    openGateway(settings, { io, log: openLog(given.logLevel ?? 'warn', io), intercept }),
    port,
    io,
  )
  if (!(await file.close())) printError(`nothing was requested, so ${output} was not written`, io)
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

/** The maximum length of a line of `--list`, in characters. */
const MAX_LISTED = 160

/** `gatehouse replay FILE`: serves a recording over stdio, or over HTTP with `--port`. */
export async function replay(given: Given<typeof commands.replay>, io: Io): Promise<Output> {
  const { port, output } = given
  const cassette = readRecording(given.file, io)
  if (given.list) return { entries: listed(cassette) }
  if (given.toTest !== undefined) {
    const text = testOf(cassette, given.toTest)
    if (output === undefined) write(text, io)
    else writePrivate(pathOf(output, io), text, { isNew: true })
    return 0
  }
  const { intercept, revision } = createPlayer(cassette)
  const options = { io, variables: {}, log: openLog('warn', io), intercept }
  await serveOne(openGateway(replaySettings(revision, given, io), options), port, io)
  return 0
}

/** Settings for a gateway whose server is a recording: its command is never run. */
function replaySettings(
  revision: string,
  { port, host }: Pick<Given<typeof commands.replay>, 'port' | 'host'>,
  io: Io,
): Settings {
  const listen = { ...(port !== undefined && { port }), ...(host !== undefined && { host }) }
  const settings = fromArguments(['recording'], { listen, env: io.env })
  const [server] = settings.upstreams
  if (!server) throw new Error('a recording needs a server')
  return plainSettings(settings, { ...server, revision, roots: 'client' })
}

async function* listed(cassette: Cassette) {
  for (const [index, { method, params, line }] of conversationsOf(cassette).entries()) {
    const text = oneLine(`${index + 1}  ${method} ${JSON.stringify(params)}`)
    yield {
      json: { number: index + 1, method, params, line },
      text: `${shortened(text, MAX_LISTED)}  (line ${line})`,
    }
  }
}

/** The request of a number as a test. @throws UsageError */
function testOf(cassette: Cassette, number: string): string {
  const conversations = conversationsOf(cassette)
  const conversation = /^\d+$/.test(number) ? conversations[Number(number) - 1] : undefined
  if (conversation) return testFile(conversation, cassette)
  const range = conversations.length === 0 ? 'it has no requests' : `1 to ${conversations.length}`
  throw new UsageError(`--to-test must be the number of a request: ${range}, listed by --list`)
}

/** The largest file that is read, in bytes. */
const MAX_FILE = 256 * 1024 * 1024

/** Reads a recording. @throws Error that names the file, and the line where there is one */
export function readRecording(file: string, io: Io): Cassette {
  const path = inputPath(file, io)
  let size: number
  try {
    const found = statSync(path)
    if (!found.isFile()) throw new Error(`${file} is not a file`)
    size = found.size
  } catch (error) {
    const isMissing = error instanceof Error && 'code' in error && error.code === 'ENOENT'
    throw isMissing
      ? new Error(`${file} does not exist. Record one with gatehouse record SERVER -o ${file}`)
      : error
  }
  if (size > MAX_FILE) throw new Error(`${file} has ${size} bytes; at most ${MAX_FILE} are read`)
  return parseCassette(readFileSync(path, 'utf8'), file)
}

/** Serves over stdio without a port. Resolves when the input ends, or at a signal; the gateway is closed then. */
async function serveOne(gateway: Gateway, port: number | undefined, io: Io): Promise<void> {
  try {
    if (port === undefined) {
      await Promise.race([gateway.stdio(io.stdin, io.stdout), io.untilStopped(true)])
      return
    }
    const stopped = io.untilStopped(io.stderr.isTTY)
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

/** The maximum length of a printed value, in characters. */
const MAX_SHOWN = 200

interface Report extends Comparison {
  /** The requests of the recording that were not made at the live server. */
  readonly skipped: readonly Skipped[]
}

type DiffOptions = Given<typeof commands.diff>

/** `gatehouse diff FILE FILE` or `--live SERVER`: exit code 1 if the answers differ. */
export async function diff(given: DiffOptions, io: Io): Promise<Output> {
  const { first, second, live, command } = given
  if ((live !== undefined || command !== undefined) === (second !== undefined))
    throw new UsageError(commands.diff.hint ?? '')
  const before = readRecording(first, io)
  const report: Report =
    second === undefined
      ? await diffLive(before, given, io)
      : { ...diffCassettes(before, readRecording(second, io)), skipped: [] }
  return { json: report, text: printed(report), code: report.differences.length === 0 ? 0 : 1 }
}

async function diffLive(before: Cassette, given: DiffOptions, io: Io): Promise<Report> {
  const named = given.command ? { words: given.command } : serverWords(given.live ?? '')
  const { source, server } = readServer({ ...given, server: named }, io)
  const lines: string[] = []
  const intercept = recordingInterceptor({
    mask: cassetteMask(source.settings, server.name, secretVariables(io)),
    now: Date.now,
    write: (line) => lines.push(line),
  })
  return withGateway(plainSettings(source.settings, server), { io, intercept }, async (gateway) => {
    await connected(gateway, server)
    const skipped = await repeatLive(before, gateway.handle, server.name, given.allowWrites)
    // Nothing is recorded before a client requests something.
    const after = lines.length === 0 ? { ...before, frames: [] } : parseCassette(lines.join(''), server.name)
    const { compared, differences } = diffCassettes(before, after)
    const isMade = (line: number | undefined) => !skipped.some((each) => each.line === line)
    // What was not asked is not missing, and what the gateway asks for itself is not new.
    return {
      compared,
      skipped,
      differences: differences.filter(({ kind, lines: [line] }) => kind !== 'added' && isMade(line)),
    }
  })
}

function printed({ compared, differences, skipped }: Report): string {
  const lines = differences.flatMap(({ kind, method, params, lines: [before, after], values }) => {
    const sign = { changed: '~', removed: '-', added: '+' }[kind]
    const where = [before, after].flatMap((line) => line ?? []).join(' and ')
    return [`${sign} ${method} ${shown(params)} (line ${where})`, ...values.map(valueLine)]
  })
  const notMade = skipped.map(
    ({ method, name, line, reason }) =>
      `  not made: ${method}${name === undefined ? '' : ` ${oneLine(name)}`} (line ${line}): ${reason}`,
  )
  const count = `${differences.length} of ${compared} compared requests differ, or are in one only`
  const summary = differences.length === 0 ? `No difference in ${compared} compared requests` : count
  return [...lines, ...notMade, summary].join('\n')
}

function valueLine(value: ChangedValue): string {
  const before = 'before' in value ? shown(value.before) : 'absent'
  const after = 'after' in value ? shown(value.after) : 'absent'
  return `    ${oneLine(value.path)}: ${before} → ${after}`
}

function shown(value: unknown): string {
  return shortened(oneLine(JSON.stringify(value) ?? 'nothing'), MAX_SHOWN)
}
