/**
 * Reads one server of a client's file, by the meaning of its keys. What cannot be imported is reported: nothing is left out
 * silently. Clients share most keys, so there is one table; a client (`clients.ts`) adds its own, and says the unit of `timeout`.
 */
import { resolve } from 'node:path'
import { isNumber } from '../../core/json/exact-number.ts'
import { isObject } from '../../core/json/json.ts'
import { splitCommand } from '../../core/text/command-line.ts'
import {
  type Dialect,
  type DialectContext,
  readTemplate,
  type ImportedServer,
  literal,
  literalText,
  type Template,
} from './model.ts'

/** How entries of a file are read. */
export interface EntryContext extends DialectContext {
  readonly dialect: Dialect
  readonly keys: KeyMeanings
  /** Whether the client starts the server in the workspace because the entry is of a project. */
  readonly isOfProject: boolean
  /** The text of an environment file; undefined if it cannot be read. */
  readonly variablesIn: (path: string) => ReadonlyMap<string, string> | undefined
}

type Entry = Readonly<Record<string, unknown>>

/** The value that an entry has for a meaning, with its key. */
interface Given {
  readonly key: string
  readonly value: unknown
}

/** A server without its name and origin; undefined, with a note why, if it cannot be imported. */
export function readEntry(
  entry: Entry,
  context: EntryContext,
): Omit<ImportedServer, 'name' | 'origin'> | undefined {
  const { note } = context
  const flat = flattened(entry)
  const given = new Map<Meaning, Given[]>()
  for (const [key, value] of Object.entries(flat)) {
    const meaning = meaningOf(key, context.keys)
    if (meaning === undefined)
      note(`its \`${key.slice(0, 60)}\` was not imported: the gateway does not know that setting`)
    else if (typeof meaning === 'object') noteAdvice(key, value, meaning.advice, note)
    else if (value !== null) given.set(meaning, [...(given.get(meaning) ?? []), { key, value }])
  }
  if (isSet(first(given, 'disabled')) || isUnset(first(given, 'enabled'))) {
    note('is disabled there and was skipped')
    return undefined
  }
  const reach = reachOf(given, context)
  if (reach === undefined) return undefined
  const startTimeout = duration(given, 'start', note)
  const callTimeout = duration(given, 'call', note)
  const shown = only(given, note)
  return {
    reach,
    ...(startTimeout !== undefined && { startTimeout }),
    ...(callTimeout !== undefined && { callTimeout }),
    ...(shown && { shownTools: shown }),
    hiddenTools: [
      ...(given.get('no tools') ?? []).flatMap((each) => names(each, note)),
      ...(given.get('tool settings') ?? []).flatMap((each) => switchedOff(each, note)),
    ],
  }
}

/** Objects in which some clients put a part of the settings. */
const wrappers = ['transport', 'config', 'requestOptions', 'command']

function flattened(entry: Entry): Entry {
  const inner = wrappers.flatMap((key) => (isObject(entry[key]) ? Object.entries(entry[key]) : []))
  const outer = Object.entries(entry).filter(([key, value]) => !(wrappers.includes(key) && isObject(value)))
  return Object.fromEntries([...outer, ...inner])
}

function noteAdvice(key: string, value: unknown, advice: string, note: DialectContext['note']): void {
  const isEmpty = value === null || value === false || (Array.isArray(value) && value.length === 0)
  if (!isEmpty) note(`its \`${key}\` ${advice}`)
}

function first(given: ReadonlyMap<Meaning, readonly Given[]>, meaning: Meaning): Given | undefined {
  return given.get(meaning)?.[0]
}

function isSet(given: Given | undefined): boolean {
  return /^(?:true|yes|on|1)$/i.test(text(given) ?? '')
}

function isUnset(given: Given | undefined): boolean {
  return /^(?:false|no|off|0)$/i.test(text(given) ?? '')
}

type GivenValues = ReadonlyMap<Meaning, readonly Given[]>

