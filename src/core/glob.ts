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
