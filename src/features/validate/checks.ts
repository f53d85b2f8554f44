import { isObject } from '../../core/json.ts'
import type { Log } from '../../core/log.ts'
import {
  type Check,
  type JsonSchema,
  type SchemaProblem,
  UnusableSchema,
  validator,
} from '../../core/schema.ts'

/** What became of looking at a value: the ways in which it does not fit, or why it was not looked at. */
type Verdict = readonly SchemaProblem[] | 'unchecked'

/** Checks values against the schemas of servers; each schema is compiled once, when it is first used. */
export interface Checks {
  /** `what` names the schema in the log. */
  of(schema: unknown, what: Readonly<Record<string, unknown>>): (value: unknown) => Verdict
}

/** Makes the checks of schemas. One that can not be used is told once, and lets everything through. */
export function createChecks(log: Log): Checks {
  const known = new WeakMap<object, (value: unknown) => Verdict>()
  return {
    of: (schema, what) => {
      if (!isObject(schema)) return unchecked
      const found = known.get(schema)
      if (found) return found
      const check = forgiving(schema, what, log)
      known.set(schema, check)
      return check
    },
  }
}

const unchecked = (): Verdict => 'unchecked'

function forgiving(
  schema: JsonSchema,
  what: Readonly<Record<string, unknown>>,
  log: Log,
): (value: unknown) => Verdict {
  let isTold = false
  const tell = (error: unknown): Verdict => {
    if (!(error instanceof UnusableSchema)) throw error
    if (!isTold) log.warn('validate.schema_unusable', { ...what, reason: error.message.slice(0, 300) })
    isTold = true
    return 'unchecked'
  }
  const onUnchecked = (pattern: string): void => {
    log.debug('validate.pattern_unchecked', { ...what, pattern: pattern.slice(0, 200) })
  }
  let check: Check | undefined
  return (value) => {
    try {
      check ??= validator(schema, { onUnchecked })
      return check(value)
    } catch (error) {
      return tell(error)
    }
  }
}