function reachOf(given: GivenValues, context: EntryContext): ImportedServer['reach'] | undefined {
  const { note } = context
  const kind = transportKind(first(given, 'transport'), note)
  if (kind === 'other') return undefined
  const url = urlOf(given, note)
  const commands = (given.get('command') ?? []).filter(({ value }) => value !== '')
  const hasUrl = url !== undefined && url !== ''
  if (!hasUrl && commands.length === 0) {
    note('has neither a command nor a URL and was skipped')
    return undefined
  }
  const isUrl = hasUrl && (commands.length === 0 || kind === 'http' || kind === 'sse')
  if (hasUrl && commands.length > 0)
    note(
      `has a URL and a command: the ${isUrl ? 'command' : 'URL'} was left out${kind === undefined ? ', as there is no `type`' : ''}`,
    )
  const isOther = kind !== undefined && (kind !== 'stdio') !== isUrl
  if (isOther)
    note(
      `has a \`type\` for a ${isUrl ? 'command' : 'URL'}, but only a ${isUrl ? 'URL' : 'command'}, which was imported`,
    )
  noteUnused(given, isUrl, note)
  if (!isUrl) return commandOf(given, context)
  return { url: template(url, context), headers: headersOf(given, context), isSse: kind === 'sse' }
}

/** The URL; of several, that for Streamable HTTP, as in the clients that have two. */
function urlOf(given: GivenValues, note: DialectContext['note']): string | undefined {
  const urls = given.get('url') ?? []
  const chosen = urls.find(({ key }) => key === 'httpUrl') ?? urls[0]
  if (urls.length > 1) note(`has several URLs: its \`${chosen?.key}\` was imported`)
  return text(chosen)?.trim()
}

const ofUrl: readonly Meaning[] = ['headers', 'headers from variables', 'token variable']
const ofCommand: readonly Meaning[] = [
  'arguments',
  'environment',
  'passed variables',
  'environment file',
  'folder',
]

/** Settings of the other kind of server have no effect in the client either. */
function noteUnused(given: GivenValues, isUrl: boolean, note: DialectContext['note']): void {
  for (const meaning of isUrl ? ofCommand : ofUrl)
    for (const { key, value } of given.get(meaning) ?? []) {
      const isEmpty = isObject(value) ? Object.keys(value).length === 0 : [value].flat().length === 0
      if (!isEmpty) note(`its \`${key}\` has no effect for a ${isUrl ? 'URL' : 'command'} and was left out`)
    }
}

function transportKind(
  given: Given | undefined,
  note: DialectContext['note'],
): 'stdio' | 'http' | 'sse' | 'other' | undefined {
  if (given === undefined) return undefined
  const word = (text(given) ?? '').toLowerCase().replaceAll(/[^a-z]/g, '')
  if (/^(?:stdio|local|command)$/.test(word)) return 'stdio'
  if (/^(?:http|https|streamable|streamablehttp|httpstream|remote|url)$/.test(word)) return 'http'
  if (word === 'sse' || word === 'httpsse') return 'sse'
  if (word === 'custom') return undefined
  if (/^(?:builtin|platform|frontend|inlinepython|sdk|ws|websocket|extension|inmemory)$/.test(word)) {
    note(`is of the type ${JSON.stringify(given.value)}, which only its client has, and was skipped`)
    return 'other'
  }
  note(
    `its \`${given.key}\` is not known: the gateway uses its command, or finds out the transport of its URL`,
  )
  return undefined
}

function commandOf(given: GivenValues, context: EntryContext): ImportedServer['reach'] | undefined {
  const { note } = context
  const words = [
    ...(given.get('command') ?? []).flatMap((each) => commandWords(each, note)),
    ...(given.get('arguments') ?? []).flatMap((each) => argumentWords(each, note)),
  ]
  if (words.some((word) => word.includes('\0'))) {
    note('has a NUL character in its command and was skipped')
    return undefined
  }
  if (words[0] === undefined || words[0] === '') {
    note('has neither a command nor a URL and was skipped')
    return undefined
  }
  const cwd = folderOf(given, words, context)
  return {
    words: words.map((word) => template(word, context)),
    env: environmentOf(given, context),
    ...(cwd && { cwd }),
  }
}

/** The working folder; clients that set none start servers in the workspace. */
function folderOf(given: GivenValues, words: readonly string[], context: EntryContext): Template | undefined {
  const { workspace, isOfProject } = context
  const [start, ...rest] = template(text(first(given, 'folder'))?.trim() ?? '', context)
  if (start !== undefined)
    return typeof start === 'string'
      ? [absolute(workspace, start, rest.length > 0), ...rest]
      : [start, ...rest]
  return isOfProject || words.some((word) => /^\.{1,2}[\\/]/.test(word)) ? [workspace] : undefined
}

