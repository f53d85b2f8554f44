import { escapeHidden } from '../core/hidden.ts'
import { isObject } from '../core/json.ts'

/** What can stand in front matter. */
export type Yaml = string | boolean | readonly string[] | { readonly [key: string]: Yaml }

/** How long the lines of a folded text are. */
const LINE_WIDTH = 100

/** A mapping as YAML, in the order of its keys. Texts of the folded keys stand on several lines. */
export function toYaml(map: Readonly<Record<string, Yaml>>, folded: readonly string[] = []): string {
  return Object.entries(map)
    .map(([key, value]) => {
      const isFolded = typeof value === 'string' && folded.includes(key) && canFold(value)
      return isFolded ? `${scalar(key)}: >-\n${fold(value)}\n` : member(key, value, '')
    })
    .join('')
}

function member(key: string, value: Yaml, indent: string): string {
  const start = `${indent}${scalar(key)}:`
  if (typeof value === 'boolean') return `${start} ${value}\n`
  if (typeof value === 'string') return `${start} ${scalar(value)}\n`
  const deeper = `${indent}  `
  if (isObject(value)) {
    const members = Object.entries(value).map(([name, each]) => member(name, each, deeper))
    return members.length === 0 ? `${start} {}\n` : `${start}\n${members.join('')}`
  }
  if (value.length === 0) return `${start} []\n`
  return `${start}\n${value.map((each) => `${deeper}- ${scalar(each)}\n`).join('')}`
}

// Words that some reader of YAML takes for something else than text.
const reserved = /^(?:true|false|yes|no|on|off|null|y|n)$/i
const plain = /^[a-z][\w.]*(?:[/-][\w.]+)*$/i
const version = /^\d+\.\d+\.\d+$/
const url = /^https?:\/\/[\w.~/?&=%+-]+(?::\d+)?(?:\/[\w.~/?&=%+-]*)?$/i

function scalar(text: string): string {
  const isPlain = (plain.test(text) && !reserved.test(text)) || version.test(text) || url.test(text)
  return isPlain ? text : escapeHidden(JSON.stringify(text))
}

/** Folded lines are joined by one space each, so nothing else may part the words. */
function canFold(text: string): boolean {
  return /^[!-~\u00A1-\uFFFD]+(?: [!-~\u00A1-\uFFFD]+)*$/.test(text) && escapeHidden(text) === text
}

function fold(text: string): string {
  const lines: string[] = []
  let line = ''
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + word.length >= LINE_WIDTH) {
      lines.push(line)
      line = word
    } else line = line === '' ? word : `${line} ${word}`
  }
  return [...lines, line].map((each) => `  ${each}`).join('\n')
}
