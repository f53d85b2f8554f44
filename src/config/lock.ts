/**
 * The file `gatehouse.lock` beside a configuration: what each server listed when a person accepted it, with how the gateway judges
 * it. It belongs into version control: its lines are sorted, and a change of a tool is a change of its lines.
 */
import { parse, stringify } from 'yaml'
import { isObject } from '../core/json/json.ts'

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

const HEAD = `# The tools of all servers as they were accepted. Written by gatehouse lock; gatehouse lock --check compares it with the servers.
`

/** The text of a lock. */
export function lockText(lock: Lock): string {
  return `${HEAD}${stringify({ version: 1, servers: sorted(lock) }, { lineWidth: 0 })}`
}

/** Reads a lock. @throws Error if it is none */
export function readLock(text: string): Lock {
  const value: unknown = parse(text)
  if (!isObject(value) || value.version !== 1 || !isObject(value.servers))
    throw new Error('it is no lock of version 1: write it again with gatehouse lock')
  return Object.fromEntries(
    Object.entries(value.servers).map(([server, tools]) => [
      server,
      Object.fromEntries(
        Object.entries(isObject(tools) ? tools : {}).map(([name, tool]) => [name, lockedTool(tool)]),
      ),
    ]),
  )
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
  return Object.fromEntries(
    Object.entries(values)
      .toSorted(([one], [other]) => (one < other ? -1 : 1))
      .map(([name, value]) => [name, isServer(value) ? (sorted(value) as Value) : value]),
  )
}

/** Whether a value is the tools of a server, and not a tool. */
function isServer(value: unknown): value is Readonly<Record<string, unknown>> {
  return isObject(value) && typeof value.definition !== 'string'
}

/** How servers differ from a lock: a line for each tool that is new, gone or changed, and what changed in it. */
export function lockChanges(before: Lock, after: Lock): readonly string[] {
  const servers = [...new Set([...Object.keys(before), ...Object.keys(after)])].toSorted()
  return servers.flatMap((server) => {
    const [old = {}, now = {}] = [before[server], after[server]]
    return [...new Set([...Object.keys(old), ...Object.keys(now)])].toSorted().flatMap((name) => {
      const [was, is] = [old[name], now[name]]
      if (!was) return is ? [`+ ${server} ${name}: ${is.judgement}`] : []
      if (!is) return [`- ${server} ${name}`]
      const lines = facts.flatMap(([label, textOf]) => {
        const [one, other] = [textOf(was), textOf(is)]
        return one === other ? [] : [`    ${label}: ${one} -> ${other}`]
      })
      return lines.length === 0 ? [] : [`~ ${server} ${name}`, ...lines]
    })
  })
}

const facts: readonly (readonly [label: string, textOf: (tool: LockedTool) => string])[] = [
  ['judgement', ({ judgement }) => judgement],
  ['scopes', ({ scopes }) => scopes.join(', ') || 'none'],
  ['proof', ({ proof }) => proof ?? 'none'],
  ['description', ({ description }) => JSON.stringify(description)],
  ['arguments', (tool) => tool.arguments.join(', ') || 'none'],
  ['definition', ({ definition }) => definition],
]
