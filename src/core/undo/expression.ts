/**
 * The language of undo rules and verification: calls with paths, such as `delete(id=$.result.id)`. Bounded, and without
 * code evaluation.
 */
import { type ExactNumber, numberOf } from '../json/exact-number.ts'
import { isObject, readJson } from '../json/json.ts'
import { type Step, find, type Path, printPath, type Root, type Scope } from '../json/path.ts'
import type { Payload } from '../payload.ts'
import { parseJson } from '../json/read.ts'

/** The detailed form of an undo setting. All members except the texts are expressions. */
export interface UndoSettings {
  /** The call that undoes it. */
  readonly call?: string
  /** Whether the undo restores everything; true by default. */
  readonly exact?: boolean
  readonly description?: string
  /** What is read before the call, what restores it, and what undoes the call if there was nothing to read. */
  readonly snapshot?: string
  readonly restore?: string
  readonly absent?: string
}

/** A call of a tool whose values are literals or paths into values known when it is made. */
export interface Expression {
  readonly tool: string
  /** The arguments in the order written; names are unique. */
  readonly arguments: ReadonlyMap<string, Value>
  /** The requested part of the result: the path after `->`. */
  readonly find?: Path
}

/** A value of an expression. */
export type Value =
  | { readonly kind: 'literal'; readonly value: string | number | ExactNumber | boolean | null }
  | { readonly kind: 'path'; readonly path: Path }
  | { readonly kind: 'list'; readonly items: readonly Value[] }
  | { readonly kind: 'object'; readonly members: ReadonlyMap<string, Value> }

/** The maximum length of an expression, nesting depth of its values, and number of steps of a path. */
const MAX_EXPRESSION_LENGTH = 4000
const MAX_DEPTH = 32
const MAX_PATH_STEPS = 64

const roots: readonly Root[] = ['args', 'result', 'snapshot']

/**
 * Parses `tool(name=value, …)`, optionally followed by `-> $.path`. A value is JSON, or a path such as `$.args.path`,
 * `$.result.items[0].id`, `$.args.items[*].name` or `$.snapshot["a b"]`; lists and objects may contain paths too.
 * @throws TypeError with the position of the error and what was expected there
 */
export function parseExpression(text: string): Expression {
  if (text.length > MAX_EXPRESSION_LENGTH)
    throw new TypeError(`it is longer than ${MAX_EXPRESSION_LENGTH} characters`)
  const reader = new Reader(text)
  const tool = reader.name('the name of a tool')
  reader.take('(', `"(" after the name of the tool`)
  const given = reader.members(')', () => reader.named('the name of an argument', '='))
  const find = reader.has('->') ? reader.path() : undefined
  reader.end()
  return { tool, arguments: given, ...(find && { find }) }
}

/** Parses a single path, such as `$.result.items[0].id`. @throws TypeError with the position of the error */
export function parsePath(text: string): Path {
  if (text.length > MAX_EXPRESSION_LENGTH)
    throw new TypeError(`it is longer than ${MAX_EXPRESSION_LENGTH} characters`)
  const reader = new Reader(text)
  const path = reader.path()
  reader.end()
  return path
}

/** The server and the tool in `<server>.<tool>`; names of servers have no dots. */
export function serverTool(name: string): { readonly server: string | undefined; readonly tool: string } {
  const dot = name.indexOf('.')
  return dot === -1
    ? { server: undefined, tool: name }
    : { server: name.slice(0, dot), tool: name.slice(dot + 1) }
}

/** The evaluated arguments of an expression. @throws Error if a path does not exist */
export function evaluate(expression: Expression, scope: Scope): Record<string, unknown> {
  const given = [...expression.arguments].map(([name, value]) => [name, valueOf(value, scope)] as const)
  // Creates own members under any name.
  return Object.fromEntries(given)
}

/** The roots of the paths in an expression. */
export function uses(expression: Expression): Set<Root> {
  return new Set(pathsOf(expression).map(({ root }) => root))
}

