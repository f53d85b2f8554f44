/** `gatehouse test`: tests a server with calls generated from the schemas of its tools. */
import type { Settings, UpstreamSettings } from '../core/settings.ts'
import { oneLine } from '../core/text/escape.ts'
import { Redactor, secretsOf } from '../core/text/redactor.ts'
import { milliseconds } from '../core/time/units.ts'
import { openLog } from '../observability/log.ts'
import { Gateway } from '../gateway/gateway.ts'
import { isClean, junit, reportText } from '../testkit/report.ts'
import { OpeningCapture } from '../testkit/server-test/opening.ts'
import { type ServerReport, testServer } from '../testkit/server-test/server-test.ts'
import { ServerSession } from '../testkit/server-test/session.ts'
import { AnswerCapture, type UndoableCalls } from '../testkit/server-test/writing-test.ts'
import { plainSettings } from '../testkit/settings.ts'
import { readNamed } from './options.ts'
import { type Io, pathOf, write, writeError } from './io.ts'
import { writePrivate } from './private-file.ts'
import { secretVariables } from './record.ts'
import { configWords, didYouMean, parseWords, UsageError } from './words.ts'

/** How long a request waits for its response by default, and how long a run takes at most. */
const DEFAULT_TIMEOUT = '10s'
const DEFAULT_MAX_TIME = '100s'

/** `gatehouse test SERVER`: exit code 1 if a check fails. */
export async function test(args: readonly string[], io: Io): Promise<number> {
  const separator = args.indexOf('--')
  const { values, positionals } = parseWords(separator === -1 ? args : args.slice(0, separator), {
    config: { type: 'string', short: 'c' },
    'env-file': { type: 'string' },
    tool: { type: 'string', multiple: true },
    'allow-writes': { type: 'boolean' },
    seed: { type: 'string' },
    timeout: { type: 'string' },
    'max-time': { type: 'string' },
    junit: { type: 'string' },
    json: { type: 'boolean' },
  })
  if (values.json === true && values.junit !== undefined)
    throw new UsageError('give either --json or --junit FILE')
  const seed = seedOf(values.seed ?? '1')
  const timeout = durationOf(values.timeout ?? DEFAULT_TIMEOUT, '--timeout')
  const maxTime = durationOf(values['max-time'] ?? DEFAULT_MAX_TIME, '--max-time')
  const named = [...configWords(values), ...positionals, ...(separator === -1 ? [] : args.slice(separator))]
  const { source, server, words } = readNamed(named, ['config'], io, { isOne: true })
  if (!server) throw new UsageError('give a server of the configuration')
  if (words.length > 0) throw new UsageError(`"${words[0]}" is not expected: give one server`)
  const capture = new OpeningCapture()
  const gateway = new Gateway(plainSettings(source.settings, server), {
    variables: io.env,
    log: openLog('error', io),
    intercept: capture.intercept,
  })
  const redactor = new Redactor()
  redactor.learn([...secretsOf(source.settings), ...secretVariables(io)])
  const writes = new WritingGateway(source.settings, server, io)
  let session: ServerSession | undefined
  try {
    const status = await gateway.explore(server.name)
    if (status?.problem !== undefined) throw new Error(`${server.name} cannot be reached: ${status.problem}`)
    const { open, era } = await capture.take()
    session = new ServerSession({
      open,
      era,
      revision: status?.revision ?? '',
      isHttp: server.reach.kind === 'url',
      timeout,
      startTimeout: server.startTimeout,
      now: () => performance.now(),
    })
    await session.connect()
    const report = await testServer(session, {
      settings: server,
      redactor,
      seed,
      tools: values.tool ?? [],
      onTools: (names) => checkTools(values.tool ?? [], names),
      undoable: values['allow-writes'] ? () => writes.open() : undefined,
      maxTime,
      now: Date.now,
      onProgress: (text) => writeError(`${oneLine(text)}\n`, io),
    })
    write(values.json === true ? `${JSON.stringify(report, null, 2)}\n` : printed(report), io)
    if (values.junit !== undefined) writePrivate(pathOf(values.junit, io), junit(report))
    return isClean(report) ? 0 : 1
  } finally {
    await session?.close()
    await Promise.all([gateway.close(), writes.close()])
  }
}

function checkTools(wanted: readonly string[], names: readonly string[]): void {
  const missing = wanted.find((name) => !names.includes(name))
  if (missing !== undefined)
    throw new UsageError(`the server has no tool "${missing}"${didYouMean(missing, names)}`)
}

/** A gateway whose calls can be undone, for tools that may change something. */
class WritingGateway {
  readonly #settings: Settings
  readonly #server: UpstreamSettings
  readonly #io: Io
  #gateway: Gateway | undefined

  constructor(settings: Settings, server: UpstreamSettings, io: Io) {
    this.#settings = settings
    this.#server = server
    this.#io = io
  }

  async open(): Promise<UndoableCalls> {
    const answers = new AnswerCapture(() => performance.now())
    const { features } = this.#settings
    const plain = plainSettings(this.#settings, this.#server)
    const needed = ['idempotency', 'transactions', 'undo'].flatMap((name) => {
      const own = features[name]
      return own ? [[name, own] as const] : []
    })
    const gateway = new Gateway(
      {
        ...plain,
        hasMethods: true,
        features: Object.fromEntries(needed),
        upstreams: plain.upstreams.map((each) => ({ ...each, tools: this.#server.tools })),
      },
      { variables: this.#io.env, log: openLog('error', this.#io), intercept: answers.intercept },
    )
    this.#gateway = gateway
    await gateway.start()
    return { handle: gateway.handle, answers, doubt: (tool) => doubtOf(gateway, this.#server.name, tool) }
  }

  async close(): Promise<void> {
    await this.#gateway?.close()
  }
}

/** Why the calls of a tool cannot be undone with certainty. */
async function doubtOf(gateway: Gateway, server: string, tool: string): Promise<string | undefined> {
  const undoing = (await gateway.inspect(server, tool))?.undoing
  if (!undoing) return 'the server does not list it any more'
  const { how, from, rule, why, caveats } = undoing
  if (from !== 'proposal' && rule && how === 'exact') return undefined
  if (from === 'proposal' && how !== 'unsure')
    return 'its undo is only a proposal: set undo of the tool, as gatehouse plan prints it'
  return `it cannot be undone with certainty: ${[...caveats, ...why][0] ?? 'no undo is known'}`
}

function seedOf(text: string): number {
  const seed = Number(text)
  if (!/^\d{1,9}$/.test(text)) throw new UsageError('--seed must be a number from 0 to 999999999')
  return seed
}

function durationOf(text: string, option: string): number {
  try {
    return milliseconds(text)
  } catch {
    throw new UsageError(`${option} must be a duration such as 500ms, 10s or 2m`)
  }
}

function printed(report: ServerReport): string {
  const listed = report.results.filter(
    ({ status, message = '' }) => status !== 'passed' || message.startsWith('warning'),
  )
  const { total, areas } = report.score
  const parts = Object.entries(areas).map(([area, share]) => `${area} ${share}`)
  const score = total === null ? 'nothing was checked' : `score ${total} of 100: ${parts.join(', ')}`
  return `${reportText({ ...report, results: listed })}${score}\n`
}
