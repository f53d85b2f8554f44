/**
 * Typed records in the store. A kind of records says how they are written and read, how long they are kept, and how many
 * there may be.
 *
 * Invariants: a record changes by compare-and-swap, so no concurrent change is lost, and a write is durable once its promise
 * resolves. A text that its kind cannot read, because it is damaged or of another version, counts as no record: `update` may
 * replace it, `insert` does not. Beyond its bounds a kind refuses records; it never removes others for them.
 */
import { GatewayError } from '../core/error.ts'
import { isObject, readJson } from '../core/json/json.ts'
import { world } from '../core/world.ts'
import { FOREVER, type KeyPrefix, type Store } from '../store/store.ts'
import { type Bounds, type Caller, type Capacity, capacityOf, limitReached } from './bounds.ts'
import { casUpdate, type CasUpdate } from './cas-update.ts'
import { partOf } from './process-scope.ts'

/**
 * A kind of records. The key of a record is the prefix and its id. Its owner, if it has one, is the part of the id before the
 * first `:` or `/`, such as the hash of a caller.
 */
export interface RecordKind<Item> {
  /** What one is called in errors, such as `upload`. */
  readonly name: string
  /**
   * With a slash at the end, such as `upload/`, all records can be listed. Otherwise, as in `operation:`, those of one owner
   * can, if the ids are `<owner>/<name>`.
   */
  readonly prefix: KeyPrefix
  encode(record: Item): string
  /** The record of a text; undefined if the kind cannot read it. */
  decode(text: string): Item | undefined
  /** How long a record is kept from now on, in milliseconds; absent if every write says it. */
  ttlOf?(record: Item, now: number): number
  /** Limits that hold together. */
  readonly bounds?: readonly Bounds<Item>[]
  /**
   * The bounds hold whatever other processes add at the same time: a record is counted once it is there, and withdrawn if it
   * is too much. Otherwise it is counted before.
   */
  readonly isStrict?: true
  /** Texts of a list that are the same as the last time are not read again. */
  readonly isReadOften?: true
  /** The error if a record changes too often to be written. Default: CONFLICT. */
  busy?(): GatewayError
}

/** What becomes of a record: another one, no change, or none. */
export type RecordDecision<Item> = Item | 'keep' | 'remove'

/** A record that was there before; without `record` if its kind cannot read it. */
interface Existing<Item> {
  readonly record: Item | undefined
}

/** The records of one kind in a store. Every method throws what the store throws, such as SERVER_UNAVAILABLE. */
export class Collection<Item extends object> {
  readonly #store: Store
  readonly #kind: RecordKind<Item>
  readonly #now: () => number
  /** What was listed last, if the kind is read often. */
  #listed: ReadonlyMap<string, { readonly text: string; readonly record: Item | undefined }> = new Map()

  /** `now` returns milliseconds since 1970. */
  constructor(store: Store, kind: RecordKind<Item>, now: () => number = world.now) {
    this.#store = store
    this.#kind = kind
    this.#now = now
  }

  /** The key of a record in the store, and its id by that. */
  keyOf(id: string): string {
    return `${this.#kind.prefix}${id}`
  }

