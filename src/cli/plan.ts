/**
 * `gatehouse plan`: proposes undo rules from tool lists; `--write` adds the certain ones to the configuration,
 * with all comments kept.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { addToolSettings, type ToolAddition } from '../config/add-settings.ts'
import { environment } from '../config/secrets.ts'
import { type Descriptor, riskWords } from '../core/descriptor.ts'
import { type ToolSettings, type UndoSettings, settingOf } from '../core/settings.ts'
import { oneLine, isYamlWord, quotedText, yamlKey } from '../core/text/escape.ts'
import { mapArguments, fromFields } from '../core/undo/argument-mapping.ts'
import { printExpression } from '../core/undo/expression.ts'
import { judgeUndo } from '../core/undo/judge-undo.ts'
import { readingOf, indexOf } from '../core/undo/name-readings.ts'
import { shapeOf, type ToolShape } from '../core/undo/tool-shape.ts'
import { Gateway, openLog } from '../gateway/gateway.ts'
import { looking, readNamed, type Source, UsageError } from './options.ts'

/** `gatehouse plan [server]`: prints how tools could be undone, as settings to paste, or writes them into the file. */
export async function plan(args: readonly string[]): Promise<number> {
  const named = readNamed(args, ['config', 'log-level', 'json', 'write'])
  const { source, server, words, isJson, isWriting } = named
  if (words.length > 0) throw new UsageError('name one server, or none for all')
  if (isJson && isWriting) throw new UsageError('give either --json or --write, not both')
  if (isWriting && source.file === undefined)
    throw new UsageError('--write needs a configuration file: make one with gatehouse init')
  const upstreams = server ? [server] : source.settings.upstreams
  const settings = looking(source.settings, upstreams)
  const gateway = new Gateway(settings, { variables: environment(), log: openLog('error', true) })
  const planned: Planned[] = []
  const problems: string[] = []
  try {
    await gateway.start()
    for (const { name, tools } of upstreams) {
      const problem = gateway.statuses.get(name)?.problem
      if (problem === undefined) planned.push({ upstream: name, tools, entries: await gateway.entries(name) })
      else problems.push(`${name}: ${problem}`)
    }
  } finally {
    await gateway.close()
  }
  for (const problem of problems) process.stderr.write(`${problem}\n`)
  if (isWriting && !write(planned, source)) return 1
  if (isJson) process.stdout.write(`${JSON.stringify(objectOf(planned), null, 2)}\n`)
  if (!isJson && !isWriting && planned.length > 0) process.stdout.write(planText(planned))
  return problems.length === 0 ? 0 : 1
}

function objectOf(planned: readonly Planned[]): object {
  return {
    servers: planned.map((each) => ({ name: each.upstream, tools: proposalsOf(each) })),
  }
}

/** Writes what is sure into the configuration file. Whether that was possible. */
function write(planned: readonly Planned[], { file = '', text = '', read }: Source): boolean {
  const additions = planned.flatMap((each) =>
    proposalsOf(each).flatMap(({ tool, notes, settings }): ToolAddition[] =>
      Object.keys(settings).length === 0
        ? []
        : [{ upstream: each.upstream, tool, settings: { ...settings }, comment: notes }],
    ),
  )
  if (additions.length === 0) {
    process.stdout.write('There is nothing to add.\n')
    return true
  }
  const refused = (why: string): boolean => {
    process.stderr.write(
      `gatehouse: ${file} is left as it is: ${why}. Paste what gatehouse plan prints into it instead.\n`,
    )
    return false
  }
  const added = addToolSettings(text, additions)
  if ('problem' in added) return refused(added.problem)
  if (readFileSync(file, 'utf8') !== text) return refused('it was changed meanwhile')
  try {
    read(added.text)
  } catch (error) {
    return refused(`it would not be valid: ${error instanceof Error ? error.message : String(error)}`)
  }
  writeFileSync(file, added.text)
  const tools = additions.map(({ upstream, tool }) => `  ${upstream} ${tool}\n`)
  process.stdout.write(`Added ${added.count} settings to ${file}, for\n${tools.join('')}`)
  process.stdout.write('Read them before you rely on them: gatehouse explain SERVER TOOL says why.\n')
  return true
}

