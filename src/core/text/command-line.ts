/** Splits and joins command lines with the quoting rules of a POSIX shell, without running one. */

/** The words of a command line, or a problem. `${…}` references in the words are not expanded. */
export type Split = { readonly words: readonly string[] } | { readonly problem: string }

/** Splits a command line at spaces like a shell, with quotes and backslashes but no other shell syntax. */
export function splitCommand(text: string): Split {
  const words: string[] = []
  let rest = skipSpace(text)
  while (rest !== '') {
    const word = readWord(rest)
    if ('problem' in word) return word
    words.push(word.text)
    rest = skipSpace(rest.slice(word.length))
  }
  return { words }
}

/** Joins words to a command line that `splitCommand` splits into the same words. */
export function joinCommand(words: readonly string[]): string {
  return words.map(quote).join(' ')
}

type Read = { readonly text: string; readonly length: number } | { readonly problem: string }

function skipSpace(text: string): string {
  return text.replace(/^(\s|\\\n)+/, '')
}

function readWord(line: string): Read {
  if (/^~(\/|\s|$)/.test(line)) return { problem: '`~` is not expanded: write ${HOME}' }
  let text = ''
  let at = 0
  while (at < line.length && !/\s/.test(line.charAt(at))) {
    const part = readPart(line.slice(at))
    if ('problem' in part) return part
    text += part.text
    at += part.length
  }
  return { text, length: at }
}

function readPart(rest: string): Read {
  const first = rest.charAt(0)
  if (first === "'") return singleQuoted(rest)
  if (first === '"') return doubleQuoted(rest)
  if (first === '\\') return escaped(rest, /[^]/)
  if (first === '$' || first === '`') return dollar(rest)
  const operator = /^(&&|\|\||>>|<<|[|&;<>])/.exec(rest)?.[0]
  return operator === undefined ? { text: first, length: 1 } : { problem: needsShell(operator) }
}

function singleQuoted(rest: string): Read {
  const end = rest.indexOf("'", 1)
  if (end === -1) return { problem: 'a single quote is not closed' }
  return { text: rest.slice(1, end), length: end + 1 }
}

function doubleQuoted(rest: string): Read {
  let text = ''
  let at = 1
  while (rest.charAt(at) !== '"') {
    if (at >= rest.length) return { problem: 'a double quote is not closed' }
    const part = readInDoubleQuotes(rest.slice(at))
    if ('problem' in part) return part
    text += part.text
    at += part.length
  }
  return { text, length: at + 1 }
}

function readInDoubleQuotes(rest: string): Read {
  const first = rest.charAt(0)
  if (first === '\\') return escaped(rest, /["\\$`\n]/)
  if (first === '$' || first === '`') return dollar(rest)
  return { text: first, length: 1 }
}

function escaped(rest: string, escapable: RegExp): Read {
  const next = rest.charAt(1)
  if (next === '') return { problem: 'it ends with a backslash that escapes nothing' }
  if (!escapable.test(next)) return { text: '\\', length: 1 }
  if (next === '\n') return { text: '', length: 2 }
  // References are expanded later, so the escape is kept.
  return { text: next === '$' && rest.charAt(2) === '{' ? '$$' : next, length: 2 }
}

function dollar(rest: string): Read {
  const reference = /^\${1,2}\{[^}]*\}?/.exec(rest)?.[0]
  if (reference !== undefined) return { text: reference, length: reference.length }
  if (rest.startsWith('`')) return { problem: needsShell('a backtick') }
  if (rest.startsWith('$(')) return { problem: needsShell('$(') }
  if (/^\$[A-Za-z_]/.test(rest)) return { problem: 'write a variable with braces, as in ${NAME}' }
  return { text: '$', length: 1 }
}

function needsShell(operator: string): string {
  const named = operator === 'a backtick' ? operator : `\`${operator}\``
  return `${named} needs a shell, and commands run without one: quote it, or write \`command: [sh, -c, '…']\``
}

function quote(word: string): string {
  if (/^(?!~)([\w@%+=:,./-]|\$\{\w+\})+$/.test(word)) return word
  return singleQuotes(word)
}

/** A word for a POSIX shell, which expands nothing in it. */
export function shellWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : singleQuotes(word)
}

function singleQuotes(word: string): string {
  return `'${word.replaceAll("'", `'\\''`)}'`
}
