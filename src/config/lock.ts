/**
 * The file `gatehouse.lock` beside a configuration: what each server listed when a person accepted it, with how the gateway judges
 * it. It belongs into version control: its lines are sorted, and a change of a tool is a change of its lines.
 */
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { parse, stringify } from 'yaml'
import { messageOf, systemCodeOf } from '../core/error.ts'
import { asObject, isObject } from '../core/json/json.ts'
import { type AcceptedTools, featureSettings, type Settings } from '../core/settings.ts'
import { oneLine } from '../core/text/escape.ts'
import type { Finding, Findings } from './problem.ts'
import { readText, whyUnreadable } from './secrets.ts'

/** The name of the file. */
export const LOCK_FILE = 'gatehouse.lock'

/** A tool as it was accepted. */
export interface LockedTool {
  /** The hash of its whole definition. */
  readonly definition: string
  /** Its kind of action and its risk, such as `write destructive`. */
  readonly judgement: string
  /** The scopes that a caller needs; of several alternatives, the least one. */
  readonly scopes: readonly string[]
  /** What was proved about this definition, and by what. */
  readonly proof?: string
  /** What models read of it: for people who compare two versions of the file. */
  readonly description: string
  readonly arguments: readonly string[]
}

/** The tools of servers by name. */
export type Lock = Readonly<Record<string, Readonly<Record<string, LockedTool>>>>

const HEAD = `# The tools of all servers as they were accepted. Written by gatehouse lock and gatehouse accept; gatehouse lock --check compares it
# with the servers.
`

/** The text of a lock. */
export function lockText(lock: Lock): string {
  const servers = Object.entries(lock).map(([name, tools]) => [name, sorted(tools)] as const)
  return `${HEAD}${stringify({ version: 1, servers: sorted(Object.fromEntries(servers)) }, { lineWidth: 0 })}`
}

const NO_LOCK =
  'it is no lock of version 1: restore it from version control, or delete it and write it again with gatehouse lock'

/** Reads a lock. @throws Error if it is none */
export function readLock(text: string): Lock {
  const value = parsed(text)
  if (!isObject(value) || value.version !== 1 || !isObject(value.servers)) throw new Error(NO_LOCK)
  return Object.fromEntries(
    Object.entries(value.servers).map(([server, tools]) => [
      server,
      Object.fromEntries(
        Object.entries(isObject(tools) ? tools : {}).map(([name, tool]) => [name, lockedTool(tool)]),
      ),
    ]),
  )
}

function parsed(text: string): unknown {
  try {
    return parse(text)
  } catch (cause) {
    throw new Error(NO_LOCK, { cause })
  }
}

const MAX_LOCK_BYTES = 64 * 1_048_576

/** The text of a lock; undefined if there is no such file. @throws Error if it cannot be read */
export function lockFileText(file: string): string | undefined {
  try {
    // Only as much as the file has is allocated.
    return readText(file, Math.min(MAX_LOCK_BYTES, statSync(file).size + SPARE_BYTES))
  } catch (cause) {
    if (systemCodeOf(cause) === 'ENOENT') return undefined
    throw new Error(`it cannot be read: ${whyUnreadable(cause)}`, { cause })
  }
}

/** How much a file may grow while it is read. */
const SPARE_BYTES = 65_536

/** Tells one version of a lock from another without reading it. @throws the system error */
export function lockStamp(file: string): string {
  const { mtimeNs, size, ino } = statSync(file, { bigint: true })
  return `${mtimeNs} ${size} ${ino}`
}

/** What the lock beside a configuration accepts, if it is to be compared with servers; `value` is the expanded file. */
export function readAccepted(
  settings: Settings,
  value: Readonly<Record<string, unknown>>,
  directory: string,
): Findings & { readonly accepted?: AcceptedTools } {
  const pinned = settings.upstreams.filter(({ name }) => modeOf(settings, name) !== undefined)
  if (pinned.length === 0) return { problems: [], warnings: [] }
  const file = join(directory, LOCK_FILE)
  // One finding is enough for all servers that the setting at the top level is about.
  const at = ({ name }: { readonly name: string }): readonly string[] =>
    asObject(asObject(value.upstreams)[name]).pin === undefined ? ['pin'] : ['upstreams', name, 'pin']
  const about = (servers: typeof pinned, message: string): readonly Finding[] => {
    const paths = new Map(servers.map((each) => [at(each).join(' '), at(each)]))
    return [...paths.values()].map((path) => ({ path, message }))
  }
  try {
    const stamp = stampOf(file)
    const text = lockFileText(file)
    if (text === undefined) {
      const message = `${file} does not exist: write it with gatehouse lock`
      const isHeld = ({ name }: { readonly name: string }): boolean => modeOf(settings, name) === 'hold'
      const isWarned = (each: { readonly name: string }): boolean => !isHeld(each)
      return {
        problems: about(pinned.filter(isHeld), message),
        warnings: about(pinned.filter(isWarned), `${message}; until then, nothing is compared`),
      }
    }
    const servers = Object.entries(readLock(text)).map(([server, tools]) => {
      const hashes = Object.entries(tools).map(([name, { definition }]) => [name, definition] as const)
      return [server, new Map(hashes)] as const
    })
    return { accepted: { stamp, servers: new Map(servers) }, problems: [], warnings: [] }
  } catch (error) {
    return { problems: about(pinned, `${file} cannot be used: ${oneLine(messageOf(error))}`), warnings: [] }
  }
}

