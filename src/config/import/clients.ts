/**
 * The clients whose files are read: where each keeps its servers, how it writes references, and what only it has. The
 * table has what tells clients apart; the meaning of keys that they share is in `keys.ts`.
 *
 * Sources: the documentation of each client. Where one does not say what happens to `${NAME}`, it is what the client does.
 */
import type { Fields } from '../../core/payload.ts'
import { homedir } from 'node:os'
import { basename, dirname, resolve } from 'node:path'
import { asObject, isObject } from '../../core/json/json.ts'
import { type Dialect, dialects, type ImportedServer, type ImportFinding } from './model.ts'
import { type EntryContext, readEntry, commonKeys, type KeyMeanings } from './entries.ts'
import { EXPECTED, parseClientFile, unreadable } from './parse.ts'

/** The MCP servers in the file of a client. */
export interface ClientConfig {
  /** The client, as people call it. */
  readonly client: string
  readonly servers: readonly ImportedServer[]
  readonly findings: readonly ImportFinding[]
}

/** A client, and how its file is read. */
interface Client {
  readonly client: string
  /** The member with the servers, of those in `roots`. Default: `mcpServers`. */
  readonly root?: keyof typeof roots
  /** The paths of its files. The first client with the root is the default for other files. */
  readonly file?: RegExp
  readonly dialect: Dialect
  /** Keys that mean something else than in other clients. */
  readonly keys?: KeyMeanings
  /** Servers that the file switches off elsewhere, with the key that does. */
  readonly off?: (file: Fields, names: readonly string[]) => ReadonlyMap<string, string>
}

const inMilliseconds: KeyMeanings = { timeout: 'call in ms' }
const inSeconds: KeyMeanings = { timeout: 'call in s' }

const clients: readonly Client[] = [
  { client: 'an MCP client', dialect: dialects.any },
  { client: 'Claude Desktop', file: /claude_desktop_config\.json$/, dialect: dialects.none },
  {
    client: 'Claude Code',
    file: /(?:^|\/)(?:\.mcp\.json|\.claude\.json|managed-mcp\.json)$/,
    dialect: dialects.braces,
    keys: inMilliseconds,
  },
  { client: 'Cursor', file: /(?:^|\/)\.cursor\/mcp\.json$/, dialect: dialects.editor },
  { client: 'VS Code', file: /(?:^|\/)\.vscode\/mcp\.json$/, dialect: dialects.editor },
  { client: 'Windsurf', file: /(?:^|\/)mcp_config\.json$/, dialect: dialects.editor },
  { client: 'Cline', file: /cline_mcp_settings\.json$/, dialect: dialects.editor, keys: inSeconds },
  {
    client: 'Roo Code',
    file: /(?:(?:^|\/)mcp_settings|\/\.(?:roo|kilocode)\/mcp)\.json$/,
    dialect: dialects.editor,
    keys: inSeconds,
  },
  {
    client: 'Gemini CLI',
    file: /(?:^|\/)(?:settings|gemini-extension)\.json$/,
    dialect: dialects.shell,
    keys: inMilliseconds,
    off: excludedByGemini,
  },
  {
    client: 'Copilot CLI',
    file: /(?:^|\/)mcp-config\.json$/,
    dialect: dialects.shell,
    keys: { ...inMilliseconds, tools: 'only tools' },
  },
  {
    client: 'Amazon Q',
    file: /\/(?:\.amazonq|amazonq)\/.*\.json$/,
    dialect: dialects.editor,
    keys: inMilliseconds,
  },
  { client: 'Kiro', file: /\/\.kiro\/.*\.json$/, dialect: dialects.braces, keys: inMilliseconds },
  { client: 'Warp', file: /\/\.warp\/.*\.json$/, dialect: dialects.braces },
  { client: 'LM Studio', file: /\/\.lmstudio\/mcp\.json$/, dialect: dialects.none },
  { client: 'JetBrains', file: /\/\.junie\/.*\.json$/, dialect: dialects.none },
  {
    client: 'Continue',
    file: /\/\.continue\/|(?:^|\/)config\.ya?ml$/,
    dialect: dialects.continue,
    // In `requestOptions`.
    keys: inMilliseconds,
  },
  { client: 'Continue', root: 'modelContextProtocolServers', dialect: dialects.continue },
  { client: 'Amp', root: 'amp.mcpServers', dialect: dialects.braces },
  { client: 'VS Code', root: 'servers', dialect: dialects.editor },
  { client: 'VS Code', root: 'mcp.servers', dialect: dialects.editor },
  {
    client: 'opencode',
    root: 'mcp.servers',
    file: /opencode\.jsonc?$/,
    dialect: dialects.opencode,
    keys: { timeout: 'start in ms' },
  },
  {
    client: 'Zed',
    root: 'context_servers',
    dialect: dialects.none,
    keys: { ...inSeconds, source: 'transport' },
  },
  { client: 'Codex', root: 'mcp_servers', dialect: dialects.none },
  { client: 'Goose', root: 'extensions', dialect: dialects.shell, keys: inSeconds },
  { client: 'Crush', root: 'mcp', file: /crush\.json$/, dialect: dialects.crush, keys: inSeconds },
  { client: 'opencode', root: 'mcp', dialect: dialects.opencode, keys: { timeout: 'start in ms' } },
  { client: 'an MCP client', root: 'the file', dialect: dialects.any },
]

