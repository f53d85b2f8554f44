/**
 * Parses the arguments that commands share, and finds the configuration they refer to: a file, a URL or a
 * command line.
 */
import { existsSync, statSync } from 'node:fs'
import { userInfo } from 'node:os'
import { parseArgs, type ParseArgsOptionsConfig } from 'node:util'
import { fromArguments } from '../config/arguments.ts'
import { loadSettings } from '../config/load.ts'
import { urlMistake } from '../config/names.ts'
import { problemLine } from '../config/problem.ts'
import { readText, whyUnreadable, variablesFor } from '../config/secrets.ts'
import type { Settings, UpstreamSettings } from '../core/settings.ts'
import { nearest } from '../core/text/words.ts'
import { milliseconds } from '../core/time/units.ts'
import { type Io, pathOf } from './io.ts'

/** An invalid command line; the exit code is 2. */
export class UsageError extends Error {}

/** The options of a command. */
export interface CliOptions {
  readonly config: string | undefined
  /** A file with environment variables. */
  readonly envFile: string | undefined
  readonly host: string | undefined
  readonly port: number | undefined
  /** The gateway key of the server on the command line, which is a gateway itself. */
  readonly gatewayKey: string | undefined
  /** Absent if the option is not given. */
  readonly logLevel: 'debug' | 'info' | 'warn' | 'error' | undefined
  readonly from: string | undefined
  /** The file that is written. */
  readonly output: string | undefined
  readonly force: boolean
  readonly json: boolean
  readonly strict: boolean
  readonly write: boolean
  /** The files of packs. */
  readonly packs: readonly string[]
  /** Positional arguments. */
  readonly words: readonly string[]
}

/** The options of all commands. */
const optionTypes = {
  config: { type: 'string', short: 'c' },
  'env-file': { type: 'string' },
  host: { type: 'string' },
  port: { type: 'string', short: 'p' },
  'gateway-key': { type: 'string' },
  'log-level': { type: 'string' },
  from: { type: 'string' },
  output: { type: 'string', short: 'o' },
  force: { type: 'boolean' },
  json: { type: 'boolean' },
  strict: { type: 'boolean' },
  write: { type: 'boolean' },
  pack: { type: 'string', multiple: true },
} as const

const levels = ['debug', 'info', 'warn', 'error'] as const

/** Reads the options of a command. @throws UsageError */
export function readOptions(args: readonly string[], allowed: readonly string[]): CliOptions {
  const separator = args.indexOf('--')
  const ownArgs = separator === -1 ? args : args.slice(0, separator)
  const { values, positionals } = parseWords(ownArgs, optionTypes)
  for (const name of Object.keys(values)) {
    const isAllowed = allowed.includes(name) || (name === 'env-file' && allowed.includes('config'))
    if (!isAllowed) throw new UsageError(`--${name} is not an option of this command`)
  }
  const logLevel = levels.find((each) => each === values['log-level'])
  if (values['log-level'] !== undefined && !logLevel)
    throw new UsageError(`--log-level must be one of ${levels.join(', ')}`)
  return {
    config: values.config,
    envFile: values['env-file'],
    gatewayKey: values['gateway-key'],
    host: values.host,
    port: portOf(values.port),
    logLevel,
    from: values.from,
    output: values.output,
    force: values.force ?? false,
    json: values.json ?? false,
    strict: values.strict ?? false,
    write: values.write ?? false,
    packs: values.pack ?? [],
    words: separator === -1 ? positionals : [...positionals, ...args.slice(separator + 1)],
  }
}

/** A server of the configuration. @throws UsageError if no server has this name */
export function serverNamed(name: string, { upstreams }: Settings): UpstreamSettings {
  const found = upstreams.find((each) => each.name === name)
  if (found) return found
  throw new UsageError(
    `no server is named "${name}"${didYouMean(
      name,
      upstreams.map((each) => each.name),
    )}; there are ${upstreams.map((each) => each.name).join(', ')}`,
  )
}

/** The configuration of a command, and its text if it comes from a file. */
export interface Source {
  readonly settings: Settings
  readonly file?: string
  readonly text?: string
  /** Reads a changed version of the file. @throws ConfigError */
  read(text: string): Settings
}

