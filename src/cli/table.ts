/** Tables, and times, for terminals. */
import { oneLine } from '../core/text/escape.ts'
import { isoTime } from '../core/time/waiting.ts'

/** Rows as lines with aligned columns. Cells are untrusted text: each is put on one line. */
export function tableLines(rows: readonly (readonly string[])[]): string[] {
  const cells = rows.map((row) => row.map(oneLine))
  const widths = (cells[0] ?? []).map((_cell, column) =>
    Math.max(...cells.map((row) => row[column]?.length ?? 0)),
  )
  return cells.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  )
}

/** A time in milliseconds since 1970 as ISO 8601, to the second. */
export function timeText(at: number): string {
  return isoTime(at).replace(/\.\d+Z$/, 'Z')
}
