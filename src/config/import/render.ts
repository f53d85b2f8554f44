/**
 * Writes imported servers as a configuration of the gateway. What it writes is loaded before it is returned: a server that
 * the gateway would refuse is left out with the reason, so that the others can be used. No secret is written into it: those that
 * are found in values get variables, which are lines of a `.env` file.
 */
import type { Fields } from '../../core/payload.ts'
import { Document, isMap, isPair, isScalar } from 'yaml'
import { isDeepStrictEqual, parseEnv } from 'node:util'
import { oneLine, percentDecoded } from '../../core/text/escape.ts'
import { loadSettings } from '../load.ts'
import { upstreamName, isHttpUrl, urlMistake } from '../names.ts'
import { ConfigError } from '../problem.ts'
import {
  type Environment,
  containsNamedSecret,
  containsPassword,
  looksGenerated,
  looksLikeToken,
  looksRandom,
  namesSecret,
} from '../secrets.ts'
import {
  type ImportedServer,
  type ImportFinding,
  type ImportedCommand,
  type ImportedUrl,
  joined,
  literalText,
  type Part,
  type Template,
  literal,
  variableName,
} from './model.ts'
import { durationText } from '../../core/time/units.ts'
import { joinCommand } from '../../core/text/command-line.ts'
import { isOwnHeader } from '../sections/upstream.ts'

/** A configuration, and what belongs to it. */
interface GatewayConfig {
  /** The text of the file. */
  readonly yaml: string
  /** The secrets that it refers to, by variable: they are not in the file. */
  readonly env: ReadonlyMap<string, string>
  /** Variables that it refers to and that have no value, in the environment or in `env`. */
  readonly unset: readonly string[]
  /** The names of its servers. */
  readonly servers: readonly string[]
  /** The servers that it has, by their names in the files of clients: also those that were there before, or occur twice. */
  readonly taken: readonly ImportedServer[]
  readonly findings: readonly ImportFinding[]
}

/** Where the file will be, and what is around it. */
interface Target {
  /** The path of the configuration: relative paths and messages are about it. */
  readonly file: string
  /** The schema reference for editors. */
  readonly schema: string
  /** The variables that the gateway will have, besides those of `env` of the result. */
  readonly environment: Environment
  /** The servers that the gateway has already, as they are written. */
  readonly existing?: Readonly<Record<string, unknown>>
}