/** A server in a file, not read. */
interface Found {
  readonly name: string
  readonly entry: unknown
  readonly project?: string
}

/** Where files have servers, and how they are found there. */
const roots = {
  mcpServers: (file: Fields) => [...serversIn(file.mcpServers), ...projectServers(file.projects)],
  servers: ({ servers }: Fields) => {
    const found = isObject(servers) ? serversIn(servers) : []
    return found.some(isServer) ? found : []
  },
  'mcp.servers': (file: Fields) => [
    ...serversIn(file['mcp.servers']),
    ...serversIn(isObject(file.mcp) ? file.mcp.servers : undefined),
  ],
  'amp.mcpServers': (file: Fields) => serversIn(file['amp.mcpServers']),
  modelContextProtocolServers: ({ experimental, modelContextProtocolServers }: Fields) =>
    serversIn(
      modelContextProtocolServers ?? (isObject(experimental) && experimental.modelContextProtocolServers),
    ),
  context_servers: (file: Fields) => serversIn(file.context_servers),
  mcp_servers: (file: Fields) => serversIn(file.mcp_servers),
  extensions: (file: Fields) => ifMappings(serversIn(file.extensions)),
  mcp: (file: Fields) =>
    ifMappings(serversIn(file.mcp).filter(({ name }) => name !== 'servers' && name !== 'inputs')),
  /** Servers without anything around them, as in many instructions. */
  'the file': (file: Fields) => {
    const found = serversIn(file)
    return found.every(isServer) ? found : []
  },
} as const

/**
 * Reads the servers in the file of a client, which is found by the path and the content; `variablesIn` reads the environment files
 * that it names. Text of the file is in findings
 * only where it is a name.
 * @throws ConfigError if it is not such a file, or has no servers
 */
export function readClientConfig(
  text: string,
  file: string,
  variablesIn: EntryContext['variablesIn'] = () => undefined,
): ClientConfig {
  const value = parseClientFile(text, file)
  const found = Object.entries(roots)
    .map(([root, find]) => ({ root, servers: find(value) }))
    .filter(({ servers }) => servers.length > 0)
  const isAlone = found.some(({ root }) => root !== 'the file')
  const read = found
    .filter(({ root }) => !isAlone || root !== 'the file')
    .map(({ root, servers }) => {
      const client = clientOf(root, file)
      return readServers(client, servers, { file, value, variablesIn })
    })
  const [first] = read
  if (!first) throw unreadable(file, withoutServers(value))
  return {
    client: first.client,
    servers: read.flatMap(({ servers }) => servers),
    findings: read.flatMap(({ findings }) => findings),
  }
}

