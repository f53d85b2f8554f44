/**
 * Parses the words of a command line: options, names, times and ports. What is wrong with them is a `UsageError`, which
 * says what to write instead.
 */
import { userInfo } from 'node:os'
import { parseArgs, type ParseArgsOptionsConfig } from 'node:util'
import { nearest } from '../core/text/words.ts'
import { milliseconds } from '../core/time/units.ts'

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
  /** Where the bearer token for the server on the command line is: a file, or an environment variable. */
  readonly tokenFile: string | undefined
  readonly tokenEnv: string | undefined
  /** Absent if the option is not given. */
  readonly logLevel: 'debug' | 'info' | 'warn' | 'error' | undefined
  /** The files of clients that are imported. */
  readonly from: readonly string[]
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
  'token-file': { type: 'string' },
  'token-env': { type: 'string' },
  'log-level': { type: 'string' },
  from: { type: 'string', multiple: true },
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
    tokenFile: values['token-file'],
    tokenEnv: values['token-env'],
    host: values.host,
    port: portOf(values.port),
    logLevel,
    from: values.from ?? [],
    output: values.output,
    force: values.force ?? false,
    json: values.json ?? false,
    strict: values.strict ?? false,
    write: values.write ?? false,
    packs: values.pack ?? [],
    words: separator === -1 ? positionals : [...positionals, ...args.slice(separator + 1)],
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

/** The error for the name of a server that is none of those of the configuration. */
export function unknownServer(name: string, servers: readonly string[]): UsageError {
  return new UsageError(
    `no server is named "${name}"${didYouMean(name, servers)}; there are ${servers.join(', ')}`,
  )
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
