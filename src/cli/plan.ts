/**
 * `gatehouse plan`: proposes undo rules from tool lists; `--write` adds the certain ones to the configuration,
 * with all comments kept.
 */
import { addToolSettings, type ToolAddition } from '../config/add-settings.ts'
import type { ProvedSettings } from '../core/proof.ts'
import type { UndoSettings } from '../core/undo/expression.ts'
import { type Descriptor, riskWords } from '../core/descriptor.ts'
import { changedTool, parsePack, type ProofIndex, proofIndex, proofText, provedIn } from '../core/pack.ts'
import { type Settings, type ToolSettings, type UpstreamSettings, settingOf } from '../core/settings.ts'
import { within } from '../core/time/waiting.ts'
import type { Level } from '../observability/log.ts'
import { oneLine, isYamlWord, quotedText, yamlKey } from '../core/text/escape.ts'
import { isUndoProposed, judgeUndo } from '../core/undo/judge-undo.ts'
import { shapeOf } from '../core/undo/tool-shape.ts'
import { proposeVerify } from '../core/undo/verification.ts'
import { type Given, UsageError } from './command.ts'
import type { commands } from './commands.ts'
import { type Io, printError, write as writeOut, writeError } from './io.ts'
import type { Output } from './output.ts'
import { readInput, replaceText } from './private-file.ts'
import { readableLog, readOnlySettings, readServers, readSource, type Source, withGateway } from './source.ts'

/** `gatehouse plan [SERVER]`: prints proposed undo rules as settings to paste, or writes them to the file. */
export async function plan(given: Given<typeof commands.plan>, io: Io): Promise<Output> {
  const { source, servers } = readServers(given, io)
  if (given.json && given.write) throw new UsageError('give either --json or --write, not both')
  if (given.write && source.file === undefined)
    throw new UsageError('--write needs a configuration file: create one with gatehouse init')
  const packs = proofIndex(given.pack.map((file) => parsePack(readInput(file, io), file)))
  const settings = readOnlySettings(source.settings, servers)
  const { planned, problems } = await plannedFor(servers, settings, { io, packs, level: given.logLevel })
  for (const problem of problems) writeError(`${problem}\n`, io)
  const code = problems.length === 0 ? 0 : 1
  if (given.write) return write(planned, source, io) ? code : 1
  if (!given.json && planned.length === 0) return code
  const json = { servers: planned.map((each) => ({ name: each.upstream, tools: proposalsOf(each) })) }
  return { json, text: planText(planned).trimEnd(), code }
}

/** How long servers may take to list their tools, in milliseconds: `npx` installs some on first use. */
const LISTING_TIMEOUT_MS = 60_000

interface PlanContext {
  readonly io: Io
  readonly packs: ProofIndex
  readonly level?: Level | undefined
}

/** Starts servers, and lists their tools; `problems` says why others have none. */
async function plannedFor(
  servers: readonly UpstreamSettings[],
  settings: Settings,
  { io, packs, level }: PlanContext,
): Promise<{ readonly planned: readonly Planned[]; readonly problems: readonly string[] }> {
  const planned: Planned[] = []
  const problems: string[] = []
  await withGateway(settings, { io, log: readableLog(io, level) }, async (gateway) => {
    await within<unknown>(gateway.start(), LISTING_TIMEOUT_MS, undefined)
    for (const { name, tools } of servers) {
      const status = gateway.statuses.get(name) ?? { problem: 'it did not answer in time' }
      if (status.problem === undefined)
        planned.push({ upstream: name, tools, entries: withProofs(await gateway.entries(name), packs, io) })
      else problems.push(`${name}: ${status.problem}`)
    }
  })
  return { planned, problems }
}

const LATER = 'Add undo rules later with gatehouse plan --write.'

/**
 * Starts the servers that a command has added to a configuration, and adds what certainly undoes their tools; what is proved needs
 * no settings. Returns what it did, as lines.
 */
