/**
 * What the keys of a server mean. Clients share most of them, so there is one table; a client (`clients.ts`) adds its own,
 * and says the unit of `timeout`.
 */

/** What a key means. */
export type Meaning =
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
export type Keys = Readonly<Record<string, Meaning>>

const approval = {
  advice:
    'is about what the client asks, and was not imported: the gateway asks about dangerous tools; `tools: { NAME: { confirm: never } }` under this server is a tool that it never asks about',
}
const sandbox = {
  advice: 'was not imported: the gateway starts commands without a sandbox; put one into the command',
}
const oauth = {
  advice: 'was not imported: write `oauth` under this server, or set a token as ${NAME}',
}

/** The keys that mean the same in all clients that have them. */
export const commonKeys: Keys = {
  command: 'command',
  cmd: 'command',
  path: 'command',
  args: 'arguments',
  env: 'environment',
  envs: 'environment',
  environment: 'environment',
  env_keys: 'passed variables',
  env_vars: 'passed variables',
  envFile: 'environment file',
  cwd: 'folder',
  workingDirectory: 'folder',
  working_directory: 'folder',
  httpUrl: 'url',
  serverUrl: 'url',
  url: 'url',
  uri: 'url',
  baseUrl: 'url',
  headers: 'headers',
  http_headers: 'headers',
  env_http_headers: 'headers from variables',
  bearer_token_env_var: 'token variable',
  type: 'transport',
  transport: 'transport',
  transportType: 'transport',
  disabled: 'disabled',
  enabled: 'enabled',
  isActive: 'enabled',
  active: 'enabled',
  isEnabled: 'enabled',
  isDisabled: 'disabled',
  disable: 'disabled',
  enable: 'enabled',
  timeout: 'call in unknown unit',
  startup_timeout_sec: 'start in s',
  startup_timeout_ms: 'start in ms',
  tool_timeout_sec: 'call in s',
  connectionTimeout: 'start in ms',
  initTimeout: 'start in ms',
  includeTools: 'only tools',
  enabled_tools: 'only tools',
  enabledTools: 'only tools',
  available_tools: 'only tools, if any',
  excludeTools: 'no tools',
  disabled_tools: 'no tools',
  disabledTools: 'no tools',
  disallowedTools: 'no tools',
  deniedTools: 'no tools',
  blockedTools: 'no tools',
  alwaysAllow: approval,
  autoApprove: approval,
  autoApproved: approval,
  allowedTools: approval,
  trust: approval,
  default_tools_approval_mode: approval,
  tools: 'tool settings',
  headersHelper: {
    advice: 'was not imported: the gateway runs no command for headers; write them with ${NAME}',
  },
  oauth,
  auth: oauth,
  authProviderType: oauth,
  oauth_resource: oauth,
  scopes: oauth,
  sandbox,
  sandboxEnabled: sandbox,
  start_on_launch: 'ignored',
  name: 'ignored',
  description: 'ignored',
  display_name: 'ignored',
  displayName: 'ignored',
  icon: 'ignored',
  faviconUrl: 'ignored',
  source: 'ignored',
  bundled: 'ignored',
  required: 'ignored',
  settings: 'ignored',
  gallery: 'ignored',
  version: 'ignored',
  dev: 'ignored',
  watchPaths: 'ignored',
  fromGalleryId: 'ignored',
  registry: 'ignored',
  alwaysLoad: 'ignored',
  supports_parallel_tool_calls: 'ignored',
}

/** The meaning of a key. Files that people write have it in other spellings too: `disabled_tools` and `disabledTools` are one. */
export function meaningOf(key: string, keys: Keys): Meaning | undefined {
  if (Object.hasOwn(keys, key)) return keys[key]
  const twin = Object.keys(keys).find((each) => plain(each) === plain(key))
  return twin === undefined ? undefined : keys[twin]
}

function plain(key: string): string {
  return key.toLowerCase().replaceAll(/[_-]/g, '')
}
