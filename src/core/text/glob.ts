/** Globs with `*`: matches, the most specific one, and overlaps. */

/** Whether a name fits a glob: `*` is any run of characters, everything else is itself. */
export function fits(glob: string, name: string): boolean {
  const [first = '', ...rest] = glob.split('*')
  if (rest.length === 0) return glob === name
  const last = rest.pop() ?? ''
  if (!name.startsWith(first) || !name.endsWith(last) || name.length < first.length + last.length)
    return false
  let at = first.length
  const end = name.length - last.length
  for (const part of rest) {
    const found = name.indexOf(part, at)
    if (found === -1 || found + part.length > end) return false
    at = found + part.length
  }
  return true
}

/** The globs that fit a name: the most specific first, by the number of characters that are no `*`. */
export function fitting(globs: readonly string[], name: string): string[] {
  const found = globs.filter((glob) => fits(glob, name))
  return found.toSorted((one, other) => weight(other) - weight(one))
}

function weight(glob: string): number {
  return glob.replaceAll('*', '').length + (glob.includes('*') ? 0 : 0.5)
}

/** Whether some name fits both of two globs. */
export function overlaps(one: string, other: string): boolean {
  // Where in `other` one may be after what was read of `one`.
  let reached = behindStars(new Set([0]), other)
  for (const letter of one) {
    const next = [...reached].flatMap((at) => stepsOf(letter, at, other))
    reached = behindStars(new Set(next), other)
  }
  return reached.has(other.length)
}

function stepsOf(letter: string, at: number, other: string): number[] {
  if (letter === '*') return Array.from({ length: other.length - at + 1 }, (_, more) => at + more)
  if (other[at] === '*') return [at]
  return other[at] === letter ? [at + 1] : []
}

/** A star may stand for nothing. */
function behindStars(reached: Set<number>, glob: string): Set<number> {
  for (const at of reached) if (glob[at] === '*') reached.add(at + 1)
  return reached
}
