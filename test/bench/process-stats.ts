import { readdirSync, readFileSync, writeFileSync } from 'node:fs'

/** The CPU time all threads of a process have used so far, user and system, in nanoseconds. */
export function cpuNanoseconds(pid: number): number {
  let sum = 0
  for (const thread of readdirSync(`/proc/${pid}/task`)) sum += threadTime(pid, thread)
  return sum
}

/** The memory of a process that is resident, in megabytes of 1,000,000 bytes. */
export function residentMegabytes(pid: number): number {
  return megabytes(pid, /^VmRSS:\s+(\d+) kB/m)
}

/** The most memory that was resident since the process started, or its peak was reset. */
export function peakMegabytes(pid: number): number {
  return megabytes(pid, /^VmHWM:\s+(\d+) kB/m)
}

/** Resets the recorded peak of a process. */
export function resetPeak(pid: number): void {
  writeFileSync(`/proc/${pid}/clear_refs`, '5')
}

function megabytes(pid: number, line: RegExp): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  return (Number(line.exec(status)?.[1]) * 1024) / 1e6
}

/** The direct children of a process. */
export function childrenOf(pid: number): number[] {
  const listed = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim()
  return listed === '' ? [] : listed.split(' ').map(Number)
}

// The first number is nanoseconds on a CPU; /proc/<pid>/stat counts in ticks of 10 ms, too coarse.
function threadTime(pid: number, thread: string): number {
  const [running = '0'] = readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ')
  return Number(running)
}