export async function planImported(
  file: string,
  names: readonly string[],
  io: Io,
): Promise<readonly string[]> {
  if (names.length === 0) return []
  if (io.stderr.isTTY) writeError(`Reading the tools of ${names.join(', ')} …\n`, io)
  try {
    const source = readSource({ config: file }, io)
    const servers = source.settings.upstreams.filter(({ name }) => names.includes(name))
    const { planned, problems } = await plannedFor(servers, readOnlySettings(source.settings, servers), {
      io,
      packs: proofIndex([]),
    })
    // A proved undo needs no setting, and calls that cannot be undone are confirmed by default.
    const trusted = new Set(servers.flatMap(({ name, trust }) => (trust ? [name] : [])))
    const proved = planned.flatMap(({ upstream, entries }) =>
      entries.filter((entry) => entry.proved !== undefined && trusted.has(upstream)),
    )
    const isProved = ({ upstream, tool }: ToolAddition): boolean =>
      proved.some((entry) => entry.upstream === upstream && entry.name === tool)
    const additions = additionsOf(planned).filter((each) => 'undo' in each.settings && !isProved(each))
    const unread = problems.map((problem) => `Undo rules are missing for ${problem}`)
    if (unread.length > 0) unread.push(LATER)
    if (additions.length === 0) return unread
    const added = writeAdditions(source, additions)
    if ('problem' in added) return [added.problem, ...unread]
    const tools = additions.map(({ upstream, tool }) => oneLine(`${upstream} ${tool}`)).join(', ')
    return [
      `Added undo rules for ${tools}: gatehouse explain SERVER TOOL shows the reasons. Review them before you rely on them.`,
      ...unread,
    ]
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    return [`Undo rules are missing, as the tools could not be read: ${why}`, LATER]
  }
}

/** The tools with the proofs of packs, which take precedence over those that are part of the gateway. */
function withProofs(entries: readonly Descriptor[], packs: ProofIndex, io: Io): readonly Descriptor[] {
  return entries.map((entry) => {
    const proved = provedIn(packs, entry.definition)
    if (proved !== 'other') return proved ? { ...entry, proved } : entry
    writeError(
      `${oneLine(`${entry.upstream} ${entry.name}`)}: the pack is about another definition of this tool, so it is ignored\n`,
      io,
    )
    return entry
  })
}

/** Writes the certain proposals to the configuration file. Returns whether it could. */
function write(planned: readonly Planned[], source: Source, io: Io): boolean {
  const additions = additionsOf(planned)
  if (additions.length === 0) {
    writeOut('Nothing to add.\n', io)
    return true
  }
  const added = writeAdditions(source, additions)
  if ('problem' in added) {
    const { problem } = added
    printError(`${problem}. Paste the output of gatehouse plan into it instead.`, io)
    return false
  }
  const tools = additions.map(({ upstream, tool }) => `  ${oneLine(`${upstream} ${tool}`)}\n`)
  writeOut(`Added ${added.count} settings to ${source.file}, for\n${tools.join('')}`, io)
  writeOut('Review them before you rely on them: gatehouse explain SERVER TOOL shows the reasons.\n', io)
  return true
}

/** The certain proposals. */
function additionsOf(planned: readonly Planned[]): readonly ToolAddition[] {
  return planned.flatMap((each) =>
    proposalsOf(each).flatMap(({ tool, notes, settings }): ToolAddition[] =>
      Object.keys(settings).length === 0
        ? []
        : [{ upstream: each.upstream, tool, settings: { ...settings }, comment: notes }],
    ),
  )
}

/** Adds settings to the configuration file. Returns how many, or why the file was not changed. */
function writeAdditions(
  { file = '', text = '', read }: Source,
  additions: readonly ToolAddition[],
): { readonly count: number } | { readonly problem: string } {
  const added = addToolSettings(text, additions)
  if ('problem' in added) return { problem: `${file} was not changed: ${added.problem}` }
  try {
    read(added.text)
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    return { problem: `${file} was not changed: it would not be valid: ${why}` }
  }
  replaceText(file, text, added.text)
  return added
}

