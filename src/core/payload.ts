/**
 * A JSON value that keeps its original text: members are read and edited in the text, and parsed only on demand.
 * Unchanged parts are passed on byte for byte.
 */
import { addMembers, editMembers, elements, asObject, isObject, type Member, members } from './json/json.ts'
import { parseJson, setOwn } from './json/read.ts'

/**
 * The members of a JSON object. As edits for `with`, they are values, payloads whose text is kept, or `undefined` to
 * remove the member.
 */
export type Fields = Readonly<Record<string, unknown>>

/**
 * A JSON value that keeps its original text: it is parsed at most once, and encoded only where it changed.
 * Treat `value` as read-only; change a payload with `with`.
 */
export class Payload {
  #text: string | undefined
  #value: unknown
  #isParsed: boolean
  readonly #base: Payload | undefined
  readonly #edits: Fields | undefined
  /** Where the members are in the text, once that was asked. */
  #members: readonly Member[] | undefined
  #isRedacted = false

  private constructor(text: string | undefined, value?: unknown, base?: Payload, edits?: Fields) {
    this.#text = text
    this.#value = value
    this.#isParsed = value !== undefined
    this.#base = base
    this.#edits = edits
  }

  /** Wraps JSON text that is known to be valid; `value` is its parsed value, if known. */
  static text(text: string, value?: unknown): Payload {
    return new Payload(text, value)
  }

  /** Wraps a value. */
  static of(value: unknown): Payload {
    return new Payload(undefined, value ?? null)
  }

  /** An array of values that keep their texts. */
  static list(items: readonly Payload[]): Payload {
    return new Payload(`[${items.map(({ text }) => text).join(',')}]`)
  }

  /** Whether secrets were taken out of it, or of what it is a copy of: it is not exactly what its sender said. */
  get isRedacted(): boolean {
    return this.#isRedacted || this.#base?.isRedacted === true
  }

  /** The same payload, of which `isRedacted` is true. */
  asRedacted(): this {
    this.#isRedacted = true
    return this
  }

  get value(): unknown {
    if (!this.#isParsed) {
      this.#value =
        this.#base && this.#edits ? edited(this.#base.fields, this.#edits) : parseJson(this.#text ?? 'null')
      this.#isParsed = true
    }
    return this.#value
  }

  /** The members if the value is an object; otherwise none. */
  get fields(): Readonly<Record<string, unknown>> {
    const value = this.value
    return asObject(value)
  }

