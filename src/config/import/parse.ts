/** Parses the files of clients, JSON with comments, TOML or YAML, into plain values. Messages never quote a file. */
import { type Node, type ParseError, parseTree, printParseErrorCode } from 'jsonc-parser'
import { parse as parseTomlText, TomlError } from 'smol-toml'
import { numberOf } from '../../core/json/exact-number.ts'
import { isObject } from '../../core/json/json.ts'
import { locate, readDocument } from '../document.ts'
import { ConfigError } from '../problem.ts'

/** The syntax of a file. */
export type Syntax = 'json' | 'toml' | 'yaml'

/**
 * The value of a client's file, whose syntax is that of its content; the extension decides where two are possible.
 * @throws ConfigError if it is none of them
 */
export function parseClientFile(text: string, file: string): Readonly<Record<string, unknown>> {
  const bare = text.replace(/^\uFEFF/, '')
  const foreign = foreignProblem(bare)
  if (foreign !== undefined) throw unreadable(file, `${foreign}: ${EXPECTED}`)
  const value = within(() => parsers[syntaxOf(bare, file)](bare, file), file)
  if (!isObject(value)) throw unreadable(file, `is not the configuration of an MCP client: ${EXPECTED}`)
  return value
}

/** What `--from` accepts, in words. */
export const EXPECTED =
  'expected the file in which a client keeps its MCP servers, such as claude_desktop_config.json, .mcp.json, .cursor/mcp.json, .vscode/mcp.json or ~/.codex/config.toml'

/** A problem of a whole file, or at a position in it. */
export function unreadable(file: string, message: string, place?: Place): ConfigError {
  return new ConfigError([{ file, line: 0, column: 0, ...place, path: '', message }])
}

interface Place {
  readonly line: number
  readonly column: number
}

function foreignProblem(text: string): string | undefined {
  if (text.trim() === '') return 'is empty'
  if (text.includes('\0')) return 'is not text in UTF-8'
  return text.trimStart().startsWith('<') ? 'is HTML or XML' : undefined
}

export function syntaxOf(text: string, file: string): Syntax {
  const start = text.replace(/^(?:\s+|\/\/[^\n]*\n|\/\*[^]*?\*\/)+/, '')
  if (/^[{"]/.test(start)) return 'json'
  if (/\.ya?ml$/i.test(file)) return 'yaml'
  if (/\.toml$/i.test(file) || /^\s*\[\[?[\w."' -]+\]\]?\s*(?:#.*)?$/m.test(text)) return 'toml'
  if (/\.jsonc?$/i.test(file) || start.startsWith('[')) return 'json'
  return 'yaml'
}

const parsers: Readonly<Record<Syntax, (text: string, file: string) => unknown>> = {
  json: parseJsonc,
  toml: parseToml,
  yaml: parseYaml,
}

/** Parses JSON with comments and trailing commas; numbers keep their digits. */
function parseJsonc(text: string, file: string): unknown {
  const errors: ParseError[] = []
  const tree = parseTree(text, errors, { allowTrailingComma: true })
  const [first] = errors
  if (first) throw unreadable(file, `is not valid JSON: ${jsonProblem(first)}`, placeOf(text, first.offset))
  return tree && plain(valueOf(tree, text))
}

/** A file may be nested more deeply than a parser can follow. */
function within<T>(parse: () => T, file: string): T {
  try {
    return parse()
  } catch (error) {
    if (error instanceof RangeError) throw unreadable(file, 'is nested too deeply')
    throw error
  }
}

// Not `getNodeValue`: it assigns a key `__proto__` to the prototype, and rounds long numbers.
function valueOf(node: Node, text: string): unknown {
  const { type, children = [] } = node
  if (type === 'array') return children.map((child) => valueOf(child, text))
  if (type === 'number') return numberOf(text.slice(node.offset, node.offset + node.length))
  if (type !== 'object') return node.value
  return Object.fromEntries(
    children.map(({ children: [key, value] = [] }) => [String(key?.value), value && valueOf(value, text)]),
  )
}

function jsonProblem({ error }: ParseError): string {
  return jsonProblems[printParseErrorCode(error)] ?? 'something is missing or misplaced here'
}

const jsonProblems: Readonly<Record<string, string>> = {
  CommaExpected: 'a comma is missing',
  ColonExpected: 'a colon is missing',
  ValueExpected: 'a value is missing',
  PropertyNameExpected: 'a key in double quotes is missing',
  CloseBraceExpected: 'a closing } is missing',
  CloseBracketExpected: 'a closing ] is missing',
  EndOfFileExpected: 'the file should end here; put { and } around all of it',
  UnexpectedEndOfString: 'a closing quote is missing',
  InvalidEscapeCharacter: 'a backslash in a text is written twice: \\\\',
  InvalidCharacter: 'a line break or control character is in a text',
}

function placeOf(text: string, offset: number): Place {
  const before = text.slice(0, offset).split('\n')
  return { line: before.length, column: (before.at(-1)?.length ?? 0) + 1 }
}

function parseToml(text: string, file: string): unknown {
  try {
    return plain(parseTomlText(text, { integersAsBigInt: 'asNeeded' }))
  } catch (error) {
    if (!(error instanceof TomlError)) throw error
    throw unreadable(file, 'is not valid TOML', { line: error.line, column: error.column })
  }
}

/** As JSON has it: TOML has 64-bit integers and dates, and UTF-8, as servers get it, has no lone surrogates. */
function plain(value: unknown): unknown {
  if (typeof value === 'string') return value.toWellFormed()
  if (typeof value === 'bigint') return numberOf(String(value))
  if (value instanceof Date) return value.toISOString()
  if (Array.isArray(value)) return value.map(plain)
  if (!isObject(value)) return value
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key.toWellFormed(), plain(each)]))
}

function parseYaml(text: string, file: string): unknown {
  const document = readDocument(text)
  if (document.problems.length > 0) throw new ConfigError(locate(document.problems, document, file))
  return plain(document.value)
}
