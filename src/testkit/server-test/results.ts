/** Collects the results of the checks of one run, with the area and the subject that each belongs to. */
import type { CheckResult, CheckStatus } from '../report.ts'

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

  /** The checks of a subject. */
  about(subject: string): SubjectChecks {
    return new SubjectChecks(this, subject)
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
}

/** Adds the checks of one subject, such as `tool/get_weather`, with which their ids begin. */
export class SubjectChecks {
  readonly #results: Results
  readonly #subject: string

  constructor(results: Results, subject: string) {
    this.#results = results
    this.#subject = subject
  }

  /** Adds the result of a check; without a name, it is the only one of the subject. */
  add(area: Area, name: string, finding: Finding): void {
    const id = name === '' ? this.#subject : `${this.#subject}/${name}`
    this.#results.add(area, this.#subject, id, finding)
  }

  /** Adds a check that does not apply. */
  skip(area: Area, name: string, message: string): void {
    this.add(area, name, { status: 'skipped', message })
  }

  /** Adds a check that fails if there is a problem, and otherwise passes with a note. */
  judge(
    area: Area,
    name: string,
    problem: string | readonly string[] | undefined,
    { note, ms }: { readonly note?: string | undefined; readonly ms?: number } = {},
  ): void {
    const problems = problem === undefined ? [] : [problem].flat()
    const isRight = problems.length === 0
    const message = isRight ? note : summary(problems)
    this.add(area, name, { status: isRight ? 'passed' : 'failed', message, ...(ms !== undefined && { ms }) })
  }
}

/** The first problems, and how many more there are. */
export function summary(problems: readonly string[]): string {
  const more = problems.length - MAX_NAMED
  return `${problems.slice(0, MAX_NAMED).join('; ')}${more > 0 ? `; and ${more} more` : ''}`
}

/** A form of what follows the subject in an id, and its sentence; `what` is the rest, `of` the name of the subject. */
type Form = readonly [pattern: RegExp, sentence: (of: string, what: string) => string]

const ofTools: readonly Form[] = [
  [/^valid$/, (of) => `Valid arguments for ${of} can be made from its input schema.`],
  [/^valid\/required$/, (of) => `${of} answers a call with only the required arguments.`],
  [/^valid\/all$/, (of) => `${of} answers a call with all of its arguments.`],
  [/^valid\/example-/, (of) => `${of} answers the call of an example.`],
  [/^valid\/(.+)$/, (of, what) => `${of} answers a call with ${what}.`],
  [/^missing\/(.+)$/, (of, what) => `${of} refuses a call without the argument ${what}.`],
  [/^wrong-type\/arguments$/, (of) => `${of} refuses arguments that are a list.`],
  [/^wrong-type\/(.+)\/null$/, (of, what) => `${of} refuses null for ${what}.`],
  [/^wrong-type\/(.+?)(?:\/item)?$/, (of, what) => `${of} refuses a value of another type for ${what}.`],
  [/^boundary\/(.+)\/([^/]+)$/, (of, what) => `${of} keeps to the limits that its schema sets for ${what}.`],
  [/^extra\//, (of) => `${of} refuses an argument that its schema does not allow.`],
  [/^hostile\/prototype$/, (of) => `${of} is not harmed by arguments named __proto__ and constructor.`],
  [
    /^hostile\/(.+)\/([^/]+)$/,
    (of, what) => `${of} answers a hostile text in ${what}, and does not execute it.`,
  ],
  [/^example-(\d+)$/, (of, what) => `Example ${what} of ${of} gives the result that it shows.`],
  [/^output-schema$/, (of) => `The structured content of ${of} fits its output schema.`],
  [/^structured-text$/, (of) => `The text of ${of} says the same as its structured content.`],
  [/^error-text$/, (of) => `Errors of ${of} reveal nothing of its inside.`],
  [/^latency$/, (of) => `${of} answers quickly.`],
  [/^repeat$/, (of) => `The same call of ${of} has the same result.`],
  [/^survives$/, (of) => `The server goes on after the calls of ${of}.`],
  [/^success$/, (of) => `A valid call of ${of} succeeds.`],
  [/\/undo$/, (of) => `The call of ${of} can be undone.`],
  [/^(?:calls|writes|left-out)$/, (of) => `${of} is called.`],
]

const ofOthers: Readonly<Record<string, readonly Form[]>> = {
  list: [
    [/^pages$/, (of) => `The pages of the list of ${of} end.`],
    [/^entries$/, (of) => `Each entry of the list of ${of} has its required members.`],
    [/^unique$/, (of) => `Nothing is twice in the list of ${of}.`],
    [/^left-out$/, () => 'Every listed tool is called.'],
    [/^names$/, () => 'Names of tools have 1 to 128 characters of A-Z, a-z, 0-9, "_", "-" and ".".'],
  ],
  prompt: [
    [/^get$/, (of) => `The prompt ${of} can be got.`],
    [/^missing\/(.+)$/, (of, what) => `The prompt ${of} is refused without its argument ${what}.`],
    [/^error-text$/, (of) => `Errors of the prompt ${of} reveal nothing of the server's inside.`],
  ],
  resource: [[/^read$/, (of) => `The resource ${of} can be read.`]],
  unknown: [
    [/^refused$/, (of) => `An unknown ${of} is refused with the right code.`],
    [/^error-text$/, (of) => `The error for an unknown ${of} reveals nothing of the server's inside.`],
  ],
  capability: [[/./, (of) => `The declared capability ${of} is implemented.`]],
  malformed: [
    [/^refused$/, (of) => `A malformed message (${of}) is refused or ignored.`],
    [/^survives$/, (of) => `The server goes on after a malformed message (${of}).`],
  ],
}

const whole: Readonly<Record<string, string>> = {
  'protocol/discovery': 'The server says its name, version, revision and capabilities.',
  'protocol/ping': 'The server answers ping.',
  'protocol/messages': 'Everything that the server sends is a message of JSON-RPC.',
  'protocol/response-ids': 'Each response answers one request, once.',
  'protocol/requests': 'The server requests nothing that the client did not declare.',
  'protocol/notifications': 'Notifications are of capabilities that the server declared.',
  'server/tested': 'The server is tested.',
  'server/available': 'The server can be reached during the whole test.',
}

/** The sentence for a check, whose id begins with its subject, such as `tool/get_weather`. */
export function sentenceOf(subject: string, id: string): string {
  const own = Object.hasOwn(whole, id) ? whole[id] : undefined
  if (own !== undefined) return own
  const slash = subject.indexOf('/')
  const [kind, of, rest] = [subject.slice(0, slash), subject.slice(slash + 1), id.slice(subject.length + 1)]
  const forms = kind === 'tool' ? ofTools : Object.hasOwn(ofOthers, kind) ? ofOthers[kind] : undefined
  for (const [pattern, sentence] of forms ?? []) {
    const found = pattern.exec(rest)
    if (found) return sentence(of, found[1] ?? '')
  }
  return `The server passes the check ${id}.`
}
