/** `gatehouse prove`: calls the tools of a server in a sandbox, and writes what is proved about them to a pack. */
import { existsSync, readFileSync } from 'node:fs'
import { fromArguments } from '../config/load.ts'
import { type Claim, claims } from '../core/proof.ts'
import type { Descriptor } from '../core/descriptor.ts'
import { self } from '../core/identity.ts'
import type { Settings, UpstreamSettings } from '../core/settings.ts'
import { withoutSecrets } from '../core/text/redact.ts'
import { Redactor, secretsOf } from '../core/text/redactor.ts'
import { openLog } from '../observability/log.ts'
import { Gateway } from '../gateway/gateway.ts'
import type { Verdict } from '../testkit/prove/claims.ts'
import {
  packOf,
  type Candidate,
  candidateOf,
  isReading,
  proveTool,
  type ToolProof,
  withRules,
} from '../testkit/prove/prove.ts'
import { readSandbox, type Sandbox } from '../testkit/prove/sandbox.ts'
import { Target, Wire } from '../testkit/prove/target.ts'
import { type GivenCalls, readGivenCalls } from '../testkit/prove/trials.ts'
import {
  type CheckResult,
  type CheckStatus,
  isClean,
  junit,
  reportOf,
  reportText,
} from '../testkit/report.ts'
import { settingsWith } from '../testkit/settings.ts'
import { readNamed } from './options.ts'
import { inputPath, type Io, pathOf, write } from './io.ts'
import { mustBeOwn, writePrivate } from './private-file.ts'
import { secretVariables } from './record.ts'
import { configWords, didYouMean, parseWords, UsageError } from './words.ts'

/** `gatehouse prove SERVER --sandbox PLACE`: exit code 1 if something was refuted or could not be tried. */
export async function prove(args: readonly string[], io: Io): Promise<number> {
  const separator = args.indexOf('--')
  const { values, positionals } = parseWords(separator === -1 ? args : args.slice(0, separator), {
    config: { type: 'string', short: 'c' },
    'env-file': { type: 'string' },
    tool: { type: 'string', multiple: true },
    sandbox: { type: 'string', multiple: true },
    arguments: { type: 'string' },
    output: { type: 'string', short: 'o' },
    force: { type: 'boolean' },
    json: { type: 'boolean' },
    junit: { type: 'string' },
  })
  const named = [...configWords(values), ...positionals, ...(separator === -1 ? [] : args.slice(separator))]
  const { source, server, words } = readNamed(named, ['config'], io, { isOne: true })
  if (!server || words.length > 0) throw new UsageError('give one server')
  const { output } = values
  if (output !== undefined && existsSync(pathOf(output, io)) && values.force !== true)
    throw new Error(`${output} exists. Give another file, or --force to replace it`)
  const { settings } = source
  const request = {
    io,
    settings,
    server,
    sandbox: sandboxOf(values.sandbox ?? [], io),
    given: givenIn(values.arguments, io),
    tools: values.tool ?? [],
  }
  const { proofs, info, all, at } = await proofsOf(request)
  const clean = cleaner(settings, io)
  const results = proofs.flatMap((proof) => resultsOf(proof, clean))
  const subject = { server_name: info.name, server_version: info.version, suite_version: self.version }
  const report = reportOf({ ...subject, tested_at: at.toISOString() }, results)
  const pack = packOf(proofs, { info, all, date: at.toISOString().slice(0, 10) })
  if (output !== undefined) writePrivate(pathOf(output, io), `${JSON.stringify(pack, null, 2)}\n`)
  if (values.junit !== undefined) writePrivate(pathOf(values.junit, io), junit(report))
  const isJson = values.json === true
  write(isJson ? `${JSON.stringify({ ...report, pack }, null, 2)}\n` : reportText(report), io)
  if (!isJson && output !== undefined)
    write(`Wrote ${output}: gatehouse plan --pack ${output} proposes what is proved\n`, io)
  return isClean(report) ? 0 : 1
}

/** @throws UsageError without a sandbox, because the tools are called for real */
function sandboxOf(texts: readonly string[], io: Io): Sandbox {
  if (texts.length === 0)
    throw new UsageError(
      'name the sandbox with --sandbox: the tools are called, and change what is there. Give a folder, an argument and its value such as repo=scratch, or "server" if the whole server is there for tests',
    )
  try {
    const sandbox = readSandbox(texts, io.cwd)
    for (const folder of sandbox.folders) mustBeOwn(folder)
    return sandbox
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error))
  }
}

function givenIn(file: string | undefined, io: Io): ReadonlyMap<string, GivenCalls> {
  if (file === undefined) return new Map()
  const path = inputPath(file, io)
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (cause) {
    throw new Error(`${file} cannot be read`, { cause })
  }
  return readGivenCalls(text, file)
}

/** Removes the secrets of the configuration and what looks like one. */
function cleaner(settings: Settings, io: Io): (text: string) => string {
  const redactor = new Redactor()
  redactor.learn([...secretsOf(settings), ...secretVariables(io)])
  return (text) => withoutSecrets(redactor.text(text))
}

