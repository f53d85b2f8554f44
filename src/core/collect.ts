/**
 * Collects memory before V8 does. Buffers are outside of its heap: it lets them grow by 64 MB before it collects them, and
 * the allocator does not give that back. So what may be a flood of requests has to be collected as it comes.
 */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/** Collects what was allocated lately, within a few milliseconds. */
export type Collect = () => void

export function exposedCollect(): Collect {
  const collect = exposed()
  return () => collect({ type: 'minor' })
}

/**
 * Collects everything, and gives back the space that loading a program took: a third of what an idle gateway holds. It takes some
 * tenths of a second, in which nothing else runs.
 */
export function collectAll(): void {
  exposed()({ type: 'major', flavor: 'last-resort' })
}

/** The function of V8, which Node offers only in contexts that are made with its flag. */
function exposed(): (options: { readonly type: string; readonly flavor?: string }) => void {
  setFlagsFromString('--expose-gc')
  return runInNewContext('gc') as ReturnType<typeof exposed>
}