// The output of `gatehouse plan`: proposals as YAML to paste, with their caveats as comments.

/** The tools of a server, and their settings in the configuration. */
interface Planned {
  readonly upstream: string
  readonly tools: Readonly<Record<string, ToolSettings>>
  readonly entries: readonly Descriptor[]
}

/** Proposed tool settings of servers as YAML, with reasons as comments. */
export function planText(servers: readonly Planned[]): string {
  return [
    '# Proposals from the tool lists of the servers. Paste those that are right into the configuration;',
    '# uncertain ones are comments.',
    'upstreams:',
    ...servers.flatMap(serverLines),
    '',
  ].join('\n')
}

function serverLines(planned: Planned): string[] {
  const { upstream } = planned
  const proposals = proposalsOf(planned)
  const parts = proposals.map(({ tool, notes, settings: proposed }) => ({
    notes: notes.map((note) => `# ${note}`),
    settings: settingLines(tool, proposed),
  }))
  const settings = parts.filter(({ settings: proposed }) => proposed.length > 0)
  const isBare = settings.length === 0
  return [
    `  ${yamlKey(upstream)}:`,
    ...(proposals.length === 0 ? ['    # All listed tools are read-only.'] : []),
    ...parts
      .filter(({ settings: proposed }) => proposed.length === 0)
      .flatMap(({ notes }) => notes.map(indented(4))),
    isBare ? '    tools: {}' : '    tools:',
    ...settings.flatMap(({ notes, settings: proposed }) => [...notes, ...proposed].map(indented(6))),
  ]
}

/** Notes about a tool and its proposed settings; without settings if none is certain. */
interface Proposal {
  readonly tool: string
  readonly risk: string
  /** The reasons as text. */
  readonly notes: readonly string[]
  readonly settings: Proposed
}

interface Proposed {
  readonly undo?: UndoRule
  readonly verify?: string
  readonly idempotent?: true
  readonly pivot?: true
  readonly confirm?: string
}

/** The proposals for the tools of a server that are not read-only. */
function proposalsOf({ tools, entries }: Planned): readonly Proposal[] {
  const reads = readsOf(entries)
  return entries
    .filter(({ classification }) => classification.op !== 'read')
    .map((entry) => proposalOf(entry, { all: entries, reads, tools }))
}

interface ProposalContext {
  readonly all: readonly Descriptor[]
  /** The definitions of the read-only tools. */
  readonly reads: readonly Descriptor['definition'][]
  readonly tools: Planned['tools']
}

function proposalOf(entry: Descriptor, { all, reads, tools }: ProposalContext): Proposal {
  const { name, definition, classification } = entry
  const about = oneLine(`${name}: ${riskWords[classification.risk]}, ${classification.evidence[0] ?? ''}`)
  const part = { tool: name, risk: classification.risk }
  const judgement = judgeUndo(entry, all, { tools, isDerived: false })
  const { undo, why, caveats } = judgement
  const configured = settingOf(tools, name, 'undo')
  if (configured) {
    const notes = [
      `undo is already configured, for ${configured.glob}`,
      ...caveats.map((caveat) => `but: ${caveat}`),
    ]
    return { ...part, notes: [about, ...reasonLines(notes)], settings: {} }
  }
  const known = knownOf(entry, all)
  const more: Proposed = known ? provedSettings(known.settings, entry, tools) : {}
  const verify =
    classification.idempotent || more.verify !== undefined ? undefined : proposeVerify(definition, reads)
  const probe =
    verify === undefined
      ? []
      : [oneLine('If this read can only find the result of this call:'), oneLine(`verify: ${verify}`)]
  const proof = known && !why.includes(known.text) ? [known.text] : []
  const reasons = reasonLines([...why, ...proof])
  if (undo !== undefined && isUndoProposed(judgement))
    return { ...part, notes: [about, ...reasons, ...probe], settings: { undo, ...more } }
  const unsure = undo === undefined ? [] : unsureLines(undo, caveats)
  const notes = [about, ...reasons, ...unsure, ...probe]
  if (classification.risk !== 'destructive') return { ...part, notes, settings: more }
  const settings: Proposed = {
    ...more,
    ...(!settingOf(tools, name, 'pivot') && { pivot: true }),
    ...(!settingOf(tools, name, 'confirm') && { confirm: question(definition) }),
  }
  return { ...part, notes, settings }
}

