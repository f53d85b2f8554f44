import type { Call } from '../../core/call.ts'
import { isObject } from '../../core/json.ts'
import type { Redactor } from '../../core/redact.ts'
import type { Sent } from './sanitise.ts'

/** How much of a caller's arguments is looked at: values, and characters. */
const most = { values: 1000, characters: 65_536 }

/** What the caller of a call sent, gathered when it is first asked for. */
export function sentBy(call: Call, ours?: Redactor): Sent {
  let gathered: Gathered | undefined
  const all = (): Gathered => (gathered ??= gather(call.params.fields))
  const has = (text: string): boolean => text !== '' && all().texts.some((each) => each.includes(text))
  return {
    has,
    tailOf: (path) => {
      const ends = all().texts.filter((each) => /^[^/\\]/.test(each) && endsIn(path, each))
      return ends.toSorted((one, other) => other.length - one.length)[0]
    },
    hasKey: (key) => all().keys.has(key),
    ...(ours && { withoutOurs: (text) => ours.text(text, has) }),
  }
}

interface Gathered {
  readonly texts: string[]
  readonly keys: Set<string>
}

function gather(params: Readonly<Record<string, unknown>>): Gathered {
  const texts: string[] = []
  const keys = new Set<string>()
  const waiting: unknown[] = [params.arguments, params.uri, params.name]
  let characters = 0
  for (let at = 0; at < waiting.length && at < most.values && characters < most.characters; at++) {
    const value = waiting[at]
    if (typeof value === 'string') {
      texts.push(value.slice(0, most.characters))
      characters += value.length
    } else if (Array.isArray(value)) {
      const items: readonly unknown[] = value.slice(0, most.values)
      waiting.push(...items)
    } else if (isObject(value)) {
      const members = Object.entries(value).slice(0, most.values)
      for (const [key] of members) keys.add(key)
      waiting.push(...members.map(([, member]) => member))
    }
  }
  return { texts, keys }
}

function endsIn(path: string, tail: string): boolean {
  return path.length > tail.length && path.endsWith(tail) && /[/\\]/.test(path.at(-tail.length - 1) ?? '')
}
