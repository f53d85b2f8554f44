/**
 * The line of a configuration that a problem points at, with a caret under the column. Values that are or may be
 * secrets are never shown: those under keys such as `env`, `headers` and `auth`, whatever looks like one, and those
 * beside a key that is a mistake, which may be a misspelt one. Of a line that is no single key with a plain value (JSON,
 * lists, quotes that do not end) only the words that can be keys of the configuration are shown.
 */
import type { ConfigProblem } from '../../config/problem.ts'
import { isTelling, withoutSecrets } from '../../core/text/redact.ts'

/** How much of a line is shown on each side of the column, in characters. */
const MAX_SIDE = 60
/** Keys whose values are secrets, or may be. */
const SECRET_PARENTS = /^(?:env|headers|auth|oauth|token|tokens|users|traces)$/

/** A key with a plain value, or with none: what stands there is read as it is written. */
const PLAIN_LINE = /^\s*(?:-\s+)?[\w.-]+\s*:(?:\s+[^\s"'{}[\],#&*!|>%@`-][^"'{}[\],#]*)?$/
/** Keys of the configuration; names of servers and tools, and what is no key at all, may be something else. */
const OWN_KEY = /^[a-z][a-z_]{0,23}$/
/** Values that no secret is. */
const HARMLESS = /^(?:\d{1,6}|on|off|true|false)$/

/** The excerpt, indented and on lines of its own; nothing where the problem points at no line of the text. */
export function excerptOf({ line, column }: ConfigProblem, text: string): string {
  const lines = text.split('\n')
  const own = lines[line - 1]?.replaceAll('\t', ' ').trimEnd()
  if (own === undefined || own === '' || column < 1) return ''
  const [head, tail] = [own.slice(0, column - 1), own.slice(column - 1)]
  const isPlain = PLAIN_LINE.test(own)
  const isSecret = isUnderSecret(lines, line - 1) || endsTelling(head)
  const before = isPlain ? head : onlyKeys(head)
  const after = isPlain ? shownFrom(tail, isSecret) : onlyKeys(tail)
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

/** A piece without anything but brackets, commas, and words that can be keys of the configuration before a colon. */
function onlyKeys(text: string): string {
  return text.replaceAll(
    /(["']?)([^\s"'{}[\],:]+)\1(?=["']?\s*:)|[^\s{}[\],:]+/g,
    (found, _quote, key?: string) => (key !== undefined && OWN_KEY.test(key) ? found : '***'),
  )
}

/** The piece of a plain line that begins at the column: with its key, or with its value. */
function shownFrom(text: string, isSecret: boolean): string {
  const [, key, value = ''] = /^([\w.-]+\s*:)(?:\s+(.*))?$/.exec(text) ?? []
  if (key === undefined) return isSecret ? '***' : withoutSecrets(text)
  if (value === '') return key
  return !isSecret && HARMLESS.test(value) ? text : `${key} ***`
}
