/** Ids that people write: the first characters are enough. */
import { quoted } from './output.ts'

/** How many characters of an id are enough, unless ids of another kind begin alike. */
const MIN_LENGTH = 6

/**
 * The one of these ids that a text is, or begins; undefined if there is none. `what` names several of them, such as `approvals`.
 * @throws Error if several begin so
 */
export function idBeginning(
  ids: readonly string[],
  text: string,
  what: string,
  minLength = MIN_LENGTH,
): string | undefined {
  if (ids.includes(text)) return text
  const found = new Set(text.length < minLength ? [] : ids.filter((each) => each.startsWith(text)))
  if (found.size > 1)
    throw new Error(`${found.size} ${what} begin with ${quoted(text)}: give more characters`)
  return [...found][0]
}
