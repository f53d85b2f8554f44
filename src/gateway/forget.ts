/**
 * Forgets a person: in the store, by the rules of `records/persons.ts`, and in the audit logs of this machine. The log that a
 * gateway writes is left to that gateway, which finds the order in the store.
 */
import type { Log } from '../core/log.ts'
import type { AuditSettings, Settings } from '../core/settings.ts'
import { pause } from '../core/time/waiting.ts'
import { world } from '../core/world.ts'
import { Audit } from '../observability/audit/audit.ts'
import { AuditFile } from '../observability/audit/file.ts'
import { countNaming, personHash } from '../observability/audit/forget.ts'
import { type Counts, erase, isEmpty, type Survey, survey } from '../records/forgetting.ts'
import { ForgetOrders } from '../records/forget-orders.ts'
import type { Person } from '../records/persons.ts'
import type { PortableStore } from '../store/store.ts'
import { grantKey, unsealed } from '../upstream/oauth/token-vault.ts'
import { vaultKeyIn } from './keys.ts'

/** How long gateways may take to erase lines of the logs that they write, and how often that is looked at, in milliseconds. */
const ERASING_TIMEOUT_MS = 15_000
const POLL_INTERVAL_MS = 250

/** An audit log, by the file that is written at present, and how many of its lines name the person. */
export interface NamingLog {
  readonly file: string
  readonly lines: number
}

/** What there is of a person. Without a store, nothing of it is known. */
export interface FoundPerson {
  readonly person: Person
  readonly survey?: Survey
  readonly logs: readonly NamingLog[]
}

/** Where a person is looked for. */
export interface Places {
  readonly store?: PortableStore
  readonly audit?: AuditSettings | undefined
  /** The servers that the person may have grants at. */
  readonly upstreams?: Settings['upstreams'] | undefined
}

/** Whether there is anything of the person. */
export function isUnknown({ survey: found, logs }: FoundPerson): boolean {
  return (!found || isEmpty(found)) && logs.length === 0
}

/** Looks for a person. @throws what the store and the files throw */
export async function findPerson(id: string, places: Places): Promise<FoundPerson> {
  const { store, audit, upstreams = [] } = places
  const key = store && (await vaultKeyIn(store))
  const person: Person = {
    id,
    grants: new Set(
      upstreams.flatMap(({ name, reach }) => (reach.kind === 'url' ? [grantKey(name, reach.url, id)] : [])),
    ),
    ...(key && { unsealed: (at: string, text: string) => unsealed(key, at, text) }),
  }
  return { person, ...(store && { survey: await survey(store, person) }), logs: await logsNaming(id, audit) }
}

async function logsNaming(id: string, audit: AuditSettings | undefined): Promise<readonly NamingLog[]> {
  const logs: NamingLog[] = []
  for (const file of audit ? AuditFile.all(audit.file) : []) {
    const lines = await countNaming(file, personHash(id))
    if (lines > 0) logs.push({ file, lines })
  }
  return logs
}

/** What became of a person. */
export interface ForgottenPerson {
  readonly erased: Counts
  /** What began in the store meanwhile. */
  readonly left?: Survey
  /** The audit logs that still name the person: other processes write them, and did not answer. */
  readonly logs: readonly NamingLog[]
}

interface Forgetting extends Places {
  /** The log in which the order is recorded; its lines are erased as those of others. */
  readonly opened: Audit | undefined
  /** Who orders it. */
  readonly by: string
  readonly log: Log
}

/** Erases a person that was found. @throws what the store and the files throw */
export async function forgetPerson(
  { person, survey: found, logs }: FoundPerson,
  { store, audit, opened, by, log }: Forgetting,
): Promise<ForgottenPerson> {
  const order = { person: personHash(person.id), by }
  // Given first: gateways on other machines carry it out meanwhile, and those that start later find it.
  if (store && audit) await new ForgetOrders(store).give(order.person, by)
  const done = store && found ? await erase(store, person, found) : undefined
  const erased = done?.erased ?? new Map<string, number>()
  await opened?.forget(order)
  for (const { file } of logs)
    if (audit && file !== opened?.path) await eraseUnlocked(file, { audit, order, log })
  opened?.ordered({ order: 'forget', ...order, records: sumOf(erased) })
  const isOrdered = store !== undefined
  return {
    erased,
    ...(done && { left: done.left }),
    logs: await leftAfter(person.id, audit, isOrdered ? ERASING_TIMEOUT_MS : 0),
  }
}

/** Erases lines of a log that no process writes at present. */
async function eraseUnlocked(
  file: string,
  { audit, order, log }: { audit: AuditSettings; order: { person: string; by: string }; log: Log },
): Promise<void> {
  const free = AuditFile.openAt(file)
  if (!free) return
  const other = new Audit(audit, log, undefined, free)
  try {
    await other.forget(order)
  } finally {
    await other.close()
  }
}

/** The logs that still name a person, once there are none, or gateways had their time to erase it. */
async function leftAfter(
  id: string,
  audit: AuditSettings | undefined,
  timeoutMs: number,
): Promise<readonly NamingLog[]> {
  const until = world.monotonic() + timeoutMs
  for (;;) {
    const left = await logsNaming(id, audit)
    if (left.length === 0 || world.monotonic() > until) return left
    await pause(POLL_INTERVAL_MS)
  }
}

export function sumOf(counts: Counts): number {
  return [...counts.values()].reduce((sum, count) => sum + count, 0)
}