/** The paths in the values of an expression. */
export function pathsOf(expression: Expression): readonly Path[] {
  const paths: Path[] = []
  const look = (value: Value): void => {
    if (value.kind === 'path') paths.push(value.path)
    if (value.kind === 'list') value.items.forEach(look)
    if (value.kind === 'object') value.members.forEach(look)
  }
  expression.arguments.forEach(look)
  return paths
}

/** The value of `$.result`: the structured content, or else the only text parsed as JSON, or else the text. */
export function resultValue(result: Payload): unknown {
  const { structuredContent, content } = result.fields
  if (structuredContent !== undefined) return structuredContent
  const blocks: readonly unknown[] = Array.isArray(content) ? content : []
  const texts = blocks.flatMap((block) =>
    isObject(block) && block.type === 'text' && typeof block.text === 'string' ? [block.text] : [],
  )
  const [only, ...others] = texts
  if (only === undefined) return undefined
  if (others.length > 0) return texts.join('\n')
  const value = readJson(only)
  return value === undefined ? only : value
}

function valueOf(value: Value, scope: Scope): unknown {
  if (value.kind === 'literal') return value.value
  if (value.kind === 'list') return value.items.map((item) => valueOf(item, scope))
  if (value.kind === 'object') {
    return Object.fromEntries([...value.members].map(([key, each]) => [key, valueOf(each, scope)]))
  }
  const found = find(value.path, scope)
  if (found === undefined) throw new Error(`there is no ${printPath(value.path)}`)
  return found
}

/** A recursive-descent parser for expressions. */
class Reader {
  readonly #text: string
  #at = 0
  #depth = 0

  constructor(text: string) {
    this.#text = text
  }

