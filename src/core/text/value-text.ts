/** Values as people read them: indented JSON, in which a text of several lines is shown by its lines. */
import { readJson } from '../json/json.ts'

/** A string at the end of a line of indented JSON, after its key if it is a member. */
const TEXT = /^( *)((?:"[^"\\]*(?:\\.[^"\\]*)*": )?)("[^"\\]*(?:\\.[^"\\]*)*")(,?)$/gm

/**
 * A value as text. Each line of a text begins with a bar and is indented further than its key, so that no line of it can be taken
 * for another member.
 */
export function valueText(value: unknown): string {
  const json = JSON.stringify(value, null, 2) ?? 'null'
  return json.replaceAll(TEXT, (all, ...[margin, key, quoted, comma]: string[]) => {
    const text = quoted?.includes('\\n') ? readJson(quoted) : undefined
    if (typeof text !== 'string' || !text.includes('\n')) return all
    const lines = text.split('\n')
    const shown = lines.map((line) => `\n${margin}  | ${line}`).join('')
    return `${margin}${key}${lines.length} lines${comma}${shown}`
  })
}
