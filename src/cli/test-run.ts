/** Runs the test of one server: connects as the gateway does, and ends in time even if the server does not. */
import type { FeatureSettings, Settings, UpstreamSettings } from '../core/settings.ts'
import { isObject } from '../core/json/json.ts'
import { Redactor, secretsOf } from '../core/text/redactor.ts'
import { durationText } from '../core/time/units.ts'
import { openLog } from '../observability/log.ts'
import { Gateway } from '../gateway/gateway.ts'
import { copiesOf } from '../testkit/prove/copies.ts'
import type { Sandbox } from '../testkit/prove/sandbox.ts'
import { OpeningCapture, ServerSession } from '../testkit/server-test/session.ts'
import { type ServerReport, testServer } from '../testkit/server-test/server-test.ts'
import { AnswerCapture, type UndoableCalls } from '../testkit/server-test/writing-test.ts'
import { plainSettings } from '../testkit/settings.ts'
import { didYouMean, UsageError } from './words.ts'
import type { Io } from './io.ts'
import { secretVariables } from './record.ts'

/** How servers are tested; durations are in milliseconds. */
export interface TestOptions {
  readonly seed: number
  /** How long a response may take. */
  readonly timeout: number
  /** How long the calls of tools that read may take together. */
  readonly maxTime: number
  /** How long the whole run may take; unlimited if undefined. */
  readonly limit?: number | undefined
  /** The names of the tools to call; all if empty. */
  readonly tools: readonly string[]
  /** Whether tools that may change something are called if the call can be undone. */
  readonly withWrites: boolean
  readonly sandbox?: Sandbox | undefined
  /** Whether the server works on throw-away copies of its folders, which are a part of the sandbox. */
  readonly isCopied: boolean
}

interface Run extends TestOptions {
  readonly io: Io
  /** Ends the run early. */
  readonly signal?: AbortSignal | undefined
  onProgress(text: string): void
}

/** A server was not tested, for a reason that says nothing about it. */
export class NotTested extends Error {}

/** Tests a server. @throws NotTested if that cannot be done, or was to end; Error if the server cannot be reached */
export async function runTest(settings: Settings, server: UpstreamSettings, run: Run): Promise<ServerReport> {
  const { sandbox, isCopied, io, signal } = run
  if (signal?.aborted) throw untested(server, INTERRUPTED)
  if (!sandbox || !isCopied) return runHere(settings, server, run)
  const copies = await orNotTested(() => copiesOf(server, io))
  try {
    const folders = [...sandbox.folders, ...copies.folders]
    return await runHere(settings, copies.server, { ...run, sandbox: { ...sandbox, folders } })
  } finally {
    await copies.remove()
  }
}

const INTERRUPTED = 'it was interrupted'

function untested({ name }: UpstreamSettings, reason: string): Error {
  return new Error(`${name} was not tested: ${reason}`)
}

async function runHere(
  settings: Settings,
  server: UpstreamSettings,
  { io, limit, signal, withWrites, ...run }: Run,
): Promise<ServerReport> {
  const capture = new OpeningCapture()
  const log = openLog('error', io)
  const plain = plainSettings(settings, server)
  const gateway = new Gateway(plain, { variables: io.env, log, intercept: capture.intercept })
  const redactor = new Redactor()
  redactor.learn([...secretsOf(settings), ...secretVariables(io)])
  const writes = new WritingGateway(settings, server, io)
  let session: ServerSession | undefined
  let timer: NodeJS.Timeout | undefined
  const ended: { reason?: string } = {}
  const end = (reason: string): void => {
    ended.reason ??= reason
    session?.end(reason)
    writes.end(reason)
    void gateway.close()
  }
  const mustGoOn = (): void => {
    if (ended.reason !== undefined) throw untested(server, ended.reason)
  }
  const stop = (): void => end(INTERRUPTED)
  signal?.addEventListener('abort', stop)
  if (limit !== undefined)
    timer = setTimeout(() => end(`the time for this server, ${durationText(limit)}, is over`), limit)
  try {
    // It may have been while the copies were made.
    if (signal?.aborted) stop()
    mustGoOn()
    const status = await gateway.explore(server.name)
    mustGoOn()
    if (status?.problem !== undefined) throw new Error(`${server.name} cannot be reached: ${status.problem}`)
    // Without a revision the gateway has not connected: there is no caller with whose credentials it could.
    if (status?.revision === undefined)
      throw new NotTested(`${server.name} cannot be tested: each caller has its own credentials for it`)
    const { open, era } = await capture.take()
    mustGoOn()
    session = new ServerSession({
      open,
      era,
      revision: status.revision,
      isHttp: server.reach.kind === 'url',
      timeout: run.timeout,
      startTimeout: server.startTimeout,
      now: () => performance.now(),
    })
    await session.connect()
    return await testServer(session, {
      ...run,
      settings: server,
      redactor,
      onTools: (names) => checkTools(run.tools, names),
      undoable: withWrites ? () => writes.open() : undefined,
      now: Date.now,
    })
  } finally {
    clearTimeout(timer)
    signal?.removeEventListener('abort', stop)
    await session?.close()
    await Promise.all([gateway.close(), writes.close()])
  }
}

async function orNotTested<Made>(make: () => Made | Promise<Made>): Promise<Made> {
  try {
    return await make()
  } catch (cause) {
    throw new NotTested(cause instanceof Error ? cause.message : String(cause), { cause })
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
  #calls: UndoableCalls | undefined
  /** Why no further call is made. */
  #end: string | undefined

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
      return own ? [[name, name === 'transactions' ? withDerivation(own) : own] as const] : []
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
    const doubt = (tool: string): Promise<string | undefined> => doubtOf(gateway, this.#server.name, tool)
    const failure = this.#end
    return (this.#calls = {
      handle: gateway.handle,
      answers,
      doubt,
      ...(failure !== undefined && { failure }),
    })
  }

  /** No further call is made, for this reason. */
  end(reason: string): void {
    this.#end ??= reason
    if (this.#calls) this.#calls.failure ??= reason
  }

  async close(): Promise<void> {
    await this.#gateway?.close()
  }
}

/** The settings of transactions, with undo rules also from proofs and lists. */
function withDerivation({ common, upstreams }: FeatureSettings): FeatureSettings {
  const derived = (own: unknown): unknown => (isObject(own) ? { ...own, auto_undo: true } : own)
  return {
    common: derived(common),
    upstreams: Object.fromEntries(Object.entries(upstreams).map(([name, own]) => [name, derived(own)])),
  }
}

/** Why the calls of a tool cannot be undone with certainty. */
async function doubtOf(gateway: Gateway, server: string, tool: string): Promise<string | undefined> {
  const undoing = (await gateway.inspect(server, tool))?.undoing
  if (!undoing) return 'the server does not list it any more'
  const { how, from, rule, isProved, why, caveats } = undoing
  const isCertain = from === 'configuration' || isProved === true
  if (rule && how === 'exact' && isCertain) return undefined
  if (rule && !isCertain)
    return 'its undo is only a proposal: set undo of the tool, as gatehouse plan prints it, or give --sandbox'
  return `it cannot be undone with certainty: ${[...caveats, ...why][0] ?? 'no undo is known'}. See --sandbox`
}
