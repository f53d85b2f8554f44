/** Writes variables as lines of a `.env` file, as Node.js reads them (`util.parseEnv`). */
import { parseEnv } from 'node:util'

/**
 * A line that sets a variable to exactly this value; undefined if no line can, such as for a value with all kinds of
 * quotes and a line break.
 */
export function variableLine(name: string, value: string): string | undefined {
  const plain = /^[\w./:@+=-]*$/.test(value) ? [value] : []
  const lines = [...plain, ...[`'`, '"', '`'].map((quote) => `${quote}${value}${quote}`)].map(
    (text) => `${name}=${text}`,
  )
  return lines.find((line) => {
    const read = Object.entries(parseEnv(`${name}_BEFORE=1\n${line}\n${name}_AFTER=1\n`))
    return read.length === 3 && read.some(([key, text]) => key === name && text === value)
  })
}
