import { escapeHidden } from '../core/hidden.ts'

/**
 * The last lines a server wrote to its standard error: most often they say why it ended. They are for operators, not
 * for callers. What is kept is bounded, has no control characters, and tells no secret.
 */

/** How many lines are kept, and how much of each, in characters. */
const MAX_LINES = 3
const MAX_LINE_LENGTH = 300

/** Keeps the last lines of one server. */
export class LastLines {
  readonly #clean: (text: string) => string
  #lines: string[] = []

  /** `clean` takes secrets out of a text. */
  constructor(clean: (text: string) => string) {
    this.#clean = clean
  }

  add(line: string): void {
    const shown = escapeHidden(this.#clean(line).replaceAll(COLOURS, '').trim())
    if (shown === '') return
    const cut =
      shown.length > MAX_LINE_LENGTH ? `${shown.slice(0, MAX_LINE_LENGTH - 1).toWellFormed()}…` : shown
    this.#lines = [...this.#lines, cut].slice(-MAX_LINES)
  }

  /** Forgets them: another process begins. */
  clear(): void {
    this.#lines = []
  }

  get all(): readonly string[] {
    return this.#lines
  }
}

/** What terminals take for colours and the like (ECMA-48 section 5.4). */
const COLOURS = new RegExp(`${String.fromCodePoint(27)}\\[[0-?]*[ -/]*[@-~]`, 'g')