/** Converts servers of one or several clients. A server that occurs twice is written once. */
export function toGatewayConfig(
  servers: readonly ImportedServer[],
  { file, schema, environment, existing = {} }: Target,
): GatewayConfig {
  const findings: ImportFinding[] = []
  const taken: ImportedServer[] = []
  const noteOf =
    (server: ImportedServer) =>
    (message: string): void =>
      void findings.push({ file: server.origin.file, server: server.name, message })
  const referred = Map.groupBy(servers.flatMap(variablesOf), ({ variable }) => variable)
  const variables = createVariables((name) => environment[name], referred)
  const entries = new Map<string, Entry>()
  const distinct = named(servers, noteOf)
  for (const [name, server] of distinct) {
    const note = noteOf(server)
    const entry = convertServer(name, server, { variables, environment, note })
    if (entry === undefined) continue
    if (!Object.hasOwn(existing, name)) entries.set(name, entry)
    else if (isDeepStrictEqual(existing[name], entry.value)) {
      note(`is in ${file} already`)
      taken.push(server)
    } else {
      const free = upstreamName(
        server.name,
        new Set([...Object.keys(existing), ...distinct.keys(), ...entries.keys()]),
      )
      note(`is named ${free} here, as another server is named ${name}`)
      const again = convertServer(free, server, { variables, environment, note: () => {} })
      if (again !== undefined) entries.set(free, again)
    }
  }
  const values = () => usedValues(entries, variables)
  const text = () => render(entries, schema, environment, values())
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
    taken: servers.filter((server) =>
      [...taken, ...[...entries.values()].map((entry) => entry.server)].some(
        (each) => each === server || identityOf(each) === identityOf(server),
      ),
    ),
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

function render(
  entries: ReadonlyMap<string, Entry>,
  schema: string,
  environment: Environment,
  secrets: ReadonlyMap<string, string>,
): string {
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

/** A server as it is written, under its name. */
interface Entry {
  readonly server: ImportedServer
  readonly value: unknown
  /** The variables without a default that it refers to, with the meaning of their values. */
  readonly needs: ReadonlyMap<string, string>
}

interface Context {
  readonly environment: Environment
  readonly variables: Variables
  readonly note: (message: string) => void
}

/** The settings of a server; undefined, with a note why, if it is not imported. */
function convertServer(
  name: string,
  server: ImportedServer,
  { variables, environment, note }: Context,
): Entry | undefined {
  const needs = new Map<string, string>()
  const write = (template: Template): string => written(template, needs)
  const context = { server: name, variables, environment, note, write }
  const { reach } = server
  const value = 'url' in reach ? convertUrlServer(reach, context) : convertCommand(reach, context)
  if (value === undefined) return undefined
  const settings = settingsOf(server)
  if (typeof value === 'string' && Object.keys(settings).length === 0) return { server, value, needs }
  const key = 'url' in reach ? 'url' : 'command'
  return { server, value: { ...(typeof value === 'string' ? { [key]: value } : value), ...settings }, needs }
}

interface WriteContext extends SecretContext {
  readonly environment: Environment
  readonly write: (template: Template) => string
}

function convertCommand(
  { words, env, cwd }: ImportedCommand,
  context: WriteContext,
): string | Fields | undefined {
  const { note, write } = context
  if (words.some((word) => isGateway(literalText(word) ?? ''))) return skipped('is this gateway itself', note)
  const own = words.map((word) => withoutOwnVariables(word, env, context))
  const line = joinCommand(convertArguments(withoutCmd(own, note), context).map(write))
  const variables = [...env].map(([name, value]) => [name, write(convertEnv(name, value, context))])
  const rest = {
    ...(variables.length > 0 && { env: Object.fromEntries(variables) }),
    ...(cwd && { cwd: write(cwd) }),
  }
  const isShort = Object.keys(rest).length === 0 && !isHttpUrl(line) && urlMistake(line) === undefined
  return isShort ? line : { command: line, ...rest }
}

/** Programs such as mcp-remote replace references to their own variables, which clients leave to them. */
function withoutOwnVariables(
  word: Template,
  env: ImportedCommand['env'],
  { environment, note }: WriteContext,
): Template {
  return word.map((part) => {
    if (typeof part === 'string' || 'path' in part || part.fallback !== undefined) return part
    if (!env.has(part.variable) || environment[part.variable] !== undefined) return part
    note(`the reference to ${part.variable} in its arguments is left to the command, which has it in \`env\``)
    return part.written ?? `\${${part.variable}}`
  })
}

function skipped(why: string, note: Context['note']): undefined {
  note(`${why} and was skipped`)
  return undefined
}

/** Files made on Windows start programs such as npx by its shell, which does not exist elsewhere. */
function withoutCmd(words: readonly Template[], note: Context['note']): readonly Template[] {
  const [program = '', option = ''] = words.slice(0, 2).map((word) => literalText(word) ?? '')
  if (process.platform === 'win32' || words.length < 3) return words
  if (!/^(?:.*\\)?cmd(?:\.exe)?$/i.test(program) || !/^\/c$/i.test(option)) return words
  note('starts its command by `cmd /c`, which was left out, as there is none on this machine')
  return words.slice(2)
}

function convertUrlServer(reach: ImportedUrl, context: WriteContext): string | Fields | undefined {
  const { note, write } = context
  const text = literalText(reach.url)
  if (text !== undefined && isOwnUrl(text)) return skipped('is this gateway itself', note)
  const bare = withoutUser(lowerScheme(reach.url), context)
  if ('problem' in bare) return skipped(bare.problem, note)
  const headers = headersOf(reach, bare.authorization, context)
  const authorization = headers.find(([name]) => /^authorization$/i.test(name))
  const token = /^Bearer (\S+)$/.exec(authorization?.[1] ?? '')?.[1]
  const others = headers.filter((each) => token === undefined || each !== authorization)
  const url = write(convertUrl(bare.url, context))
  const rest = {
    ...(token !== undefined && { token }),
    ...(others.length > 0 && { headers: Object.fromEntries(others) }),
    ...(reach.isSse && { transport: 'sse' }),
  }
  return Object.keys(rest).length === 0 && isHttpUrl(url) ? url : { url, ...rest }
}

/** The headers that the gateway accepts, written. */
function headersOf(
  { headers }: ImportedUrl,
  authorization: Template | undefined,
  context: WriteContext,
): readonly (readonly [name: string, value: string])[] {
  const { note, write } = context
  const isGiven = [...headers.keys()].some((name) => /^authorization$/i.test(name))
  const kept = [...headers].filter(([name, value]) => {
    if (isOwnHeader(name)) note(`its header ${oneLine(name)} was left out: the gateway sets it itself`)
    else if (!/^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/.test(name))
      note(`its header ${JSON.stringify(name.slice(0, 60))} was left out: this is no name of a header`)
    else if (value.some((part) => typeof part === 'string' && /[\r\n\0]/.test(part)))
      note(`its header ${name} was left out: its value is more than one line`)
    else if (trimmed(value).some((part) => typeof part === 'string' && /[^\t -~\x80-\xff]/.test(part)))
      note(`its header ${name} was left out: its value has characters that no header can have`)
    else return true
    return false
  })
  const own = kept.map(
    ([name, value]) => [name, write(convertHeader(name, trimmed(value), context))] as const,
  )
  const isUsed = authorization !== undefined && !isGiven
  return isUsed ? [...own, ['authorization', write(authorization)] as const] : own
}

/** What the client's lists and times are as settings. */
function settingsOf({ startTimeout, callTimeout, shownTools, hiddenTools }: ImportedServer): Fields {
  const tools = new Map<string, Fields>([
    ...(shownTools ? [['*', { hide: true }] as const] : []),
    ...(shownTools ?? []).map((name) => [name, { hide: false }] as const),
    ...hiddenTools.map((name) => [name, { hide: true }] as const),
  ])
  // The client did not require that a tool in its lists exists.
  const optional = [...tools.keys()].filter((name) => name !== '*')
  return {
    ...(startTimeout !== undefined && { start_timeout: durationText(startTimeout) }),
    ...(callTimeout !== undefined && { limits: limitsOf(callTimeout) }),
    ...(tools.size > 0 && { tools: Object.fromEntries(tools) }),
    ...(optional.length > 0 && { optional }),
  }
}

/** Longer than the default of `max_timeout`, a timeout needs that one too. */
const DEFAULT_MAX_TIMEOUT_MS = 600_000

function limitsOf(timeout: number): Fields {
  const text = durationText(timeout)
  return { timeout: text, ...(timeout > DEFAULT_MAX_TIMEOUT_MS && { max_timeout: text }) }
}

/** The default address of the gateway. */
function isOwnUrl(url: string): boolean {
  return /^http:\/\/(?:127\.0\.0\.1|localhost|\[::1\]):8900\/(?:mcp|sse)(?:[/?#]|$)/i.test(url)
}

function isGateway(word: string): boolean {
  return /(^|[\\/])gatehouse(@[\w.-]+)?$|[\\/]gatehouse[\\/]dist[\\/]main\.js$/.test(word)
}

/** A template in the gateway's syntax. */
function written(template: Template, needs: Map<string, string>): string {
  return joined(template)
    .map((part, index, { length }) => {
      if (typeof part === 'string') {
        const escaped = part.replaceAll('${', () => '$${')
        // A `$` before a reference would make it literal.
        return index === length - 1 ? escaped : escaped.replace(/\$+$/, (found) => `\${A_DOLLAR:-${found}}`)
      }
      if ('path' in part) return `\${file:${part.path}}`
      const { variable, fallback, meaning } = part
      if (fallback === undefined)
        needs.set(variable, meaning ?? needs.get(variable) ?? 'the client’s configuration refers to it')
      return fallback === undefined ? `\${${variable}}` : `\${${variable}:-${fallback}}`
    })
    .join('')
}

/** URLs that the gateway accepts begin in lower case. */
function lowerScheme(url: Template): Template {
  const [start, ...rest] = url
  if (typeof start !== 'string') return url
  return [start.replace(/^[a-z]+:/i, (scheme) => scheme.toLowerCase()), ...rest]
}

/** HTTP does not send blanks around the value of a header. */
function trimmed(value: Template): Template {
  return value.flatMap((part, index): Part[] => {
    if (typeof part !== 'string') return [part]
    const start = index === 0 ? part.trimStart() : part
    return [index === value.length - 1 ? start.trimEnd() : start]
  })
}

/** The server whose values are converted, and the variables for its secrets. */
interface SecretContext {
  readonly server: string
  readonly variables: Variables
  readonly note: (message: string) => void
}

/** Converts an environment value: a reference if it is a secret. */
function convertEnv(name: string, value: Template, context: SecretContext): Template {
  return convert(value, context, {
    name,
    place: `env ${name}`,
    isNamed: (text) => namesSecret(name) && !isPath(text),
    looks: looksSecret,
  })
}

/** Converts a header value: a reference unless it is known not to be secret. */
function convertHeader(name: string, value: Template, context: SecretContext): Template {
  const preferred = /^authorization$/i.test(name) ? `${context.server}_TOKEN` : `${context.server}_${name}`
  const isHarmless = harmless.test(name) && !namesSecret(name)
  const looks = isHarmless ? looksLikeToken : looksSecret
  const place = { name: preferred, place: `header ${name}`, isNamed: () => !isHarmless, looks }
  const text = literalText(value)
  if (text === undefined) return convert(value, context, place)
  const [, scheme = '', rest = text] = /^((?:Bearer|Basic|Token)\s+)(.*)$/is.exec(text) ?? []
  return [...literal(scheme), ...convert(literal(rest), context, place)]
}

/** Converts the arguments of a command; secrets in options become references. */
function convertArguments(words: readonly Template[], context: SecretContext): Template[] {
  return words.map((word, index) => {
    const [start = '', ...rest] = word
    const before = literalText(words[index - 1] ?? []) ?? ''
    if (typeof start !== 'string') return convertArgument(word, before, context)
    const [, option, value] = /^((?:--?[\w-]+=)?[A-Z_][A-Z0-9_]*=|--?[\w-]+=)(.*)$/s.exec(start) ?? []
    if (option === undefined || value === undefined) return convertArgument(word, before, context)
    return [option, ...convertArgument([...literal(value), ...rest], option, context)]
  })
}

/** Moves the user and password of a URL to a header: a URL in the file must not contain them. */
function withoutUser(
  url: Template,
  context: SecretContext,
): { readonly url: Template; readonly authorization?: Template } | { readonly problem: string } {
  const text = literalText(url)
  if (text === undefined)
    return /@/.test(marked(url).split(/[/?#]/)[2] ?? '')
      ? { problem: 'has a user in its URL, which belongs into a header `Authorization`,' }
      : { url }
  const [, start = '', user = '', rest = ''] = /^([a-z][a-z0-9+.-]*:\/\/)([^/?#]*)@(.*)$/is.exec(text) ?? []
  if (start === '') return { url }
  const bare = literal(start + rest)
  if (user === '') return { url: bare }
  const value = Buffer.from(percentDecoded(user)).toString('base64')
  const place = { name: `${context.server}_BASIC`, place: 'its URL before the @, as base64' }
  return { url: bare, authorization: ['Basic ', reference(value, context, place)] }
}

/** Converts a URL; a secret in its path or query becomes a reference. */
function convertUrl(url: Template, context: SecretContext): Template {
  return url.flatMap((part, index): Template => {
    const before = marked(url.slice(0, index))
    const placeOf = (name: string): Place =>
      name === ''
        ? { name: `${context.server}_SECRET`, place: 'the path of its URL' }
        : { name: `${context.server}_${name}`, place: `${name} in its URL` }
    if (typeof part === 'string')
      return piecesOf(part, before).map(({ text, secret }) =>
        secret === undefined ? text : reference(text, context, placeOf(secret)),
      )
    if ('path' in part || part.fallback === undefined) return [part]
    const secret = piecesOf(part.fallback, before).find((piece) => piece.secret !== undefined)?.secret
    return [
      secret === undefined ? part : withoutDefault(part.variable, part.fallback, context, placeOf(secret)),
    ]
  })
}

/** A piece of a URL; if it is a secret, the name of its parameter, which is empty in the path. */
interface Piece {
  readonly text: string
  readonly secret?: string
}

/** The pieces of a part of a URL. `before` is the URL up to there. */
function piecesOf(text: string, before: string): readonly Piece[] {
  const start = before.includes('?') ? 0 : text.search(/[?&]/)
  const path = start === -1 ? text : text.slice(0, start)
  const steps = path
    .split(/(\/)/)
    .map((step) =>
      looksLikeToken(step) || looksGenerated(step) ? { text: step, secret: '' } : { text: step },
    )
  const parameters = text.slice(path.length).split(/(?=&)/)
  return [
    ...steps,
    ...parameters.flatMap((parameter): Piece[] => {
      const [, key = '', value = ''] = /^((?:[?&](?:[^=&]*=)?)?)(.*)$/s.exec(parameter) ?? []
      const name = /[?&]([^=&]*)=[^&]*$/.exec(key === '' ? before : key)?.[1] ?? ''
      const isSecret = value !== '' && (namesSecret(name) || looksSecret(value))
      return [{ text: key }, isSecret ? { text: value, secret: name } : { text: value }]
    }),
  ]
}

const harmless = /^(accept|accept-language|cache-control|content-type|user-agent|x-mcp-[\w-]+)$/i

function convertArgument(word: Template, before: string, context: SecretContext): Template {
  const text = marked(word)
  const [start = '', ...rest] = word
  // A header on the command line, such as `--header "Authorization: Bearer …"`.
  const [label, header = ''] = (typeof start === 'string' && /^([A-Za-z][\w-]*):\s*/.exec(start)) || []
  if (typeof start === 'string' && label !== undefined && namesSecret(header))
    return [label, ...convertHeader(header, [...literal(start.slice(label.length)), ...rest], context)]
  const isUrl = /^https?:\/\//i.test(text)
  if (isUrl && !containsPassword(text)) return convertUrl(word, context)
  const option = optionName(before)
  const isOption = text.startsWith('-') && !before.endsWith('=')
  const isNamed = namesSecret(option) && !isOption && !isPath(text)
  const found = convert(word, context, {
    name: `${context.server}_${option || 'SECRET'}`,
    place: 'one of its arguments',
    isNamed: () => isNamed,
    looks: containsSecret,
  })
  return isUrl ? convertUrl(found, context) : found
}

function optionName(before: string): string {
  const [, variable, option] = /^(?:(?:--?[\w-]+=)?([A-Z_][A-Z0-9_]*)=|--?([\w-]+)=?)$/.exec(before) ?? []
  return variable ?? option ?? ''
}

interface Place {
  /** The preferred name of a variable. */
  readonly name: string
  readonly place: string
}

/** How a value is known to be a secret: by where it is, or by its look. */
interface Signs extends Place {
  readonly isNamed: (text: string) => boolean
  readonly looks: (text: string) => boolean
}

/** Literal parts and defaults that are secrets become references. A text beside references is one by its look alone. */
function convert(value: Template, context: SecretContext, { isNamed, looks, ...place }: Signs): Template {
  const text = literalText(value)
  // What the command replaces is no secret itself.
  if (text === '' || /^\$\{\w+\}$/.test(text ?? '')) return value
  if (text !== undefined) return isNamed(text) || looks(text) ? [reference(text, context, place)] : value
  return value.map((part, index) => {
    const start = /\w:\/\/[^/@\s]*$/.exec(marked(value.slice(0, index)))?.[0] ?? ''
    const rest = marked(value.slice(index + 1))
    const isPassword = (some: string): boolean =>
      !some.startsWith('@') &&
      containsPassword(`${start}${some}@`) &&
      containsPassword(`${start}${some}${rest}`)
    if (typeof part === 'string')
      return looks(part) || isPassword(part) ? reference(part, context, place) : part
    if ('path' in part || part.fallback === undefined || part.fallback === '') return part
    const { variable, fallback } = part
    const isSecret = isNamed(fallback) || looks(fallback) || isPassword(fallback)
    return isSecret ? withoutDefault(variable, fallback, context, place) : part
  })
}

/** A reference whose default is a secret. Like a default, what is in .env counts where the environment has no value. */
function withoutDefault(variable: string, fallback: string, context: SecretContext, place: Place): Part {
  if (context.variables.setDefault(variable, fallback)) return { variable }
  context.note(
    `the default of ${variable} in ${place.place} is a secret, and ${variable} has another value elsewhere: the secret got a variable of its own, and ${variable} has no effect there`,
  )
  return reference(fallback, context, place)
}

/** A text in which references are their defaults, or a character that no URL has. */
function marked(value: Template): string {
  return value
    .map((part) => (typeof part === 'string' ? part : ('variable' in part && part.fallback) || '\0'))
    .join('')
}

function reference(value: string, { server, variables }: SecretContext, { name, place }: Place): Part {
  return {
    variable: variables.forValue(value, name, server),
    meaning: `the value that ${server} has in ${place}`,
  }
}

function looksSecret(value: string): boolean {
  return containsSecret(value) || looksRandom(value)
}

function containsSecret(value: string): boolean {
  return looksLikeToken(value) || containsPassword(value) || containsNamedSecret(value)
}

function isPath(value: string): boolean {
  return /^(~|\.{1,2}|\/(home|Users|etc|opt|var|tmp|srv|usr|root|mnt|Applications|Library)|[A-Za-z]:)[\\/]/.test(
    value,
  )
}

/** Names for the secrets of a configuration: none of them means something else in the environment. */
interface Variables {
  /** Assigns a variable to a secret value; equal values get the same variable. */
  forValue(value: string, preferred: string, server: string): string
  /** Gives a variable of the client's file a value for when it is not set; false if that cannot be its only one. */
  setDefault(name: string, value: string): boolean
  /** The values of the assigned variables, in order. */
  readonly values: ReadonlyMap<string, string>
}

/**
 * Creates an empty collection. `valueOf` is the value that a name has in the environment, `referred` are the references of
 * the files by name.
 */
function createVariables(
  valueOf: (name: string) => string | undefined,
  referred: ReadonlyMap<string, readonly { readonly fallback?: string }[]>,
): Variables {
  const values = new Map<string, string>()
  const isFree = (name: string, value: string): boolean => {
    const other = values.get(name) ?? valueOf(name)
    return other === undefined ? !referred.has(name) : other === value
  }
  return {
    values,
    setDefault(name, value) {
      const given = valueOf(name)
      if (given !== undefined) return given !== ''
      const references = referred.get(name) ?? []
      if (references.some(({ fallback = value }) => fallback !== value)) return false
      values.set(name, value)
      return true
    },
    forValue(value, name, server) {
      const plain = variableName(name)
      const names = [plain, variableName(`${server}_${name}`)]
      for (let number = 2; !names.some((each) => isFree(each, value)); number += 1)
        names.push(`${plain}_${number}`)
      const chosen = names.find((each) => isFree(each, value)) ?? plain
      values.set(chosen, value)
      return chosen
    },
  }
}

/**
 * A line that sets a variable to exactly this value; undefined if no line can, such as for a value with all kinds of
 * quotes and a line break.
 */
export function variableLine(name: string, value: string): string | undefined {
  const plain = /^[\w./:@+=-]*$/.test(value) ? [value] : []
  const lines = [...plain, ...[`'`, '"', '`'].map((quote) => `${quote}${value}${quote}`)].map(
    (text) => `${name}=${text}`,
  )
  return lines.find((line) => {
    const read = Object.entries(parseEnv(`${name}_BEFORE=1\n${line}\n${name}_AFTER=1\n`))
    return read.length === 3 && read.some(([key, text]) => key === name && text === value)
  })
}