function stampOf(file: string): string {
  try {
    return lockStamp(file)
  } catch {
    return ''
  }
}

/** What becomes of tools of a server that are not accepted; undefined for nothing. */
export function modeOf(settings: Settings, upstream?: string): unknown {
  return asObject(featureSettings(settings, 'pin', upstream)).mode
}

function lockedTool(value: unknown): LockedTool {
  const fields = isObject(value) ? value : {}
  const text = (each: unknown): string => (typeof each === 'string' ? each : '')
  const texts = (each: unknown): readonly string[] => (Array.isArray(each) ? each.map(String) : [])
  return {
    definition: text(fields.definition),
    judgement: text(fields.judgement),
    scopes: texts(fields.scopes),
    ...(typeof fields.proof === 'string' && { proof: fields.proof }),
    description: text(fields.description),
    arguments: texts(fields.arguments),
  }
}

function sorted<Value>(values: Readonly<Record<string, Value>>): Readonly<Record<string, Value>> {
  return Object.fromEntries(Object.entries(values).toSorted(([one], [other]) => (one < other ? -1 : 1)))
}

/** A lock in which some servers, or some tools of them, are as they were found; those that were not found are gone. */
export function acceptedParts(
  before: Lock,
  found: Lock,
  { servers, tools }: { readonly servers: readonly string[]; readonly tools: readonly string[] },
): Lock {
  const parts = servers
    .filter((server) => Object.hasOwn(found, server))
    .map((server) => {
      const [old = {}, now = {}] = [own(before, server), own(found, server)]
      if (tools.length === 0) return [server, now] as const
      const others = Object.entries(old).filter(([name]) => !tools.includes(name))
      return [
        server,
        Object.fromEntries([...others, ...Object.entries(now).filter(([name]) => tools.includes(name))]),
      ] as const
    })
  return { ...before, ...Object.fromEntries(parts) }
}

/**
 * How servers differ from a lock: a line for each tool that is new, gone or changed, and what changed in it; `isFull` says of a new
 * tool what models read of it, too.
 */
export function lockChanges(before: Lock, after: Lock, isFull = false): readonly string[] {
  const servers = [...new Set([...Object.keys(before), ...Object.keys(after)])].toSorted()
  return servers.flatMap((server) => {
    const [old = {}, now = {}] = [own(before, server), own(after, server)]
    return [...new Set([...Object.keys(old), ...Object.keys(now)])].toSorted().flatMap((name) => {
      const [was, is] = [own(old, name), own(now, name)]
      if (!was) return is ? [`+ ${server} ${name}: ${is.judgement}`, ...(isFull ? described(is) : [])] : []
      if (!is) return [`- ${server} ${name}`]
      const lines = facts.flatMap((changesOf) => changesOf(was, is))
      if (lines.length === 0) return []
      const isHash = was.definition !== is.definition && lines.length === 1
      return [`~ ${server} ${name}`, ...lines, ...(isHash ? [ONLY_HASH] : [])]
    })
  })
}

/** The value of a name that a server chose, which can be that of a method of all objects. */
export function own<Value>(values: Readonly<Record<string, Value>>, name: string): Value | undefined {
  return Object.hasOwn(values, name) ? values[name] : undefined
}

const ONLY_HASH = '    (its title, its annotations, or something in its schemas)'

type Fact = (tool: LockedTool) => string

const scopesOf: Fact = ({ scopes }) => scopes.join(', ') || 'none'
const argumentsOf: Fact = (tool) => tool.arguments.join(', ') || 'none'

