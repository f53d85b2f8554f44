/** The YAML document of a configuration: its values with the position of each, and its syntax errors as messages. */
import {
  isAlias,
  isMap,
  isNode,
  isScalar,
  isSeq,
  LineCounter,
  parseDocument,
  type Document,
  type Node,
  type Pair,
  type Scalar,
  type YAMLError,
} from 'yaml'
import { numberOf } from '../core/json/exact-number.ts'
import { type ConfigProblem, type Finding, pathText, type Position } from './problem.ts'

/** A YAML text as plain values with their positions. */
interface ConfigDocument {
  readonly value: unknown
  readonly problems: readonly Finding[]
  readonly warnings: readonly Finding[]
  /** Whether syntax errors make the values meaningless. */
  readonly isBroken: boolean
  /** The position of a finding: its key or value, else the nearest parent key. */
  place(finding: Finding): Position
  /** The source text of a scalar, so that `1.10` does not become `1.1`. */
  source(path: readonly string[]): string | undefined
}

/** Parses a YAML text and collects all problems. */
export function readDocument(text: string): ConfigDocument {
  const lines = new LineCounter()
  const document = parseDocument(text, { prettyErrors: false, lineCounter: lines })
  const placeOf = (offset: number): Position => {
    const { line, col } = lines.linePos(offset)
    return { line: Math.max(line, 1), column: Math.max(col, 1) }
  }
  const problems = syntaxFindings(document.errors, text, placeOf)
  const found = readValues(document, placeOf)
  return {
    value: found.value,
    problems: [...problems, ...found.problems],
    warnings: syntaxFindings(document.warnings, text, placeOf),
    isBroken: document.errors.some(({ code }) => code !== 'DUPLICATE_KEY'),
    place: (finding) => finding.place ?? placeOf(offsetOf(document, finding)),
    source: (path) => sourceOf(document, path),
  }
}

const most = { nodes: 50_000, depth: 64 }

function readValues(
  document: Document,
  placeOf: (offset: number) => Position,
): { readonly value: unknown; readonly problems: readonly Finding[] } {
  const problems: Finding[] = []
  let nodes = 0

  const complain = (node: unknown, path: readonly string[], message: string): void => {
    problems.push({ path, message, ...(isNode(node) && { place: placeOf(node.range?.[0] ?? 0) }) })
  }
  const read = (node: unknown, path: readonly string[]): unknown => {
    nodes += 1
    if (nodes > most.nodes || path.length > most.depth) return undefined
    if (isAlias(node)) {
      const target = node.resolve(document)
      if (!target) complain(node, path, `the anchor &${node.source} is not defined above`)
      return target && read(target, path)
    }
    if (isSeq(node)) return node.items.map((item, index) => read(item, [...path, String(index)]))
    if (isMap(node)) return Object.fromEntries(node.items.map((pair) => entry(pair, path)))
    return isScalar(node) ? scalarValue(node) : null
  }
  const entry = (pair: Pair, path: readonly string[]): readonly [string, unknown] => {
    const key = keyText(pair)
    if (key === undefined) complain(pair.key, path, 'a key must be a plain scalar')
    return [key ?? '', read(pair.value, [...path, key ?? ''])]
  }
  const value = read(document.contents, [])
  // Anchors can expand a small text to a huge value.
  if (nodes > most.nodes) complain(document.contents, [], `expands to more than ${most.nodes} values`)
  return { value, problems }
}

