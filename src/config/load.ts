/**
 * Loads settings from the text of a configuration: parse, expand, validate, check (what a schema cannot express: consistency
 * between values). Reports all problems at once, each with its position. Also makes settings for a server that a command line
 * names, without a file.
 */
import type { Fields } from '../core/payload.ts'
import { dirname, resolve } from 'node:path'
import { asObject, isObject } from '../core/json/json.ts'
import type { FeatureSchema, Settings } from '../core/settings.ts'
import { hasRedisPassword, isRedisUrl } from '../core/redis-url.ts'
import { featureSchemas } from '../features/settings.ts'
import { idleOptions } from './configured-names.ts'
import { locate, readDocument } from './document.ts'
import { readAccepted } from './lock.ts'
import { expand, readNumbers } from './expand.ts'
import { misfitsOf } from './explain.ts'
import {
  atValue,
  ConfigError,
  type ConfigProblem,
  type Finding,
  withoutEchoes,
  type Findings,
} from './problem.ts'
import { fileSchema } from './schema.ts'
import {
  containsNamedSecret,
  holdsPassword,
  looksLikeToken,
  namesSecret,
  type Environment,
  hasReference,
} from './secrets.ts'
import { settle, overridden, type Overrides } from './settings.ts'
import { splitCommand } from '../core/text/command-line.ts'
import { nameOfCommand, nameOfUrl, isHttpUrl } from './names.ts'
import { GATEWAY_KEY, GATEWAY_KEY_MISTAKE, checkUpstream } from './sections/upstream.ts'
import { isOpenHost, pageWarnings, requiresTokens, checkAuth } from './sections/auth.ts'
import { areEventsOn, eventProblems } from './sections/events.ts'
import { argumentLimitProblems, idleMasks, maskProblems } from './sections/tool.ts'
import { checkNotify } from './sections/notify.ts'
import { auditWarnings } from './sections/observe.ts'
import { profileProblems } from './sections/profiles.ts'
import { checkStore } from './sections/store.ts'
import { checkWorkers } from './sections/workers.ts'
import { missingTokens, sharedGrants } from './sections/upstream-oauth.ts'

/** The inputs for loading, other than the text. */
interface ConfigSource extends Overrides {
  /** The file of the text, as shown in problems; relative paths are relative to its folder. */
  readonly file: string
  /** The features whose settings are allowed. Default: all. */
  readonly features?: readonly FeatureSchema[]
  readonly env: Environment
  /** Load only what the store and the audit log need: other references may be unresolved, and server settings are unusable. */
  readonly isForStore?: boolean
  /** Do not read the lock beside the file, for commands that write it. */
  readonly withoutLock?: boolean
}

/** Settings, and warnings that do not prevent the start. */
interface Loaded {
  readonly settings: Settings
  readonly warnings: readonly ConfigProblem[]
}

/** Loads the text of a configuration file. @throws ConfigError with all problems */
export function loadSettings(
  text: string,
  {
    file,
    features = featureSchemas,
    env,
    listen,
    workers,
    isForStore = false,
    withoutLock = isForStore,
  }: ConfigSource,
): Loaded {
  const document = readDocument(text)
  const located = (findings: readonly Finding[]) => locate(findings, document, file)
  const hint = clientFileHint(document.isBroken ? undefined : document.value, text)
  if (hint) throw new ConfigError(located([hint]))
  if (document.isBroken) throw new ConfigError(located(document.problems))

  const directory = dirname(resolve(file))
  const schema = fileSchema(features)
  const isNeeded = (path: readonly string[]): boolean => !isForStore || isStoreOrAudit(path)
  const expanded = expand(document.value ?? {}, { env, directory, isNeeded }, document.source)
  const value = overridden(readNumbers(expanded.value, schema, expanded.interpolated), { listen, workers })
  const misfits = misfitsOf(value, schema)
  const checked = checkTogether(value, directory)

  const unreadable = [...document.problems, ...expanded.problems]
  const found = withoutEchoes(withoutEchoes(unreadable, misfits), checked.problems)
  const problems = found.filter(({ path }) => !expanded.unresolved.some((each) => isAbout(path, each)))
  if (problems.length > 0 || !isObject(value)) throw new ConfigError(located(problems))
  const settings = settle(value, {
    schema,
    features,
    file: resolve(file),
    directory,
    env,
    references: expanded.references,
  })
  const lock: ReturnType<typeof readAccepted> = withoutLock
    ? nothing
    : readAccepted(settings, value, directory)
  if (lock.problems.length > 0) throw new ConfigError(located(lock.problems))
  return {
    settings: { ...settings, ...(lock.accepted && { accepted: lock.accepted }) },
    warnings: located([
      ...lock.warnings,
      ...document.warnings,
      ...literalSecrets(document.value),
      ...checked.warnings,
      ...idleOptions(value, schema),
    ]),
  }
}

