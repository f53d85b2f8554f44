/**
 * The line of a configuration that a problem points at, with a caret under the column. Values that are or may be
 * secrets are never shown: those under keys such as `env`, `headers` and `auth`, and whatever looks like one.
 */
import type { ConfigProblem } from '../config/problem.ts'
import { isTelling } from '../core/redact.ts'
import { withoutSecrets } from '../core/secret-shapes.ts'

/** How much of a line is shown on each side of the column, in characters. */
const MAX_SIDE = 60
/** Keys whose values are secrets, or may be. */
const SECRET_PARENTS = /^(?:env|headers|auth|oauth|token|tokens|users|traces)$/

/** The excerpt, indented and on lines of its own; nothing where the problem points at no line of the text. */
export function excerptOf({ line, column }: ConfigProblem, text: string): string {
  const lines = text.split('\n')
  const own = lines[line - 1]?.replaceAll('\t', ' ').trimEnd()
  if (own === undefined || own === '' || column < 1) return ''
  const isSecret = isUnderSecret(lines, line - 1)
  const before = masked(own.slice(0, column - 1), isSecret)
  const after = maskedFrom(own.slice(column - 1), isSecret || endsTelling(own.slice(0, column - 1)))
  const left = before.length > MAX_SIDE ? `…${before.slice(-MAX_SIDE)}` : before
  const right = after.length > MAX_SIDE ? `${after.slice(0, MAX_SIDE)}…` : after
  const number = String(line).padStart(5)
  return `${number} | ${left}${right}\n${' '.repeat(number.length)} | ${' '.repeat(left.length)}^\n`
}

/** Whether a line, or one it stands under, has a key whose values may be secrets. */
function isUnderSecret(lines: readonly string[], at: number): boolean {
  let indent = Infinity
  for (let index = at; index >= 0; index--) {
    const line = lines[index] ?? ''
    const found = /^(\s*(?:-\s+)?)["']?([\w.-]+)["']?\s*:/.exec(line)
    const depth = found?.[1]?.length ?? Infinity
    if (index !== at && depth >= indent) continue
    if (index === at && /["']?\b(?:env|headers|auth|oauth)\b["']?\s*:/.test(line)) return true
    if (found?.[2] !== undefined && (SECRET_PARENTS.test(found[2]) || isTelling(found[2]))) return true
    indent = Math.min(indent, depth === Infinity ? (/^\s*/.exec(line)?.[0].length ?? 0) : depth)
    if (indent === 0) return false
  }
  return false
}

/** Whether a value follows whose key says that it is a secret. */
function endsTelling(before: string): boolean {
  const key = /["']?([\w.-]+)["']?\s*:\s*$/.exec(before)?.[1]
  return key !== undefined && isTelling(key)
}

/** A piece that ends before the column, with each value replaced where the line is secret. */
function masked(text: string, isSecret: boolean): string {
  return isSecret ? text.replaceAll(/(:\s+|:\s*["'])[^\s,{}[\]][^,{}[\]]*/g, '$1***') : withoutSecrets(text)
}

/** A piece that begins at the column: with a key, or with a value. */
function maskedFrom(text: string, isSecret: boolean): string {
  if (!isSecret) return withoutSecrets(text)
  const key = /^["']?[\w.-]+["']?\s*:(?=\s|$)/.exec(text)?.[0]
  if (key === undefined) return '***'
  return key.length === text.length ? key : `${key} ***`
}
