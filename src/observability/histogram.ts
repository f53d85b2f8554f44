/**
 * Histograms of durations in seconds, on the hot path of every call: the libraries take a hundred times as long to look up
 * labels. The number of sets of labels of each is limited; what is beyond shares one.
 */

/** The value of a label; a set of labels without one leaves the label out. */
export type LabelValue = string | number | undefined

/** The durations of one set of labels. */
export interface Duration {
  observe(seconds: number): void
}

/** The counts of each bucket, the last one without an upper bound, and the sum of durations. */
class Counts implements Duration {
  readonly values: readonly LabelValue[]
  readonly #bounds: readonly number[]
  readonly #counts: Float64Array
  #sum = 0

  constructor(values: readonly LabelValue[], bounds: readonly number[]) {
    this.values = values
    this.#bounds = bounds
    this.#counts = new Float64Array(bounds.length + 1)
  }

  get counts(): readonly number[] {
    return [...this.#counts]
  }

  get sum(): number {
    return this.#sum
  }

  observe(seconds: number): void {
    let at = 0
    while (at < this.#bounds.length && seconds > (this.#bounds[at] ?? 0)) at++
    this.#counts[at] = (this.#counts[at] ?? 0) + 1
    this.#sum += seconds
  }

  /** The lines for this set of labels. */
  lines(name: string, labels: string): string[] {
    const prefix = labels === '' ? '' : `${labels},`
    let total = 0
    const buckets = this.counts.map((count, at) => {
      total += count
      return `${name}_bucket{${prefix}le="${this.#bounds[at] ?? '+Inf'}"} ${total}`
    })
    return [...buckets, `${name}_sum{${labels}} ${this.#sum}`, `${name}_count{${labels}} ${total}`]
  }
}

interface HistogramDescription {
  /** Its name in Prometheus. */
  readonly name: string
  readonly help: string
  /** The names of the labels. Dots of names of OpenTelemetry become underscores in Prometheus. */
  readonly labels: readonly string[]
  /** The upper bounds in seconds, ascending. */
  readonly bounds: readonly number[]
}

/** The number of sets of labels of one histogram; the conventions of OpenTelemetry have one more for all others. */
const MAX_SETS = 5000
const OVERFLOW = 'otel_metric_overflow="true"'

/** A histogram of durations, and its text in the format of Prometheus. */
export class Durations {
  readonly description: HistogramDescription
  readonly #names: readonly string[]
  readonly #sets = new Map<string, Counts>()
  #overflow: Counts | undefined

  constructor(description: HistogramDescription) {
    this.description = description
    this.#names = description.labels.map((label) => label.replaceAll('.', '_'))
  }

  /** The durations for these label values. */
  with(...values: readonly LabelValue[]): Duration {
    const pairs = this.#names.flatMap((label, at) => {
      const value = values[at]
      return value === undefined ? [] : [`${label}="${escaped(String(value))}"`]
    })
    const labels = pairs.join(',')
    const found = this.#sets.get(labels)
    if (found) return found
    if (this.#sets.size >= MAX_SETS) return (this.#overflow ??= new Counts([], this.description.bounds))
    const made = new Counts(values, this.description.bounds)
    this.#sets.set(labels, made)
    return made
  }

  /** The durations of each set of labels; of `overflow`, those of all sets beyond the limit. */
  get sets(): readonly { readonly counts: Counts; readonly isOverflow: boolean }[] {
    const own = [...this.#sets.values()].map((counts) => ({ counts, isOverflow: false }))
    return this.#overflow ? [...own, { counts: this.#overflow, isOverflow: true }] : own
  }

  get text(): string {
    const { name, help } = this.description
    const lines = [...this.#sets].flatMap(([labels, counts]) => counts.lines(name, labels))
    const rest = this.#overflow?.lines(name, OVERFLOW) ?? []
    return [`# HELP ${name} ${help}`, `# TYPE ${name} histogram`, ...lines, ...rest, ''].join('\n')
  }
}

/** Prometheus text format: backslashes, quotes and line feeds of label values are escaped. */
function escaped(value: string): string {
  return value
    .replaceAll('\\', String.raw`\\`)
    .replaceAll('"', String.raw`\"`)
    .replaceAll('\n', String.raw`\n`)
}