/** The value of a scalar; numbers that a double cannot hold keep their digits. */
function scalarValue({ value, source = '' }: Scalar): unknown {
  if (typeof value !== 'number') return value
  if (/^0[xo]/.test(source)) return numberOf(String(BigInt(source)))
  return /^[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?$/i.test(source) ? numberOf(source.replace('+', '')) : value
}

function keyText(pair: Pair): string | undefined {
  if (!isScalar(pair.key)) return undefined
  return pair.key.source ?? String(pair.key.value)
}

interface Spot {
  readonly key: Node | undefined
  readonly value: unknown
  readonly isExact: boolean
}

function spotAt(document: Document, path: readonly string[]): Spot {
  let spot: Spot = { key: undefined, value: document.contents, isExact: true }
  for (const segment of path) {
    const inner = isAlias(spot.value) ? spot.value.resolve(document) : spot.value
    const pair = isMap(inner) ? inner.items.find((item) => keyText(item) === segment) : undefined
    const item = isSeq(inner) ? inner.items[Number(segment)] : undefined
    if (pair === undefined && item === undefined) return { ...spot, isExact: false }
    const key = pair ? pair.key : item
    spot = { key: isNode(key) ? key : undefined, value: pair ? pair.value : item, isExact: true }
  }
  return spot
}

function offsetOf(document: Document, { path, at }: Finding): number {
  const { key, value, isExact } = spotAt(document, path)
  const points = isExact && at !== 'key' && isScalar(value) && value.value !== null ? value : key
  return points?.range?.[0] ?? document.contents?.range?.[0] ?? 0
}

function sourceOf(document: Document, path: readonly string[]): string | undefined {
  const { value, isExact } = spotAt(document, path)
  const node = isAlias(value) ? value.resolve(document) : value
  if (!isExact || !isScalar(node)) return undefined
  return typeof node.value === 'string' ? node.value : (node.source ?? String(node.value))
}

/** The errors of the YAML parser as findings: the first of each line, because the others follow from it. */
function syntaxFindings(
  errors: readonly YAMLError[],
  text: string,
  placeOf: (offset: number) => Position,
): Finding[] {
  const lines = new Map<string, Finding>()
  for (const error of errors) {
    const deeper = deeperLine(error, text)
    const place = placeOf(deeper ?? error.pos[0])
    const line = text.split('\n')[place.line - 1] ?? ''
    const isRepeat = error.code === 'DUPLICATE_KEY'
    const key = isRepeat ? `${place.line}:${place.column}` : String(place.line)
    if (!lines.has(key))
      lines.set(key, {
        path: [],
        place,
        message: deeper === undefined ? meaning(error, line, text) : NESTING_PATTERN,
      })
  }
  return [...lines.values()]
}

const NESTING_PATTERN =
  'this is indented further than the line above, which already has a value: align the two, or remove that value'

/**
 * The position of a key below a value and further to the right, which a parser reads as a continuation of the value:
 * it reports the line above, which is correct.
 */
function deeperLine({ code, pos: [start] }: YAMLError, text: string): number | undefined {
  if (code !== 'BLOCK_AS_IMPLICIT_KEY' && code !== 'MULTILINE_IMPLICIT_KEY') return undefined
  const line = text.slice(text.lastIndexOf('\n', start - 1) + 1, start)
  const [, rest = '', gap = '', indent = ''] =
    /^([^\n]*)(\n(?:[ ]*(?:#[^\n]*)?\n)*)([ ]*)[^\s#]/.exec(text.slice(start)) ?? []
  const own = /^ */.exec(line)?.[0].length ?? 0
  // A second `: ` on the same line is another mistake.
  if (gap === '' || indent.length <= own || /:\s/.test(rest)) return undefined
  return start + rest.length + gap.length + indent.length
}

// Messages of the parser may quote the file, which may contain a secret, so they are not used.
function meaning(error: YAMLError, line: string, text: string): string {
  if (error.code === 'DUPLICATE_KEY') return `the key ${keyAt(text, error.pos[0])} is duplicated: keep one`
  if (/[{[,].*\$\{/.test(line)) return 'a ${…} inside { } or [ ] must be quoted: "${NAME}"'
  return meanings[error.code] ?? 'this is not valid YAML'
}

function keyAt(text: string, offset: number): string {
  return JSON.stringify(/^[\w-]+/.exec(text.slice(offset))?.[0] ?? 'here')
}

const meanings: Partial<Record<YAMLError['code'], string>> = {
  ALIAS_PROPS: 'an alias cannot have an anchor or tag',
  BAD_ALIAS: 'this alias is not valid',
  BAD_DQ_ESCAPE: 'this backslash escape is not valid in double quotes: use single quotes, or write \\\\',
  BAD_INDENT: 'the indentation does not match the lines above',
  BAD_SCALAR_START: 'a value cannot start with this character: put it in quotes',
  BLOCK_AS_IMPLICIT_KEY: 'there is a second `: ` on this line: put the value in quotes',
  BLOCK_IN_FLOW: 'a block value is not allowed inside { } or [ ]',
  MISSING_CHAR: 'something is missing here: a closing quote or bracket, or the colon after a key',
  MULTILINE_IMPLICIT_KEY: 'a key must be on one line: a colon may be missing',
  MULTIPLE_ANCHORS: 'a value can have only one anchor',
  MULTIPLE_DOCS: 'the file must contain one document: remove this `---` and everything after it',
  MULTIPLE_TAGS: 'a value can have only one tag',
  TAB_AS_INDENT: 'a tab cannot be used for indentation: use spaces',
  TAG_RESOLVE_FAILED: 'this tag is unknown and has no effect: remove it, or quote a value that starts with !',
  UNEXPECTED_TOKEN: 'unexpected text: a quote, bracket or colon may be missing or misplaced',
}

/** Findings with their positions in a document of this file, in the order of the file. */
export function locate(
  findings: readonly Finding[],
  document: ConfigDocument,
  file: string,
): ConfigProblem[] {
  const located = findings.map((finding) => {
    return { file, ...document.place(finding), path: pathText(finding.path), message: finding.message }
  })
  return located.toSorted((one, other) => one.line - other.line || one.column - other.column)
}
