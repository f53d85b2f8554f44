import { escapeHidden } from './hidden.ts'

/** A text of somebody else that is to stand on a line of its own: nothing in it ends the line, or hides. */
export function oneLine(text: string): string {
  return escapeHidden(text).replaceAll('\n', '\\n')
}
