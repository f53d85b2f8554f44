/**
 * The table of MCP revisions: what each can say. Code asks a row for an ability and never compares names of
 * revisions.
 */

/** What one protocol revision can say. A new revision is a row here. */
export interface Revision {
  readonly name: string
  readonly era: 'legacy' | 'modern'
  /** JSON-RPC batches are received. */
  readonly batches: boolean
  /** Clients send `MCP-Protocol-Version` after the handshake. */
  readonly versionHeader: boolean
  /** An SSE stream may open with an event that has an id and no data; older clients crash on it. */
  readonly priming: boolean
  /** Content block types a result may hold. */
  readonly content: ReadonlySet<string>
  readonly elicitation: 'none' | 'form' | 'url'
  /** The enum schemas of 2025-11-25 (titles, several choices) are known in elicitation forms. */
  readonly titledEnums: boolean
  /** Sampling with tools, and several content blocks in one sampling message. */
  readonly samplingTools: boolean
  /** `completion/complete` takes a `context`. */
  readonly completionContext: boolean
  /** `notifications/progress` has a `message`. */
  readonly progressMessage: boolean
  /** Notifications say that a URL was visited, and how a task fares. */
  readonly followUps: boolean
}

const text = ['text', 'image', 'resource']
const audio = [...text, 'audio']
const links = [...audio, 'resource_link']

const v2024_11_05: Revision = {
  name: '2024-11-05',
  era: 'legacy',
  batches: false,
  versionHeader: false,
  priming: false,
  content: new Set(text),
  elicitation: 'none',
  titledEnums: false,
  samplingTools: false,
  completionContext: false,
  progressMessage: false,
  followUps: false,
}
const v2025_03_26: Revision = {
  ...v2024_11_05,
  name: '2025-03-26',
  batches: true,
  content: new Set(audio),
  progressMessage: true,
}
const v2025_06_18: Revision = {
  ...v2025_03_26,
  name: '2025-06-18',
  batches: false,
  versionHeader: true,
  content: new Set(links),
  elicitation: 'form',
  completionContext: true,
}
const v2025_11_25: Revision = {
  ...v2025_06_18,
  name: '2025-11-25',
  priming: true,
  elicitation: 'url',
  titledEnums: true,
  samplingTools: true,
  followUps: true,
}
const v2026_07_28: Revision = {
  ...v2025_11_25,
  name: '2026-07-28',
  era: 'modern',
  followUps: false,
}

const rows = [v2024_11_05, v2025_03_26, v2025_06_18, v2025_11_25, v2026_07_28]
const byName = new Map(rows.map((row) => [row.name, row]))

/** Every revision's name, oldest first. */
export const revisionNames: readonly string[] = rows.map((row) => row.name)

/** The revisions without a handshake, newest first. */
export const modernRevisions: readonly string[] = rows
  .filter((row) => row.era === 'modern')
  .map((row) => row.name)
  .toReversed()

export const latestModern = v2026_07_28
export const latestLegacy = v2025_11_25

/** The row of a revision, or nothing for a name that is not known. */
export function findRevision(name: unknown): Revision | undefined {
  return typeof name === 'string' ? byName.get(name) : undefined
}

/** The revision a handshake settles on: the one asked for if it has a handshake, else the newest that has. */
export function negotiate(requested: unknown): Revision {
  const row = findRevision(requested)
  return row?.era === 'legacy' ? row : latestLegacy
}

/** Whether a version string claims a revision without a handshake, known or not. */
export function claimsModern(name: string): boolean {
  return name >= latestModern.name && /^\d{4}-\d{2}-\d{2}$/.test(name)
}
