/**
 * Measures what a test file costs, for the table of the reporter: the CPU time of the worker that runs it, and of the
 * processes that ended meanwhile. Vitest runs this in the worker before each test file.
 */
import { readFileSync } from 'node:fs'
import { afterAll, beforeAll } from 'vitest'

let before = 0

beforeAll(() => {
  before = cpuMs()
})

// Vitest reads the parameters, and the first must be a pattern.
// oxlint-disable-next-line no-empty-pattern
afterAll(({}, { file }) => {
  file.meta.cpuMs = cpuMs() - before
})

declare module 'vitest' {
  interface TaskMeta {
    cpuMs?: number
  }
}

/** CPU time so far, in milliseconds; that of child processes is included where the system tells it (proc(5), `stat`). */
function cpuMs(): number {
  try {
    const stat = readFileSync('/proc/self/stat', 'utf8')
    // The name in parentheses may contain spaces; user and system time, also of children, are the 12th to 15th after it.
    const ticks = stat
      .slice(stat.lastIndexOf(')') + 2)
      .split(' ')
      .slice(11, 15)
      .map(Number)
    return ticks.reduce((sum, each) => sum + each, 0) * MS_PER_TICK
  } catch {
    const { user, system } = process.cpuUsage()
    return (user + system) / 1000
  }
}

/** The clock ticks of the table are hundredths of a second on all systems that Node.js supports. */
const MS_PER_TICK = 10