/** Locates findings from later checks in the text of the file. */
export function locateFindings(findings: readonly Finding[], text: string, file: string): ConfigProblem[] {
  return locate(findings, readDocument(text), file)
}

/** Whether a key configures the store or the audit log. */
function isStoreOrAudit([section, part]: readonly string[]): boolean {
  return section === 'store' || (section === 'observe' && part === 'audit')
}

/** Whether a finding is about a value or one of its members. */
function isAbout(path: readonly string[], value: readonly string[]): boolean {
  return value.every((segment, index) => path[index] === segment)
}

/** Warns about secrets in the file itself; `value` is the file before references are expanded. */
function literalSecrets(value: unknown, path: readonly string[] = []): Finding[] {
  if (Array.isArray(value))
    return value.flatMap((item, index) => literalSecrets(item, [...path, String(index)]))
  if (isObject(value))
    return Object.entries(value).flatMap(([key, item]) => literalSecrets(item, [...path, key]))
  if (typeof value !== 'string' || !isSecret(value, path)) return []
  const message =
    'this looks like a secret: store it in the environment or a file, and write ${NAME} or ${file:/path} here'
  return [{ path, message }]
}

function isSecret(text: string, path: readonly string[]): boolean {
  if (looksLikeToken(text)) return true
  if (path.length === 1 && path[0] === 'store')
    return isRedisUrl(text) && hasRedisPassword(text) && !hasReference(text)
  if (text === '' || hasReference(text)) return false
  if (path[0] === 'auth') return /^(client_)?secret$/.test(path.at(-1) ?? '')
  if (isHookSecret(path)) return true
  if (path[0] === 'notify') return /^(?:secret|token|password)$/.test(path.at(-1) ?? '')
  if (path[0] !== 'upstreams') return false
  const [key = '', name = ''] = path.slice(2)
  if (key === 'proxy') return holdsPassword(text)
  if (key === 'token' || (key === 'oauth' && /^(?:client_secret|private_key)$/.test(path.at(-1) ?? '')))
    return true
  const isNamed = namesSecret(name) || containsNamedSecret(text)
  return path.length === 4 && (key === 'env' || key === 'headers') && isNamed
}

/** Whether a value is the secret of a webhook, or one of several. */
function isHookSecret(path: readonly string[]): boolean {
  const own = path[0] === 'upstreams' ? path.slice(2) : path
  return own[0] === 'events' && own[2] === 'hook' && own[3] === 'secret'
}

/** Members in which clients have their servers. */
const keys = ['mcpServers', 'mcp_servers', 'context_servers', 'amp.mcpServers', 'mcp.servers']
/** In YAML these are more likely to be a mistake for `upstreams`. */
const keysInJson = ['servers', 'mcp']

const HINT =
  'this is the configuration of an MCP client and not of the gateway: save it under another name, and run `gatehouse init --from FILE` with that name'

