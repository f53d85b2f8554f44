/** `gatehouse prove`: calls the tools of a server in a sandbox, and writes what is proved about them to a pack. */
import { fromArguments } from '../config/load.ts'
import { type Claim, claims } from '../core/proof.ts'
import type { Descriptor } from '../core/descriptor.ts'
import { self } from '../core/identity.ts'
import type { Settings, UpstreamSettings } from '../core/settings.ts'
import { withoutSecrets } from '../core/text/redact.ts'
import type { Gateway } from '../gateway/gateway.ts'
import type { Verdict } from '../testkit/prove/claims.ts'
import {
  packOf,
  type ProofCandidate,
  candidateOf,
  isReading,
  proveTool,
  type ToolProof,
  withRules,
} from '../testkit/prove/prove.ts'
import { readSandbox, type Sandbox } from '../testkit/prove/sandbox.ts'
import { ProofTarget, Wire } from '../testkit/prove/target.ts'
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
import { didYouMean, type Given, UsageError } from './command.ts'
import type { commands } from './commands.ts'
import { type Io, pathOf } from './io.ts'
import type { Output } from './output.ts'
import { mustBeFree, mustBeOwn, readInput, writePrivate } from './private-file.ts'
import { readServer, redactorFor, withGateway } from './source.ts'

/** `gatehouse prove SERVER --sandbox PLACE`: exit code 1 if something was refuted or could not be tried. */
export async function prove(options: Given<typeof commands.prove>, io: Io): Promise<Output> {
  const { source, server } = readServer(options, io)
  const { output, junit: junitFile, arguments: file } = options
  if (output !== undefined) mustBeFree(output, options.force, io)
  const { settings } = source
  const sandbox = sandboxOf(options.sandbox, io)
  const given = file === undefined ? new Map() : readGivenCalls(readInput(file, io), file)
  const request = { io, settings, server, sandbox, given, tools: options.tool }
  const { proofs, info, all, at } = await proofsOf(request)
  const redactor = redactorFor(settings, io)
  const clean = (text: string): string => withoutSecrets(redactor.text(text))
  const results = proofs.flatMap((proof) => resultsOf(proof, clean))
  const subject = { server_name: info.name, server_version: info.version, suite_version: self.version }
  const report = reportOf({ ...subject, tested_at: at.toISOString() }, results)
  const pack = packOf(proofs, { info, all, date: at.toISOString().slice(0, 10) })
  if (output !== undefined) writePrivate(pathOf(output, io), `${JSON.stringify(pack, null, 2)}\n`)
  if (junitFile !== undefined) writePrivate(pathOf(junitFile, io), junit(report))
  const wrote =
    output === undefined ? '' : `Wrote ${output}: gatehouse plan --pack ${output} proposes what is proved`
  return {
    json: { ...report, pack },
    text: `${reportText(report)}${wrote}`.trimEnd(),
    code: isClean(report) ? 0 : 1,
  }
}

/** The sandbox of a command line. @throws UsageError without one, because the tools are called for real */
function sandboxOf(places: readonly string[], io: Io): Sandbox {
  if (places.length > 0) return sandboxIn(places, io)
  throw new UsageError(
    'name the sandbox with --sandbox: the tools are called, and change what is there. Give a folder, an argument and its value such as repo=scratch, or "server" if the whole server is there for tests',
  )
}

/** The sandbox that some places are. @throws UsageError */
export function sandboxIn(places: readonly string[], io: Io): Sandbox {
  try {
    const sandbox = readSandbox(places, io.cwd)
    for (const folder of sandbox.folders) mustBeOwn(folder)
    return sandbox
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error))
  }
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

function listed({ io, settings, server, sandbox }: Request): Promise<Pick<Proved, 'all' | 'info'>> {
  const limited = settingsWith(['limits'], settings, { server })
  return inSandbox(limited, { io, sandbox }, async ({ gateway, target }) => {
    const all = await gateway.entries(server.name)
    return { all, info: await target.info() }
  })
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
  readonly candidates: readonly ProofCandidate[]
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
  return inSandbox(settings, { io, sandbox }, async ({ target, wire }) => {
    const found: ToolProof['findings'][] = []
    for (const candidate of candidates)
      found.push(await proveTool(candidate, wanted, { all, sandbox, target, wire, unique }))
    return found
  })
}

interface Connected {
  readonly gateway: Gateway
  readonly target: ProofTarget
  readonly wire: Wire
}

/** Runs something with a gateway in front of the only server of these settings. @throws Error if it cannot be reached */
async function inSandbox<Result>(
  settings: Settings,
  { io, sandbox }: Pick<Request, 'io' | 'sandbox'>,
  run: (connected: Connected) => Promise<Result>,
): Promise<Result> {
  const [server] = settings.upstreams
  if (!server) throw new UsageError('give one server')
  const wire = new Wire(sandbox, server.renames)
  return withGateway(settings, { io, intercept: wire.intercept }, async (gateway) => {
    const [finding] = await gateway.start()
    const problem = gateway.statuses.get(server.name)?.problem
    if (problem !== undefined) throw new Error(`${server.name} cannot be reached: ${problem}`)
    if (finding) throw new Error(`the configuration does not fit the server: ${finding.message}`)
    return run({ gateway, wire, target: new ProofTarget(gateway.handle, server.name) })
  })
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
