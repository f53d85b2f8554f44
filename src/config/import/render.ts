/**
 * Writes imported servers as a configuration of the gateway. What it writes is loaded before it is returned: a server that
 * the gateway would refuse is left out with the reason, so that the others can be used.
 */
import { Document, isMap, isPair, isScalar } from 'yaml'
import { oneLine } from '../../core/text/escape.ts'
import { loadSettings } from '../load.ts'
import { upstreamName } from '../names.ts'
import { ConfigError } from '../problem.ts'
import type { Environment } from '../secrets.ts'
import { type Entry, convertServer } from './convert.ts'
import type { ImportedServer, ImportFinding } from './model.ts'
import { createVariables, type Variables } from './secrets.ts'

/** A configuration, and what belongs to it. */
export interface GatewayConfig {
  /** The text of the file. */
  readonly yaml: string
  /** The secrets that it refers to, by variable: they are not in the file. */
  readonly env: ReadonlyMap<string, string>
  /** Variables that it refers to and that have no value, in the environment or in `env`. */
  readonly unset: readonly string[]
  /** The names of its servers. */
  readonly servers: readonly string[]
  readonly findings: readonly ImportFinding[]
}

/** Where the file will be, and what is around it. */
interface RenderOptions {
  /** The path of the configuration: relative paths and messages are about it. */
  readonly file: string
  /** The schema reference for editors. */
  readonly schema: string
  /** The variables that the gateway will have, besides those of `env` of the result. */
  readonly environment: Environment
}

/** Converts servers of one or several clients. A server that occurs twice is written once. */
export function toGatewayConfig(
  servers: readonly ImportedServer[],
  { file, schema, environment }: RenderOptions,
): GatewayConfig {
  const findings: ImportFinding[] = []
  const noteOf =
    (server: ImportedServer) =>
    (message: string): void =>
      void findings.push({ file: server.origin.file, server: server.name, message })
  const referred = Map.groupBy(servers.flatMap(variablesOf), ({ variable }) => variable)
  const variables = createVariables((name) => environment[name], referred)
  const entries = new Map<string, Entry>()
  for (const [name, server] of named(servers, noteOf)) {
    const entry = convertServer(name, server, { variables, environment, note: noteOf(server) })
    if (entry !== undefined) entries.set(name, entry)
  }
  const values = () => usedValues(entries, variables)
  const text = () => render(entries, { schema, environment, secrets: values() })
  const known = { ...Object.fromEntries(variables.values), ...environment }
  for (let bad = refused(entries, text, { file, environment: known }); bad.size > 0;) {
    for (const [name, message] of bad) {
      const entry = entries.get(name)
      if (entry) noteOf(entry.server)(`was skipped, as the gateway cannot use it: ${message}`)
      entries.delete(name)
    }
    bad = refused(entries, text, { file, environment: known })
  }
  const unset = unsetNames(entries, environment, values())
  return {
    yaml: text(),
    env: withoutKnown(values(), environment),
    unset: [...unset.keys()],
    servers: [...entries.keys()],
    findings,
  }
}

/** The servers with distinct names, each server once. */
function named(
  servers: readonly ImportedServer[],
  noteOf: (server: ImportedServer) => (message: string) => void,
): ReadonlyMap<string, ImportedServer> {
  const found = new Map<string, ImportedServer>()
  for (const server of servers) {
    const identity = identityOf(server)
    const twin = [...found].find(([name, other]) => {
      const isElsewhere = other.origin.file !== server.origin.file
      return identityOf(other) === identity && (isElsewhere || name === upstreamName(server.name))
    })
    if (twin) {
      const [name, { origin }] = twin
      noteOf(server)(
        `is the same server as ${name}${origin.file === server.origin.file ? '' : ` of ${origin.file}`}, so there is one`,
      )
      continue
    }
    const name = upstreamName(server.name, new Set(found.keys()))
    if (name !== upstreamName(server.name))
      noteOf(server)(`is named ${name} here, as another server is named ${upstreamName(server.name)}`)
    found.set(name, server)
  }
  return found
}

function identityOf({ name: _name, origin: _origin, ...rest }: ImportedServer): string {
  return JSON.stringify(rest, (_key, value: unknown) => (value instanceof Map ? [...value] : value))
}

function variablesOf({ reach }: ImportedServer) {
  const templates =
    'url' in reach
      ? [reach.url, ...reach.headers.values()]
      : [...reach.words, ...reach.env.values(), reach.cwd ?? []]
  return templates.flat().filter((part) => typeof part !== 'string' && 'variable' in part)
}

interface Dressing {
  readonly schema: string
  readonly environment: Environment
  readonly secrets: ReadonlyMap<string, string>
}