/** What to do with a file that is the configuration of a client. `value` is undefined if the text is no YAML. */
function clientFileHint(value: unknown, text: string): Finding | undefined {
  const isJson = /^\s*[{/]/.test(text)
  if (isObject(value)) {
    const names = isJson ? [...keys, ...keysInJson] : keys
    const key = names.find((each) => isObject(value[each]) || Array.isArray(value[each]))
    const isOwn = key === undefined || value.upstreams !== undefined
    return isOwn ? undefined : { path: [key], at: 'key', message: HINT }
  }
  const isOfClient = isJson && /"(?:mcpServers|context_servers|servers|mcp)"\s*:/.test(text)
  return isOfClient || /^\s*\[mcp_servers\./m.test(text) ? { path: [], message: HINT } : undefined
}

/** The inputs for settings from the command line, other than its words. */
interface CommandLineSource extends Overrides {
  /** The features with settings. Default: all. */
  readonly features?: readonly FeatureSchema[]
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
  {
    features = featureSchemas,
    listen,
    workers,
    gatewayKey,
    token,
    env = {},
    directory = '.',
  }: CommandLineSource,
): Settings {
  const value = overridden(
    { upstreams: withToken(withKey(upstreamOf(words), gatewayKey), token) },
    { listen, workers },
  )
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

/**
 * Checks a file's expanded values beyond the schema: consistency between keys, and whether URLs are valid and
 * directories exist. It makes no assumptions about types.
 */
function checkTogether(value: unknown, directory: string): Findings {
  if (!isObject(value)) return { problems: [], warnings: [] }
  const upstreams = isObject(value.upstreams) ? Object.entries(value.upstreams) : []
  const isStrict = value.profile === 'corporate'
  const hasAuth = isObject(value.auth)
  const checked = upstreams.map(([name, upstream]) => {
    return isObject(upstream)
      ? checkUpstream(upstream, ['upstreams', name], {
          directory,
          isStrict,
          hasAuth,
          features: value.features,
        })
      : nothing
  })
  const listen = asObject(value.listen)
  const isReachable = isOpenHost(listen) || listen.public_url !== undefined
  const servers = Object.fromEntries(upstreams)
  const ofGrants = [
    ...sharedGrants(servers, isReachable && !requiresTokens(value.auth)),
    ...missingTokens(servers, value.auth),
  ]
  const all = [
    checkAuth(value),
    checkStore(value.store, directory),
    checkNotify(value.notify, { upstreams: servers, publicUrl: listen.public_url }),
    ...checked,
  ]
  return {
    problems: [
      ...checkListen(listen, value),
      ...checkWorkers(value),
      ...maskProblems(value.features, ['features']),
      ...argumentLimitProblems(value.limits, ['limits']),
      ...profileProblems(value),
      ...idleMasks(value.features, upstreams),
      ...eventProblems(value.events, ['events'], {
        servers: upstreams.map(([name]) => name),
        isOn: areEventsOn(value.features),
      }),
      ...all.flatMap(({ problems }) => problems),
    ],
    warnings: [
      ...all.flatMap(({ warnings }) => warnings),
      ...ofGrants,
      ...pageWarnings(value),
      ...auditWarnings(value.observe, directory),
    ],
  }
}

const nothing: Findings = { problems: [], warnings: [] }

function checkListen(listen: Fields, { auth, profile }: Fields): Finding[] {
  const isOpen = isOpenHost(listen)
  const { origins, public_url: publicUrl } = listen
  const isKnownOutside = isOpen || typeof publicUrl === 'string' || profile === 'corporate'
  return [
    ...atValue(
      ['listen', 'host'],
      isOpen &&
        auth !== 'none' &&
        !requiresTokens(auth) &&
        'everyone who can reach this address could call every tool: configure `auth`, write `auth: none` at the top level of the file if that is intended, or listen on 127.0.0.1',
    ),
    ...atValue(
      ['listen', 'origins'],
      isKnownOutside &&
        [origins].flat().includes('*') &&
        '`*` allows any web page to call the tools, so it is not accepted on an address that others can reach, nor in the profile corporate: list the origins',
    ),
    ...atValue(
      ['listen', 'public_url'],
      typeof publicUrl === 'string' &&
        !isHttpUrl(publicUrl) &&
        'must be a URL such as https://mcp.example.com',
    ),
  ]
}
