import type { Feature } from './feature.ts'
import { limits } from './limits.ts'

/** Every feature; the first one is outermost. */
export const features: readonly Feature<never>[] = [
  limits, // a deadline covers everything below
]
