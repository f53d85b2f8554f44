/** What the owner of a tool says of its end. */
export interface Deprecation {
  /** In the owner's words. */
  readonly text: string
  /** The tool to use instead. */
  readonly successor?: string
  /** The end of the last day it is there, in milliseconds since 1970. */
  readonly until?: number
}

const DAY_MS = 86_400_000

/** Reads what is written of the end of a tool, such as `use log_work, support ends 2027-03-31`. */
export function readDeprecation(text: string): Deprecation {
  const [, successor] = /\buse\s+[`"']?([\w./:-]*[\w])/i.exec(text) ?? []
  const [day] = /\b\d{4}-\d{2}-\d{2}\b/.exec(text) ?? []
  const start = day === undefined ? Number.NaN : Date.parse(`${day}T00:00:00Z`)
  return {
    text,
    ...(successor !== undefined && { successor }),
    ...(Number.isFinite(start) && { until: start + DAY_MS }),
  }
}
