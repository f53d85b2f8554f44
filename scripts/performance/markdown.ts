/** A table. Text of other programs cannot end a cell, or be markup. */
export function markdownTable(head: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`
  return [line(head), `|${head.map(() => '---').join('|')}|`, ...rows.map(line)]
}

/** A text of another program in a cell or a sentence: one line, at most so many characters. */
export function quoted(text: string, maxCharacters = 200): string {
  const line = text
    .toWellFormed()
    .replaceAll(/[\p{C}\s]+/gu, ' ')
    .trim()
  const short = line.length <= maxCharacters ? line : `${line.slice(0, maxCharacters - 1)}…`
  return `\`${short.replaceAll('`', "'").replaceAll('|', '¦')}\``
}

/** A number with groups of digits: 1,234. */
export function grouped(value: number, digits = 0): string {
  return value.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits })
}
