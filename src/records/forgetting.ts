/**
 * Erases what a store has of a person, by the rules of `records/persons.ts`. All values are looked through, as most are found by
 * no index.
 *
 * Invariant: a value is erased as it is then, by compare-and-swap, so nothing that was written meanwhile is lost; and nothing is
 * erased while something of the person runs.
 */
import { world } from '../core/world.ts'
import { casUpdate } from '../durable/cas-update.ts'
import { memberIn } from '../durable/members.ts'
import type { PortableStore } from '../store/store.ts'
import { type Fate, fateOf, type Person } from './persons.ts'
import { windowsOf } from './principal.ts'

/** How many of which kind, by what it is for people. */
export type Counts = ReadonlyMap<string, number>

/** What a store has of a person. */
export interface Survey {
  readonly counts: Counts
  /** What runs, and how much of it: nothing may be erased before that has ended. */
  readonly running: Counts
  /** The keys of the values, and until when each is kept, in milliseconds since 1970. */
  readonly values: ReadonlyMap<string, number>
  /** The keys of rate limit windows. */
  readonly windows: readonly string[]
  /** The gateways that are alive. */
  readonly alive: ReadonlySet<string>
}

/** How many values are erased at the same time. */
const MAX_BATCH_VALUES = 100
/** How often a store is looked through again, for what calls wrote that ended meanwhile. */
const MAX_PASSES = 3

/** What rate limit windows are for people. */
const RATES = 'rate limits'

/** Looks through a store. @throws what the store throws */
export async function survey(store: PortableStore, person: Person): Promise<Survey> {
  const counts = new Map<string, number>()
  const values = new Map<string, number>()
  const running: NonNullable<Fate['running']>[] = []
  const alive = new Set<string>()
  for await (const { key, value, until } of store.entries()) {
    const member = memberIn(key)
    if (member !== undefined) alive.add(member)
    const fate = fateOf({ key, text: value }, person)
    if (!fate) continue
    values.set(key, until)
    addAll(counts, fate.counts)
    if (fate.running) running.push(fate.running)
  }
  const windows = await store.windows(`${windowsOf(person.id)}}`)
  if (windows.length > 0) counts.set(RATES, windows.length)
  const whats = Map.groupBy(
    running.filter((each) => isPresent(each, alive)),
    ({ what }) => what,
  )
  return {
    counts,
    running: new Map([...whats].map(([what, each]) => [what, each.length])),
    values,
    windows,
    alive,
  }
}

/** Whether something runs: of a gateway that has ended, nothing does. */
function isPresent({ by }: NonNullable<Fate['running']>, alive: ReadonlySet<string>): boolean {
  return by === undefined || alive.has(by)
}

/** Whether a store has nothing of the person. */
export function isEmpty({ values, windows }: Survey): boolean {
  return values.size === 0 && windows.length === 0
}

/**
 * Erases what a survey found, and what is found after it. Resolves with what was erased, and with what is left, because it began
 * meanwhile. @throws what the store throws
 */
export async function erase(
  store: PortableStore,
  person: Person,
  found: Survey,
): Promise<{ readonly erased: Counts; readonly left: Survey }> {
  const erased = new Map<string, number>()
  let left = found
  for (let pass = 0; pass < MAX_PASSES && !isEmpty(left) && left.running.size === 0; pass++) {
    for (const counts of await eraseAll(store, person, left)) addAll(erased, counts)
    await store.deleteWindows(left.windows)
    if (left.windows.length > 0) addAll(erased, { [RATES]: left.windows.length })
    left = await survey(store, person)
  }
  return { erased, left }
}

/** Erases the values that were found; resolves with what was in them. */
async function eraseAll(
  store: PortableStore,
  person: Person,
  { values, alive }: Survey,
): Promise<readonly Fate['counts'][]> {
  const left = [...values]
  const counts: Fate['counts'][] = []
  while (left.length > 0) {
    const batch = left.splice(0, MAX_BATCH_VALUES)
    const found = await Promise.all(batch.map((value) => eraseValue(value, store, person, alive)))
    counts.push(...found.flatMap((fate) => (fate ? [fate.counts] : [])))
  }
  return counts
}

/** Erases one value; resolves with what became of it, or undefined if it is not of the person any more. */
async function eraseValue(
  [key, until]: readonly [string, number],
  store: PortableStore,
  person: Person,
  alive: ReadonlySet<string>,
): Promise<Fate | undefined> {
  const fate = await casUpdate<Fate | undefined>(
    store,
    key,
    (text) => {
      const found = text === undefined ? undefined : fateOf({ key, text }, person)
      if (!found || (found.running && isPresent(found.running, alive))) return { result: undefined }
      if (found.text === undefined) return { result: found, write: 'remove' }
      return { result: found, write: { text: found.text, ttl: Math.max(1, until - world.now()) } }
    },
    // It is in use, and found again.
    () => undefined,
  )
  for (const other of fate?.also ?? []) await store.delete(other)
  // A record always has its bytes, so they are deleted after it.
  if (fate?.blob !== undefined) await store.blobs.delete(fate.blob)
  return fate
}

function addAll(counts: Map<string, number>, more: Readonly<Record<string, number>>): void {
  for (const [what, count] of Object.entries(more)) counts.set(what, (counts.get(what) ?? 0) + count)
}
