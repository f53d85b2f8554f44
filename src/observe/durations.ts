/** The durations of one set of labels. */
export interface Duration {
  observe(seconds: number): void
}

/** How many took at most so long, for each bound and, last, for all others; and how long they took together. */
class Counts implements Duration {
  readonly #bounds: readonly number[]
  readonly #counts: Float64Array
  #sum = 0

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds
    this.#counts = new Float64Array(bounds.length + 1)
  }

  observe(seconds: number): void {
    let at = 0
    while (at < this.#bounds.length && seconds > (this.#bounds[at] ?? 0)) at++
    this.#counts[at] = (this.#counts[at] ?? 0) + 1
    this.#sum += seconds
  }

  /** The lines of this set of labels. */
  lines(name: string, labels: string): string[] {
    const prefix = labels === '' ? '' : `${labels},`
    let total = 0
    const buckets = [...this.#counts].map((count, at) => {
      total += count
      return `${name}_bucket{${prefix}le="${this.#bounds[at] ?? '+Inf'}"} ${total}`
    })
    return [...buckets, `${name}_sum{${labels}} ${this.#sum}`, `${name}_count{${labels}} ${total}`]
  }
}

interface DurationsOptions {
  readonly name: string
  readonly help: string
  readonly labels: readonly string[]
  /** The upper bounds in seconds, each higher than the one before. */
  readonly bounds: readonly number[]
}

/**
 * A histogram of durations in the text format of Prometheus. Every call is counted here: the library takes a
 * hundred times as long to find the labels again.
 */
export class Durations {
  readonly #options: DurationsOptions
  readonly #sets = new Map<string, Counts>()

  constructor(options: DurationsOptions) {
    this.#options = options
  }

  /** The durations with these values of the labels. */
  with(...values: readonly string[]): Duration {
    const pairs = this.#options.labels.map((label, at) => `${label}="${escaped(values[at] ?? '')}"`)
    const labels = pairs.join(',')
    const found = this.#sets.get(labels) ?? new Counts(this.#options.bounds)
    this.#sets.set(labels, found)
    return found
  }

  get text(): string {
    const { name, help } = this.#options
    const sets = [...this.#sets].flatMap(([labels, counts]) => counts.lines(name, labels))
    return [`# HELP ${name} ${help}`, `# TYPE ${name} histogram`, ...sets, ''].join('\n')
  }
}

/** Prometheus text format: backslashes, quotes and line feeds of label values are escaped. */
function escaped(value: string): string {
  return value
    .replaceAll('\\', String.raw`\\`)
    .replaceAll('"', String.raw`\"`)
    .replaceAll('\n', String.raw`\n`)
}
