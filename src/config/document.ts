/** The YAML document with the place of every value, and syntax errors in words. */
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
  type YAMLError,
} from 'yaml'
import type { Finding, Position } from './problem.ts'

/** A YAML text as plain values that still know where they stood. */
export interface ConfigDocument {
  readonly value: unknown
  readonly problems: readonly Finding[]
  readonly warnings: readonly Finding[]
  /** Whether the text is so broken that its values mean nothing. */
  readonly isBroken: boolean
  /** Where a finding points: its key or value, else the nearest key above it. */
  place(finding: Finding): Position
  /** A scalar as it is written, so that `1.10` does not become `1.1`. */
  source(path: readonly string[]): string | undefined
}

/** Reads a YAML text, collecting every problem. */
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
      if (!target) complain(node, path, `there is no anchor &${node.source} above this`)
      return target && read(target, path)
    }
    if (isSeq(node)) return node.items.map((item, index) => read(item, [...path, String(index)]))
    if (isMap(node)) return Object.fromEntries(node.items.map((pair) => entry(pair, path)))
    return isScalar(node) ? node.value : null
  }
  const entry = (pair: Pair, path: readonly string[]): readonly [string, unknown] => {
    const key = keyText(pair)
    if (key === undefined) complain(pair.key, path, 'a key must be a plain word')
    return [key ?? '', read(pair.value, [...path, key ?? ''])]
  }
  const value = read(document.contents, [])
  // Anchors can make a small text stand for an endless value.
  if (nodes > most.nodes) complain(document.contents, [], `stands for more than ${most.nodes} values`)
  return { value, problems }
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

/** What a YAML parser complains of, as findings: the first of each line, since the rest follow from it. */
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
  'this is indented further than the line above, which has a value already: align the two, or remove that value'

/**
 * Where a key begins that stands below a value and further to the right, which a parser takes for the rest of the value:
 * it complains of the line above, where nothing is wrong.
 */
function deeperLine({ code, pos: [start] }: YAMLError, text: string): number | undefined {
  if (code !== 'BLOCK_AS_IMPLICIT_KEY' && code !== 'MULTILINE_IMPLICIT_KEY') return undefined
  const line = text.slice(text.lastIndexOf('\n', start - 1) + 1, start)
  const [, rest = '', gap = '', indent = ''] =
    /^([^\n]*)(\n(?:[ ]*(?:#[^\n]*)?\n)*)([ ]*)[^\s#]/.exec(text.slice(start)) ?? []
  const own = /^ */.exec(line)?.[0].length ?? 0
  // A second `: ` on its own line is another mistake.
  if (gap === '' || indent.length <= own || /:\s/.test(rest)) return undefined
  return start + rest.length + gap.length + indent.length
}

// The parser's own words are not used where they repeat a piece of the file, which may be a secret.
function meaning(error: YAMLError, line: string, text: string): string {
  if (error.code === 'DUPLICATE_KEY') return `the key ${keyAt(text, error.pos[0])} is given twice: keep one`
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
  BAD_INDENT: 'the indentation does not fit the lines above',
  BAD_SCALAR_START: 'a value cannot start with this character: put it in quotes',
  BLOCK_AS_IMPLICIT_KEY: 'there is a second `: ` on this line: put the value in quotes',
  BLOCK_IN_FLOW: 'a block value cannot stand inside { } or [ ]',
  MISSING_CHAR: 'something is missing here: a closing quote or bracket, or the colon after a key',
  MULTILINE_IMPLICIT_KEY: 'a key must be on one line: a colon may be missing',
  MULTIPLE_ANCHORS: 'a value can have only one anchor',
  MULTIPLE_DOCS: 'the file must hold one document: remove this `---` and what follows',
  MULTIPLE_TAGS: 'a value can have only one tag',
  TAB_AS_INDENT: 'a tab cannot be used for indentation: use spaces',
  TAG_RESOLVE_FAILED:
    'this tag is not known and has no effect: remove it, or put a value that starts with ! in quotes',
  UNEXPECTED_TOKEN:
    'this was not expected here: a quote, bracket or colon may be missing or in the wrong place',
}