function clientOf(root: string, file: string): Client {
  const path = resolve(file).replaceAll('\\', '/')
  const own = clients.filter(({ root: place = 'mcpServers' }) => place === root)
  const chosen = own.find((each) => each.file?.test(path)) ?? own.find((each) => !each.file)
  if (!chosen) throw new TypeError(`no client has its servers in ${root}`)
  return chosen
}

function readServers(
  { client, dialect, keys, off }: Client,
  found: readonly Found[],
  { file, value, variablesIn }: { file: string; value: Fields } & Pick<EntryContext, 'variablesIn'>,
): ClientConfig {
  const findings: ImportFinding[] = []
  const switchedOff = off?.(
    value,
    found.map(({ name }) => name),
  )
  const editor = asObject(value.mcp)
  const inputs = inputsIn(value.inputs ?? editor.inputs)
  const servers = found.flatMap(({ name, entry, project }): ImportedServer[] => {
    const note = (message: string): void => void findings.push({ file, server: name, message })
    const by = switchedOff?.get(name)
    if (by !== undefined) note(`is switched off there by \`${by}\` and was skipped`)
    else if (!isObject(entry)) note('is not a mapping with a command or a URL, and was skipped')
    if (by !== undefined || !isObject(entry)) return []
    const workspace = project ?? workspaceOf(file)
    const context = {
      workspace,
      isWorkspaceKnown:
        project !== undefined || (workspace !== dirname(resolve(file)) && workspace !== homedir()),
      inputs,
      note,
      dialect,
      variablesIn,
      keys: { ...commonKeys, ...keys },
      isOfProject: project !== undefined,
    }
    const read = readEntry(entry, context)
    return read ? [{ name, origin: { file, ...(project !== undefined && { project }) }, ...read }] : []
  })
  for (const place of switchesElsewhere(
    value,
    servers.map(({ name }) => name),
  ))
    findings.push({
      file,
      message: `\`${place.slice(0, 120)}\` switches something off, which was not imported: write \`tools: { NAME: { hide: on } }\` under the server of the tool, or remove the server`,
    })
  return { client, servers, findings }
}

/** The folder that a file is about: that of its project, if it is in a folder for the client, or one folder below. */
function workspaceOf(file: string): string {
  const folder = dirname(resolve(file))
  const own = [folder, dirname(folder)].find((each) =>
    /^\.(?:cursor|vscode|roo|kilocode|gemini|qwen|amazonq|kiro|codex|zed|junie|continue)$/.test(
      basename(each),
    ),
  )
  return own === undefined ? folder : dirname(own)
}

/**
 * What other members of a file switch off of its servers: `tools` and `permission` of opencode, `amp.tools.disable`,
 * profiles of Zed, projects of Claude Code. Their rules differ, so they are reported.
 */
function switchesElsewhere(file: Fields, names: readonly string[]): readonly string[] {
  const isNamed = (text: string): boolean => names.some((name) => holdsName(text, name))
  const visit = (value: unknown, place: string, path: readonly string[] = []): readonly string[] => {
    const last = path.at(-1) ?? place
    const isDenial = /disable|exclude|den(?:y|ied)|block/i.test(last)
    const isList = Array.isArray(value) && isDenial
    const isOff = value === 'deny' || value === (isDenial && !isNamed(last))
    const found = [place, ...path].join('.')
    if (isList && value.some((each) => typeof each === 'string' && isNamed(each))) return [found]
    if (isOff) return path.some(isNamed) ? [found] : []
    if (!isObject(value) || path.length >= MAX_DEPTH) return []
    return Object.entries(value).flatMap(([key, each]) => visit(each, place, [...path, key]))
  }
  const projects = Object.entries(asObject(file.projects))
  const others = Object.entries(file).filter(([key]) => key !== 'projects' && !Object.hasOwn(roots, key))
  return [
    ...others.flatMap(([key, value]) => visit(value, key)),
    ...projects.flatMap(([folder, project]) =>
      visit(isObject(project) ? { ...project, mcpServers: undefined } : project, `projects.${folder}`),
    ),
  ]
}

