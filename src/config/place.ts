import { statSync } from 'node:fs'

/** What is at a path: nothing, a directory, something else, or why that can not be seen. */
export type Place = 'nothing' | 'directory' | 'other' | { readonly hidden: string }

/** Looks what is at a path. Never throws. */
export function placeAt(path: string): Place {
  try {
    const found = statSync(path, { throwIfNoEntry: false })
    if (!found) return 'nothing'
    return found.isDirectory() ? 'directory' : 'other'
  } catch (error) {
    return { hidden: error instanceof Error ? error.message : String(error) }
  }
}
