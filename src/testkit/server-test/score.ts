/** The score of a server: how much of each area holds, weighted. docs/server-tests.md has the same table. */
import type { Area, ServerCheck } from './results.ts'

/** The weight of each area. Areas without a check do not count. */
export const weights: Readonly<Record<Exclude<Area, 'latency'>, number>> = {
  protocol: 25,
  definitions: 15,
  results: 20,
  refusals: 20,
  errors: 10,
  robustness: 10,
}

export interface Score {
  /** 0 to 100; null if nothing was checked. */
  readonly total: number | null
  /** The score of each area that was checked. */
  readonly areas: Readonly<Partial<Record<Area, number>>>
}

/**
 * The score of the checks: in each area the share of subjects, such as a tool, of which every check passed. It is rounded
 * down, so that 100 means that nothing failed.
 */
export function scoreOf(checks: readonly ServerCheck[]): Score {
  const carriedOut = checks.filter(({ status }) => status !== 'skipped')
  const shares = Object.entries(weights).flatMap(([area, weight]) => {
    const own = carriedOut.filter(({ category }) => category === area)
    if (own.length === 0) return []
    const subjects = new Set(own.map(({ subject }) => subject))
    const broken = new Set(own.filter(({ status }) => status !== 'passed').map(({ subject }) => subject))
    // A server that is lost is not robust, whatever it did before.
    const share = broken.has('server') ? 0 : (subjects.size - broken.size) / subjects.size
    return [{ area, weight, share }]
  })
  const sum = shares.reduce((total, { weight }) => total + weight, 0)
  const reached = shares.reduce((total, { weight, share }) => total + weight * share, 0)
  return {
    total: sum === 0 ? null : Math.floor((reached / sum) * 100 + 1e-9),
    areas: Object.fromEntries(shares.map(({ area, share }) => [area, Math.floor(share * 100 + 1e-9)])),
  }
}
