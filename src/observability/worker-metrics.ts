/**
 * The metrics of several workers as those of one gateway. Counters and histograms are summed; what a worker counted stays in the
 * sum once it has ended, or while it does not answer, so that no sum ever falls, which Prometheus would take for a restart.
 */

/** What one worker counts at a moment. */
export interface Snapshot {
  /** Counters and histograms in the text format of Prometheus. */
  readonly sums: string
  /** Gauges as objects of prom-client, which know how those of several processes are combined. */
  readonly levels: readonly object[]
}

/** What the other workers count. */
export interface Collected {
  readonly answers: readonly Snapshot[]
  /** The last known sums of workers that have ended, or did not answer. */
  readonly past: readonly string[]
  /** How many did not answer. */
  readonly silent: number
}

/** The workers beside this one, which count for themselves. */
export interface OtherWorkers {
  /** Resolves, in a limited time, with what they count; `own` is kept for the time after this worker. */
  collect(own: Snapshot): Promise<Collected>
  /** Answers others with this from now on. */
  answerWith(snapshot: () => Promise<Snapshot>): void
}

/** One metric in the text format: its first lines, and the values by their names and labels. */
interface Family {
  readonly head: string[]
  readonly values: Map<string, number>
}

/** Sums texts of counters and histograms, line by line. A text that is cut off is summed as far as it goes. */
export function summed(texts: readonly string[]): string {
  const families = new Map<string, Family>()
  for (const text of texts) {
    let family: Family | undefined
    for (const line of text.split('\n')) {
      if (line.startsWith('# HELP ')) {
        const name = line.split(' ', 3)[2] ?? ''
        family = families.get(name) ?? { head: [], values: new Map() }
        families.set(name, family)
      }
      if (family && line !== '') addLine(line, family)
    }
  }
  const lines = [...families.values()].flatMap(({ head, values }) => [
    ...head,
    ...[...values].map(([series, value]) => `${series} ${value}`),
  ])
  return lines.length === 0 ? '' : `${lines.join('\n')}\n`
}

function addLine(line: string, { head, values }: Family): void {
  if (line.startsWith('#')) {
    if (!head.includes(line)) head.push(line)
    return
  }
  // Values of labels may have spaces.
  const end = line.lastIndexOf(' ')
  const value = Number(line.slice(end + 1))
  if (end < 1 || !Number.isFinite(value)) return
  const series = line.slice(0, end)
  values.set(series, (values.get(series) ?? 0) + value)
}

/** How many workers are in a page of metrics, in the text format. */
export function workersText({ answers, silent }: Collected): string {
  const name = 'gatehouse_workers'
  return [
    `# HELP ${name} Workers of this gateway, by whether their present values are among these metrics.`,
    `# TYPE ${name} gauge`,
    `${name}{state="counted"} ${answers.length + 1}`,
    `${name}{state="silent"} ${silent}`,
    '',
  ].join('\n')
}
