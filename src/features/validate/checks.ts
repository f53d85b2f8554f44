/** Compiled checks of schemas, with their tolerance for nulls and for unusable schemas. */
import type { Outcome } from '../../core/call.ts'
import type { Descriptor } from '../../core/descriptor.ts'
import { GatewayError } from '../../core/error.ts'
import { isObject } from '../../core/json/json.ts'
import type { Log } from '../../core/log.ts'
import { isAnswer } from '../../core/outcome.ts'
import type { Payload } from '../../core/payload.ts'
import {
  type Check,
  type JsonSchema,
  type SchemaProblem,
  UnusableSchema,
  validator,
} from '../../core/schema/schema.ts'

/** What became of looking at a value: the ways in which it does not fit, or why it was not looked at. */
type Verdict = readonly SchemaProblem[] | 'unchecked'

/** Checks values against the schemas of servers; each schema is compiled once, when it is first used. */
export interface Checks {
  /** `what` names the schema in the log. */
  of(schema: unknown, what: Readonly<Record<string, unknown>>): (value: unknown) => Verdict
}

/** Makes the checks of schemas. One that cannot be used is logged once, and accepts everything. */
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

/**
 * Arguments whose only fault is `null` where a value may be left out. Clients written in Python and others send an
 * optional argument that has no value as `null`, and most servers take that for its absence, though the schema of the
 * tool does not name the type. Invariant: what is sent to the server is what the client sent.
 */

/** Finds such arguments. */
export interface NullTolerance {
  /** Whether arguments that do not fit would, without the members that are `null`. It is logged once for each tool. */
  isOnlyNulls(given: unknown, problems: readonly SchemaProblem[], checked: Checked): boolean
}

interface Checked {
  readonly check: ReturnType<Checks['of']>
  readonly upstream: string
  readonly tool: string
}

/** For how many tools it is remembered that it was logged. */
const MAX_LOGGED = 1000

/** Begins with nothing logged. */
export function createNullTolerance(log: Log): NullTolerance {
  const logged = new Set<string>()
  return {
    isOnlyNulls: (given, problems, { check, upstream, tool }) => {
      // What the schema does not name is not optional.
      if (problems.some(({ keyword }) => keyword.endsWith('Properties'))) return false
      const without = withoutNulls(given)
      const left = without === given ? problems : check(without)
      if (left === 'unchecked' || left.length > 0) return false
      const key = `${upstream} ${tool}`
      if (!logged.has(key) && logged.size < MAX_LOGGED) {
        logged.add(key)
        const hint = 'the input schema does not name the type null: leave the argument out instead'
        log.warn('validate.null_taken', { upstream, tool, hint })
      }
      return true
    },
  }
}

/** A value without the members of objects that are `null`; the same value where it has none. */
function withoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) {
    const items = value.map(withoutNulls)
    return items.every((item, index) => item === value[index]) ? value : items
  }
  if (!isObject(value)) return value
  const entries = Object.entries(value)
  const kept = entries.flatMap(([key, member]) =>
    member === null ? [] : [[key, withoutNulls(member)] as const],
  )
  const isSame =
    kept.length === entries.length && kept.every(([, member], index) => member === entries[index]?.[1])
  return isSame ? value : Object.fromEntries(kept)
}

/** Looks at what a tool answers. */
export type OutputCheck = (answer: Promise<Outcome>, entry: Descriptor) => Promise<Outcome>

/** Makes the check of answers: each has content, and structured content that fits where the tool promises it. */
export function createOutputCheck(mode: 'off' | 'warn' | 'strict', checks: Checks, log: Log): OutputCheck {
  /** Tools whose answers were found not to fit. */
  const told = new WeakSet<object>()

  const look = (result: Payload, { definition, upstream, name }: Descriptor): void => {
    const { outputSchema } = definition
    if (!isObject(outputSchema) || (mode === 'warn' && told.has(definition))) return
    const structuredContent = result.member('structuredContent')
    const reason = (): string | undefined => {
      if (structuredContent === undefined) return 'it has no structured content'
      const schema = { upstream, tool: name, schema: 'output' }
      const problems = checks.of(outputSchema, schema)(structuredContent)
      const [first] = problems === 'unchecked' ? [] : problems
      return first && `${['structuredContent', ...first.path].join('.')} ${first.message}`
    }
    const why = reason()
    if (why === undefined) return
    if (!told.has(definition))
      log.warn('validate.output', { upstream, tool: name, reason: why.slice(0, 300) })
    told.add(definition)
    if (mode === 'warn') return
    throw new GatewayError(
      'UPSTREAM_ERROR',
      'The server answered with something its output schema forbids.',
      {
        suggestion: 'The call may have taken effect: check before making it again.',
        details: { classified_by: 'output_schema' },
      },
    )
  }

  return (answer, entry) => {
    const isWatched = mode !== 'off' && isObject(entry.definition.outputSchema)
    return answer.then((outcome) => {
      if (outcome.kind !== 'result' || !isAnswer(outcome.result)) return outcome
      const { result } = outcome
      if (isWatched) look(result, entry)
      if (result.member('content') !== undefined) return outcome
      if (result.member('structuredContent') !== undefined) return outcome
      return { kind: 'result', result: result.with({ content: [] }) }
    })
  }
}
