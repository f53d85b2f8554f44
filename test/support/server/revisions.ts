/** The published revisions, oldest first. */
export const revisions = ['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25', '2026-07-28'] as const

/** One published revision of the protocol. */
export type Revision = (typeof revisions)[number]

/** What a revision can say. */
export interface Traits {
  readonly revision: Revision
  /** Stateless, with its metadata in each request. */
  readonly modern: boolean
  /** Has the Streamable HTTP transport. */
  readonly streamable: boolean
  /** Sends `MCP-Protocol-Version` after the handshake. */
  readonly protocolHeader: boolean
  readonly batch: boolean
  readonly audio: boolean
  readonly toolAnnotations: boolean
  /** Declares `completions` as a capability. */
  readonly completions: boolean
  /** Tasks are a part of the protocol itself. */
  readonly coreTasks: boolean
  readonly progressMessage: boolean
  readonly resourceLink: boolean
  readonly structured: boolean
  readonly titles: boolean
  readonly elicitation: boolean
  readonly icons: boolean
  readonly urlElicitation: boolean
  /** A question for a URL carries an id of its own. */
  readonly elicitationId: boolean
  /** A stream may begin with an event that has an id and no data. */
  readonly priming: boolean
}

/** Tells what a revision can say. */
export function traitsOf(revision: Revision): Traits {
  const place = revisions.indexOf(revision)
  const since = (first: Revision) => place >= revisions.indexOf(first)
  const modern = since('2026-07-28')
  return {
    revision,
    modern,
    streamable: since('2025-03-26'),
    protocolHeader: since('2025-06-18'),
    batch: revision === '2025-03-26',
    audio: since('2025-03-26'),
    toolAnnotations: since('2025-03-26'),
    coreTasks: revision === '2025-11-25',
    completions: since('2025-03-26'),
    progressMessage: since('2025-03-26'),
    resourceLink: since('2025-06-18'),
    structured: since('2025-06-18'),
    titles: since('2025-06-18'),
    elicitation: since('2025-06-18'),
    icons: since('2025-11-25'),
    urlElicitation: since('2025-11-25'),
    elicitationId: since('2025-11-25') && !modern,
    priming: since('2025-11-25') && !modern,
  }
}

/** Whether a string names a published revision. */
export function isRevision(value: unknown): value is Revision {
  return revisions.some((revision) => revision === value)
}

/** The transport of a revision over HTTP. */
export function remoteTransport(revision: Revision): 'http' | 'sse' {
  return traitsOf(revision).streamable ? 'http' : 'sse'
}