// What `gatehouse plan` prints: proposals as YAML to paste, with their doubts as comments.

/** The tools of a server, and what the configuration says of them. */
interface Planned {
  readonly upstream: string
  readonly tools: Readonly<Record<string, ToolSettings>>
  readonly entries: readonly Descriptor[]
}

/** What a configuration could say of the tools of servers, as YAML with reasons. */
export function planText(servers: readonly Planned[]): string {
  return [
    '# What the lists of the servers suggest. Paste what is right into the configuration;',
    '# what is not sure is only a comment.',
    'upstreams:',
    ...servers.flatMap(serverLines),
    '',
  ].join('\n')
}

function serverLines(planned: Planned): string[] {
  const { upstream } = planned
  const proposals = proposalsOf(planned)
  const parts = proposals.map(({ tool, notes, settings: own }) => ({
    notes: notes.map((note) => `# ${note}`),
    settings: settingLines(tool, own),
  }))
  const settings = parts.filter(({ settings: own }) => own.length > 0)
  const isBare = settings.length === 0
  return [
    `  ${yamlKey(upstream)}:`,
    ...(proposals.length === 0 ? ['    # It lists no tool that does more than read.'] : []),
    ...parts.filter(({ settings: own }) => own.length === 0).flatMap(({ notes }) => notes.map(indented(4))),
    isBare ? '    tools: {}' : '    tools:',
    ...settings.flatMap(({ notes, settings: own }) => [...notes, ...own].map(indented(6))),
  ]
}

/** What there is to say of a tool, and the settings it could have: none where nothing is sure. */
interface Proposal {
  readonly tool: string
  readonly risk: string
  /** The reasons, for people. */
  readonly notes: readonly string[]
  readonly settings: Proposed
}

interface Proposed {
  readonly undo?: Written
  readonly pivot?: true
  readonly confirm?: string
}

/** What the list of a server suggests for each tool that does more than read. */
function proposalsOf({ tools, entries }: Planned): readonly Proposal[] {
  const reads = readsOf(entries)
  return entries
    .filter(({ classification }) => classification.op !== 'read')
    .map((entry) => proposalOf(entry, { all: entries, reads, tools }))
}

interface Around {
  readonly all: readonly Descriptor[]
  /** The definitions of those that only read. */
  readonly reads: readonly Descriptor['definition'][]
  readonly tools: Planned['tools']
}

function proposalOf(entry: Descriptor, { all, reads, tools }: Around): Proposal {
  const { name, definition, classification } = entry
  const about = oneLine(`${name}: ${riskWords[classification.risk]}, ${classification.evidence[0] ?? ''}`)
  const part = { tool: name, risk: classification.risk }
  const { from, how, undo, why, caveats: doubts } = judgeUndo(entry, all, { tools, isDerived: false })
  const configured = settingOf(tools, name, 'undo')
  if (configured) {
    const notes = [
      `undo is configured already, for ${configured.glob}`,
      ...doubts.map((doubt) => `but: ${doubt}`),
    ]
    return { ...part, notes: [about, ...because(notes)], settings: {} }
  }
  const verify = classification.idempotent ? undefined : verifyHint(definition, reads)
  const probe =
    verify === undefined
      ? []
      : [oneLine('If what this finds can only be of this call:'), oneLine(`verify: ${verify}`)]
  if (from === 'proposal' && how !== 'unsure' && undo !== undefined)
    return { ...part, notes: [about, ...because(why), ...probe], settings: { undo } }
  const unsure = undo === undefined ? [] : unsureLines(undo, doubts)
  const notes = [about, ...because(why), ...unsure, ...probe]
  if (classification.risk !== 'destructive') return { ...part, notes, settings: {} }
  const settings: Proposed = {
    ...(!settingOf(tools, name, 'pivot') && { pivot: true }),
    ...(!settingOf(tools, name, 'confirm') && { confirm: question(definition) }),
  }
  return { ...part, notes, settings }
}

