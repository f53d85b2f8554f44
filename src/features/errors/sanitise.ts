/**
 * Removes stack traces, secrets, hosts and paths from foreign messages, except what the caller itself sent.
 */
import { withoutSecrets } from '../../core/text/redact.ts'

/** The maximum length of a text, in characters. */
const MAX_TEXT = 65_536

/** What the caller sent: errors may repeat it. */
export interface Sent {
  /** Whether the caller sent text that contains this. */
  has(text: string): boolean
  /** The longest text sent by the caller with which a path ends. */
  tailOf(path: string): string | undefined
  /** Whether an argument has this name. */
  hasKey(key: string): boolean
  /** A text without the secrets of the configuration. */
  withoutConfiguredSecrets?(text: string): string
}

type Replace = (sent: Sent, found: string, groups: readonly string[]) => string
type Rule = readonly [RegExp, Replace]

/**
 * A server's text without internal details: stack traces, secrets, queries with values, and hosts and paths that the
 * caller did not send.
 */
export function sanitise(text: string, sent: Sent): string {
  // Before shortening, which could leave an unrecognisable part of a secret.
  const redacted = sent.withoutConfiguredSecrets?.(text) ?? text
  let rest = redacted.length > MAX_TEXT ? `${redacted.slice(0, MAX_TEXT - 1)}…` : redacted
  // Removing one match can make another one visible.
  for (let round = 0; round < MAX_ROUNDS; round++) {
    const before = rest
    rest = applyRules(before, sent)
    if (rest === before) break
  }
  return rest.slice(0, MAX_TEXT)
}

const MAX_ROUNDS = 4

function applyRules(text: string, sent: Sent): string {
  return rules.reduce(
    (before, [pattern, replace]) =>
      before.replaceAll(pattern, (found: string, ...groups: string[]) => replace(sent, found, groups)),
    withoutSecrets(withoutFrames(text)),
  )
}

const unlessSent =
  (mark: string): Replace =>
  (sent, found) =>
    sent.has(found) ? found : mark

const queries: readonly Rule[] = [
  [
    /(?<!\w)(?:select\b[^\n;]{1,500}?\bfrom|insert\s{1,5}into|update\s{1,5}\S{1,100}\s{1,5}set|delete\s{1,5}from|merge\s{1,5}into|exec(?:ute)?\s{1,5}\S{1,100})\b[^\n;]{0,4000}/gi,
    (sent, found) => (hasValues(found) && !sent.has(found) ? '[query]' : found),
  ],
]

