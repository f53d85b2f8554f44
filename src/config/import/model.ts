/**
 * MCP servers as a client has them, without the syntax of its file: what is read from all clients and written for the gateway.
 * The dialects are how clients write references in texts: `${NAME}`, `$NAME`, `${env:NAME}`, `{env:NAME}` and others. What a
 * client does not replace is plain text here too, as it is for the server that the client starts.
 */
import { homedir } from 'node:os'
import { basename, isAbsolute, resolve, sep } from 'node:path'

/**
 * A text with references: literal parts as they are, and what stands for a value. Each client has a syntax of its own
 * (`Dialect`); the gateway's is written in `render.ts`.
 */
export type Template = readonly Part[]

/** A literal text, a variable, or the content of a file. */
export type Part = string | VariablePart | FilePart

interface VariablePart {
  readonly variable: string
  /** The value if the variable is not set. */
  readonly fallback?: string
  /** The reference as it is in the file, unless that is `${NAME}`. */
  readonly written?: string
  /** What the value is, for a person who has to set it. */
  readonly meaning?: string
}

interface FilePart {
  /** An absolute path. */
  readonly path: string
}

/** One server of a client. */
export interface ImportedServer {
  /** The name in the client's file. */
  readonly name: string
  /** Its file, and its project if the file has servers per project. */
  readonly origin: { readonly file: string; readonly project?: string }
  readonly reach: ImportedCommand | ImportedUrl
  /** How long the server may take to start, in milliseconds. */
  readonly startTimeout?: number
  /** How long a call may take, in milliseconds. */
  readonly callTimeout?: number
  /** The only tools that the client offers; absent if it offers all. */
  readonly shownTools?: readonly string[]
  /** Tools that the client does not offer. */
  readonly hiddenTools: readonly string[]
}

/** A server that is started as a child process. */
export interface ImportedCommand {
  readonly words: readonly Template[]
  readonly env: ReadonlyMap<string, Template>
  readonly cwd?: Template
}

/** A server that is reached over HTTP. Header names are distinct whatever their case. */
export interface ImportedUrl {
  readonly url: Template
  readonly headers: ReadonlyMap<string, Template>
  readonly isSse: boolean
}

/** What was not imported as it was, or at all, and what to do about it. Contains no value of the file. */
export interface ImportFinding {
  readonly file: string
  /** The name of the server in the file; absent if it is about the file. */
  readonly server?: string
  readonly message: string
}

/** A literal text as a template. */
export function literal(text: string): Template {
  return text === '' ? [] : [text]
}

/** The text of a template without references; undefined for others. */
export function literalText(template: Template): string | undefined {
  return template.every((part) => typeof part === 'string') ? template.join('') : undefined
}

/** Adjacent literal parts as one. */
export function joined(parts: readonly Part[]): Template {
  const found: Part[] = []
  for (const part of parts) {
    const last = found.at(-1)
    if (typeof part === 'string' && typeof last === 'string') found[found.length - 1] = last + part
    else found.push(part)
  }
  return found
}

/** What references of a file can mean. */
export interface DialectContext {
  /** The folder that relative paths and `${workspaceFolder}` are about. */
  readonly workspace: string
  /** Whether the file belongs to that folder, and not to a user. */
  readonly isWorkspaceKnown: boolean
  /** The inputs that an editor asks for: descriptions by id. */
  readonly inputs: ReadonlyMap<string, string>
  /** Reports a reference that was kept as text. */
  readonly note: (message: string) => void
}

/** A form of a reference: a sticky pattern, and its meaning. */
interface Form {
  readonly pattern: RegExp
  readonly read: (groups: readonly string[], context: DialectContext, whole: string) => Part
}

/** The references that a client replaces. */
export type Dialect = readonly Form[]

const braced: Form = {
  pattern: /\$\{([A-Za-z_]\w*)(?::-([^}]*))?\}/y,
  read: ([name = '', fallback]) => variable(name, fallback),
}

const bare: Form = {
  pattern: /\$([A-Za-z_]\w*)/y,
  read: ([name = ''], _context, whole) => ({ variable: name, written: whole }),
}

const environment: Form = {
  pattern: /\$\{env:([A-Za-z_]\w*)(?::-([^}]*))?\}/y,
  read: ([name = '', fallback]) => variable(name, fallback),
}

const place: Form = {
  pattern: /\$\{(workspaceFolder|workspaceFolderBasename|workspaceRoot|cwd|userHome|pathSeparator|\/)\}/y,
  read: ([name = ''], { workspace, isWorkspaceKnown, note }, whole) => {
    if (name === 'userHome') return variable('HOME')
    if (!isWorkspaceKnown && /^(?:workspace|cwd)/.test(name))
      note(`${whole} is the folder of this file here: write another path if it is another folder`)
    if (name === 'workspaceFolderBasename') return basename(workspace)
    return name === 'pathSeparator' || name === '/' ? sep : workspace
  },
}

