/**
 * `gatehouse conformance`: checks what clients of a server get through the gateway against the extension proposals. The server runs
 * as it is configured, behind a gateway in this process, and the built-in one beside it.
 */
import { fromArguments } from '../config/load.ts'
import { asObject, isObject } from '../core/json/json.ts'
import { featureSettings, type Settings, type UpstreamSettings } from '../core/settings.ts'
import { aliasOf } from '../core/text/alias.ts'
import { oneLine } from '../core/text/escape.ts'
import { withoutSecrets } from '../core/text/redact.ts'
import type { Gateway } from '../gateway/gateway.ts'
import { type Context, listTools, withoutOwn } from '../testkit/conformance/check.ts'
import { createConnections, Endpoint } from '../testkit/conformance/client.ts'
import { EchoServer, definitions } from '../testkit/conformance/echo-server.ts'
import { checks, runChecks, suiteDocument } from '../testkit/conformance/run.ts'
import { createTokens, echoNameFor, type RunTokens, runSettings } from '../testkit/conformance/settings.ts'
import { type CheckResult, isClean, junit, type Report, reportText } from '../testkit/report.ts'
import { type Given, UsageError } from './command.ts'
import type { commands } from './commands.ts'
import { type Io, printError, printJson } from './io.ts'
import { keepReports } from './keep-reports.ts'
import type { Output } from './output.ts'
import { writeReport } from './private-file.ts'
import { OWN_CREDENTIALS, readServers, redactorFor, withGateway } from './source.ts'

/** `gatehouse conformance [SERVER]`: exit code 1 if a check failed or could not be carried out. */
export async function conformance(
  { suite, ...given }: Given<typeof commands.conformance>,
  io: Io,
): Promise<Output> {
  const { junit: file, allowWrites: withWrites, json: isJson } = given
  if (suite) {
    if (Object.values(given).some((value) => value !== undefined && value !== false))
      throw new UsageError('--suite prints the suite, and takes no server and no other option')
    printJson(suiteDocument(), io)
    return 0
  }
  const { source, servers } = readServers(given, io)
  if (file !== undefined && servers.length > 1) throw new UsageError('name one server with --junit')
  const reports = await runAll(source.settings, servers, { withWrites, io })
  const [first] = reports
  if (file !== undefined && first) writeReport(file, junit(first), io)
  await keepReports('conformance', reports, source.settings, io)
  const code = reports.length === servers.length && reports.every(isClean) ? 0 : 1
  // One report as it is, those of several servers in a list.
  const json = servers.length === 1 ? first : { reports }
  if (isJson && json === undefined) return code
  return { json, text: reports.map(reportText).join('\n').replace(/\n$/, ''), code }
}

/** The reports of the servers that can be reached; of the others, the reason is printed. */
async function runAll(
  settings: Settings,
  servers: readonly UpstreamSettings[],
  { withWrites, io }: { readonly withWrites: boolean; readonly io: Io },
): Promise<readonly Report[]> {
  const reports: Report[] = []
  for (const server of servers) {
    const progress = progressOf(server.name, io)
    try {
      reports.push(await runSuite(settings, server, { io, withWrites, onResult: progress.onResult }))
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error)
      printError(message, io)
    } finally {
      progress.end()
    }
  }
  return reports
}

/** How many checks are between two lines of progress where there is no terminal. */
const LINE_EVERY = 20

/** Prints how far a run is: on one line of a terminal, else a line now and then. */
function progressOf(name: string, { stderr }: Io) {
  const isTerminal = stderr.isTTY
  return {
    onResult: (_result: unknown, done: number): void => {
      const text = `${name}: ${done} of ${checks.length} checks`
      if (isTerminal) stderr.write(`\r${text}`)
      else if (done % LINE_EVERY === 0 || done === checks.length) stderr.write(`${text}\n`)
    },
    end: (): void => {
      if (isTerminal) stderr.write('\r\u001B[K')
    },
  }
}

interface SuiteRun {
  readonly io: Io
  /** Also calls tools that change something. */
  readonly withWrites: boolean
  onResult(result: CheckResult, done: number): void
}