interface Request {
  readonly io: Io
  readonly settings: Settings
  readonly server: UpstreamSettings
  readonly sandbox: Sandbox
  readonly given: ReadonlyMap<string, GivenCalls>
  /** The tools to prove; all that do not only read if empty. */
  readonly tools: readonly string[]
}

interface Proved {
  readonly proofs: readonly ToolProof[]
  readonly info: { readonly name: string; readonly version: string }
  /** All tools of the server. */
  readonly all: readonly Descriptor[]
  /** When the proof began. */
  readonly at: Date
}

/** Calls are undone by a gateway with the rules to prove; a key is sent to one with the configured idempotency. */
async function proofsOf(request: Request): Promise<Proved> {
  const { io, settings, server, sandbox, given, tools } = request
  const at = new Date()
  const { all, info } = await listed(request)
  const candidates = chosen(all, tools, given).map((entry) =>
    candidateOf(entry, all, { tools: server.tools, sandbox, given }),
  )
  const ruled = { ...server, tools: withRules(server.tools, candidates) }
  const others = fromArguments(['none'], {})
  const undoing = settingsWith(['limits', 'idempotency', 'transactions', 'undo'], settings, {
    server: ruled,
    others,
  })
  const keyed = settingsWith(['limits', 'idempotency'], settings, { server: ruled })
  const batch = { io, all, candidates, sandbox, run: at.getTime().toString(36).slice(-6) }
  const first = await findingsOf(undoing, ['undo', 'verify', 'idempotent'], batch)
  const second = await findingsOf(keyed, ['once'], batch)
  const proofs = candidates.map((candidate, index) => {
    const found = [...(first[index] ?? []), ...(second[index] ?? [])]
    return {
      candidate,
      findings: found.toSorted((one, other) => claims.indexOf(one.claim) - claims.indexOf(other.claim)),
    }
  })
  return { proofs, info, all, at }
}

async function listed({ io, settings, server, sandbox }: Request): Promise<Pick<Proved, 'all' | 'info'>> {
  return withGateway(
    settingsWith(['limits'], settings, { server }),
    { io, sandbox },
    async (gateway, { target }) => {
      const all = await gateway.entries(server.name)
      return { all, info: await target.info() }
    },
  )
}

/** The tools to prove. @throws UsageError if one is not listed */
function chosen(
  all: readonly Descriptor[],
  names: readonly string[],
  given: ReadonlyMap<string, GivenCalls>,
): readonly Descriptor[] {
  const known = all.map(({ name }) => name)
  const unknown = [...names, ...given.keys()].find((name) => !known.includes(name))
  if (unknown !== undefined)
    throw new UsageError(`the server lists no tool ${JSON.stringify(unknown)}${didYouMean(unknown, known)}`)
  return all.filter((entry) => (names.length === 0 ? !isReading(entry) : names.includes(entry.name)))
}

interface Batch {
  readonly io: Io
  readonly all: readonly Descriptor[]
  readonly candidates: readonly Candidate[]
  readonly sandbox: Sandbox
  /** Distinguishes what this run writes. */
  readonly run: string
}

function findingsOf(
  settings: Settings,
  wanted: readonly Claim[],
  { io, all, candidates, sandbox, run }: Batch,
): Promise<readonly ToolProof['findings'][]> {
  let last = 0
  const unique = (): string => `gh-${run}-${wanted[0]?.charAt(0)}${++last}`
  return withGateway(settings, { io, sandbox }, async (_gateway, { target, wire }) => {
    const found: ToolProof['findings'][] = []
    for (const candidate of candidates)
      found.push(await proveTool(candidate, wanted, { all, sandbox, target, wire, unique }))
    return found
  })
}

interface Connected {
  readonly target: Target
  readonly wire: Wire
}

/** Runs something with a gateway in front of the only server of these settings. @throws Error if it cannot be reached */
async function withGateway<Result>(
  settings: Settings,
  { io, sandbox }: Pick<Request, 'io' | 'sandbox'>,
  run: (gateway: Gateway, connected: Connected) => Promise<Result>,
): Promise<Result> {
  const [server] = settings.upstreams
  if (!server) throw new UsageError('give one server')
  const wire = new Wire(sandbox, server.renames)
  const gateway = new Gateway(settings, {
    variables: io.env,
    log: openLog('error', io),
    intercept: wire.intercept,
  })
  try {
    const findings = await gateway.start()
    const problem = gateway.statuses.get(server.name)?.problem
    if (problem !== undefined) throw new Error(`${server.name} cannot be reached: ${problem}`)
    const [finding] = findings
    if (finding) throw new Error(`the configuration does not fit the server: ${finding.message}`)
    return await run(gateway, { wire, target: new Target({ handle: gateway.handle, upstream: server.name }) })
  } finally {
    await gateway.close()
  }
}

const statuses: Readonly<Record<Verdict, CheckStatus>> = {
  proved: 'passed',
  refuted: 'failed',
  'no proof': 'skipped',
}

function resultsOf({ candidate, findings }: ToolProof, clean: (text: string) => string): CheckResult[] {
  return findings.map(({ claim, verdict, reason, duration }) => ({
    test_id: `${candidate.entry.name}.${claim}`,
    category: claim,
    status: statuses[verdict],
    message: clean(`${verdict}: ${reason}`),
    duration_ms: Math.round(duration),
  }))
}
