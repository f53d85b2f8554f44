/**
 * `gatehouse connect` and `disconnect`: put the servers that MCP clients have behind the gateway, and back. Each file of a client
 * that is changed gets a copy beside it, which only its owner can read, until it is put back.
 */
import { existsSync, mkdirSync, rmSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { isDeepStrictEqual, parseEnv } from 'node:util'
import { readClientConfig } from '../config/import/clients.ts'
import type { ImportedServer, ImportFinding } from '../config/import/model.ts'
import { ConfigError } from '../config/problem.ts'
import {
  type ConnectableClient,
  connectable,
  ENTRY,
  type GatewayAddress,
  type Places,
} from '../config/import/connectable.ts'
import { type Change, withChanges } from '../config/import/edit.ts'
import { parseClientFile } from '../config/import/parse.ts'
import { readDocument } from '../config/document.ts'
import { loadSettings } from '../config/load.ts'
import { readText, variablesFile, variablesFor } from '../config/secrets.ts'
import { asList, asObject, isObject } from '../core/json/json.ts'
import type { Fields } from '../core/payload.ts'
import { follow } from '../core/json/path.ts'
import { isGuarded, publicUrl, type Settings } from '../core/settings.ts'
import { stdioWords, TOKEN_VARIABLE } from '../descriptions/model/facts.ts'
import { confirmed } from './ask.ts'
import { type Given, UsageError } from './command.ts'
import type { commands } from './commands.ts'
import { CONFIG_FILE } from './config-file.ts'
import { clientText, type ImportedConfig, importServers, variablesIn } from './init.ts'
import { type Io, pathOf, write } from './io.ts'
import type { Output } from './output.ts'
import { planImported } from './plan.ts'
import { replaceText, whyNotReplaceable, writePrivate } from './private-file.ts'

/** The file in which a client has its servers. */
interface ClientFile {
  readonly client: ConnectableClient
  readonly file: string
  /** Empty if there is no such file. */
  readonly text: string
  /** The names of its servers, without the gateway. */
  readonly names: readonly string[]
  /** Whether it has the entry of a gateway. */
  readonly isConnected: boolean
  /** Those of them that the gateway can have, without those of single projects. */
  readonly servers: readonly ImportedServer[]
  readonly findings: readonly ImportFinding[]
}

/** A file of a client, as it is and as it will be; the text is empty where there is no file. */
interface Edit {
  readonly file: string
  readonly before: string
  readonly after: string
}

/** What becomes of a client. */
interface Connection {
  readonly client: ConnectableClient
  readonly file: string
  /** The servers that the gateway takes over, and those that stay. */
  readonly moved: readonly string[]
  readonly kept: readonly string[]
  readonly entry: Readonly<Record<string, unknown>>
  readonly edits: readonly Edit[]
  /** Who asks before a call, if that is not as the command was told. */
  readonly notes: readonly string[]
}

const QUESTION = 'Change these files?'
const NOTHING_DONE = 'Nothing was changed.'
const ADVICE = 'nothing was changed: to change these files, repeat the command with --yes'

/** `gatehouse connect [CLIENT…]`: shows what it would change, asks, and changes it. */
export async function connect(given: Given<typeof commands.connect>, io: Io): Promise<Output> {
  const target = pathOf(given.config ?? CONFIG_FILE, io)
  if (!existsSync(dirname(target))) throw new UsageError(`the folder ${dirname(target)} does not exist`)
  const text = existsSync(target) ? readText(target) : undefined
  const { files, problems } = chosen(given.client, io)
  const connected = files.find(({ isConnected }) => isConnected)
  if (text === undefined && connected !== undefined)
    throw new Error(
      `${connected.client.name} is connected to a gateway already, whose configuration is not in this folder: name it with --config`,
    )
  const made = importServers(files, { target, text }, io)
  const { value } = readDocument(made.yaml)
  if (!isObject(value) || !isObject(value.upstreams) || Object.keys(value.upstreams).length === 0)
    throw new Error(`neither ${target} nor a client has a server that can be behind the gateway`)
  const address = addressOf(mustLoad(made, target, io), { target, isStarted: given.via === 'command' })
  const connections = files.map((each) => {
    const moved = made.taken.flatMap((server) => (each.servers.includes(server) ? [server.name] : []))
    return connectionOf(each, { moved, address, ask: given.ask, target }, io)
  })
  const others = clientsOf(address, io).filter(
    (name) => !connections.some(({ client }) => client.name === name),
  )
  // Several files of a client have one file of permissions.
  const byFile = new Map(connections.flatMap((each) => each.edits).map((edit) => [edit.file, edit]))
  const edits = [...byFile.values()]
  const isSame = made.yaml === text && edits.length === 0
  const notes = [
    ...problems.map((problem) => `${problem}: the file stays as it is`),
    ...made.notes,
    ...(others.length === 0 ? [] : [`Also connected to this gateway: ${others.join(', ')}`]),
  ]
  const plan = [...planLines(connections, target, text === undefined), ...notes.map((note) => `  ${note}`)]
  const json = {
    config: target,
    clients: connections.map(({ client, file, moved, kept }) => ({ client: client.id, file, moved, kept })),
    notes,
    changed: !isSame && given.yes,
  }
  if (isSame) return { json, text: [...plan, 'Nothing has to be changed.'].join('\n') }
  if (!given.json) write(`${plan.join('\n')}\n`, io)
  if (!given.yes && (given.json || !(await confirmed(QUESTION, ADVICE, io))))
    return { json, text: NOTHING_DONE, code: 1 }
  // The gateway has the servers before a client loses them.
  if (made.variables !== undefined) writePrivate(variablesFile(target), made.variables)
  if (text === undefined) writePrivate(target, made.yaml, { isNew: true })
  else if (made.yaml !== text) replaceText(target, text, made.yaml)
  for (const edit of edits) {
    mkdirSync(dirname(edit.file), { recursive: true })
    // An empty copy says that there was no file.
    writePrivate(nextBackup(edit.file), edit.before, { isNew: true })
    replaceText(edit.file, edit.before, edit.after)
  }
  const planned = given.skipPlan ? [] : await planImported(target, made.added, io)
  const start = given.via === 'command' ? [] : [`Start the gateway: gatehouse --config ${target}`]
  const names = [...new Set(connections.map(({ client }) => client.name))].join(', ')
  const next = `Then restart ${names}. gatehouse disconnect puts everything back.`
  return { json, text: ['Done.', ...planned, ...start, next].join('\n') }
}

/**
 * The files to connect: those of the clients that were named, or all with servers; and why others cannot be.
 * @throws UsageError if there is none
 */
function chosen(
  names: readonly string[],
  io: Io,
): { readonly files: readonly ClientFile[]; readonly problems: readonly string[] } {
  const places = placesOf(io)
  const problems: string[] = []
  const connectedClients: string[] = []
  const files = clientsNamed(names).flatMap((client): ClientFile[] => {
    const paths = [...new Set(client.files(places))]
    const present = paths
      .filter((file) => existsSync(file))
      .flatMap((file) => {
        try {
          return [clientFile(client, file)]
        } catch (error) {
          if (!(error instanceof ConfigError || error instanceof UsageError)) throw error
          problems.push(error.message)
          return []
        }
      })
    const withServers = present.filter((each) => each.names.length > 0)
    connectedClients.push(...present.flatMap((each) => (each.isConnected ? [client.name] : [])))
    const own = paths.at(-1)
    if (withServers.length > 0 || names.length === 0 || own === undefined || problems.length > 0)
      return withServers
    return [present.at(-1) ?? clientFile(client, own)]
  })
  if (files.length > 0) return { files, problems }
  if (problems.length > 0) throw new Error(problems.join('\n'))
  const done = [...new Set(connectedClients)]
  const connected = done.length > 0 ? ` but behind the gateway (${done.join(', ')})` : ''
  throw new UsageError(`no client here has MCP servers${connected}. Name the one to connect: ${clientIds()}`)
}

/** The clients of these names; all if there are none. @throws UsageError for the name of another one */
function clientsNamed(names: readonly string[]): readonly ConnectableClient[] {
  if (names.length === 0) return connectable
  return [...new Set(names)].map((name) => {
    const found = connectable.find(({ id }) => id === name)
    if (found) return found
    throw new UsageError(`${name} is no client that can be connected: ${clientIds()}`)
  })
}

function clientIds(): string {
  return connectable.map(({ id }) => id).join(', ')
}

function placesOf({ env, cwd }: Io): Places {
  return { home: env['HOME'] ?? homedir(), project: cwd, platform: process.platform, env }
}

/** Whether an entry is one that this command writes: an address of a gateway, or a command that starts one. */
function isOurs(entry: unknown): boolean {
  const { url, httpUrl, serverUrl, uri, command, cmd, args } = asObject(entry)
  const words = [command, cmd, args].flat().map(String)
  if (words.includes('stdio') && words.some((word) => /(?:^|[\\/])(?:gatehouse|main\.js)$/.test(word)))
    return true
  return [url, httpUrl, serverUrl, uri].some(
    (each) => typeof each === 'string' && /^https?:\/\/.+\/mcp$/.test(each),
  )
}

/** What a variable is taken for that is not set here. */
const UNSET = 'http://unset.invalid'

/** @throws Error if the configuration would not start, whatever the variables that are not set here have as values */
function mustLoad({ yaml, variables }: ImportedConfig, target: string, io: Io): Settings {
  const named = [...yaml.matchAll(/\$\{([A-Za-z_]\w*)/g)].map(([, name = '']) => [name, UNSET])
  const own = variables === undefined ? {} : parseEnv(variables)
  const env = { ...Object.fromEntries(named), ...variablesFor(target, io.env), ...own }
  try {
    return loadSettings(yaml, { file: target, env }).settings
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    throw new Error(`nothing was changed, as the configuration would not start: ${error.message}`, {
      cause: error,
    })
  }
}

/** @throws ConfigError if it cannot be read, or not be changed; UsageError if it cannot be written */
function clientFile(client: ConnectableClient, file: string): ClientFile {
  const text = textOf(file)
  const { at } = client
  const why = whyNotReplaceable(file)
  if (why !== undefined) throw new UsageError(why)
  const servers = asObject(follow(valueOf(file, text), at))
  const isConnected = isOurs(servers[ENTRY])
  const names = Object.keys(servers).filter((name) => name !== ENTRY || !isConnected)
  const nothing = { client, file, text, names, isConnected, servers: [], findings: [] }
  withChanges(text, file, [
    { path: [...at, ENTRY], value: {} },
    ...names.map((name) => ({ path: [...at, name] })),
  ])
  if (names.length === 0) return nothing
  const others = isConnected ? withChanges(text, file, [{ path: [...at, ENTRY] }]) : text
  const read = readClientConfig(others, file, variablesIn)
  const isOwn = ({ name, origin }: ImportedServer): boolean =>
    origin.project === undefined && names.includes(name)
  const projects = new Set(read.servers.flatMap(({ origin }) => origin.project ?? []))
  const stay = [...projects].map((project) => ({
    file,
    message: `the servers of ${project} alone stay there`,
  }))
  return { ...nothing, servers: read.servers.filter(isOwn), findings: [...read.findings, ...stay] }
}

interface AddressOptions {
  readonly target: string
  /** Whether the client starts a gateway of its own. */
  readonly isStarted: boolean
}

/** How clients reach the gateway of a configuration. */
function addressOf(settings: Settings, { target, isStarted }: AddressOptions): GatewayAddress {
  if (!settings.listen.aggregate)
    throw new Error(
      `${target} has \`listen.aggregate: off\`, so no address has all servers: turn it on, or edit the client`,
    )
  const url = publicUrl(settings, '/mcp') ?? `http://127.0.0.1:${settings.listen.port}/mcp`
  if (url.startsWith(UNSET))
    throw new Error(
      `set the variable of \`listen.public_url\` in ${variablesFile(target)}: clients need the URL`,
    )
  const isProtected = isGuarded(settings)
  const words = isStarted ? ['stdio', '--config', target] : stdioWords(url, { key: undefined, isProtected })
  const program = fileURLToPath(new URL('../main.js', import.meta.url))
  return {
    url,
    command: [process.execPath, program, ...words],
    ...(isProtected && !isStarted && { tokenVariable: TOKEN_VARIABLE }),
    isStarted,
  }
}

/** The entry of a gateway in the file of a client. */
function entryOf({ byUrl, byCommand }: ConnectableClient, address: GatewayAddress) {
  return (address.isStarted ? undefined : byUrl?.(address)) ?? byCommand(address)
}

/** The names of the clients that are connected to a gateway. */
function clientsOf(address: GatewayAddress, io: Io): readonly string[] {
  const places = placesOf(io)
  return connectable
    .filter((client) => {
      const own = entryOf(client, address)
      return client.files(places).some((file) => isMatch(ownEntry(client, file), own))
    })
    .map(({ name }) => name)
}

/** The entry of a gateway that a file has; empty if it has none, or cannot be read. */
function ownEntry({ at }: ConnectableClient, file: string): Fields {
  try {
    return asObject(asObject(follow(valueOf(file), at))[ENTRY])
  } catch (error) {
    if (error instanceof ConfigError || error instanceof UsageError) return {}
    throw error
  }
}

function isMatch(value: Fields, members: Fields): boolean {
  return Object.entries(members).every(([key, member]) => isDeepStrictEqual(value[key], member))
}

interface ConnectionOptions {
  readonly moved: readonly string[]
  readonly address: GatewayAddress
  /** Who asks before a call; undefined leaves it as it is. */
  readonly ask: 'both' | 'gateway' | undefined
  readonly target: string
}

function connectionOf(
  { client, file, text, names, isConnected }: ClientFile,
  { moved, address, ask, target }: ConnectionOptions,
  io: Io,
): Connection {
  const hasMembers = isConnected && client.unasked && isMatch(ownEntry(client, file), client.unasked)
  const isUnasked = hasMembers === true || hasPermission(client, io)
  const isAskedOnce = ask === undefined ? isUnasked : ask === 'gateway'
  const entry = { ...entryOf(client, address), ...(isAskedOnce && client.unasked) }
  const changes: readonly Change[] = [
    { path: [...client.at, ENTRY], value: entry },
    ...moved.map((name) => ({ path: [...client.at, name] })),
  ]
  const rules = rulesAbout(client, moved, io)
  const permission = isAskedOnce && rules.length > 0 ? undefined : permissionEdit(client, isAskedOnce, io)
  const edits = [
    { file, before: text, after: withChanges(text, file, changes) },
    ...(permission ? [permission] : []),
  ]
  return {
    client,
    file,
    moved,
    kept: names.filter((name) => !moved.includes(name)),
    entry,
    edits: edits.filter(({ before, after }) => before !== after),
    notes: [
      ...promptNotes(client, { isAskedOnce, isUnasked }),
      ...rules.map(
        (rule) =>
          `${client.name} has the rule ${rule} about a server that is moved, which has no effect any more: write \`hide\` or \`confirm\` of the tool in ${target}`,
      ),
      ...(address.tokenVariable === undefined
        ? []
        : [
            `set the variable ${address.tokenVariable} to a token that \`auth\` of the configuration accepts, where ${client.name} is started`,
          ]),
    ],
  }
}

/** Who asks before a call. */
function promptNotes(
  { name, unasked, permission }: ConnectableClient,
  { isAskedOnce, isUnasked }: { readonly isAskedOnce: boolean; readonly isUnasked: boolean },
): readonly string[] {
  const canBe = unasked !== undefined || permission !== undefined
  if (!canBe)
    return isAskedOnce
      ? [`${name} has no setting for this: choose "always allow" for the gateway when it asks`]
      : []
  if (!isAskedOnce)
    return [
      `${name} asks before calls, and the gateway before those that can do harm; with --ask gateway only the gateway asks`,
    ]
  if (isUnasked) return [`only the gateway asks before calls; with --ask both ${name} asks too`]
  return permission?.note === undefined ? [] : [permission.note]
}

/** Whether the client is already configured not to ask about the gateway. */
function hasPermission(client: ConnectableClient, io: Io): boolean {
  const file = client.permission?.file(placesOf(io))
  return file !== undefined && hasItem(client, file, textOf(file))
}

/** The rules of a client that refuse or ask about tools of servers that are moved. */
function rulesAbout({ permission }: ConnectableClient, moved: readonly string[], io: Io): readonly string[] {
  if (permission?.restrictions === undefined) return []
  const value = valueOf(permission.file(placesOf(io)))
  const { lists, prefix } = permission.restrictions
  return lists
    .flatMap((list) => asList(follow(value, list)))
    .filter((rule) => typeof rule === 'string')
    .filter((rule) => moved.some((name) => rule === prefix(name) || rule.startsWith(`${prefix(name)}__`)))
}

/** The change with which the client does not ask about the gateway, or does again. */
function permissionEdit({ permission }: ConnectableClient, isUnasked: boolean, io: Io): Edit | undefined {
  if (permission === undefined) return undefined
  const file = permission.file(placesOf(io))
  const before = textOf(file)
  const items = asList(follow(valueOf(file, before), permission.list))
  if (items.includes(permission.item) === isUnasked) return undefined
  const others = items.filter((item) => item !== permission.item)
  const value = isUnasked ? [...items, permission.item] : others
  return { file, before, after: withChanges(before, file, [{ path: permission.list, value }]) }
}

function planLines(connections: readonly Connection[], target: string, isNew: boolean): readonly string[] {
  return connections.flatMap(({ client, file, moved, kept, edits, entry, notes }) => [
    `${client.name}: ${file}`,
    ...(moved.length > 0 ? [`  moves ${moved.join(', ')} to ${target}${isNew ? ' (new)' : ''}`] : []),
    ...(kept.length > 0 ? [`  leaves ${kept.join(', ')} as they are`] : []),
    ...(edits.length > 0
      ? [`  writes the entry ${ENTRY}: ${JSON.stringify(entry)}`]
      : ['  is connected already']),
    ...edits.slice(1).map((edit) => `  changes ${edit.file}`),
    ...edits.flatMap((edit) =>
      edit.before === '' ? [] : [`  keeps a copy of the file: ${nextBackup(edit.file)}`],
    ),
    ...notes.map((note) => `  ${note}`),
  ])
}

// Copies of files, and how they are put back.

const BACKUP = '.before-gatehouse'

/** Where the next copy of a file will be. */
function nextBackup(file: string): string {
  const number = backupsOf(file).length
  return `${file}${BACKUP}${number === 0 ? '' : `-${number + 1}`}`
}

/** The copies of a file, the oldest one first. */
function backupsOf(file: string): readonly string[] {
  const found: string[] = []
  for (let number = 1; ; number++) {
    const path = `${file}${BACKUP}${number === 1 ? '' : `-${number}`}`
    if (!existsSync(path)) return found
    found.push(path)
  }
}

/** The text of a file; empty if there is none. @throws UsageError if it cannot be read */
function textOf(file: string): string {
  return existsSync(file) ? clientText(file) : ''
}

/** What the text of a file says; an empty one has no members. @throws ConfigError if it cannot be read */
function valueOf(file: string, text: string = textOf(file)): unknown {
  return text.trim() === '' ? {} : parseClientFile(text, file)
}

/** `gatehouse disconnect [CLIENT…]`: gives clients their servers back. */
export async function disconnect(given: Given<typeof commands.disconnect>, io: Io): Promise<Output> {
  const places = placesOf(io)
  const problems: string[] = []
  const edits = clientsNamed(given.client).flatMap((client) => {
    const own = client.permission ? [client.permission.file(places)] : []
    const files = [...new Set([...client.files(places), ...own])]
    return files.flatMap((file): (Edit & { readonly client: string })[] => {
      const [first] = backupsOf(file)
      if (first === undefined) return []
      try {
        const why = whyNotReplaceable(file)
        if (why !== undefined) throw new UsageError(why)
        const before = textOf(file)
        return [{ client: client.id, file, before, after: putBack(client, file, before) }]
      } catch (error) {
        if (!(error instanceof ConfigError || error instanceof UsageError)) throw error
        problems.push(`${error.message}: it stays as it is. Its copy is ${first}`)
        return []
      }
    })
  })
  const code = problems.length > 0 ? 1 : 0
  const json = {
    clients: edits.map(({ client, file }) => ({ client, file })),
    problems,
    changed: edits.length > 0 && given.yes,
  }
  if (edits.length === 0) return { json, text: [...problems, 'Nothing was put back.'].join('\n'), code }
  const lines = edits.map(({ file, after }) => `${after === '' ? 'removes' : 'puts back'} ${file}`)
  if (!given.json) write(`${[...lines, ...problems].join('\n')}\n`, io)
  if (!given.yes && (given.json || !(await confirmed(QUESTION, ADVICE, io))))
    return { json, text: NOTHING_DONE, code: 1 }
  for (const edit of edits) {
    replaceText(edit.file, edit.before, edit.after)
    for (const copy of backupsOf(edit.file)) rmSync(copy)
  }
  return { json, text: 'Done. The configuration of the gateway keeps its servers.', code }
}

/** The text of a file before it was connected, with what others changed in it since; empty if there was no file. */
function putBack(client: ConnectableClient, file: string, now: string): string {
  const copies = backupsOf(file).map(clientText)
  return copies.reduceRight((text, copy, index) => {
    const next = copies[index + 1]
    // Between this connection and the next one, the entry was removed by hand: what it did is not there any more.
    const isGone = next !== undefined && !hasEntry(client, file, next) && !hasItem(client, file, copy)
    return isGone ? text : undone(client, { file, copy, now: text })
  }, now)
}

function hasEntry(client: ConnectableClient, file: string, text: string): boolean {
  return hasItem(client, file, text) || Object.hasOwn(asObject(follow(valueOf(file, text), client.at)), ENTRY)
}

/** Whether a text says that the client does not ask about the gateway. */
function hasItem({ permission }: ConnectableClient, file: string, text: string): boolean {
  return (
    permission !== undefined && asList(follow(valueOf(file, text), permission.list)).includes(permission.item)
  )
}

/** The text without what one connection changed, which is known by the copy of the file from before it. */
function undone(
  { at, permission }: ConnectableClient,
  { file, copy, now }: { readonly file: string; readonly copy: string; readonly now: string },
): string {
  // A file that was lost, as by a process that was killed, has nothing to keep.
  if (now.trim() === '') return copy
  const [before, after] = [copy, now].map((text) => valueOf(file, text))
  const [old, present] = [before, after].map((value) => asObject(follow(value, at)))
  const missing = Object.entries(old ?? {}).filter(([name]) => !Object.hasOwn(present ?? {}, name))
  const changes: Change[] = missing.map(([name, value]) => ({ path: [...at, name], value }))
  if (present && Object.hasOwn(present, ENTRY)) changes.push({ path: [...at, ENTRY], value: old?.[ENTRY] })
  if (permission) {
    const [earlier = [], list = []] = [before, after].map((value) => asList(follow(value, permission.list)))
    const { item } = permission
    if (list.includes(item) && !earlier.includes(item))
      changes.push({ path: permission.list, value: list.filter((each) => each !== item) })
    if (earlier.includes(item) && !list.includes(item)) {
      const kept = earlier.filter((each) => each === item || list.includes(each))
      const added = list.filter((each) => !earlier.includes(each))
      changes.push({ path: permission.list, value: [...kept, ...added] })
    }
  }
  const made = withChanges(now, file, changes)
  const value = valueOf(file, made)
  // With comments, order and blanks as they were, if nothing else has changed.
  return isDeepStrictEqual(withoutEmpty(value), withoutEmpty(before)) ? copy : made
}

/** A value without members that are empty: `connect` creates those above what it writes. */
function withoutEmpty(value: unknown): unknown {
  if (!isObject(value)) return value
  const members = Object.entries(value).map(([key, each]) => [key, withoutEmpty(each)] as const)
  return Object.fromEntries(
    members.filter(
      ([, each]) =>
        each !== undefined && !(typeof each === 'object' && each !== null && Object.keys(each).length === 0),
    ),
  )
}
