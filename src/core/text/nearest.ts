/** The nearest name to a mistyped one. */

/** The word most like `word`, when one is like it enough to be what was meant. */
export function nearest(word: string, words: readonly string[]): string | undefined {
  const limit = Math.max(1, Math.floor(word.length / 3))
  const written = plain(word)
  let best: string | undefined
  let least = limit + 1
  for (const candidate of words) {
    const other = plain(candidate)
    // It takes at least as many edits.
    if (Math.abs(written.length - other.length) >= least) continue
    const distance = edits(written, other)
    if (distance >= least) continue
    best = candidate
    least = distance
  }
  return best
}

/** How many letters of one word have to change for it to be the other, whatever the case and without `-` and `_`. */
export function distance(one: string, other: string): number {
  return edits(plain(one), plain(other))
}

function plain(word: string): string {
  return word.toLowerCase().replaceAll(/[-_]/g, '')
}

function edits(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, index) => index)
  let before = row
  for (const [index, letter] of [...from].entries()) {
    const next = [index + 1]
    for (const [column, other] of [...to].entries()) {
      const replaced = (row[column] ?? 0) + (letter === other ? 0 : 1)
      // Two letters that changed places are one slip.
      const isSwap = index > 0 && column > 0 && letter === to[column - 1] && other === from[index - 1]
      const swapped = isSwap ? (before[column - 1] ?? 0) + 1 : Infinity
      next.push(Math.min(replaced, swapped, (row[column + 1] ?? 0) + 1, (next[column] ?? 0) + 1))
    }
    before = row
    row = next
  }
  return row[to.length] ?? Infinity
}
