/**
 * What a child process has from the gateway: the environment variables that programs generally need, the ones that the
 * configuration gives to it, and three pipes.
 *
 * Invariant: no other descriptor of the gateway is open in a child. Node.js opens its own ones so that they close when
 * another program starts (O_CLOEXEC), but a library need not: LMDB leaves its data file open, readable and writable.
 */
import { closeSync, openSync, readdirSync, readFileSync } from 'node:fs'
import { devNull } from 'node:os'

/** Environment variables by name. */
export type Variables = Readonly<Record<string, string | undefined>>

/** Variables that programs generally need. All others may be secret, and are passed only if configured. */
const harmless =
  /^(?:PATH|HOME|USER|LOGNAME|SHELL|TERM|LANG|LC_.*|TZ|TMPDIR|TEMP|TMP|XDG_.*|NODE_EXTRA_CA_CERTS|SSL_CERT_.*|APPDATA|LOCALAPPDATA|USERPROFILE|PROGRAMFILES|SYSTEMROOT|COMSPEC|PATHEXT)$/i

/** The variables of an environment that every child gets. */
export function inheritedVariables(environment: Variables): Record<string, string> {
  const env: Record<string, string> = {}
  for (const [name, value] of Object.entries(environment)) {
    // A shell function exported into the environment is code.
    if (value !== undefined && harmless.test(name) && !value.startsWith('()')) env[name] = value
  }
  return env
}

/** Descriptors of a child, by number; `ignore` leaves one closed that closes by itself. */
type Descriptors = ('pipe' | 'ignore' | number)[]

/**
 * Starts a child with three pipes as its only descriptors of the gateway. Those that would stay open are the null device
 * in the child, as Node.js can replace a descriptor there but cannot close it.
 */
export function withThreePipes<Child>(start: (descriptors: Descriptors) => Child): Child {
  const kept = leftOpen()
  const pipes: Descriptors = ['pipe', 'pipe', 'pipe']
  if (kept.length === 0) return start(pipes)
  const nothing = openSync(devNull, 'r')
  try {
    const others = Array.from({ length: Math.max(...kept) - 2 }, (_, index) =>
      kept.includes(index + 3) ? nothing : 'ignore',
    )
    return start([...pipes, ...others])
  } finally {
    closeSync(nothing)
  }
}

/** O_CLOEXEC, which is the same on all architectures that Node.js supports on Linux. */
const CLOSES_ON_EXEC = 0o2_000_000

/**
 * The descriptors of this process that stay open in a child, without the first three. Linux alone has a table of them,
 * and needs one: on macOS and Windows, children start without the descriptors that they are not given.
 */
function leftOpen(): readonly number[] {
  return descriptors().filter((number) => number > 2 && !closesOnExec(number))
}

function descriptors(): readonly number[] {
  try {
    return readdirSync('/proc/self/fd').map(Number)
  } catch {
    return []
  }
}

/** Whether a descriptor closes when another program starts, or is closed already (proc(5), `fdinfo`). */
function closesOnExec(number: number): boolean {
  try {
    const flags = /^flags:\s*([0-7]+)$/m.exec(readFileSync(`/proc/self/fdinfo/${number}`, 'latin1'))?.[1]
    return flags === undefined || (Number.parseInt(flags, 8) & CLOSES_ON_EXEC) !== 0
  } catch {
    return true
  }
}