  idIn(key: string): string {
    return key.slice(this.#kind.prefix.length)
  }

  async get(id: string): Promise<Item | undefined> {
    return this.#read(await this.#store.get(this.keyOf(id)))
  }

  /** Whether there is anything under this id, whether it can be read or not. */
  async has(id: string): Promise<boolean> {
    return (await this.#store.get(this.keyOf(id))) !== undefined
  }

  /** The records of an owner, or of all, by id, in no particular order; only texts that match are read. */
  async list(owner?: string, matches?: (text: string) => boolean): Promise<ReadonlyMap<string, Item>> {
    const records = new Map<string, Item>()
    const listed = new Map<string, { readonly text: string; readonly record: Item | undefined }>()
    for (const [id, text] of await this.#texts(owner)) {
      if (matches && !matches(text)) continue
      const known = this.#listed.get(id)
      const entry = known?.text === text ? known : { text, record: this.#read(text) }
      if (this.#kind.isReadOften) listed.set(id, entry)
      if (entry.record) records.set(id, entry.record)
    }
    // A list of some of them would forget the others.
    if (owner === undefined && !matches) this.#listed = listed
    return records
  }

  /** The ids of what there is, whether it can be read or not. */
  async ids(owner?: string): Promise<readonly string[]> {
    return (await this.#texts(owner)).map(([id]) => id)
  }

  /** The records without their ids. */
  async all(owner?: string): Promise<readonly Item[]> {
    return [...(await this.list(owner)).values()]
  }

  /**
   * Writes a record, whatever is there, and whatever the bounds. `ttl` is in milliseconds, as in all methods. Resolves with
   * the length of its text.
   */
  async put(id: string, record: Item, ttl?: number): Promise<number> {
    const text = this.#kind.encode(record)
    await this.#store.put(this.keyOf(id), text, this.#ttlOf(record, ttl))
    return text.length
  }

  /**
   * Adds a record, unless there is one with this id: resolves with that one then. @throws QUOTA_EXHAUSTED, or another error
   * of the bounds, if all owners together have too much, or the owner has used up its share
   */
  async insert(
    id: string,
    record: Item,
    caller: Caller = {},
    ttl?: number,
  ): Promise<Existing<Item> | undefined> {
    const { bounds, isStrict, prefix } = this.#kind
    const add = async (): Promise<Existing<Item> | undefined> => {
      const text = this.#kind.encode(record)
      const found = await this.#store.setIfAbsent(this.keyOf(id), text, this.#ttlOf(record, ttl))
      return found === undefined ? undefined : { record: this.#read(found) }
    }
    if (!bounds) return add()
    // Of several that are counted at once, each would be the last one, or all would be refused.
    return partOf(this.#store, Turns).run(prefix, async () => {
      if (!isStrict) await this.#mustFit(id, record, caller)
      const existing = await add()
      if (existing || !isStrict) return existing
      try {
        await this.#mustFit(id, record, caller)
      } catch (error) {
        // A record that has changed is in use already.
        if (await this.withdraw(id, record)) throw error
      }
      return undefined
    })
  }

  /**
   * Changes a record, or adds one if there is none, whatever the bounds. After a lost race `decide` runs again, on the record
   * that is there then. `onSized` gets by how many characters the text grew, unless it was kept. Resolves with the record
   * after the change. @throws what `decide` throws, CONFLICT after many races
   */
  update(
    id: string,
    decide: (before: Item | undefined) => RecordDecision<Item>,
    ttl?: number,
    onSized?: (grownBy: number) => void,
  ): Promise<Item | undefined> {
    const decided = (before: Item | undefined): readonly [RecordDecision<Item>, Item | undefined] => {
      const decision = decide(before)
      if (decision === 'keep') return [decision, before]
      return [decision, decision === 'remove' ? undefined : decision]
    }
    return this.change(id, decided, ttl, onSized)
  }

  /** The same, for changes that find out more than the next record: resolves with the result of the last decision. */
  async change<Result>(
    id: string,
    decide: (before: Item | undefined) => readonly [RecordDecision<Item>, Result],
    ttl?: number,
    onSized?: (grownBy: number) => void,
  ): Promise<Result> {
    // Of the last decision: those before lost a race.
    let grownBy: number | undefined
    const decided = (before: string | undefined): CasUpdate<Result> => {
      const [decision, result] = decide(this.#read(before))
      const text = typeof decision === 'object' ? this.#kind.encode(decision) : ''
      grownBy = decision === 'keep' ? undefined : text.length - (before?.length ?? 0)
      if (decision === 'keep') return { result }
      if (decision === 'remove') return { result, write: 'remove' }
      return { result, write: { text, ttl: this.#ttlOf(decision, ttl) } }
    }
    const result = await casUpdate(this.#store, this.keyOf(id), decided, () => {
      throw this.#kind.busy?.() ?? changedTooOften(this.#kind)
    })
    if (grownBy !== undefined) onSized?.(grownBy)
    return result
  }

  /** Removes a record that is as it was written; resolves with whether there is none any more. */
  async withdraw(id: string, record: Item): Promise<boolean> {
    const isRemoved = await this.#store.compareAndDelete(this.keyOf(id), this.#kind.encode(record))
    return isRemoved || !(await this.has(id))
  }

  /** Keeps what is under an id for `ttl` more milliseconds, as it is, unless it changes in the meantime. */
  async extend(id: string, ttl: number): Promise<void> {
    const key = this.keyOf(id)
    const text = await this.#store.get(key)
    if (text !== undefined) await this.#store.compareAndSwap(key, text, text, ttl)
  }

  /** Removes what is under an id; resolves with whether there was anything. */
  remove(id: string): Promise<boolean> {
    return this.#store.delete(this.keyOf(id))
  }

  /** What may be added besides what there is, without the record of the id, which says whose records they would be. */
  async capacity(id: string, caller: Caller = {}): Promise<Capacity> {
    const found = (await this.#measured(id, caller)).map(({ capacity }) => capacity)
    return {
      count: Math.min(...found.map(({ count }) => count)),
      all: Math.min(...found.map(({ all }) => all)),
      own: Math.min(...found.map(({ own }) => own)),
    }
  }

  /** @throws QUOTA_EXHAUSTED, or another error of the bounds, if a record is too much besides all others */
  async #mustFit(id: string, record: Item, caller: Caller): Promise<void> {
    for (const { bound, capacity } of await this.#measured(id, caller)) {
      const size = bound.sizeOf ? bound.sizeOf(record) : this.#kind.encode(record).length
      const limit = size === undefined ? undefined : limitReached(capacity, size)
      if (limit) throw bound.refuse?.(limit, Math.min(capacity.all, capacity.own)) ?? tooMany(this.#kind)
    }
  }

  /** The bounds, with what may be added within each of them. */
  async #measured(id: string, caller: Caller) {
    const owner = ownerIn(id)
    const texts = await this.#texts(this.#isListable ? undefined : owner)
    const { bounds = [] } = this.#kind
    const isRead = bounds.some(({ sizeOf }) => sizeOf)
    const others = texts.flatMap(([other, text]) =>
      other === id ? [] : [{ owner: ownerIn(other), text, record: isRead ? this.#read(text) : undefined }],
    )
    return bounds.map((bound) => {
      const entries = others.flatMap(({ owner: other, text, record }) => {
        const size = bound.sizeOf ? sizeIn(record, bound.sizeOf) : text.length
        return size === undefined ? [] : [{ owner: other, size }]
      })
      return { bound, capacity: capacityOf(entries, bound, { ...caller, owner }) }
    })
  }

  get #isListable(): boolean {
    return this.#kind.prefix.endsWith('/')
  }

  #read(text: string | undefined): Item | undefined {
    try {
      return text === undefined ? undefined : this.#kind.decode(text)
    } catch {
      // One record that its kind did not expect must not hide all others.
      return undefined
    }
  }

  #ttlOf(record: Item, ttl = this.#kind.ttlOf?.(record, this.#now())): number {
    if (ttl === undefined) throw new TypeError(`${this.#kind.name}: a write has to say how long it is kept`)
    return Math.min(Math.max(1, ttl), FOREVER)
  }

  async #texts(owner: string | undefined): Promise<readonly (readonly [id: string, text: string])[]> {
    const { prefix } = this.#kind
    const collection = this.#isListable ? prefix.slice(0, -1) : `${prefix}${owner ?? ''}`
    const found = await this.#store.scan(collection)
    const entries = [...found].map(([key, text]) => [this.idIn(key), text] as const)
    return owner === undefined ? entries : entries.filter(([id]) => ownerIn(id) === owner)
  }
}

/** The owner in the id of a record. */
export function ownerIn(id: string): string {
  return id.split(/[:/]/, 1)[0] ?? ''
}

/** What cannot be read counts, without a size. */
function sizeIn<Item>(
  record: Item | undefined,
  sizeOf: (record: Item) => number | undefined,
): number | undefined {
  return record === undefined ? 0 : sizeOf(record)
}

function tooMany({ name }: Pick<RecordKind<object>, 'name'>): GatewayError {
  return new GatewayError('QUOTA_EXHAUSTED', `Too many records of this kind are kept: ${name}.`, {
    suggestion: 'Wait until some of them expire.',
  })
}

function changedTooOften({ name }: Pick<RecordKind<object>, 'name'>): GatewayError {
  return new GatewayError('CONFLICT', `The ${name} changed too often to be written.`, {
    suggestion: 'Repeat the request.',
  })
}

/** The members that every record of a kind has, by what their values are; a principal is an object with an id. */
type RequiredMembers<Item> = Partial<
  Record<'string' | 'number' | 'object' | 'list' | 'principal', readonly (keyof Item & string)[]>
>

/** How records are written and read that are JSON; without the required members a value is none of this version. */
export function asJson<Item extends object>(
  required: RequiredMembers<Item>,
): Pick<RecordKind<Item>, 'encode' | 'decode'> {
  const isItem = hasMembers<Item>(required)
  return {
    encode: (record) => JSON.stringify(record),
    decode: (text) => {
      const value = readJson(text)
      return isItem(value) ? value : undefined
    },
  }
}

/** Finds out whether a value has the required members of records of a kind. */
export function hasMembers<Item extends object>({
  string = [],
  number = [],
  object = [],
  list = [],
  principal = [],
}: RequiredMembers<Item>): (value: unknown) => value is Item {
  return (value): value is Item =>
    isObject(value) &&
    string.every((name) => typeof value[name] === 'string') &&
    number.every((name) => typeof value[name] === 'number') &&
    object.every((name) => isObject(value[name])) &&
    list.every((name) => Array.isArray(value[name])) &&
    principal.map((name) => value[name]).every((each) => isObject(each) && typeof each.id === 'string')
}

/** The last insertion into each collection of a store, which the next one waits for. */
class Turns {
  readonly #last = new Map<string, Promise<unknown>>()

  run<Value>(prefix: string, insert: () => Promise<Value>): Promise<Value> {
    const done = (this.#last.get(prefix) ?? Promise.resolve()).then(insert)
    this.#last.set(
      prefix,
      done.catch(() => undefined),
    )
    return done
  }
}