/** The proof of a tool, if the tools that its settings call are as they were then. */
function knownOf({ proved }: Descriptor, all: readonly Descriptor[]) {
  if (
    !proved ||
    changedTool(
      proved,
      all.map(({ definition }) => definition),
    ) !== undefined
  )
    return undefined
  return { settings: proved.settings, text: proofText(proved.proof) }
}

/** The proved settings besides the undo that are not configured. */
function provedSettings(
  { verify, idempotent, pivot }: ProvedSettings,
  { name, classification }: Descriptor,
  tools: ProposalContext['tools'],
): Proposed {
  const isNew = (key: keyof ToolSettings): boolean => settingOf(tools, name, key) === undefined
  return {
    ...(verify !== undefined && isNew('verify') && { verify }),
    ...(idempotent && !classification.idempotent && isNew('idempotent') && { idempotent: true }),
    ...(pivot && isNew('pivot') && { pivot: true }),
  }
}

/** The settings of a tool as YAML; empty without settings. */
function settingLines(tool: string, { undo, verify, idempotent, pivot, confirm }: Proposed): string[] {
  const lines = [
    ...(undo === undefined ? [] : undoLines(undo)),
    ...(verify === undefined ? [] : [`  verify: ${scalar(verify)}`]),
    ...(idempotent ? ['  idempotent: true'] : []),
    ...(pivot ? ['  pivot: true'] : []),
    ...(confirm === undefined ? [] : [`  confirm: ${scalar(confirm)}`]),
  ]
  return lines.length === 0 ? [] : [`${yamlKey(tool)}:`, ...lines]
}

/** A rule that may undo more or less than the call: only the owner of the server can confirm it. */
function unsureLines(undo: UndoRule, caveats: readonly string[]): string[] {
  return [
    'Uncertain, so not a setting:',
    ...reasonLines(caveats),
    ...undoLines(undo).map((line) => line.slice(2)),
  ]
}

function readsOf(all: readonly Descriptor[]): readonly Descriptor['definition'][] {
  return all.filter(({ classification }) => classification.op === 'read').map(({ definition }) => definition)
}

type UndoRule = string | UndoSettings

function undoLines(undo: UndoRule): string[] {
  if (typeof undo === 'string') return [`  undo: ${scalar(undo)}`]
  const { exact, ...texts }: UndoSettings = undo
  const lines = Object.entries(texts).map(([name, text]) => `    ${name}: ${scalar(text)}`)
  return ['  undo:', ...lines, ...(exact === undefined ? [] : [`    exact: ${exact}`])]
}

/** A confirmation message: the name of the tool in words, and its required arguments. */
function question(definition: Descriptor['definition']): string {
  const { words, name, inputs = [] } = shapeOf(definition)
  const text = words.length === 0 ? name : words.join(' ')
  const required = inputs
    .filter(({ isRequired, name: each }) => isRequired && /^[\w-]+$/.test(each))
    .slice(0, 3)
  const values = required.map((each) => `{${each.name}}`)
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}${values.length === 0 ? '' : ` ${values.join(', ')}`}?`
}

/** Reasons may contain text of servers: a line break must not end the comment. */
function reasonLines(reasons: readonly string[]): string[] {
  return reasons.map((each) => oneLine(`- ${each}`))
}

function scalar(text: string): string {
  const isPlain = /^[A-Za-z][\w./-]*\([\w\s.$=,"[\]*/-]*\)$/.test(text) && !text.includes(' #')
  return (isPlain || /^[a-z]+$/.test(text)) && !isYamlWord(text) ? text : quotedText(text)
}

function indented(columns: number): (line: string) => string {
  return (line) => `${' '.repeat(columns)}${line}`
}
