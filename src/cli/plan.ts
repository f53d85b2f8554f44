/**
 * `gatehouse plan`: proposes undo rules from tool lists; `--write` adds the certain ones to the configuration,
 * with all comments kept.
 */
import { addToolSettings, type ToolAddition } from '../config/add-settings.ts'
import type { ProvedSettings } from '../core/proof.ts'
import type { UndoSettings } from '../core/undo/expression.ts'
import { type Descriptor, riskWords } from '../core/descriptor.ts'
import { changedTool, parsePack, type ProofIndex, proofIndex, proofText, provedIn } from '../core/pack.ts'
import { type ToolSettings, settingOf } from '../core/settings.ts'
import { oneLine, isYamlWord, quotedText, yamlKey } from '../core/text/escape.ts'
import { isUndoProposed, judgeUndo } from '../core/undo/judge-undo.ts'
import { shapeOf } from '../core/undo/tool-shape.ts'
import { proposeVerify } from '../core/undo/verification.ts'
import { type Given, UsageError } from './command.ts'
import type { commands } from './commands.ts'
import { type Io, printError, write as writeOut, writeError } from './io.ts'
import type { Output } from './output.ts'
import { readInput, replaceText } from './private-file.ts'
import { readableLog, readOnlySettings, readServers, type Source, withGateway } from './source.ts'

/** `gatehouse plan [SERVER]`: prints proposed undo rules as settings to paste, or writes them to the file. */
export async function plan(given: Given<typeof commands.plan>, io: Io): Promise<Output> {
  const { source, servers } = readServers(given, io)
  if (given.json && given.write) throw new UsageError('give either --json or --write, not both')
  if (given.write && source.file === undefined)
    throw new UsageError('--write needs a configuration file: create one with gatehouse init')
  const packs = proofIndex(given.pack.map((file) => parsePack(readInput(file, io), file)))
  const settings = readOnlySettings(source.settings, servers)
  const planned: Planned[] = []
  const problems: string[] = []
  await withGateway(settings, { io, log: readableLog(io, given.logLevel) }, async (gateway) => {
    await gateway.start()
    for (const { name, tools } of servers) {
      const problem = gateway.statuses.get(name)?.problem
      if (problem === undefined)
        planned.push({ upstream: name, tools, entries: withProofs(await gateway.entries(name), packs, io) })
      else problems.push(`${name}: ${problem}`)
    }
  })
  for (const problem of problems) writeError(`${problem}\n`, io)
  const code = problems.length === 0 ? 0 : 1
  if (given.write) return write(planned, source, io) ? code : 1
  if (!given.json && planned.length === 0) return code
  const json = { servers: planned.map((each) => ({ name: each.upstream, tools: proposalsOf(each) })) }
  return { json, text: planText(planned).trimEnd(), code }
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
function write(planned: readonly Planned[], { file = '', text = '', read }: Source, io: Io): boolean {
  const additions = planned.flatMap((each) =>
    proposalsOf(each).flatMap(({ tool, notes, settings }): ToolAddition[] =>
      Object.keys(settings).length === 0
        ? []
        : [{ upstream: each.upstream, tool, settings: { ...settings }, comment: notes }],
    ),
  )
  if (additions.length === 0) {
    writeOut('Nothing to add.\n', io)
    return true
  }
  const refused = (why: string): boolean => {
    printError(`${file} was not changed: ${why}. Paste the output of gatehouse plan into it instead.`, io)
    return false
  }
  const added = addToolSettings(text, additions)
  if ('problem' in added) return refused(added.problem)
  try {
    read(added.text)
  } catch (error) {
    return refused(`it would not be valid: ${error instanceof Error ? error.message : String(error)}`)
  }
  replaceText(file, text, added.text)
  const tools = additions.map(({ upstream, tool }) => `  ${upstream} ${tool}\n`)
  writeOut(`Added ${added.count} settings to ${file}, for\n${tools.join('')}`, io)
  writeOut('Review them before you rely on them: gatehouse explain SERVER TOOL shows the reasons.\n', io)
  return true
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