const facts: readonly ((was: LockedTool, is: LockedTool) => readonly string[])[] = [
  changed('judgement', ({ judgement }) => judgement),
  changed('scopes', scopesOf),
  changed('proof', ({ proof }) => proof ?? 'none'),
  (was, is) => descriptionChanges(was.description, is.description),
  changed('arguments', argumentsOf),
  changed('definition', ({ definition }) => definition),
]

function changed(label: string, textOf: Fact): (was: LockedTool, is: LockedTool) => readonly string[] {
  return (was, is) => {
    const [one, other] = [textOf(was), textOf(is)]
    return one === other ? [] : [`    ${label}: ${one} -> ${other}`]
  }
}

function described(tool: LockedTool): readonly string[] {
  return [
    `    scopes: ${scopesOf(tool)}`,
    `    description: ${JSON.stringify(tool.description)}`,
    `    arguments: ${argumentsOf(tool)}`,
  ]
}

// Descriptions are compared word by word. Each text is quoted as JSON, so that none can look like a line of the comparison.

/** The longest description that is shown whole, in characters. */
const MAX_WHOLE_LENGTH = 100
/** The largest product of the numbers of words in two texts that are compared word by word. */
const MAX_COMPARED_WORDS = 4_000_000
/** The most places that are shown apart. */
const MAX_PLACES = 50
/** How many unchanged words are shown before a place. */
const CONTEXT_WORDS = 6

function descriptionChanges(was: string, is: string): readonly string[] {
  if (was === is) return []
  if (Math.max(was.length, is.length) <= MAX_WHOLE_LENGTH)
    return [`    description: ${JSON.stringify(was)} -> ${JSON.stringify(is)}`]
  const places = changedPlaces(wordsOf(was), wordsOf(is))
  const shown = places.length > MAX_PLACES ? [{ after: '', removed: was, added: is }] : places
  return shown.flatMap(({ after, removed, added }) => [
    after === '' ? '    description:' : `    description, after ${JSON.stringify(after)}:`,
    ...(removed === '' ? [] : [`      - ${JSON.stringify(removed)}`]),
    ...(added === '' ? [] : [`      + ${JSON.stringify(added)}`]),
  ])
}

/** Words with the blanks behind them. */
function wordsOf(text: string): readonly string[] {
  return text.split(/(?<=\s)(?=\S)/)
}

interface ChangedPlace {
  /** The unchanged words before it. */
  readonly after: string
  readonly removed: string
  readonly added: string
}

/** Where two lists of words differ: by their longest common subsequence, or in one place if they are long. */
function changedPlaces(was: readonly string[], is: readonly string[]): readonly ChangedPlace[] {
  let start = 0
  while (start < was.length && start < is.length && was[start] === is[start]) start++
  let end = 0
  const rest = Math.min(was.length, is.length) - start
  while (end < rest && was[was.length - 1 - end] === is[is.length - 1 - end]) end++
  const [old, now] = [was.slice(start, was.length - end), is.slice(start, is.length - end)]
  const places: ChangedPlace[] = []
  let [from, to] = [0, 0]
  const add = (untilOld: number, untilNow: number): void => {
    const [removed, added] = [old.slice(from, untilOld).join(''), now.slice(to, untilNow).join('')]
    const after = was.slice(Math.max(0, start + from - CONTEXT_WORDS), start + from).join('')
    if (removed !== '' || added !== '') places.push({ after, removed, added })
  }
  for (const [one, other] of commonWords(old, now)) {
    add(one, other)
    ;[from, to] = [one + 1, other + 1]
  }
  add(old.length, now.length)
  return places
}

/** The positions of the words of the longest common subsequence, in both lists. */
function commonWords(old: readonly string[], now: readonly string[]): readonly (readonly [number, number])[] {
  const width = now.length + 1
  if (old.length * now.length > MAX_COMPARED_WORDS) return []
  // The length of the longest common subsequence of what follows two positions.
  const lengths = new Uint32Array((old.length + 1) * width)
  const at = (one: number, other: number): number => lengths[one * width + other] ?? 0
  for (let one = old.length - 1; one >= 0; one--)
    for (let other = now.length - 1; other >= 0; other--)
      lengths[one * width + other] =
        old[one] === now[other]
          ? at(one + 1, other + 1) + 1
          : Math.max(at(one + 1, other), at(one, other + 1))
  const common: [number, number][] = []
  for (let [one, other] = [0, 0]; one < old.length && other < now.length;) {
    if (old[one] === now[other]) common.push([one++, other++])
    else if (at(one + 1, other) >= at(one, other + 1)) one++
    else other++
  }
  return common
}