const input: Form = {
  pattern: /\$\{input:([^}]*)\}/y,
  read: ([id = ''], { inputs }) => ({
    variable: variableName(id),
    meaning: inputs.get(id) || `the editor input ${JSON.stringify(id)}`,
  }),
}

const file: Form = { pattern: /\$\{file:([^}]+)\}/y, read: fileContent }

/** Two `$` before a name: clients disagree on what that is, and nobody means a `$` before a value. */
const doubled: Form = { pattern: /\$\$(?:\{[^}]*\}?|\w*)/y, read: (_groups, _context, whole) => whole }

/** Any other `${…}`, such as `${command:pick}`, is not replaced. */
const unknown: Form = {
  pattern: /\$\{[^}]*\}?/y,
  read: (_groups, { note }, whole) => {
    note(`${JSON.stringify(whole.slice(0, 60))} is not a reference there and was kept as plain text`)
    return whole
  },
}

const opencodeVariable: Form = {
  pattern: /\{env:([A-Za-z_]\w*)\}/y,
  read: ([name = '']) => variable(name),
}

const opencodeFile: Form = { pattern: /\{file:([^}]+)\}/y, read: fileContent }

/** What a shell expands: a command, or a reference with other operators than `:-`. */
const expansion: Form = {
  pattern: /\$(?:\((?:[^()]|\([^()]*\))*\)?|\{[^}]*\}?)/y,
  read: (_groups, { note }, whole) => {
    note(
      'has `$(…)` or `${…}` of a shell, which was kept as plain text and is not run: write ${NAME}, and set that variable',
    )
    return whole
  },
}

const continueSecret: Form = {
  pattern: /\$\{\{\s*(?:secrets|inputs)\.([\w.-]+)\s*\}\}/y,
  read: ([id = '']) => ({ variable: variableName(id), meaning: `the value that Continue calls ${id}` }),
}

/** The dialects of clients, by what they replace. */
export const dialects = {
  /** Nothing: Claude Desktop, Codex, Zed, LM Studio, JetBrains. */
  none: [],
  /** `${NAME}` and `${NAME:-default}`: Claude Code, Warp, Kiro. */
  braces: [doubled, braced],
  /** The same, and `$NAME`: Gemini CLI, Copilot CLI, Goose. */
  shell: [doubled, braced, bare],
  /** What a shell replaces, of which commands are not run: Crush. */
  crush: [doubled, braced, bare, expansion],
  /** `${env:NAME}`, `${input:id}` and folders: VS Code, Cursor, Cline, Roo Code, Windsurf, Amazon Q. */
  editor: [doubled, environment, place, input, file, unknown],
  /** `{env:NAME}` and `{file:path}`: opencode. */
  opencode: [opencodeVariable, opencodeFile],
  /** `${{ secrets.NAME }}`: Continue. */
  continue: [continueSecret],
  /** All with braces, for a file whose client is not known. */
  any: [doubled, environment, place, input, braced, unknown],
} as const satisfies Record<string, Dialect>

/** Splits a text at the references of a dialect. */
export function readTemplate(text: string, dialect: Dialect, context: DialectContext): Template {
  const parts: Part[] = []
  let start = 0
  for (let at = 0; at < text.length;) {
    const found = referenceAt(text, at, dialect)
    if (found === undefined) {
      at += 1
      continue
    }
    if (at > start) parts.push(text.slice(start, at))
    parts.push(found.form.read(found.groups, context, found.whole))
    at += found.whole.length
    start = at
  }
  if (start < text.length) parts.push(text.slice(start))
  return joined(parts)
}

function referenceAt(text: string, at: number, dialect: Dialect) {
  const first = text.charAt(at)
  if (first !== '$' && first !== '{') return undefined
  for (const form of dialect) {
    form.pattern.lastIndex = at
    const match = form.pattern.exec(text)
    if (match) return { form, whole: match[0], groups: match.slice(1) }
  }
  return undefined
}

function variable(name: string, fallback?: string): Part {
  return fallback === undefined ? { variable: name } : { variable: name, fallback }
}

function fileContent([path = '']: readonly string[], { workspace }: DialectContext): Part {
  const expanded = path.startsWith('~/') ? resolve(homedir(), path.slice(2)) : path
  return { path: isAbsolute(expanded) ? expanded : resolve(workspace, expanded) }
}

/** Converts a text to the name of an environment variable. */
export function variableName(text: string): string {
  const name = text
    .toUpperCase()
    .replaceAll(/[^A-Z0-9_]+/g, '_')
    .replaceAll(/^_+|_+$/g, '')
  return /^[A-Z]/.test(name) ? name : `MCP_${name}`
}