/** An absolute path, or the start of one: `resolve` takes the slash off its end. */
function absolute(workspace: string, path: string, isStart: boolean): string {
  return isStart ? resolve(workspace, `${path}x`).slice(0, -1) : resolve(workspace, path)
}

/** The words of a command, which is a program or, in some clients, a list or a whole command line. */
function commandWords({ key, value }: Given, note: DialectContext['note']): readonly string[] {
  if (Array.isArray(value)) return argumentWords({ key, value }, note)
  const line = text({ key, value })?.trim() ?? ''
  if (!/\s/.test(line)) return [line]
  // A path may contain blanks; the name of a program does not.
  const isPath = /^(?:\S*[\\/]|["'])/.test(line)
  const split = isPath ? undefined : splitCommand(line)
  if (!split || 'problem' in split) {
    note(
      'has a command with blanks, which was taken as one path: put its arguments into `args` if it is several words',
    )
    return [/^"[^"]*"$/.test(line) ? line.slice(1, -1) : line]
  }
  note('has several words in its `command`, which were taken as a program with arguments')
  return split.words
}

function argumentWords({ key, value }: Given, note: DialectContext['note']): readonly string[] {
  if (typeof value === 'string') {
    const split = splitCommand(value)
    note(`its \`${key}\` is a text and not a list: it was split at blanks`)
    return 'words' in split ? split.words : [value]
  }
  if (!Array.isArray(value)) {
    note(`its \`${key}\` is not a list and was left out`)
    return []
  }
  return value.flatMap((word: unknown, index) => {
    const found = text({ key, value: word })
    if (found === undefined) note(`its \`${key}[${index}]\` is not text and was left out`)
    return found === undefined ? [] : [found]
  })
}

function environmentOf(given: GivenValues, context: EntryContext): ReadonlyMap<string, Template> {
  const { note } = context
  const isName = (key: string): boolean => {
    const isFit = /^[^=\0]+$/.test(key)
    if (!isFit) note('has an environment variable with a name that cannot be one, which was left out')
    return isFit
  }
  const own = (given.get('environment') ?? []).flatMap((each) => pairs(each, context))
  const passed = (given.get('passed variables') ?? []).flatMap(({ key, value }) =>
    variablesNamed(
      [value].flat().map((each: unknown) => (isObject(each) ? each.name : each)),
      key,
      note,
    ).map((name): [string, Template] => [name, [{ variable: name }]]),
  )
  const entries = [...fileVariables(given, context), ...passed, ...own]
  return new Map(entries.filter(([name]) => isName(name)))
}

/** Those of the values that are names of variables. */
function variablesNamed(
  values: readonly unknown[],
  key: string,
  note: DialectContext['note'],
): readonly string[] {
  return values.filter((name): name is string => {
    const isName = typeof name === 'string' && /^[A-Za-z_]\w*$/.test(name)
    if (!isName) note(`its \`${key}\` has a name that no variable can have, which was left out`)
    return isName
  })
}

function fileVariables(given: GivenValues, context: EntryContext): readonly [string, Template][] {
  return (given.get('environment file') ?? []).flatMap((each) => {
    const path = template(text(each) ?? '', context)
    const found = path.every((part) => typeof part === 'string')
      ? context.variablesIn(path.join(''))
      : undefined
    context.note(
      found
        ? 'the variables of its `envFile` were imported: later changes of that file have no effect here'
        : 'its `envFile` cannot be read: list its variables under `env` of this server as ${NAME}, and set them for the gateway',
    )
    return [...(found ?? [])].map(([name, value]): [string, Template] => [name, literal(value)])
  })
}

function headersOf(given: GivenValues, context: EntryContext): ReadonlyMap<string, Template> {
  const { note } = context
  const named = (given.get('headers from variables') ?? []).flatMap((each) =>
    pairs(each, { ...context, dialect: [] }).flatMap(([name, value]) =>
      variablesNamed([literalText(value)], each.key, note).map((variable): [string, Template] => [
        name,
        [{ variable }],
      ]),
    ),
  )
  const bearer = (given.get('token variable') ?? []).flatMap(({ key, value }) =>
    variablesNamed([value], key, note).map((variable): [string, Template] => [
      'Authorization',
      ['Bearer ', { variable }],
    ]),
  )
  const found = new Map<string, readonly [string, Template]>()
  const own = (given.get('headers') ?? []).flatMap((each) => pairs(each, context))
  for (const [written, value] of [...own, ...named, ...bearer]) {
    const name = written.trim()
    if (found.has(name.toLowerCase()))
      note(`has the header ${JSON.stringify(name)} twice: the last one was imported`)
    found.set(name.toLowerCase(), [name, value])
  }
  return new Map(found.values())
}

/** The members of a mapping, or of a list of `{ name, value }`, with their values as templates. */
function pairs({ key, value }: Given, context: EntryContext): readonly [string, Template][] {
  const { note } = context
  if (!isObject(value)) {
    note(`its \`${key}\` is not a mapping and was left out`)
    return []
  }
  return Object.entries(value).flatMap(([name, each]): [string, Template][] => {
    const found = text({ key, value: each })
    if (found !== undefined) return [[name, template(found, context)]]
    note(
      `its \`${key}.${name.slice(0, 60)}\` is ${each === null ? 'null, so it is not set' : 'not text'}, and was left out`,
    )
    return []
  })
}

function template(value: string, context: EntryContext): Template {
  return readTemplate(value, context.dialect, context)
}

/** The text of a scalar: numbers keep their digits. */
function text(given: Given | undefined): string | undefined {
  const value = given?.value
  if (typeof value === 'string') return value
  return isNumber(value) || typeof value === 'boolean' ? String(value) : undefined
}

function duration(given: GivenValues, what: 'start' | 'call', note: DialectContext['note']) {
  for (const [meaning, values] of given) {
    if (typeof meaning !== 'string' || !meaning.startsWith(`${what} in `)) continue
    const { key, value } = values[0] ?? { key: '', value: undefined }
    const number = Number(text({ key, value }))
    const isUnknown = meaning.endsWith('unknown unit')
    const unit = isUnknown ? assumedUnit(number) : meaning.slice(-2).trim()
    const found = Math.round(number * (unit === 's' ? 1000 : 1))
    if (found >= MIN_TIMEOUT_MS && found <= MAX_TIMEOUT_MS) {
      if (isUnknown)
        note(
          `its \`${key}\` was taken as ${unit === 's' ? 'seconds' : 'milliseconds'}: correct \`limits.timeout\` of this server if it is something else`,
        )
      return found
    }
    note(`its \`${key}\` is no time that the gateway can have, and was left out: the default applies`)
  }
  return undefined
}

/** The settings accept no shorter times. */
const MIN_TIMEOUT_MS = 100
/** Longer times are as good as none, and timers cannot have them. */
const MAX_TIMEOUT_MS = 7 * 24 * 3_600_000

function assumedUnit(number: number): 'ms' | 's' {
  return number >= 1000 ? 'ms' : 's'
}

/** The tools of a list that permits no others; undefined if all are permitted. */
function only(given: GivenValues, note: DialectContext['note']): readonly string[] | undefined {
  const some = (given.get('only tools, if any') ?? []).flatMap((each) => names(each, note))
  const lists = given.get('only tools')
  if (lists === undefined && some.length === 0) return undefined
  const found = [...some, ...(lists ?? []).flatMap((each) => names(each, note))]
  return found.includes('*') ? undefined : found
}

function names({ key, value }: Given, note: DialectContext['note']): readonly string[] {
  // Some write `{ NAME: true }`.
  const list: readonly unknown[] = isObject(value)
    ? Object.entries(value).map(([name, isMeant]) => (isMeant === true ? name : undefined))
    : [value].flat()
  const found = list.filter((name) => typeof name === 'string' && name.trim() !== '').map(String)
  if (found.length < list.length) note(`its \`${key}\` has names that are not text, which were left out`)
  return found.map((name) => name.trim())
}

/** The tools that their settings switch off. Other settings of tools are not imported. */
function switchedOff({ key, value }: Given, note: DialectContext['note']): readonly string[] {
  const tools = isObject(value) ? Object.entries(value) : []
  const off = tools.filter(([, settings]) => isOff(settings)).map(([name]) => name)
  const isEmpty = isObject(value) ? tools.length === 0 : [value].flat().length === 0
  if (off.length < tools.length || (tools.length === 0 && !isEmpty))
    note(
      `its \`${key}\` was not imported: settings of single tools are \`tools: { NAME: … }\` under this server, with \`confirm\` and \`hide\``,
    )
  return off
}

function isOff(settings: unknown): boolean {
  if (!isObject(settings)) return settings === false || settings === 'deny'
  return Object.entries(settings).some(
    ([key, value]) =>
      (value === false && /^enabled?$/i.test(key)) || (value === true && /^(?:disabled?|hidden)$/i.test(key)),
  )
}

/** What a key means. */
type Meaning =
  | 'command'
  | 'arguments'
  | 'environment'
  /** Names of variables that are passed on. */
  | 'passed variables'
  | 'environment file'
  | 'folder'
  | 'url'
  | 'headers'
  /** A mapping of headers to the variables that have their values. */
  | 'headers from variables'
  | 'token variable'
  | 'transport'
  | 'disabled'
  | 'enabled'
  | 'start in ms'
  | 'start in s'
  | 'call in ms'
  | 'call in s'
  | 'call in unknown unit'
  | 'only tools'
  /** The same, but an empty list permits all. */
  | 'only tools, if any'
  | 'no tools'
  /** A mapping of tools to their settings. */
  | 'tool settings'
  /** Of no interest to the gateway, such as a description. */
  | 'ignored'
  /** What to do instead. */
  | { readonly advice: string }

/** Keys with their meaning. */
export type KeyMeanings = Readonly<Record<string, Meaning>>

/** The meanings, with the keys that have them in all clients that have them. */
const meanings: readonly (readonly [meaning: Meaning, keys: string])[] = [
  ['command', 'command cmd path'],
  ['arguments', 'args'],
  ['environment', 'env envs environment'],
  ['passed variables', 'env_keys env_vars'],
  ['environment file', 'envFile'],
  ['folder', 'cwd workingDirectory'],
  ['url', 'httpUrl serverUrl url uri baseUrl'],
  ['headers', 'headers http_headers'],
  ['headers from variables', 'env_http_headers'],
  ['token variable', 'bearer_token_env_var'],
  ['transport', 'type transport transportType'],
  ['disabled', 'disabled isDisabled disable'],
  ['enabled', 'enabled isActive active isEnabled enable'],
  ['call in unknown unit', 'timeout'],
  ['call in s', 'tool_timeout_sec'],
  ['start in s', 'startup_timeout_sec'],
  ['start in ms', 'startup_timeout_ms connectionTimeout initTimeout'],
  ['only tools', 'includeTools enabledTools'],
  ['only tools, if any', 'available_tools'],
  ['no tools', 'excludeTools disabledTools disallowedTools deniedTools blockedTools'],
  ['tool settings', 'tools'],
  [
    {
      advice:
        'is about what the client asks, and was not imported: the gateway asks about dangerous tools; `tools: { NAME: { confirm: never } }` under this server is a tool that it never asks about',
    },
    'alwaysAllow autoApprove autoApproved allowedTools trust default_tools_approval_mode',
  ],
  [
    { advice: 'was not imported: the gateway runs no command for headers; write them with ${NAME}' },
    'headersHelper',
  ],
  [
    { advice: 'was not imported: write `oauth` under this server, or set a token as ${NAME}' },
    'oauth auth authProviderType oauth_resource scopes',
  ],
  [
    { advice: 'was not imported: the gateway starts commands without a sandbox; put one into the command' },
    'sandbox sandboxEnabled',
  ],
  [
    'ignored',
    'name description displayName icon faviconUrl source version bundled required settings gallery',
  ],
  [
    'ignored',
    'start_on_launch dev watchPaths fromGalleryId registry alwaysLoad supports_parallel_tool_calls',
  ],
]

/** The keys that mean the same in all clients that have them. */
export const commonKeys: KeyMeanings = Object.fromEntries(
  meanings.flatMap(([meaning, keys]) => keys.split(' ').map((key) => [key, meaning])),
)

/** The meaning of a key. Files that people write have it in other spellings too: `disabled_tools` and `disabledTools` are one. */
function meaningOf(key: string, keys: KeyMeanings): Meaning | undefined {
  if (Object.hasOwn(keys, key)) return keys[key]
  const twin = Object.keys(keys).find((each) => plain(each) === plain(key))
  return twin === undefined ? undefined : keys[twin]
}

function plain(key: string): string {
  return key.toLowerCase().replaceAll(/[_-]/g, '')
}