function render(entries: ReadonlyMap<string, Entry>, { schema, environment, secrets }: Dressing): string {
  const upstreams = Object.fromEntries([...entries].map(([name, { value }]) => [name, value]))
  const document = new Document({ version: 1, upstreams })
  const map = document.get('upstreams')
  for (const pair of isMap(map) ? map.items : []) {
    if (!isPair(pair) || !isScalar(pair.key)) continue
    const name = String(pair.key.value)
    const origin = originOf(entries.get(name)?.server, name)
    if (origin !== undefined) pair.key.commentBefore = ` ${oneLine(origin)}`
  }
  const needs = needsOf(entries)
  const files = new Set([...entries.values()].map(({ server }) => fileName(server.origin.file)))
  const head = [
    `# yaml-language-server: $schema=${schema}`,
    `# Imported from ${oneLine([...files].join(' and '))}. Run \`gatehouse check\` to test it.`,
    ...listed(
      'The secrets in .env beside this file, unless they are in the environment:',
      [...needs].filter(([name]) => secrets.has(name)),
    ),
    ...listed('Set these variables before you start the gateway:', [
      ...unsetNames(entries, environment, secrets),
    ]),
  ]
  // The library writes blocks that are blanks alone, and reads them otherwise.
  return `${head.join('\n')}\n\n${document.toString({ lineWidth: 0, blockQuote: false })}`
}

/** The variables that servers need, with the meaning of their values. */
function needsOf(entries: ReadonlyMap<string, Entry>): ReadonlyMap<string, string> {
  return new Map([...entries.values()].flatMap((entry) => [...entry.needs]))
}

function unsetNames(
  entries: ReadonlyMap<string, Entry>,
  environment: Environment,
  secrets: ReadonlyMap<string, string>,
): ReadonlyMap<string, string> {
  return new Map(
    [...needsOf(entries)].filter(([name]) => environment[name] === undefined && !secrets.has(name)),
  )
}

function listed(
  title: string,
  names: readonly (readonly [name: string, meaning: string])[],
): readonly string[] {
  if (names.length === 0) return []
  return [
    '#',
    `# ${title}`,
    ...names.map(([name, meaning]) => `#   ${name}: ${oneLine(meaning.replaceAll(/\s+/g, ' '))}`),
  ]
}

function originOf(server: ImportedServer | undefined, name: string): string | undefined {
  const project = server?.origin.project
  if (server === undefined || (server.name === name && project === undefined)) return undefined
  return `${JSON.stringify(server.name)}${project === undefined ? '' : ` in ${JSON.stringify(project)}`}`
}

function fileName(path: string): string {
  return path.split(/[\\/]/).at(-1) ?? path
}

/** The secrets that are still referred to. */
function usedValues(entries: ReadonlyMap<string, Entry>, { values }: Variables): ReadonlyMap<string, string> {
  const used = needsOf(entries)
  return new Map([...values].filter(([name]) => used.has(name)))
}

function withoutKnown(
  values: ReadonlyMap<string, string>,
  environment: Environment,
): ReadonlyMap<string, string> {
  return new Map([...values].filter(([name]) => environment[name] === undefined))
}

/** The servers that the gateway refuses, with its reasons. */
function refused(
  entries: ReadonlyMap<string, Entry>,
  text: () => string,
  { file, environment }: { readonly file: string; readonly environment: Environment },
): ReadonlyMap<string, string> {
  if (entries.size === 0) return new Map()
  const needs = [...needsOf(entries).keys()]
  // Any value will do for what is not set, be it the URL of a server or a header, unless it is a folder.
  const unset = Object.fromEntries(needs.map((name) => [name, 'http://unset.invalid']))
  try {
    loadSettings(text(), { file, env: { ...unset, ...environment } })
    return new Map()
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    const found = new Map<string, string>()
    for (const { path, message } of error.problems) {
      const [, name, key] = /^upstreams\.([a-z][a-z0-9-]*)\.?(.*)$/.exec(path) ?? []
      if (name === undefined) throw error
      if (key === 'cwd' && isFolderUnknown(entries.get(name), environment)) continue
      if (!found.has(name)) found.set(name, key ? `${key} ${message}` : message)
    }
    return found
  }
}

/** Whether the working folder depends on a variable that has no value. */
function isFolderUnknown(entry: Entry | undefined, environment: Environment): boolean {
  const reach = entry?.server.reach
  const parts = (reach && 'cwd' in reach && reach.cwd) || []
  return parts.some(
    (part) =>
      typeof part !== 'string' &&
      'variable' in part &&
      part.fallback === undefined &&
      environment[part.variable] === undefined,
  )
}
