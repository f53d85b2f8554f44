/**
 * Collects memory before V8 does. Buffers are outside of its heap: it lets them grow by 64 MB before it collects them, and
 * the allocator does not give that back. So what may be a flood of requests has to be collected as it comes.
 */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/** Collects what was allocated lately, within a few milliseconds. */
export type Collect = () => void

/** The function of V8, which Node offers only in contexts that are made with its flag. */
export function exposedCollect(): Collect {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as (options: { readonly type: 'minor' }) => void
  return () => collect({ type: 'minor' })
}