const paths: readonly Rule[] = [
  [/(?<=(["'`]))(?:file:\/\/)?(?:~?\/(?!\/)|[A-Za-z]:[\\/]|\\\\)[^"'`\n]{1,1000}(?=\1)/g, path],
  [/(?<![\w./\\\]~-])(?:file:\/\/|~)?\/(?!\/)[^\s'"`<>|:*?;,(){}[\]\\]{1,1000}/g, path],
  [/(?<!\w)[A-Za-z]:(?:\\|\/(?!\/))[^\s'"`<>|:*?;,(){}[\]]{1,1000}/g, path],
  [/(?<![\w\\])\\\\[\w.-]{1,200}\\[^\s'"`<>|:*?;,(){}[\]]{1,1000}/g, path],
]

const port = String.raw`(?::\d{1,5}(?!\d))?`
const privateNet = [
  String.raw`(?:10|127)(?:\.\d{1,3}){3}`,
  String.raw`(?:192\.168|169\.254|172\.(?:1[6-9]|2\d|3[01])|100\.(?:6[4-9]|[7-9]\d|1[01]\d|12[0-7]))(?:\.\d{1,3}){2}`,
].join('|')
const innerName = String.raw`(?:[a-z0-9_][a-z0-9_-]{0,62}\.){1,8}(?:internal|local|localdomain|lan|corp|intranet|home\.arpa|svc(?:\.cluster\.local)?)`

const hosts: readonly Rule[] = [
  [
    /\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|EHOSTUNREACH|ENETUNREACH|ETIMEDOUT)(\s{1,3})([\w.:-]{1,253}[\w])/g,
    (sent, found, [code = '', gap = '', host = '']) => {
      // A single label belongs to a private network; private names with more labels match the rules below.
      const isLabel = /^[\w-]+(?::\d+)?$/.test(host)
      const isName = /[:\d-]/.test(host) || code === 'ENOTFOUND' || code === 'EAI_AGAIN'
      return isLabel && isName && !sent.has(host) ? `${code}${gap}[host]` : found
    },
  ],
  [new RegExp(String.raw`(?<![\w.])(?:${privateNet})${port}(?![\w.]*\w)`, 'g'), unlessSent('[host]')],
  [new RegExp(String.raw`(?<![\w.-])${innerName}${port}(?!\.?[\w-])`, 'gi'), unlessSent('[host]')],
  [/(?<![\w.-])localhost:\d{1,5}(?!\d)/gi, unlessSent('[host]')],
  [
    /(?<![\w:])\[?(?:::1|fe80:[0-9a-f:]{2,40}|f[cd][0-9a-f]{2}:[0-9a-f:]{2,40})(?![\w:])\]?(?::\d{1,5})?/gi,
    unlessSent('[host]'),
  ],
]

const rules: readonly Rule[] = [...queries, ...paths, ...hosts]

function hasValues(query: string): boolean {
  return /'[^'\n]{0,1000}'|=\s{0,3}-?\d|\bvalues\s{0,3}\(|\bin\s{0,3}\(|[<>]\s{0,3}\d|"[^"\n]{1,1000}"/i.test(
    query,
  )
}

const roots = new Set(
  'home users root etc var tmp usr opt srv mnt media app proc sys dev run private workspace workspaces data lib lib64 bin sbin boot snap nix library applications system volumes code src build dist'.split(
    ' ',
  ),
)

function path(sent: Sent, found: string): string {
  const end = /[.!]{1,3}$/.exec(found)?.[0] ?? ''
  const body = end === '' ? found : found.slice(0, -end.length)
  const steps = body
    .replace(/^file:\/\//, '')
    .split(/[\\/]/)
    .filter((step) => step !== '')
  const [first = ''] = steps
  const isPlace = body.startsWith('/')
  // A JSON pointer, or one step of a URL.
  if (isPlace && (sent.hasKey(first) || (steps.length < 2 && !roots.has(first.toLowerCase())))) return found
  if (sent.has(body)) return found
  const tail = sent.tailOf(body)
  return tail === undefined ? `[path]${end}` : `[path]${body.slice(-tail.length - 1)}${end}`
}

const frames: readonly RegExp[] = [
  // JavaScript, Java, Kotlin, Rust: `at call (place:12:5)`.
  /^\s*at\s.{1,500}:\d{1,7}\)?\s*$/,
  /^\s*at\s.{1,500}(?:<anonymous>|\(native\)|\(Native Method\)|\(Unknown Source\))\)?\s*$/,
  /^\s*\.\.\. \d{1,6} (?:more|common frames omitted)\s*$/,
  // C#
  /^\s*at\s.{1,500} in .{1,500}:line \d{1,7}\s*$/,
  /^\s+at\s+[\w.<>`+[\],$]{1,300}\(.{0,300}\)\s*$/,
  /^\s*--- End of .{0,200}stack trace.{0,100}---\s*$/,
  // Python
  /^\s*Traceback \(most recent call last\):\s*$/,
  /^\s*[~^]{2,200}\s*$/,
  // Go
  /^\s*goroutine \d{1,12} \[.{1,100}\]:\s*$/,
  /^\s*created by \S{1,300}(?: in goroutine \d{1,12})?\s*$/,
  // Ruby and PHP
  /^\s*(?:from\s)?\S{1,300}\.rb:\d{1,7}:in\s.{0,300}$/,
  /^\s*#\d{1,4} .{1,500}$/,
]

const pythonFile = /^\s*File ".{1,500}", line \d{1,7}(?:, in .{1,200})?\s*$/
const goFile = /^\s+\S{1,500}\.go:\d{1,7}(?: \+0x[0-9a-f]{1,16})?\s*$/
const goCall = /^\s*[\w./*()-]{1,300}\(.{0,300}\)\s*$/
const indented = /^ {4,}\S/

const inLine: readonly RegExp[] = [
  / at (?:async )?(?:[\w.$<>[\]]{1,200} ){1,4}\((?:file:|node:|\/|[A-Za-z]:\\)[^\s()]{1,500}:\d{1,7}:\d{1,7}\)/g,
  / at [\w.$]{1,300}\([\w$]{1,100}\.(?:java|kt|scala|groovy|cs):\d{1,7}\)/g,
  /File "[^"\n]{1,500}", line \d{1,7}(?:, in [\w<>.]{1,200})?/g,
]

/** A text without stack traces, whole lines and parts of lines. */
function withoutFrames(text: string): string {
  // JSON inside a text has escaped line ends.
  const parts = text.split(/(\r?\n|\\n)/)
  const kept: string[] = []
  let isCode = false
  for (let at = 0; at < parts.length; at += 2) {
    const line = parts[at] ?? ''
    const isFile = pythonFile.test(line)
    if (goFile.test(line) && goCall.test(kept.at(-1) ?? '')) kept.splice(-2)
    const isDropped: boolean =
      isFile || goFile.test(line) || (isCode && indented.test(line)) || frames.some((each) => each.test(line))
    isCode = isFile || (isCode && isDropped)
    if (!isDropped) kept.push(at === 0 || kept.length === 0 ? '' : (parts[at - 1] ?? ''), line)
  }
  return inLine.reduce((rest, each) => rest.replaceAll(each, ''), kept.join(''))
}
