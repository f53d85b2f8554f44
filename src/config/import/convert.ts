/** Converts one imported server to its settings in the gateway's configuration, in their shortest form. */
import { durationText } from '../../core/time/units.ts'
import { oneLine } from '../../core/text/escape.ts'
import { joinCommand } from '../command-line.ts'
import { isHttpUrl, urlMistake } from '../names.ts'
import { isOwnHeader } from '../sections/upstream.ts'
import type { Environment } from '../secrets.ts'
import {
  type ImportedCommand,
  type ImportedServer,
  type ImportedUrl,
  joined,
  literalText,
  type Part,
  type Template,
} from './model.ts'
import {
  convertArguments,
  convertEnv,
  convertHeader,
  convertUrl,
  type SecretContext,
  type Variables,
  withoutUser,
} from './secrets.ts'

/** A server as it is written, under its name. */
export interface Entry {
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
export function convertServer(
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

type Values = Readonly<Record<string, unknown>>

function convertCommand(
  { words, env, cwd }: ImportedCommand,
  context: WriteContext,
): string | Values | undefined {
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

function convertUrlServer(reach: ImportedUrl, context: WriteContext): string | Values | undefined {
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
function settingsOf({ startTimeout, callTimeout, shownTools, hiddenTools }: ImportedServer): Values {
  const tools = new Map<string, Values>([
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

function limitsOf(timeout: number): Values {
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
