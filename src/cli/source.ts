/**
 * Reads the whole configuration that a command refers to, which is a file, a URL or a command line, and runs gateways with it.
 * Commands that work on the store alone read it by `config-file.ts`.
 */
import { fromArguments, loadSettings } from '../config/load.ts'
import { urlMistake } from '../config/names.ts'
import { problemLine } from '../config/problem.ts'
import { readText, variablesFile, whyUnreadable } from '../config/secrets.ts'
import type { Settings, UpstreamSettings } from '../core/settings.ts'
import { isSecretName } from '../core/text/secret.ts'
import { Redactor, secretsOf } from '../core/text/redactor.ts'
import { Gateway } from '../gateway/gateway.ts'
import { type Level, openLog } from '../observability/log.ts'
import { type ServerWords, UsageError } from './command.ts'
import { type ConfigOptions, configFile, unknownServer, variablesOf } from './config-file.ts'
import { inputPath, type Io, pathOf, writeError } from './io.ts'

/** A server of the configuration. @throws UsageError if no server has this name */
function serverNamed(name: string, { upstreams }: Settings): UpstreamSettings {
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
  /** The file with variables for it, which may not exist, and its text before it was read for the settings. */
  readonly variables?: { readonly file: string; readonly text: string }
  /** Reads a changed version of the file. @throws ConfigError */
  read(text: string): Settings
}

/** What a command line can say about the configuration. */
interface SourceOptions extends ConfigOptions {
  readonly gatewayKey?: string | undefined
  readonly tokenFile?: string | undefined
  readonly tokenEnv?: string | undefined
  readonly host?: string | undefined
  readonly port?: number | undefined
  readonly workers?: Settings['workers'] | undefined
  /** The lock beside the configuration is not read, by commands that write it. */
  readonly withoutLock?: boolean
}

/** The words of a command that serves: URLs, and the command of a server. */
interface ServedWords {
  readonly servers: readonly string[]
  readonly command: readonly string[] | undefined
}

/** Reads the configuration that a command serves: a file, URLs, or a command after `--`. @throws UsageError, ConfigError */
export function readServed(options: SourceOptions & ServedWords, io: Io): Source {
  const { servers, command = [] } = options
  // Without `--` a word might be a file or the name of a server: it is not run as a command.
  const stray = servers.find((word) => !/^https?:/i.test(word) && !/\s/.test(word))
  if (stray === undefined) return readSource(options, io, [...servers, ...command])
  const mistake = urlMistake(stray)
  if (mistake !== undefined) throw new UsageError(`"${stray}": ${mistake}`)
  throw new UsageError(`"${stray}" is not a URL; write --config before a file, and -- before a command`)
}

/** Reads the configuration, and the server that a command is about. @throws UsageError, ConfigError */
export function readServer(
  options: Pick<SourceOptions, keyof ConfigOptions | 'withoutLock'> & { readonly server: ServerWords },
  io: Io,
): { readonly source: Source; readonly server: UpstreamSettings } {
  const { server } = options
  if ('name' in server) {
    const source = readSource(options, io)
    return { source, server: serverNamed(server.name, source.settings) }
  }
  const source = readSource(options, io, server.words)
  const [only] = source.settings.upstreams
  if (!only) throw new UsageError('give a server')
  return { source, server: only }
}

/** The same for a command that is about all servers if none is given. @throws UsageError, ConfigError */
export function readServers(
  {
    server,
    ...options
  }: Pick<SourceOptions, keyof ConfigOptions | 'withoutLock'> & { readonly server: ServerWords | undefined },
  io: Io,
): {
  readonly source: Source
  readonly server?: UpstreamSettings
  readonly servers: readonly UpstreamSettings[]
} {
  if (server) {
    const found = readServer({ ...options, server }, io)
    return { ...found, servers: [found.server] }
  }
  const source = readSource(options, io)
  return { source, servers: source.settings.upstreams }
}

/** Reads the configuration: from words that name a server if there are some, else from the file. @throws ConfigError */
export function readSource(
  {
    config,
    envFile,
    gatewayKey,
    tokenFile,
    tokenEnv,
    host,
    port,
    workers,
    withoutLock = false,
  }: SourceOptions,
  io: Io,
  words: readonly string[] = [],
): Source {
  const listen = { ...(host !== undefined && { host }), ...(port !== undefined && { port }) }
  if (words.length > 0) {
    if (config !== undefined) throw new UsageError('give either --config or a server, not both')
    const settings = fromArguments(words, {
      listen,
      workers,
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
      workers,
      withoutLock,
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
  const own = variablesFile(file, envFile === undefined ? undefined : pathOf(envFile, io))
  const variables = { file: own, text: textIn(own) }
  return { settings: read(text), file, text, variables, read: again }
}

/** The text of a file that may not exist. */
export function textIn(file: string): string {
  try {
    return readText(file)
  } catch {
    return ''
  }
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

/** The folders of a shell, whose names look like those of passwords. */
const folders: readonly string[] = ['PWD', 'OLDPWD']

/** The values of variables that are secret by their names: a server may have got them in another way. */
export function secretVariables({ env }: Pick<Io, 'env'>): readonly string[] {
  return Object.entries(env).flatMap(([name, value]) =>
    value !== undefined && isSecretName(name) && !folders.includes(name) ? [value] : [],
  )
}

/** Knows the secrets of the configuration, of the environment, and more: they are not printed. */
export function redactorFor(settings: Settings, io: Io, more: readonly string[] = []): Redactor {
  const redactor = new Redactor()
  redactor.learn([...secretsOf(settings), ...secretVariables(io), ...more])
  return redactor
}

// Gateways of commands.

/** Settings for a read-only gateway: it stores nothing and resumes no work of others. */
export function readOnlySettings(settings: Settings, upstreams: readonly UpstreamSettings[]): Settings {
  return { ...settings, upstreams, store: { kind: 'memory' }, observe: { metrics: false } }
}

type GatewayOptions = ConstructorParameters<typeof Gateway>[1]

/** A gateway in this process. */
export function openGateway(
  settings: Settings,
  { io, ...options }: { readonly io: Io } & Partial<GatewayOptions>,
): Gateway {
  return new Gateway(settings, { variables: io.env, log: openLog('error', io), ...options })
}

/** The same while something runs with it. */
export async function withGateway<Result>(
  settings: Settings,
  options: { readonly io: Io } & Partial<GatewayOptions>,
  act: (gateway: Gateway) => Promise<Result>,
): Promise<Result> {
  const gateway = openGateway(settings, options)
  try {
    return await act(gateway)
  } finally {
    await gateway.close()
  }
}

/** The log of a command that reads what servers offer: lines for people. */
export function readableLog(io: Io, level: Level = 'error'): GatewayOptions['log'] {
  return openLog(level, io, true)
}

/** Why a server cannot be used that was not tried: there is no caller with whose credentials the gateway could connect. */
export const OWN_CREDENTIALS = 'each caller has its own credentials for it'

/** Connects to a server, and returns its revision; undefined if each caller has its own credentials for it. @throws Error */
export async function connected(gateway: Gateway, { name }: UpstreamSettings): Promise<string | undefined> {
  const status = await gateway.explore(name)
  if (status?.problem !== undefined) throw new Error(`${name} cannot be reached: ${status.problem}`)
  return status?.revision
}
