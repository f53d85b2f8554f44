/**
 * The table of MCP revisions and their capabilities, and the names of its extensions. Code reads a row's properties and never
 * compares revision names.
 */

/** The properties of a protocol revision. A new revision is a new row. */
export interface Revision {
  readonly name: string
  readonly era: 'legacy' | 'modern'
  /** Whether JSON-RPC batches are accepted. */
  readonly batches: boolean
  /** Whether clients send `MCP-Protocol-Version` after the handshake. */
  readonly versionHeader: boolean
  /** Whether an SSE stream may begin with an event that has an id and no data; older clients crash on it. */
  readonly priming: boolean
  /** The content block types of results. */
  readonly content: ReadonlySet<string>
  /** Whether results have `structuredContent`. */
  readonly structured: boolean
  readonly elicitation: 'none' | 'form' | 'url'
  /** Whether elicitation forms support the enum schemas of 2025-11-25 (titles, multiple selection). */
  readonly titledEnums: boolean
  /** Whether sampling supports tools, and several content blocks in one message. */
  readonly samplingTools: boolean
  /** Whether `completion/complete` has a `context`. */
  readonly completionContext: boolean
  /** Whether `notifications/progress` has a `message`. */
  readonly progressMessage: boolean
  /** Whether notifications report a visited URL and the status of a task. */
  readonly followUps: boolean
  /** Whether tasks are part of the core; 2026-07-28 has them as an extension. */
  readonly coreTasks: boolean
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
  structured: false,
  elicitation: 'none',
  titledEnums: false,
  samplingTools: false,
  completionContext: false,
  progressMessage: false,
  followUps: false,
  coreTasks: false,
}
/**
 * The draft before the first published revision. The SDKs of clients and servers treat both alike, so peers that name it
 * are served; it is not announced, and cannot be configured.
 */
const v2024_10_07: Revision = { ...v2024_11_05, name: '2024-10-07' }
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
  structured: true,
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
  coreTasks: true,
}
const v2026_07_28: Revision = {
  ...v2025_11_25,
  name: '2026-07-28',
  era: 'modern',
  followUps: false,
  coreTasks: false,
}

const rows = [v2024_11_05, v2025_03_26, v2025_06_18, v2025_11_25, v2026_07_28]
const byName = new Map([v2024_10_07, ...rows].map((row) => [row.name, row]))

/** The names of all published revisions, oldest first. */
export const revisionNames: readonly string[] = rows.map((row) => row.name)

/** The revisions without a handshake, newest first. */
export const modernRevisions: readonly string[] = rows
  .filter((row) => row.era === 'modern')
  .map((row) => row.name)
  .toReversed()

export const latestModern = v2026_07_28
export const latestLegacy = v2025_11_25

/** The row of a revision; undefined for an unknown name. */
export function findRevision(name: unknown): Revision | undefined {
  return typeof name === 'string' ? byName.get(name) : undefined
}

/**
 * The negotiated revision of a handshake: the requested one if it has a handshake, otherwise the newest one that does.
 */
export function negotiate(requested: unknown): Revision {
  const row = findRevision(requested)
  return row?.era === 'legacy' ? row : latestLegacy
}

/** Whether a version string claims a revision without a handshake, known or not. */
export function claimsModern(name: string): boolean {
  return name >= latestModern.name && /^\d{4}-\d{2}-\d{2}$/.test(name)
}

/** The tasks extension of 2026-07-28. */
export const tasksExtension = 'io.modelcontextprotocol/tasks'

/** The events extension of 2026-07-28 (SEP-3415). */
export const eventsExtension = 'io.modelcontextprotocol/events'

/** The extension of tools with views, MCP Apps (SEP-1865). */
export const appsExtension = 'io.modelcontextprotocol/ui'
