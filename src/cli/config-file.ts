/**
 * Finds the configuration file, and reads the sections of it that a command needs which works on the store or asks a
 * running gateway; opens that store.
 */
import { existsSync, statSync } from 'node:fs'
import { userInfo } from 'node:os'
import { dirname } from 'node:path'
import { loadAddress, loadStored, type StoredSettings } from '../config/load-sections.ts'
import { type Environment, readText, variablesFor, whyUnreadable } from '../config/secrets.ts'
import type { ListenSettings, Settings } from '../core/settings.ts'
import { strangerProblem } from '../store/private-folder.ts'
import { secretsOf } from '../core/text/redactor.ts'
import { audited, openSharedStore } from '../gateway/offline.ts'
import type { Audit } from '../observability/audit/audit.ts'
import { type Level, openLog } from '../observability/log.ts'
import type { PortableStore } from '../store/store.ts'
import { didYouMean, UsageError } from './command.ts'
import { type Io, pathOf } from './io.ts'

/** The configuration file of a command that is not given one. */
export const CONFIG_FILE = 'gateway.config.yaml'

/** The options that name the configuration, and one that names the folder of a store in place of it. */
export interface ConfigOptions {
  readonly config?: string | undefined
  /** A file with environment variables. */
  readonly envFile?: string | undefined
  readonly store?: string | undefined
}

/** The settings of a command that works on the store. @throws ConfigError, Error */
export function readStored(options: ConfigOptions, io: Io): StoredSettings {
  const { config, envFile, store } = options
  if (store !== undefined && config !== undefined) throw new UsageError('give either --config or --store')
  if (store !== undefined) return storeAlone(store, io)
  const folder = 'store' in options ? ', or the folder of its store with --store' : ''
  const { file, text } = configFile(config, io, `${OF_GATEWAY}${folder}`)
  return learnt(loadStored(text, { file, env: variablesOf(file, envFile, io) }), io)
}

/** The same settings, whose secrets are not printed from now on. */
function learnt<Given>(settings: Given, { redactor }: Io): Given {
  redactor?.learn(secretsOf(settings))
  return settings
}

/** Settings for the store in a folder, without a configuration file. @throws ConfigError, Error */
export function storeAlone(folder: string, io: Io): StoredSettings {
  const path = pathOf(folder, io)
  if (!existsSync(path)) throw new Error(`${path} contains no store`)
  return loadStored(JSON.stringify({ store: path }), { file: 'command line', env: {} })
}

/** The whole configuration for a command that works on the store: secrets of servers may be missing. @throws ConfigError, Error */
export async function readWhole(
  { config, envFile }: Omit<ConfigOptions, 'store'>,
  io: Io,
): Promise<Settings> {
  const { file, text } = configFile(config, io, OF_GATEWAY)
  const { loadSettings } = await import('../config/load.ts')
  return learnt(
    loadSettings(text, { file, env: variablesOf(file, envFile, io), isForStore: true }).settings,
    io,
  )
}

/** The address on which the gateway of a configuration listens. @throws ConfigError, Error */
export function readAddress(
  { config, envFile }: Omit<ConfigOptions, 'store'>,
  io: Io,
): Pick<ListenSettings, 'host' | 'port'> {
  const { file, text } = configFile(config, io, OF_GATEWAY)
  return loadAddress(text, { file, env: variablesOf(file, envFile, io) })
}

/** What to do about a missing file, for a command about a gateway that has one. */
const OF_GATEWAY = 'Name the file of the gateway with --config FILE'
const NEW_GATEWAY = 'Create one with gatehouse init, or give a server: gatehouse serve -- <command>'

/** The configuration file, and its text. `advice` is for a file that does not exist. @throws Error */
export function configFile(
  config: string | undefined,
  io: Io,
  advice = NEW_GATEWAY,
): { readonly file: string; readonly text: string } {
  const file = pathOf(config ?? CONFIG_FILE, io)
  if (!existsSync(file)) {
    throw new Error(`${file} does not exist. ${advice}`)
  }
  const problem = config === undefined ? unnamedProblem(file) : undefined
  if (problem !== undefined)
    throw new Error(
      `${file} ${problem}, so it is not used. If you trust it, name it: --config ${CONFIG_FILE}`,
    )
  if (statSync(file).isDirectory()) throw new Error(`${file} is a folder. Give the file in it with --config`)
  try {
    return { file, text: readText(file) }
  } catch (error) {
    throw new Error(`${file} cannot be read: ${whyUnreadable(error)}`, { cause: error })
  }
}

function unnamedProblem(file: string): string | undefined {
  const problem = strangerProblem(dirname(file))
  return problem === undefined ? strangerProblem(file) : `is in a folder that ${problem}`
}

/** The variables for the references in a configuration file, with those of the file of `--env-file`. */
export function variablesOf(file: string, envFile: string | undefined, io: Io): Environment {
  return variablesFor(file, io.env, envFile === undefined ? undefined : pathOf(envFile, io))
}

/** Opens the store that running gateways share, and closes it at the end. @throws Error */
export async function withStore<Result>(
  settings: Pick<Settings, 'store'>,
  io: Io,
  act: (store: PortableStore) => Promise<Result>,
  level: Level = 'warn',
): Promise<Result> {
  const store = await openSharedStore(settings, openLog(level, io))
  try {
    return await act(store)
  } finally {
    await store.close()
  }
}

/** Makes a change with the audit log that it is recorded in, if there is one. */
export function withAudit<Result>(
  settings: Pick<StoredSettings, 'observe'>,
  io: Io,
  act: (audit: Audit | undefined) => Promise<Result>,
): Promise<Result> {
  return audited(settings, openLog('warn', io), act)
}

/** The error for the name of a server that is none of those of the configuration. */
export function unknownServer(name: string, servers: readonly string[]): UsageError {
  return new UsageError(
    `no server is named "${name}"${didYouMean(name, servers)}; there are ${servers.join(', ')}`,
  )
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
