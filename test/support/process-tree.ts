import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'

/** Whether this machine lets a test see the children of a process. */
export const hasProcessTree = existsSync('/proc/self/stat')

interface Entry {
  readonly pid: number
  readonly parent: number
  readonly group: number
  readonly command: string
}

/** The processes started by a process, by its children and so on, that still run. */
export function descendants(pid: number): number[] {
  const entries = all()
  const found: number[] = []
  for (let level = [pid]; level.length > 0;) {
    level = entries.filter(({ parent }) => level.includes(parent)).map((entry) => entry.pid)
    found.push(...level)
  }
  return found
}

/** The children of a process that run a command with this text in it. */
export function childrenRunning(pid: number, text: string): number[] {
  return all()
    .filter((entry) => entry.parent === pid && entry.command.includes(text))
    .map((entry) => entry.pid)
}

/** Whether a process runs; one that ended and waits to be noticed does not. */
export function isRunning(pid: number): boolean {
  return all().some((entry) => entry.pid === pid)
}

/** What the descriptors of a process refer to: the paths of its files, and its pipes and sockets. */
export function openFiles(pid: number): string[] {
  return readdirSync(`/proc/${pid}/fd`).flatMap((descriptor) => {
    try {
      return [readlinkSync(`/proc/${pid}/fd/${descriptor}`)]
    } catch {
      return []
    }
  })
}

function all(): Entry[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      const entry = read(Number(name))
      return entry ? [entry] : []
    })
}

function read(pid: number): Entry | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // The name in parentheses may hold spaces and parentheses.
    const [state, parent, group] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    if (state === 'Z' || state === 'X') return undefined
    const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ')
    return { pid, parent: Number(parent), group: Number(group), command }
  } catch {
    return undefined
  }
}
