/**
 * Reads the whole configuration that the words of a command refer to: a file, a URL or a command line. Commands that work
 * on the store alone read it by `config-file.ts`.
 */
import { fromArguments, loadSettings } from '../config/load.ts'
import { urlMistake } from '../config/names.ts'
import { problemLine } from '../config/problem.ts'
import { readText, variablesFile, whyUnreadable } from '../config/secrets.ts'
import type { Settings, UpstreamSettings } from '../core/settings.ts'
import { secretsOf } from '../core/text/redactor.ts'
import { configFile, variablesOf } from './config-file.ts'
import { type CliOptions, readOptions, unknownServer, UsageError } from './words.ts'
import { inputPath, type Io, pathOf, writeError } from './io.ts'

/** A server of the configuration. @throws UsageError if no server has this name */
export function serverNamed(name: string, { upstreams }: Settings): UpstreamSettings {
  const found = upstreams.find((each) => each.name === name)
  if (found) return found
  throw unknownServer(
    name,
    upstreams.map((each) => each.name),
  )
}

/** The configuration of a command, and its text if it comes from a file. */
export interface Source {
  readonly settings: Settings
  readonly file?: string
  readonly text?: string
  /** The file with variables for it, which may not exist. */
  readonly variables?: string
  /** Reads a changed version of the file. @throws ConfigError */
  read(text: string): Settings
}

/** Reads the configuration that a command serves: a file, a URL, or a command after `--`. @throws UsageError, ConfigError */
export function readServed(
  args: readonly string[],
  allowed: readonly string[],
  io: Io,
): [CliOptions, Source] {
  const options = readOptions(args, [...allowed, 'gateway-key', 'token-file', 'token-env'])
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

type SourceOptions = Partial<
  Pick<CliOptions, 'config' | 'envFile' | 'gatewayKey' | 'tokenFile' | 'tokenEnv' | 'host' | 'port' | 'words'>
>

/** Reads the configuration: from the command line if it names a server, else from the file. @throws ConfigError */
export function readSource(
  { config, envFile, gatewayKey, tokenFile, tokenEnv, host, port, words = [] }: SourceOptions,
  io: Io,
): Source {
  const listen = { ...(host !== undefined && { host }), ...(port !== undefined && { port }) }
  if (words.length > 0) {
    if (config !== undefined) throw new UsageError('give either --config or a server, not both')
    const settings = fromArguments(words, {
      listen,
      gatewayKey,
      token: tokenOf({ tokenFile, tokenEnv }, io),
      env: io.env,
      directory: io.cwd,
    })
    io.redactor?.learn(secretsOf(settings))
    return { settings, read: () => settings }
  }
  if (gatewayKey !== undefined)
    throw new UsageError(
      '--gateway-key is for a server on the command line; in a file, set gateway_key of a server',
    )
  if (tokenFile !== undefined || tokenEnv !== undefined)
    throw new UsageError(
      '--token-file and --token-env are for a URL on the command line; in a file, set token of a server',
    )
  const { file, text } = configFile(config, io)
  const read = (changed: string): Settings => {
    const { settings, warnings } = loadSettings(changed, {
      file,
      env: variablesOf(file, envFile, io),
      listen,
    })
    io.redactor?.learn(secretsOf(settings))
    for (const warning of warnings) writeError(`warning: ${problemLine(warning)}\n`, io)
    return settings
  }
  const again = (changed: string): Settings => {
    // It may be the file of another user by now.
    configFile(config, io)
    return read(changed)
  }
  const variables = variablesFile(file, envFile === undefined ? undefined : pathOf(envFile, io))
  return { settings: read(text), file, text, variables, read: again }
}

/** The bearer token for the URL on the command line, which other users of the machine can read. @throws UsageError */
function tokenOf(
  { tokenFile, tokenEnv }: Pick<SourceOptions, 'tokenFile' | 'tokenEnv'>,
  io: Io,
): string | undefined {
  if (tokenFile !== undefined && tokenEnv !== undefined)
    throw new UsageError('give either --token-file or --token-env')
  if (tokenFile !== undefined) return oneToken(tokenIn(tokenFile, io), `--token-file ${tokenFile}`)
  if (tokenEnv === undefined) return undefined
  const token = io.env[tokenEnv]
  if (token === undefined || token === '')
    throw new UsageError(`--token-env ${tokenEnv}: this environment variable is not set`)
  return oneToken(token, `--token-env ${tokenEnv}`)
}

function tokenIn(file: string, io: Io): string {
  const path = inputPath(file, io)
  try {
    return readText(path)
  } catch (error) {
    throw new UsageError(`--token-file ${file} cannot be read: ${whyUnreadable(error)}`)
  }
}

function oneToken(text: string, option: string): string {
  const token = text.trim()
  if (/^[\x21-\x7e]+$/.test(token)) return token
  throw new UsageError(`${option} must contain one token, without spaces and line ends in it`)
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