/** Runs the suite against a server. @throws Error if it cannot be reached */
async function runSuite(settings: Settings, server: UpstreamSettings, run: SuiteRun): Promise<Report> {
  const { io, withWrites, onResult } = run
  const tokens = createTokens()
  const echoName = echoNameFor(settings)
  const echo = new EchoServer()
  const [plain] = fromArguments(['conformance'], { env: {} }).upstreams
  if (!plain) throw new Error('the built-in server has no settings')
  const connections = createConnections()
  // The lists are judged as the server sends them.
  const options = { io, isUnchecked: true, intercept: echo.interceptor(echoName) }
  const configured = runSettings(settings, { server, plain, echoName, tokens })
  return withGateway(configured, options, async (gateway) => {
    try {
      const version = await startedVersion(gateway, server)
      const listener = await gateway.listen()
      try {
        const addresses = { origin: listener.url, tokens, connections, gateway, echo, echoName }
        const context = await contextOf(settings, server, { ...addresses, io, withWrites })
        const redactor = redactorFor(settings, io, Object.values(tokens))
        const clean = (text: string): string => withoutSecrets(redactor.text(text))
        return await runChecks(checks, context, { version, clean, onResult })
      } finally {
        await listener.close()
      }
    } finally {
      await connections.destroy()
    }
  })
}

/** The longest version in a report, in characters. */
const MAX_VERSION_LENGTH = 100

/** Connects to the servers. Returns the version of the one under test. @throws Error if it cannot be reached */
async function startedVersion(gateway: Gateway, { name }: UpstreamSettings): Promise<string> {
  await gateway.start()
  const { problem, revision } = gateway.statuses.get(name) ?? {}
  if (problem !== undefined) throw new Error(`${name} cannot be reached: ${problem}`)
  if (revision === undefined) throw new Error(`${name} cannot be checked: ${OWN_CREDENTIALS}`)
  const version = await gateway.describe(name, (found) => found.wireVersion ?? found.version)
  return version.slice(0, MAX_VERSION_LENGTH).toWellFormed()
}

interface Addresses extends Pick<Context, 'echo' | 'echoName' | 'withWrites'> {
  readonly io: Io
  readonly origin: string
  readonly tokens: RunTokens
  readonly connections: ReturnType<typeof createConnections>
  readonly gateway: Gateway
}

async function contextOf(
  settings: Settings,
  { name }: UpstreamSettings,
  { io, origin, tokens, connections, gateway, echo, echoName, withWrites }: Addresses,
): Promise<Context> {
  const hasTools = settings.metaTools !== 'off'
  const own = settings.hasMethods ? 'methods' : hasTools ? 'tools' : 'off'
  const endpoint = (server: string, token: string): Endpoint =>
    new Endpoint(`${origin}/mcp/${server}`, token, own, connections)
  const [server, ours] = [endpoint(name, tokens.ours), endpoint(echoName, tokens.ours)]
  const [listing, echoListing] = [await listTools(server), await listTools(ours)]
  // The gateway lists the same tools of its own at both addresses.
  const echoTools = new Set<unknown>(definitions.map((each) => each.name))
  const ownTools = new Set(withoutOwn(echoListing, echoTools).map((each) => each.name))
  const tools = withoutOwn(listing, ownTools)
  const reading = await namesOfReaders(gateway, name)
  const calls = argumentsIn(featureSettings(settings, 'conformance', name))
  warnOfUnknown(name, unlisted(Object.keys(calls), tools), io)
  return {
    name,
    server,
    listing,
    tools,
    readers: tools.filter((tool) => reading.has(tool.name) && isReader(tool)),
    calls,
    withWrites,
    echo,
    echoName,
    ours,
    theirs: endpoint(echoName, tokens.theirs),
    reader: endpoint(echoName, tokens.reader),
    settings: (feature) => featureSettings(settings, feature, name),
    hasTools,
  }
}

/** The names, also those in the profile `corporate`, of the tools that the gateway judges to only read. */
async function namesOfReaders(gateway: Gateway, server: string): Promise<ReadonlySet<unknown>> {
  // If the list cannot be read, a check fails for it, and no tool is called.
  const entries = await gateway.entries(server).catch(() => [])
  const readers = entries.filter(({ classification }) => classification.op === 'read')
  return new Set(readers.flatMap(({ name }) => [name, aliasOf(name)]))
}

function isReader({ annotations }: Context['tools'][number]): boolean {
  return isObject(annotations) && annotations.readOnlyHint === true
}

/** The tools with configured arguments that the server does not list. */
function unlisted(configured: readonly string[], tools: Context['tools']): readonly string[] {
  const listed = new Set(tools.map(({ name }) => name))
  return configured.filter((name) => !listed.has(name))
}

function warnOfUnknown(server: string, unknown: readonly string[], io: Io): void {
  for (const tool of unknown)
    printError(`features.conformance.arguments of ${server}: the server lists no tool ${oneLine(tool)}`, io)
}

/** The configured arguments of tools. */
function argumentsIn(settings: unknown): Context['calls'] {
  const calls = asObject(asObject(settings).arguments)
  return Object.fromEntries(
    Object.entries(calls).flatMap(([tool, args]) => (isObject(args) ? [[tool, args]] : [])),
  )
}
