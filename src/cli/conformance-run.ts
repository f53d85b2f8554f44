/** Opens a gateway for a run of the conformance suite: a server as it is configured, and the built-in one beside it. */
import { fromArguments } from '../config/load.ts'
import { isObject } from '../core/json/json.ts'
import { featureSettings, type Settings, type UpstreamSettings } from '../core/settings.ts'
import { aliasOf } from '../core/text/alias.ts'
import { oneLine } from '../core/text/escape.ts'
import { withoutSecrets } from '../core/text/redact.ts'
import { Redactor, secretsOf } from '../core/text/redactor.ts'
import { openLog } from '../observability/log.ts'
import { Gateway } from '../gateway/gateway.ts'
import { type Context, listTools, withoutOwn } from '../testkit/conformance/check.ts'
import { Connections, Endpoint } from '../testkit/conformance/client.ts'
import { EchoServer, definitions } from '../testkit/conformance/echo-server.ts'
import { runChecks, checks } from '../testkit/conformance/run.ts'
import { createTokens, echoNameFor, type RunTokens, runSettings } from '../testkit/conformance/settings.ts'
import type { CheckResult, Report } from '../testkit/report.ts'
import { type Io, printError } from './io.ts'
import { secretVariables } from './record.ts'

interface RunOptions {
  readonly io: Io
  /** Also calls tools that change something. */
  readonly withWrites: boolean
  onResult(result: CheckResult, done: number): void
}

/** Runs the suite against a server. @throws Error if it cannot be reached */
export async function runSuite(
  settings: Settings,
  server: UpstreamSettings,
  options: RunOptions,
): Promise<Report> {
  const { io } = options
  const tokens = createTokens()
  const echoName = echoNameFor(settings)
  const echo = new EchoServer()
  const [plain] = fromArguments(['conformance'], { env: {} }).upstreams
  if (!plain) throw new Error('the built-in server has no settings')
  const gateway = new Gateway(runSettings(settings, { server, plain, echoName, tokens }), {
    variables: io.env,
    // The lists are judged as the server sends them.
    isUnchecked: true,
    log: openLog('error', io),
    intercept: echo.interceptor(echoName),
  })
  const connections = new Connections()
  try {
    const version = await startedVersion(gateway, server)
    const listener = await gateway.listen()
    try {
      const addresses = { origin: listener.url, tokens, connections, gateway, echo, echoName }
      const context = await contextOf(settings, server, {
        ...addresses,
        io,
        withWrites: options.withWrites,
      })
      return await runChecks(checks, context, {
        version,
        clean: cleaner(settings, tokens, io),
        onResult: options.onResult,
      })
    } finally {
      await listener.close()
    }
  } finally {
    await connections.close()
    await gateway.close()
  }
}

/** The longest version in a report, in characters. */
const MAX_VERSION_LENGTH = 100

/** Connects to the servers. Returns the version of the one under test. @throws Error if it cannot be reached */
async function startedVersion(gateway: Gateway, { name }: UpstreamSettings): Promise<string> {
  await gateway.start()
  const { problem, revision } = gateway.statuses.get(name) ?? {}
  if (problem !== undefined) throw new Error(`${name} cannot be reached: ${problem}`)
  if (revision === undefined)
    throw new Error(`${name} cannot be checked: each caller has its own credentials for it`)
  const version = await gateway.describe(name, (found) => found.wireVersion ?? found.version)
  return version.slice(0, MAX_VERSION_LENGTH).toWellFormed()
}

interface Addresses extends Pick<Context, 'echo' | 'echoName' | 'withWrites'> {
  readonly io: Io
  readonly origin: string
  readonly tokens: RunTokens
  readonly connections: Connections
  readonly gateway: Gateway
}

async function contextOf(
  settings: Settings,
  { name }: UpstreamSettings,
  { io, origin, tokens, connections, gateway, echo, echoName, withWrites }: Addresses,
): Promise<Context> {
  const endpoint = (server: string, token: string): Endpoint =>
    new Endpoint({ origin, path: `/mcp/${server}`, token, connections })
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
    hasTools: settings.metaTools !== 'off',
    hasMethods: settings.hasMethods,
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
  const calls = isObject(settings) && isObject(settings.arguments) ? settings.arguments : {}
  return Object.fromEntries(
    Object.entries(calls).flatMap(([tool, args]) => (isObject(args) ? [[tool, args]] : [])),
  )
}

/** Removes the secrets of the configuration, of the environment and of the run from texts. */
function cleaner(settings: Settings, tokens: RunTokens, io: Io): (text: string) => string {
  const redactor = new Redactor()
  redactor.learn([...secretsOf(settings), ...secretVariables(io), ...Object.values(tokens)])
  return (text) => withoutSecrets(redactor.text(text))
}
