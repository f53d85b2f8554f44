/**
 * Arguments whose only fault is `null` where a value may be left out. Clients written in Python and others send an
 * optional argument that has no value as `null`, and most servers take that for its absence, though the schema of the
 * tool does not name the type. Invariant: what is sent to the server is what the client sent.
 */
import { isObject } from '../../core/json.ts'
import type { Log } from '../../core/log.ts'
import type { SchemaProblem } from '../../core/schema.ts'
import type { Checks } from './checks.ts'

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
