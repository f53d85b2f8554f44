/** MCP servers as a client has them, without the syntax of its file: what is read from all clients and written for the gateway. */

/**
 * A text with references: literal parts as they are, and what stands for a value. Each client has a syntax of its own
 * (`dialects.ts`); the gateway's is written in `render.ts`.
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
