/** What was found wrong in settings that name things of servers, and in what servers list and declare. */
import type { Log } from './log.ts'
import { oneLine, shortened } from './text/escape.ts'

/** A problem at a key of the configuration. */
export interface Finding {
  readonly path: readonly string[]
  readonly message: string
  /** Whether to point at the key instead of the value. */
  readonly at?: 'key'
  /** Worth a warning, but it does not prevent the gateway from serving. */
  readonly isMinor?: boolean
}

/** Logs problems of settings that are already in use. */
export function logProblems(found: readonly Finding[], log: Log): void {
  for (const { path, message, isMinor = false } of found)
    log[isMinor ? 'warn' : 'error']('config.problem', { key: path.join('.'), problem: message })
}

/** What is wrong with one entry of a list, with a list, or with the answer to a request. */
export interface ServerFinding {
  /** The name or the URI of the entry, or its position; absent if it is about all of the answer. */
  readonly entry?: string
  /** In words, such as `annotations is null: removed`. */
  readonly problem: string
  /** Why an entry is left out: a JSON pointer to the cause in it; empty for all of it. */
  readonly pointer?: string
}

/** The maximum number of findings kept for each method, and logged for a server. */
const MAX_FINDINGS = 100
const MAX_LOGGED_FINDINGS = 50
/** The maximum length of the name of an entry, and of a problem, in characters. */
const MAX_ENTRY_LENGTH = 100
const MAX_PROBLEM_LENGTH = 500

/**
 * What was wrong in what one server lists and declares, and what the gateway did about it. Each finding is logged once, and
 * kept until the server is asked again, for those who ask for it.
 */
export class ServerFindings {
  readonly #log: Log
  readonly #redacted: (text: string) => string
  readonly #byMethod = new Map<string, readonly ServerFinding[]>()
  readonly #logged = new Set<string>()

  constructor(log: Log, redacted: (text: string) => string) {
    this.#log = log
    this.#redacted = redacted
  }

  /** The findings as texts. */
  get texts(): readonly string[] {
    return [...this.#byMethod].flatMap(([method, found]) =>
      found.map(({ entry, problem, pointer }) => {
        const where = pointer === undefined || pointer === '' ? '' : ` (${pointer})`
        return `${[method, entry, problem].filter(Boolean).join(': ')}${where}`
      }),
    )
  }

  /** Sets the findings of the answer to a method; those of a further page are added. */
  set(method: string, found: readonly ServerFinding[], isFurther = false): void {
    const before = (isFurther ? this.#byMethod.get(method) : undefined) ?? []
    const readable = found.slice(0, MAX_FINDINGS - before.length).map((each) => this.#readable(each))
    if (before.length + readable.length === 0) this.#byMethod.delete(method)
    else this.#byMethod.set(method, [...before, ...readable])
    for (const finding of readable) this.#report(method, finding)
  }

  #readable({ entry, problem, pointer }: ServerFinding): ServerFinding {
    const text = (given: string, max: number): string => shortened(oneLine(this.#redacted(given)), max)
    return {
      ...(entry !== undefined && { entry: text(entry, MAX_ENTRY_LENGTH) }),
      problem: text(problem, MAX_PROBLEM_LENGTH),
      ...(pointer !== undefined && { pointer: text(pointer, MAX_PROBLEM_LENGTH) }),
    }
  }

  #report(method: string, { entry, problem, pointer }: ServerFinding): void {
    const key = `${method} ${entry} ${problem}`
    if (this.#logged.has(key) || this.#logged.size >= MAX_LOGGED_FINDINGS) return
    this.#logged.add(key)
    this.#log.warn('upstream.invalid', {
      method,
      ...(entry !== undefined && { entry }),
      problem,
      ...(pointer !== undefined && { pointer }),
    })
  }
}