  /** Consumes a token if it is next. */
  has(text: string): boolean {
    this.#space()
    if (!this.#text.startsWith(text, this.#at)) return false
    this.#at += text.length
    return true
  }

  take(text: string, expected: string): void {
    if (!this.has(text)) this.#fail(expected)
  }

  end(): void {
    this.#space()
    if (this.#at < this.#text.length) this.#fail('the end, or "->" and a path')
  }

  /** A plain or quoted name. */
  name(expected: string): string {
    this.#space()
    if (this.#text[this.#at] === '"') return this.#string()
    return this.#match(/[\p{L}_][\p{L}\p{N}_./-]*/uy) ?? this.#fail(expected)
  }

  named(expected: string, between: string): readonly [string, Value] {
    const name = this.name(expected)
    this.take(between, `"${between}" behind ${JSON.stringify(name)}`)
    return [name, this.#value()]
  }

  /** The comma-separated content of brackets; names must be unique. */
  members(close: string, next: () => readonly [string, Value]): ReadonlyMap<string, Value> {
    const found = new Map<string, Value>()
    if (this.has(close)) return found
    do {
      this.#space()
      const at = this.#at
      const [name, value] = next()
      if (found.has(name)) throw new TypeError(`${JSON.stringify(name)} is given twice ${placed(at)}`)
      found.set(name, value)
    } while (this.has(','))
    this.take(close, `"," or "${close}"`)
    return found
  }

  path(): Path {
    this.#space()
    const root = this.#match(/\$\.(?:args|result|snapshot)(?![\p{L}\p{N}_-])/uy)?.slice(2)
    const found = roots.find((item) => item === root)
    if (!found) this.#fail('a path that begins with $.args, $.result or $.snapshot')
    const steps: Step[] = []
    for (let step = this.#step(); step !== undefined; step = this.#step()) {
      if (steps.push(step) > MAX_PATH_STEPS)
        throw new TypeError(`a path has more than ${MAX_PATH_STEPS} steps`)
    }
    return { root: found, steps }
  }

  #step(): Step | undefined {
    const next = this.#text[this.#at]
    if (next !== '.' && next !== '[') return undefined
    this.#at++
    if (next === '.') return this.#match(/[\p{L}\p{N}_-]+/uy) ?? this.#fail('the name of a member')
    if (this.#text[this.#at] === '"') return this.#closed(this.#string())
    const index = this.#match(/\d{1,9}|\*/y) ?? this.#fail('a number, *, or a name in double quotes')
    return this.#closed(index === '*' ? null : Number(index))
  }

  #closed<Step>(step: Step): Step {
    this.take(']', '"]"')
    return step
  }

  #value(): Value {
    this.#space()
    const next = this.#text[this.#at]
    if (next === '"') return { kind: 'literal', value: this.#string() }
    if (next === '$') return { kind: 'path', path: this.path() }
    if (next === '[' || next === '{') return this.#nested(next)
    if (next === "'") this.#fail('a text in double quotes')
    const word = this.#match(/(?:true|false|null)(?![\p{L}\p{N}_])/uy)
    if (word !== undefined) return { kind: 'literal', value: word === 'null' ? null : word === 'true' }
    return { kind: 'literal', value: this.#number() }
  }

  #number(): number | ExactNumber {
    const written = this.#match(/-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\p{L}\p{N}_.])/uy)
    if (written === undefined) return this.#fail('a value: JSON, or a path that begins with $')
    const value = numberOf(written)
    // JSON parsers disagree on negative zero.
    return value === 0 ? 0 : value
  }

  #nested(open: '[' | '{'): Value {
    this.#at++
    if (++this.#depth > MAX_DEPTH) throw new TypeError(`values are nested more than ${MAX_DEPTH} levels deep`)
    const value: Value =
      open === '['
        ? { kind: 'list', items: this.#items() }
        : { kind: 'object', members: this.members('}', () => this.named('a name in double quotes', ':')) }
    this.#depth--
    return value
  }

  #items(): Value[] {
    const items: Value[] = []
    if (this.has(']')) return items
    do items.push(this.#value())
    while (this.has(','))
    this.take(']', '"," or "]"')
    return items
  }

  #string(): string {
    const at = this.#at
    const written = this.#match(/"(?:[^"\\]|\\.)*"/sy)
    try {
      return String(parseJson(written ?? ''))
    } catch {
      throw new TypeError(`the text ${placed(at)} is not a JSON string in double quotes`)
    }
  }

  #match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at
    const found = pattern.exec(this.#text)?.[0]
    if (found !== undefined) this.#at += found.length
    return found
  }

  #space(): void {
    while (' \t\r\n'.includes(this.#text[this.#at] ?? 'x')) this.#at++
  }

  #fail(expected: string): never {
    const found = this.#text.slice(this.#at, this.#at + 12)
    const actual = found === '' ? 'it ends there' : `there is ${JSON.stringify(found)}`
    throw new TypeError(`expected ${expected} ${placed(this.#at)}; ${actual}`)
  }
}

function placed(at: number): string {
  return `at character ${at + 1}`
}

/** An expression as text, which parses to the same expression. */
export function printExpression({ tool, arguments: given, find: wanted }: Expression): string {
  const listed = [...given].map(([name, value]) => `${printName(name)}=${printValue(value)}`)
  const end = wanted ? ` -> ${printPath(wanted)}` : ''
  return `${printName(tool)}(${listed.join(', ')})${end}`
}

/** Whether the name of a tool or argument needs no quotes. */
function isPlainName(text: string): boolean {
  return /^[\p{L}_][\p{L}\p{N}_./-]*$/u.test(text)
}

function printName(name: string): string {
  return isPlainName(name) ? name : JSON.stringify(name)
}

function printValue(value: Value): string {
  if (value.kind === 'literal') return JSON.stringify(value.value)
  if (value.kind === 'path') return printPath(value.path)
  if (value.kind === 'list') return `[${value.items.map(printValue).join(', ')}]`
  const members = [...value.members].map(([key, each]) => `${JSON.stringify(key)}: ${printValue(each)}`)
  return `{${members.join(', ')}}`
}