/** Reads the configuration that a command serves: a file, a URL, or a command after `--`. @throws UsageError, ConfigError */
export function readServed(
  args: readonly string[],
  allowed: readonly string[],
  io: Io,
): [CliOptions, Source] {
  const options = readOptions(args, [...allowed, 'gateway-key'])
  const separator = args.indexOf('--')
  const behind = separator === -1 ? 0 : args.length - separator - 1
  if (separator !== -1 && behind === 0) throw new UsageError('give a command after --')
  const before = options.words.slice(0, options.words.length - behind)
  // Without `--` a word might be a file or the name of a server: it is not run as a command.
  const stray = before.find((word) => !/^https?:/i.test(word) && !/\s/.test(word))
  if (stray !== undefined) {
    const mistake = urlMistake(stray)
    if (mistake !== undefined) throw new UsageError(`"${stray}": ${mistake}`)
    throw new UsageError(`"${stray}" is not a URL; write --config before a file, and -- before a command`)
  }
  return [options, readSource(options, io)]
}

/** Settings for the store in a folder, without a configuration file. @throws ConfigError */
export function storeAlone(folder: string, io: Io): Pick<Source, 'settings'> {
  const path = pathOf(folder, io)
  if (!existsSync(path)) throw new Error(`${path} contains no store`)
  const text = JSON.stringify({ store: path, upstreams: { none: 'none' } })
  return { settings: loadSettings(text, { file: 'command line', env: {}, isForStore: true }).settings }
}

interface SourceOptions extends Partial<
  Pick<CliOptions, 'config' | 'envFile' | 'gatewayKey' | 'host' | 'port' | 'words'>
> {
  /** Only the store is read: secrets of servers and callers may be missing. */
  readonly isForStore?: boolean
}

/** The configuration file of commands that name none. */
export const CONFIG_FILE = 'gateway.config.yaml'

/** Reads the configuration: from the command line if it names a server, else from the file. @throws ConfigError */
export function readSource(
  { config, envFile, gatewayKey, host, port, words = [], isForStore = false }: SourceOptions,
  io: Io,
): Source {
  const listen = { ...(host !== undefined && { host }), ...(port !== undefined && { port }) }
  if (words.length > 0) {
    if (config !== undefined) throw new UsageError('give either --config or a server, not both')
    const settings = fromArguments(words, { listen, gatewayKey, env: io.env, directory: io.cwd })
    return { settings, read: () => settings }
  }
  if (gatewayKey !== undefined)
    throw new UsageError(
      '--gateway-key is for a server on the command line; in a file, set gateway_key of a server',
    )
  const file = pathOf(config ?? CONFIG_FILE, io)
  if (!existsSync(file)) {
    throw new Error(
      `${file} does not exist. Create one with gatehouse init, or give a server: gatehouse serve -- <command>`,
    )
  }
  if (statSync(file).isDirectory()) throw new Error(`${file} is a folder. Give the file in it with --config`)
  const read = (text: string): Settings => {
    const env = variablesFor(file, io.env, envFile === undefined ? undefined : pathOf(envFile, io))
    const { settings, warnings } = loadSettings(text, { file, env, listen, isForStore })
    if (isForStore) return settings
    for (const warning of warnings) io.stderr.write(`warning: ${problemLine(warning)}\n`)
    return settings
  }
  const text = configText(file)
  return { settings: read(text), file, text, read }
}

function configText(file: string): string {
  try {
    return readText(file)
  } catch (error) {
    throw new Error(`${file} cannot be read: ${whyUnreadable(error)}`, { cause: error })
  }
}

/** The value of `--port`. @throws UsageError */
export function portOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  const port = Number(text)
  if (!/^\d+$/.test(text) || port > 65_535) throw new UsageError('--port must be a number from 0 to 65535')
  return port
}

/** Parses the positional arguments and options of a command. @throws UsageError */
export function parseWords<const OptionTypes extends ParseArgsOptionsConfig>(
  args: readonly string[],
  options: OptionTypes,
) {
  try {
    return parseArgs({ args: withKeys(args), allowPositionals: true, options })
  } catch (error) {
    const message = error instanceof Error ? error.message.replace(/\.\s.*$/s, '') : String(error)
    const unknown = /^Unknown option '(-[^']*)'/.exec(message)?.[1]
    const names = Object.keys(options).map((name) => `--${name}`)
    throw new UsageError(unknown === undefined ? message : `${message}${didYouMean(unknown, names)}`)
  }
}

