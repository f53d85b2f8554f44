/** What commands print: a result, as JSON or as text, and the parts of texts for terminals. */
import { escapeHidden, oneLine } from '../core/text/escape.ts'
import { isoTime } from '../core/time/waiting.ts'
import { type Io, print, printJson } from './io.ts'

/** The result of a command that prints data: as JSON with `--json`, else as text, without its last line end. */
interface Printed {
  readonly json: unknown
  readonly text: string
  /** The exit code; 0 if absent. */
  readonly code?: number
}

/** Results that are printed one after the other: as JSON, each is on a line of its own. */
export interface Stream {
  readonly entries: AsyncIterable<Omit<Printed, 'code'>>
  /** The text if there are none. */
  readonly none?: string
}

/** How a command ends: with what it prints, or only with its exit code. */
export type Output = Printed | Stream | number

/** Prints the output of a command, and returns the exit code. */
export async function printOutput(output: Output, isJson: boolean, io: Io): Promise<number> {
  if (typeof output === 'number') return output
  if ('entries' in output) return printEntries(output, isJson, io)
  if (isJson) printJson(output.json, io)
  else print(output.text, io)
  return output.code ?? 0
}

async function printEntries({ entries, none }: Stream, isJson: boolean, io: Io): Promise<number> {
  let count = 0
  for await (const { json, text } of entries) {
    print(isJson ? jsonLine(json) : text, io)
    count++
  }
  if (count === 0 && none !== undefined && !isJson) print(none, io)
  return 0
}

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

/** A title, and below it what is known, as untrusted text: labels with values, of which those that are undefined are left out. */
export function detailLines(
  title: string,
  details: readonly (readonly [label: string, value: string | undefined])[],
  width = 12,
): string[] {
  const lines = details.flatMap(([label, value]) =>
    value === undefined ? [] : [`  ${label.padEnd(width)} ${value}`],
  )
  return [title, ...lines].map(oneLine)
}

/** A text of others in quotes. */
export function quoted(text: string): string {
  return jsonLine(text)
}

/** A value as JSON on one line. */
export function jsonLine(value: unknown): string {
  return escapeHidden(JSON.stringify(value))
}

/** A time in milliseconds since 1970 as ISO 8601, to the second. */
export function timeText(at: number): string {
  return isoTime(at).replace(/\.\d+Z$/, 'Z')
}
