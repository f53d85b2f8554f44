/** A server that may have what is wanted. */
export interface Recommended {
  readonly server: string
  /** From 0 to 1. */
  readonly score: number
  /** Where the server is found. */
  readonly registryUrl?: string | undefined
  readonly authFlow?: string | undefined
  /** Its tools that fit best, as its own clients call them. */
  readonly tools?: readonly string[]
}

/** How much of what is wanted must be said for it to be named at all, from 0 to 1. */
export const MIN_MATCH_SCORE = 0.3

/** From which score on a match is of high confidence, and from which of medium. */
const HIGH_CONFIDENCE_SCORE = 0.66
const MEDIUM_CONFIDENCE_SCORE = 0.33

/** A recommendation as clients read it. */
export function told(capability: string, found: Recommended): Record<string, unknown> {
  const { server, score, registryUrl, authFlow, tools = [] } = found
  return {
    capability,
    server,
    server_name: server,
    ...(registryUrl !== undefined && { registry_url: registryUrl }),
    ...(authFlow !== undefined && { auth_flow: authFlow }),
    match_confidence:
      score >= HIGH_CONFIDENCE_SCORE ? 'high' : score >= MEDIUM_CONFIDENCE_SCORE ? 'medium' : 'low',
    score: Math.round(score * 100) / 100,
    ...(tools.length > 0 && { tools }),
  }
}

/** The highest score that still is of a confidence. */
export function most(confidence: 'high' | 'medium' | 'low'): number {
  return { high: 1, medium: HIGH_CONFIDENCE_SCORE - 0.01, low: MEDIUM_CONFIDENCE_SCORE - 0.01 }[confidence]
}
