/**
 * The line of a configuration that a problem points at, with a caret under the column. What is a secret by its key, or looks
 * like one, is masked: under keys such as `env`, `headers` and `auth` every value, also if such a key is misspelt.
 */
import { withoutSecrets } from '../core/text/redact.ts'
import { isSecretName } from '../core/text/secret.ts'
import { nearest } from '../core/text/words.ts'
import type { ConfigProblem } from './problem.ts'
import { holdsPassword, looksLikeToken, namesSecret } from './secrets.ts'

/** The maximum length of the excerpt on each side of the column, in characters. */
const MAX_SIDE_LENGTH = 60

/** The excerpt as indented lines; empty if the problem has no position in the text. */
export function excerptOf({ line, column }: ConfigProblem, text: string): string {
  const lines = text.split('\n')
  const target = lines[line - 1]?.replaceAll('\t', ' ').trimEnd()
  if (target === undefined || target === '' || column < 1) return ''
  const isSecret = isUnderSecret(lines, line - 1) || openKeys(lines.slice(0, line - 1)).some(isSecretKey)
  const pieces = masked(target, isSecret)
  const head = pieces.filter(({ at }) => at < column - 1)
  // The column may be inside of a piece, such as a quoted command: the caret is then below its beginning.
  const isInside = head.some(({ at, end }) => at < column - 1 && column - 1 < end)
  const before = textOfPieces(isInside ? head.slice(0, -1) : head)
  const after = textOfPieces(pieces).slice(before.length)
  const left = before.length > MAX_SIDE_LENGTH ? `…${before.slice(-MAX_SIDE_LENGTH)}` : before
  const right = after.length > MAX_SIDE_LENGTH ? `${after.slice(0, MAX_SIDE_LENGTH)}…` : after
  const number = String(line).padStart(5)
  return `${number} | ${left}${right}\n${' '.repeat(number.length)} | ${' '.repeat(left.length)}^\n`
}

/** A part of a line: a word, a quoted text, a bracket, or what is between; `shown` is in its place. */
interface Piece {
  readonly at: number
  readonly end: number
  readonly shown: string
}

function textOfPieces(pieces: readonly Piece[]): string {
  return pieces.map(({ shown }) => shown).join('')
}

const PIECE =
  /"(?:[^"\\]|\\.)*"?|'[^']*'?|[{}[\],]|\s+|[^\s{}[\],"':](?:[^\s{}[\],"':]|:(?=\S)(?!["'{[]))*:?|:/g

/**
 * The pieces of a line with secrets masked; `isSecret` if a parent key says that its values are secrets. Afterwards `parents`
 * has the keys of the brackets that are open.
 */
function masked(line: string, isSecret: boolean, parents: string[] = []): readonly Piece[] {
  let key = ''
  let previous = ''
  const pieces: Piece[] = []
  for (const { 0: text, index: at } of line.matchAll(PIECE)) {
    if (text.startsWith('#')) break
    const name = keyIn(text, line.slice(at + text.length))
    const isHidden = isSecret || [...parents, key].some(isSecretKey) || isSecretOption(previous)
    if (text === '{' || text === '[') parents.push(key)
    if (text === '}' || text === ']') key = parents.pop() ?? ''
    if (text === ',' && !line.slice(0, at).trimEnd().endsWith(']'))
      key = key === '' ? '' : (parents.at(-1) ?? '')
    const isMark = /^(?:[{}[\],:\s-]*)$/.test(text)
    pieces.push({
      at,
      end: at + text.length,
      shown: isMark ? text : shownPiece(text, name !== undefined, isHidden),
    })
    if (name !== undefined) key = name
    if (!isMark) previous = text.replaceAll(/["']/g, '')
  }
  return pieces
}

/** The keys of the brackets that these lines leave open. */
function openKeys(lines: readonly string[]): readonly string[] {
  const parents: string[] = []
  for (const line of lines) masked(line, true, parents)
  return parents
}

/** The key that a piece is, if it is one: a colon ends it or follows. */
function keyIn(text: string, rest: string): string | undefined {
  if (/^["']/.test(text)) return /^\s*:/.test(rest) ? text.slice(1, -1) : undefined
  return text.length > 1 && text.endsWith(':') ? text.slice(0, -1) : undefined
}

function shownPiece(text: string, isKey: boolean, isHidden: boolean): string {
  if (isKey) return looksMixed(text) ? `***${text.endsWith(':') ? ':' : ''}` : text
  if (isHidden) return NOT_SECRET.test(text) ? text : '***'
  return withoutSecrets(text.replaceAll(/[^\s"']+/g, shownWord))
}

function shownWord(word: string): string {
  const [, name = '', mark = '', value = ''] = /^-{0,2}([\w.-]+)([=:])(.+)$/.exec(word) ?? []
  if (value !== '' && namesSecret(name)) return `${word.slice(0, -value.length - 1)}${mark}***`
  return looksLikeToken(word) || holdsPassword(word) || looksMixed(word) ? '***' : word
}

/** Whether a word has a long run of letters and digits, as generated secrets and some passwords do. */
function looksMixed(word: string): boolean {
  return (word.match(/[A-Za-z\d+=]{10,}/g) ?? []).some((run) => /\d/.test(run) && /[A-Za-z]/.test(run))
}

/** Values that cannot be secrets. */
const NOT_SECRET = /^(?:\d{1,6}|on|off|true|false)$/
/** Keys whose values are or may be secrets. */
const SECRET_PARENTS =
  'env envs environment headers header auth oauth token tokens users traces key apikey secret secrets password credential credentials'.split(
    ' ',
  )

/** Whether a key has secrets as its values, or could be the misspelt name of one that has. */
function isSecretKey(key: string): boolean {
  return key !== '' && (isSecretName(key) || nearest(key, SECRET_PARENTS) !== undefined)
}

/** Whether the word after this one is a secret: the value of an option. */
function isSecretOption(word: string): boolean {
  const name = /^--?([\w.-]+)$/.exec(word)?.[1]
  return name !== undefined && (namesSecret(name) || /^(?:H|e|env|header|u|user)$/.test(name))
}

/** Whether one of the parent keys of a line has secrets as its values. */
function isUnderSecret(lines: readonly string[], at: number): boolean {
  const own = /^(\s*)(-?)/.exec(lines[at] ?? '')
  // The items of a list may be as far left as its key.
  let indent = (own?.[1]?.length ?? 0) + (own?.[2] === '-' ? 1 : 0)
  for (let index = at - 1; index >= 0 && indent > 0; index--) {
    const [, margin = '', key] = /^(\s*(?:-\s+)?)["']?([\w.-]+)["']?\s*:/.exec(lines[index] ?? '') ?? []
    if (key === undefined || margin.length >= indent) continue
    if (isSecretKey(key)) return true
    indent = margin.length
  }
  return false
}
