// What is measured has a processor core of its own; what loads it, and answers it, has the others.
import { spawnSync } from 'node:child_process'
import { availableParallelism } from 'node:os'

const MAX_ATTEMPTS = 5

/** Assigns processes to cores. */
export interface Pinning {
  readonly measured: (pid: number) => void
  readonly others: (pid: number) => void
}

/** Undefined if the machine has one core, or cannot assign processes to cores. */
export function pinning(): Pinning | undefined {
  const last = availableParallelism() - 1
  if (last < 1 || spawnSync('taskset', ['--version']).status !== 0) return undefined
  return { measured: (pid) => assign(pid, `${last}`), others: (pid) => assign(pid, `0-${last - 1}`) }
}

/** Also where a thread ends meanwhile, which taskset takes for a failure. */
function assign(pid: number, cores: string): void {
  let problem = ''
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
    const { status, stderr } = spawnSync('taskset', ['-a', '-p', '-c', cores, `${pid}`], { encoding: 'utf8' })
    if (status === 0) return
    problem = stderr
  }
  throw new Error(`taskset failed: ${problem}`)
}
