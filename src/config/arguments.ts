/** Settings for a server given on the command line, without a file. */
import { isObject } from '../core/json/json.ts'
import type { FeatureSchema, Settings } from '../core/settings.ts'
import { featureSchemas } from '../features/settings.ts'
import { checkTogether } from './checks.ts'
import { splitCommand } from './command-line.ts'
import { nameOfCommand, nameOfUrl } from './names.ts'
import { GATEWAY_KEY, GATEWAY_KEY_MISTAKE } from './sections/upstream.ts'
import { ConfigError } from './problem.ts'
import { fileSchema } from './schema.ts'
import type { Environment } from './secrets.ts'
import { settle, withListen, type ListenOverride } from './settings.ts'

/** The inputs for settings from the command line, other than its words. */
export interface ArgumentOptions {
  /** The features with settings. Default: all. */
  readonly features?: readonly FeatureSchema[]
  readonly listen?: ListenOverride
  /** The gateway key of the server, if it is a gateway. */
  readonly gatewayKey?: string | undefined
  /** The bearer token for the server, if it is a URL. */
  readonly token?: string | undefined
  /** The environment of the command that reads them. Default: no variables. */
  readonly env?: Environment
  /** The folder in which a command runs, and that relative paths are relative to. Default: that of the process. */
  readonly directory?: string
}

/**
 * Settings for one upstream given on the command line: a URL, the words of a command, or one command line.
 * @throws ConfigError if they are none of these
 */
export function fromArguments(
  words: readonly string[],
  { features = featureSchemas, listen, gatewayKey, token, env = {}, directory = '.' }: ArgumentOptions,
): Settings {
  const value = withListen({ upstreams: withToken(withKey(upstreamOf(words), gatewayKey), token) }, listen)
  const { problems } = checkTogether(value, directory)
  const [first] = problems
  if (first) throw complaint(first.message)
  if (!isObject(value)) throw complaint('the configuration has no server')
  return settle(value, { schema: fileSchema(features), features, directory, env })
}

type Upstreams = Readonly<Record<string, Readonly<Record<string, unknown>>>>

function withKey(upstreams: Upstreams, gatewayKey: string | undefined): Upstreams {
  if (gatewayKey === undefined) return upstreams
  if (!GATEWAY_KEY.test(gatewayKey)) throw complaint(`--gateway-key ${GATEWAY_KEY_MISTAKE}`)
  return Object.fromEntries(
    Object.entries(upstreams).map(([name, each]) => [name, { ...each, gateway_key: gatewayKey }]),
  )
}

function withToken(upstreams: Upstreams, token: string | undefined): Upstreams {
  if (token === undefined) return upstreams
  const entries = Object.entries(upstreams)
  if (entries.some(([, { url }]) => url === undefined))
    throw complaint('--token-file and --token-env are for a URL; a command gets secrets in its environment')
  return Object.fromEntries(entries.map(([name, each]) => [name, { ...each, token }]))
}

function upstreamOf(words: readonly string[]): Upstreams {
  const [first, ...rest] = words
  if (first === undefined || first === '') throw complaint('give a URL, or `--` and a command')
  if (/^https?:\/\//i.test(first)) {
    if (rest.length > 0)
      throw complaint('a URL must be the only argument: several servers need a configuration file')
    if (!URL.canParse(first)) throw complaint('the URL is not valid')
    return { [nameOfUrl(first)]: { url: first } }
  }
  const command = rest.length === 0 && /\s/.test(first) ? splitLine(first) : words
  return { [nameOfCommand(command)]: { command } }
}

function splitLine(line: string): readonly string[] {
  const split = splitCommand(line)
  if ('problem' in split) throw complaint(split.problem)
  return split.words
}

function complaint(message: string): ConfigError {
  return new ConfigError([{ file: 'command line', line: 0, column: 0, path: '', message }])
}