  get text(): string {
    return (this.#text ??= this.#encode())
  }

  /** A copy of this object with top-level members set or removed; everything else keeps its text. */
  with(fields: Fields): Payload {
    if (this.#base && this.#text === undefined) {
      return new Payload(undefined, undefined, this.#base, { ...this.#edits, ...fields })
    }
    return new Payload(undefined, undefined, this, fields)
  }

  /** A copy of this object with members of its `_meta` set or removed; an empty `_meta` is removed. */
  withMeta(fields: Fields): Payload {
    return this.with({ _meta: this.metaWith(fields) })
  }

  /** Its `_meta` with members set or removed, for `with`; undefined if that leaves it empty. */
  metaWith(fields: Fields): Payload | undefined {
    const before = this.at('_meta') ?? EMPTY
    // Only a removal can leave it empty; otherwise its members need not be assembled.
    let isRemoval = false
    for (const key in fields) isRemoval ||= fields[key] === undefined
    if (isRemoval && isEmptied(before.fields, fields)) return undefined
    return before.with(fields)
  }

  /**
   * A copy of this object in which `change` was applied to every element of an array; unchanged elements keep their
   * text.
   */
  withItems(key: string, change: (item: Payload) => Payload): Payload {
    const items = this.at(key)?.items ?? []
    const changed = items.map((item) => change(item))
    if (changed.every((element, index) => element === items[index])) return this
    return this.with({ [key]: Payload.list(changed) })
  }

  /** A copy of this object with an element appended to an array, which is created if absent. */
  withItem(key: string, item: unknown): Payload {
    return this.with({ [key]: Payload.list([...(this.at(key)?.items ?? []), Payload.of(item)]) })
  }

  /** The value of one member, without assembling an edited object. */
  member(key: string): unknown {
    if (!this.#base || !this.#edits || this.#isParsed) return this.fields[key]
    if (!Object.hasOwn(this.#edits, key)) return this.#base.member(key)
    const edit = this.#edits[key]
    return edit instanceof Payload ? edit.value : edit
  }

  /** The value of one member of its `_meta`, also without assembling it. */
  meta(key: string): unknown {
    if (this.#base && this.#edits && !this.#isParsed) {
      if (!Object.hasOwn(this.#edits, '_meta')) return this.#base.meta(key)
      const edit = this.#edits._meta
      if (edit instanceof Payload) return edit.member(key)
    }
    const meta = this.member('_meta')
    return isObject(meta) ? meta[key] : undefined
  }

  /** One member as a payload, with its text. */
  at(key: string): Payload | undefined {
    if (this.#base && this.#edits) {
      if (!Object.hasOwn(this.#edits, key)) return this.#base.at(key)
      const edit = this.#edits[key]
      return edit === undefined || edit instanceof Payload ? edit : Payload.of(edit)
    }
    const { fields } = this
    if (!Object.hasOwn(fields, key)) return undefined
    if (this.#text === undefined) return Payload.of(fields[key])
    const member = this.#index(this.#text).findLast((item) => item.key === key)
    return member && Payload.text(this.#text.slice(member.valueStart, member.end), fields[key])
  }

  #index(text: string): readonly Member[] {
    return (this.#members ??= members(text))
  }

  /** The elements of an array as payloads, with their texts. */
  get items(): Payload[] {
    const { value } = this
    if (!Array.isArray(value)) return []
    if (this.#text === undefined) return value.map((item) => Payload.of(item))
    return elements(this.#text).map((text, index) => Payload.text(text, value[index]))
  }

  toJSON(): unknown {
    return this.value
  }

  #encode(): string {
    const base = this.#base
    if (!base || !this.#edits) return JSON.stringify(this.#value) ?? 'null'
    const { fields } = base
    let added = ''
    // Most edits only add members.
    let changes: Map<string, string | undefined> | undefined
    for (const key in this.#edits) {
      const edit = this.#edits[key]
      const text = edit instanceof Payload ? edit.text : JSON.stringify(edit)
      if (Object.hasOwn(fields, key)) (changes ??= new Map()).set(key, text)
      else if (text !== undefined) added += `${added === '' ? '' : ','}${quoted(key)}:${text}`
    }
    const text = isObject(base.value) ? base.text : '{}'
    const changed = changes ? editMembers(text, changes, base.#index(text)) : text
    return added === '' ? changed : addMembers(changed, added)
  }
}

/**
 * An object with one member, for values set with each call: V8 takes ten times as long for a literal with a computed
 * key.
 */
export function only(key: string, value: unknown): Fields {
  const fields: Record<string, unknown> = {}
  fields[key] = value
  return fields
}

const EMPTY = Payload.text('{}', {})

/** Whether an object has no members after they were set or removed. */
function isEmptied(base: Fields, edits: Fields): boolean {
  for (const key in base) if (!Object.hasOwn(edits, key)) return false
  for (const key in edits) if (edits[key] !== undefined) return false
  return true
}

/** A key as JSON. Nearly all keys are a few of the gateway's own; those of callers and servers are evicted. */
function quoted(key: string): string {
  const known = quotedKeys.get(key)
  if (known !== undefined) return known
  if (quotedKeys.size >= MAX_CACHED_KEYS) quotedKeys.clear()
  const text = JSON.stringify(key)
  if (key.length <= MAX_CACHED_KEY_LENGTH) quotedKeys.set(key, text)
  return text
}

const quotedKeys = new Map<string, string>()
/** The maximum number of cached keys, and the maximum length of a cached key in characters. */
const MAX_CACHED_KEYS = 200
const MAX_CACHED_KEY_LENGTH = 100

function edited(base: Readonly<Record<string, unknown>>, edits: Fields): Record<string, unknown> {
  const value: Record<string, unknown> = { ...base }
  for (const [key, edit] of Object.entries(edits)) {
    if (edit === undefined) delete value[key]
    else setOwn(value, key, edit instanceof Payload ? edit.value : edit)
  }
  return value
}
