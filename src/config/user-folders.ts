/** The folders in which programs keep what belongs to their user, by the conventions of the operating system. */
import { homedir, platform, userInfo } from 'node:os'
import { isAbsolute, join } from 'node:path'
import { isOwnPlace } from '../store/private-folder.ts'
import type { Environment } from './secrets.ts'

/** What is kept: `state` outlives a restart, `cache` can be made again. */
const places = {
  state: {
    variable: 'XDG_STATE_HOME',
    macOs: ['Library', 'Application Support'],
    others: ['.local', 'state'],
  },
  cache: { variable: 'XDG_CACHE_HOME', macOs: ['Library', 'Caches'], others: ['.cache'] },
} as const

/**
 * A folder of the user for one kind of data (XDG Base Directory Specification; those of macOS and Windows). A `HOME` of
 * another user, as after some kinds of `su` and `sudo`, is ignored; the other variables are set for this purpose.
 */
export function userFolder(kind: keyof typeof places, environment: Environment): string {
  const { variable, macOs, others } = places[kind]
  const given = environment[variable]
  // A path that is not absolute is ignored.
  if (given?.startsWith('/') === true) return given
  if (platform() === 'win32') return environment['LOCALAPPDATA'] ?? join(homedir(), 'AppData', 'Local')
  return join(home(), ...(platform() === 'darwin' ? macOs : others))
}

function home(): string {
  for (const named of [homedir, () => userInfo().homedir]) {
    try {
      const found = named()
      if (isAbsolute(found) && isOwnPlace(found)) return found
    } catch {
      // Both fail without HOME for a user that is in no database, as in some containers.
    }
  }
  return NO_HOME
}

/** A place where nothing can be written: the reason names it. */
const NO_HOME = '/nonexistent'
