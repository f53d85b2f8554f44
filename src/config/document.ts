import { isAlias, isMap, isNode, isScalar, isSeq, LineCounter, parseDocument } from 'yaml'
import type { Document, Node, Pair } from 'yaml'
import type { Finding, Position } from './problem.ts'
import { syntaxFindings } from './syntax.ts'

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