/** How deep other members are searched. */
const MAX_DEPTH = 8

/** Whether a text has the name of a server, alone or as a part such as in `mcp__github__delete` and `github_*`. */
function holdsName(text: string, name: string): boolean {
  const at = text.toLowerCase().indexOf(name.toLowerCase())
  if (at === -1 || name === '') return false
  return !/[a-z0-9]/i.test(text.charAt(at - 1)) && !/[a-z0-9]/i.test(text.charAt(at + name.length))
}

/** `mcp.excluded` and `mcp.allowed` of Gemini CLI, which were `excludeMCPServers` and `allowMCPServers`. */
function excludedByGemini(
  { mcp, excludeMCPServers, allowMCPServers }: Fields,
  names: readonly string[],
): ReadonlyMap<string, string> {
  const { allowed, excluded } = asObject(mcp)
  const lists = Object.entries({
    'mcp.excluded': excluded,
    excludeMCPServers,
    'mcp.allowed': allowed,
    allowMCPServers,
  })
  return new Map(
    names.flatMap((name) =>
      lists.flatMap(([key, list]): [string, string][] => {
        const isIn = Array.isArray(list) && list.includes(name)
        return Array.isArray(list) && isIn === key.includes('xclude') ? [[name, key]] : []
      }),
    ),
  )
}

/** Members that are servers, if some look like it: what else is among them is reported. */
function ifMappings(found: readonly Found[]): readonly Found[] {
  return found.some(({ entry }) => isObject(entry)) ? found : []
}

/** The servers in a mapping, or in a list of servers with names. */
function serversIn(servers: unknown, project?: string): Found[] {
  const place = project === undefined ? {} : { project }
  if (Array.isArray(servers))
    return servers.map((entry: unknown, index) => ({
      name: isObject(entry) && typeof entry.name === 'string' ? entry.name : `server ${index + 1}`,
      entry,
      ...place,
    }))
  if (!isObject(servers)) return []
  return Object.entries(servers).map(([name, entry]) => ({ name, entry, ...place }))
}

function projectServers(projects: unknown): Found[] {
  if (!isObject(projects)) return []
  return Object.entries(projects).flatMap(([folder, project]) => {
    if (!isObject(project)) return []
    const off: unknown = project.disabledMcpServers
    return serversIn(project.mcpServers, folder).map((each) =>
      Array.isArray(off) && off.includes(each.name) && isObject(each.entry)
        ? { ...each, entry: { ...each.entry, disabled: true } }
        : each,
    )
  })
}

function isServer({ entry }: Found): boolean {
  return isObject(entry) && ['command', 'url', 'serverUrl', 'httpUrl'].some((key) => entry[key] !== undefined)
}

function inputsIn(inputs: unknown): ReadonlyMap<string, string> {
  const found = (Array.isArray(inputs) ? inputs : []).filter(isObject)
  return new Map(
    found.map(({ id, description }) => [
      typeof id === 'string' ? id : '',
      typeof description === 'string' ? description : '',
    ]),
  )
}

/** What a file without servers is, if that can be told, and what to do. */
function withoutServers(file: Fields): string {
  if (isObject(file.upstreams)) return 'is a configuration of this gateway already: use it with --config'
  if (isServer({ name: '', entry: file }))
    return 'is one server without a name: write { "mcpServers": { "NAME": … } } around it'
  const isPackage = [file.dependencies, file.devDependencies, file.scripts].some((each) => each !== undefined)
  const names = Object.keys(roots).filter((root) => root !== 'the file')
  return `has no MCP servers${isPackage ? ', as it is a package.json' : ''} (under ${names.join(', ')}): ${EXPECTED}`
}
