/** Collects the results of the checks of one run, with the area and the subject that each belongs to. */
import type { CheckResult, CheckStatus } from '../report.ts'
import { sentenceOf } from './sentences.ts'

/** What a check is about. `latency` does not count in the score. */
export type Area = 'protocol' | 'definitions' | 'results' | 'refusals' | 'errors' | 'robustness' | 'latency'

/** The result of one check of a server. */
export interface ServerCheck extends CheckResult {
  readonly category: Area
  /** The tool, or the part of the protocol, which counts as one in the score. */
  readonly subject: string
}

interface Finding {
  readonly status: CheckStatus
  readonly message?: string | undefined
  readonly ms?: number
  /** What has to be true; by default the sentence of the id. */
  readonly description?: string
}

/** How many tools of a server were called, and of how many of them a valid call succeeded, of those that it lists. */
export interface Coverage {
  readonly called: number
  readonly answered: number
  readonly listed: number
}

/** How many problems a message names. */
const MAX_NAMED = 3

/** The results of a run. Equal ids, which names of the server can lead to, get numbers. */
export class Results {
  readonly #checks: ServerCheck[] = []
  readonly #ids = new Map<string, number>()
  readonly #called = new Set<string>()
  readonly #answered = new Set<string>()
  #listed: ReadonlySet<string> = new Set()
  readonly #clean: (text: string) => string

  /** `clean` removes secrets: names and messages may contain any text of the server. */
  constructor(clean: (text: string) => string) {
    this.#clean = clean
  }

  get all(): readonly ServerCheck[] {
    return this.#checks
  }

  get coverage(): Coverage {
    return { called: this.#called.size, answered: this.#answered.size, listed: this.#listed.size }
  }

  /** The called tools of which no valid call succeeded. */
  get unanswered(): readonly string[] {
    return [...this.#called].filter((tool) => !this.#answered.has(tool))
  }

  /** Notes the tools that the server lists. */
  listed(tools: readonly string[]): void {
    this.#listed = new Set(tools)
  }

  /** Notes that a listed tool was called. */
  called(tool: string): void {
    this.#called.add(tool)
  }

  /** Notes that a valid call of a tool succeeded. */
  answered(tool: string): void {
    this.#answered.add(tool)
  }

  /** Adds the result of a check. */
  add(area: Area, subject: string, id: string, { status, message, ms = 0, description }: Finding): void {
    const own = this.#clean(id)
    const count = (this.#ids.get(own) ?? 0) + 1
    this.#ids.set(own, count)
    this.#checks.push({
      test_id: count === 1 ? own : `${own}#${count}`,
      category: area,
      description: this.#clean(description ?? sentenceOf(subject, id)),
      subject: this.#clean(subject),
      status,
      duration_ms: Math.round(ms),
      ...(message !== undefined && message !== '' && { message: this.#clean(message) }),
    })
  }

  /** Adds a check that fails if there are problems, and otherwise passes with a note. */
  judge(
    area: Area,
    subject: string,
    id: string,
    { problems, note }: { problems: readonly string[]; note?: string | undefined },
  ): void {
    this.add(
      area,
      subject,
      id,
      problems.length === 0
        ? { status: 'passed', message: note }
        : { status: 'failed', message: summary(problems) },
    )
  }
}

/** The first problems, and how many more there are. */
export function summary(problems: readonly string[]): string {
  const more = problems.length - MAX_NAMED
  return `${problems.slice(0, MAX_NAMED).join('; ')}${more > 0 ? `; and ${more} more` : ''}`
}
