/** The folders in which programs keep what belongs to their user, by the conventions of the operating system. */
import { homedir, platform } from 'node:os'
import { join } from 'node:path'
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

/** A folder of the user for one kind of data (XDG Base Directory Specification; those of macOS and Windows). */
export function userFolder(kind: keyof typeof places, environment: Environment): string {
  const { variable, macOs, others } = places[kind]
  const given = environment[variable]
  // A path that is not absolute is ignored.
  if (given?.startsWith('/') === true) return given
  if (platform() === 'win32') return environment['LOCALAPPDATA'] ?? join(homedir(), 'AppData', 'Local')
  return join(homedir(), ...(platform() === 'darwin' ? macOs : others))
}