/** The settings of a tool as YAML; none where there are none. */
function settingLines(tool: string, { undo, pivot, confirm }: Proposed): string[] {
  const lines = [
    ...(undo === undefined ? [] : undoLines(undo)),
    ...(pivot ? ['  pivot: true'] : []),
    ...(confirm === undefined ? [] : [`  confirm: ${scalar(confirm)}`]),
  ]
  return lines.length === 0 ? [] : [`${yamlKey(tool)}:`, ...lines]
}

/** What may undo more or less than the call: only the owner of the server can make it a setting. */
function unsureLines(undo: Written, doubts: readonly string[]): string[] {
  return [
    'Not sure, so it is no setting:',
    ...because(doubts),
    ...undoLines(undo).map((line) => line.slice(2)),
  ]
}

function readsOf(all: readonly Descriptor[]): readonly Descriptor['definition'][] {
  return all.filter(({ classification }) => classification.op === 'read').map(({ definition }) => definition)
}

type Written = string | UndoSettings

function undoLines(undo: Written): string[] {
  if (typeof undo === 'string') return [`  undo: ${scalar(undo)}`]
  const { exact, ...texts }: UndoSettings = undo
  const lines = Object.entries(texts).map(([name, text]) => `    ${name}: ${scalar(text)}`)
  return ['  undo:', ...lines, ...(exact === undefined ? [] : [`    exact: ${exact}`])]
}

/** What a person could be asked before the tool runs: its name in words, and the arguments it must have. */
function question(definition: Descriptor['definition']): string {
  const { words, name, inputs = [] } = shapeOf(definition)
  const said = words.length === 0 ? name : words.join(' ')
  const told = inputs.filter(({ isRequired, name: each }) => isRequired && /^[\w-]+$/.test(each)).slice(0, 3)
  const values = told.map((each) => `{${each.name}}`)
  return `${said.charAt(0).toUpperCase()}${said.slice(1)}${values.length === 0 ? '' : ` ${values.join(', ')}`}?`
}

/** Reasons come from servers: none of them may end its line. */
function because(reasons: readonly string[]): string[] {
  return reasons.map((each) => oneLine(`- ${each}`))
}

function scalar(text: string): string {
  const isPlain = /^[A-Za-z][\w./-]*\([\w\s.$=,"[\]*/-]*\)$/.test(text) && !text.includes(' #')
  return (isPlain || /^[a-z]+$/.test(text)) && !isYamlWord(text) ? text : quotedText(text)
}

function indented(columns: number): (line: string) => string {
  return (line) => `${' '.repeat(columns)}${line}`
}

type Definition = Readonly<Record<string, unknown>>

const makers = new Set('create add insert upload register send post open write append make submit'.split(' '))
const finders = 'list search find query lookup get read'.split(' ')

/** A read that could tell whether a tool took effect: what `verify` may say, where the server lists one. */
function verifyHint(definition: Definition, reads: readonly Definition[]): string | undefined {
  const tool = shapeOf(definition)
  const said = readingOf(tool.words).find(({ verb }) => makers.has(verb))
  if (!said) return undefined
  const finding = indexOf(reads)
    .withNouns(finders, said.nouns)
    .flatMap((read) => lookingPlan(tool, read, said.nouns.at(-1)) ?? [])
  return finding.toSorted((one, other) => other.given - one.given)[0]?.text
}

/** A call of a read that names something the call of the tool named, and what is there if it took effect. */
function lookingPlan(
  tool: ToolShape,
  read: ToolShape,
  noun: string | undefined,
): { readonly given: number; readonly text: string } | undefined {
  const args = fromFields('args', tool.inputs ?? [], { noun, origin: 'arguments' })
  const names = new Set(tool.inputs?.filter(({ isRequired }) => isRequired).map(({ name }) => name))
  const filled = mapArguments(read, [args], ({ name }) => names.has(name))
  if (!filled || 'missing' in filled || filled.call.arguments.size === 0) return undefined
  const list = read.outputs?.find(({ schema }) => schema.type === 'array')
  if (!list) return undefined
  const find = { root: 'result', steps: [list.name, 0] } as const
  return { given: filled.call.arguments.size, text: printExpression({ ...filled.call, find }) }
}
