import { userInfo } from 'node:os'

/** Who runs the command, as the system knows that person. */
export function userName(): string {
  try {
    return userInfo().username
  } catch {
    // The user of a container may have a number alone.
    return `user ${process.getuid?.() ?? 'unknown'}`
  }
}