/** Joins a gateway key to its option: a thumbprint may begin with a hyphen, which `parseArgs` reads as an option. */
function withKeys(args: readonly string[]): string[] {
  const isKey = (at: number) => args[at - 1] === '--gateway-key' && /^-[\w-]{42}$/.test(args[at] ?? '')
  return args.flatMap((word, at) => {
    if (isKey(at)) return []
    return isKey(at + 1) ? [`${word}=${args[at + 1]}`] : [word]
  })
}

/** A suffix for an error message: `; did you mean serve?`, or empty if no word is similar. */
export function didYouMean(word: string, words: readonly string[]): string {
  const found = nearest(word, words)
  return found === undefined || found === word ? '' : `; did you mean ${found}?`
}

/**
 * Parses a duration ago such as `10m`, or a time such as `2026-11-21T10:00Z`, to milliseconds since 1970.
 * @throws UsageError
 */
export function timeOf(text: string, option: string, now: number): number {
  if (/^\d{4}-\d\d-\d\d/.test(text)) {
    const at = Date.parse(text)
    if (!Number.isNaN(at)) return at
  }
  try {
    return now - milliseconds(text)
  } catch {
    throw new UsageError(
      `${option} must be a duration such as 10m or 2h, or a time such as 2026-11-21T10:00Z`,
    )
  }
}

/** The name of the user of this process. */
export function userName(): string {
  try {
    return userInfo().username
  } catch {
    // The user of a container may have an id but no name.
    return `user ${process.getuid?.() ?? 'unknown'}`
  }
}

// Parses the arguments of commands about one server: its name in a configuration, a URL, or a command line.

/** The configuration of a command, the server if one is given, and the other arguments. */
interface Named {
  readonly source: Source
  readonly server?: UpstreamSettings
  readonly words: readonly string[]
  /** Print JSON. */
  readonly isJson: boolean
  /** Write to the configuration file. */
  readonly isWriting: boolean
  /** All options. */
  readonly options: CliOptions
}

/** Reads, with `isOne` of one server that has to be named, `[SERVER] [WORD…]` of a configuration, or `URL [WORD…]`, or `[WORD…] -- COMMAND…`. @throws UsageError */
export function readNamed(
  args: readonly string[],
  allowed: readonly string[],
  io: Io,
  { isOne = false }: { readonly isOne?: boolean } = {},
): Named {
  const separator = args.indexOf('--')
  const options = readOptions(separator === -1 ? args : args.slice(0, separator), allowed)
  const [first, ...rest] = options.words
  const isUrl = first !== undefined && /^https?:/i.test(first)
  if (separator === -1 && !isUrl) {
    if (first === undefined && isOne) throw new UsageError('give a server of the configuration')
    const source = readSource({ config: options.config, envFile: options.envFile }, io)
    return {
      source,
      words: rest,
      isJson: options.json,
      isWriting: options.write,
      options,
      ...(first !== undefined && { server: serverNamed(first, source.settings) }),
    }
  }
  const command = args.slice(separator + 1)
  if (separator !== -1 && command.length === 0) throw new UsageError('give a command after --')
  const { config, envFile } = options
  const source = readSource({ config, envFile, words: isUrl ? [first] : command }, io)
  const [server] = source.settings.upstreams
  return {
    source,
    words: isUrl ? rest : options.words,
    isJson: options.json,
    isWriting: options.write,
    options,
    ...(server && { server }),
  }
}

/** Settings for a read-only gateway: it stores nothing and resumes no work of others. */
export function readOnlySettings(settings: Settings, upstreams: readonly UpstreamSettings[]): Settings {
  return { ...settings, upstreams, store: { kind: 'memory' }, observe: { metrics: false } }
}

/** The words that name the configuration, as another command line has them. */
export function configWords({
  config,
  'env-file': envFile,
}: {
  readonly config?: string | undefined
  readonly 'env-file'?: string | undefined
}): string[] {
  return [
    ...(config === undefined ? [] : ['--config', config]),
    ...(envFile === undefined ? [] : ['--env-file', envFile]),
  ]
}
