/** `gatehouse forget`: lists what the store and the audit logs have of a person, and erases it. */
import type { Settings } from '../core/settings.ts'
import { escapeHidden } from '../core/text/escape.ts'
import { countText } from '../core/text/words.ts'
import {
  findPerson,
  type ForgottenPerson,
  type FoundPerson,
  forgetPerson,
  isUnknown,
  type NamingLog,
  sumOf,
} from '../gateway/forget.ts'
import { personHash } from '../observability/audit/forget.ts'
import { openLog } from '../observability/log.ts'
import type { Counts } from '../records/forgetting.ts'
import type { PortableStore } from '../store/store.ts'
import { confirmed } from './ask.ts'
import { type Given, UsageError } from './command.ts'
import type { commands } from './commands.ts'
import { readStored, readWhole, userName, withAudit, withStore } from './config-file.ts'
import { type Io, print } from './io.ts'
import { type Output, quoted, tableLines } from './output.ts'

type ForgetOptions = Given<typeof commands.forget>

/** `gatehouse forget PERSON`: exit code 1 if there is nothing of the person, or something is left. */
export async function forget(given: ForgetOptions, io: Io): Promise<Output> {
  if (given.person.trim() === '') throw new UsageError('PERSON is the id of a caller, such as user:anna')
  const settings = readStored(given, io)
  const places = { observe: settings.observe, upstreams: await serversOf(given, io) }
  // What a gateway keeps in memory ends with it, but its audit log does not.
  if (settings.store.kind === 'memory') return forgetIn(places, given, io)
  return withStore(settings, io, (store) => forgetIn({ ...places, store }, given, io))
}

/** The servers of the configuration; none where only the folder of a store is given. */
async function serversOf(given: ForgetOptions, io: Io): Promise<Settings['upstreams']> {
  return given.store === undefined ? (await readWhole(given, io)).upstreams : []
}

interface Places {
  readonly store?: PortableStore
  readonly observe: Pick<Settings['observe'], 'audit'>
  readonly upstreams: Settings['upstreams']
}

async function forgetIn(places: Places, given: ForgetOptions, io: Io): Promise<Output> {
  const { person: id, dryRun, yes, json: isJson } = given
  const { audit } = places.observe
  const found = await findPerson(id, { ...places, audit })
  if (isUnknown(found)) throw new Error(nothingText(id, places))
  const listed = listing(found)
  if (dryRun) return { json: view(found), text: listed.join('\n') }
  if (!isJson) print(listed.join('\n'), io)
  const running = found.survey?.running ?? new Map<string, number>()
  if (running.size > 0)
    throw new Error(
      `nothing was erased, because it is in use (${countsText(running)}). Wait until it has ended, and run the command again`,
    )
  const question = `Erase everything of ${quoted(id)}? It cannot be restored.`
  const advice = 'add --yes to erase it, or --dry-run to only list it'
  if (!yes && !(await confirmed(question, advice, io))) return 1
  const forgotten = await withAudit(places, io, (opened) =>
    forgetPerson(found, { ...places, audit, opened, by: userName(), log: openLog('warn', io) }),
  )
  const isLeft = forgotten.logs.length > 0 || (forgotten.left?.values.size ?? 0) > 0
  return {
    json: { ...view(found), ...forgottenView(forgotten) },
    text: forgottenLines(forgotten, places).map(escapeHidden).join('\n'),
    code: isLeft ? 1 : 0,
  }
}

function nothingText(id: string, { store, observe: { audit } }: Places): string {
  const places = [store && 'the store', audit && 'the audit logs'].filter((each) => each !== undefined)
  const where = places.length === 0 ? 'that a command can read' : `in ${places.join(' or ')}`
  return `there is nothing of ${quoted(id)} ${where}: PERSON is an id as gatehouse log prints it, such as user:anna or token:ci`
}

function listing({ person: { id }, survey, logs }: FoundPerson): readonly string[] {
  const rows = [
    ...[...(survey?.counts ?? [])].toSorted(([one], [other]) => one.localeCompare(other)),
    ...logs.map(({ file, lines }) => [`lines of ${file}`, lines] as const),
  ]
  return [
    escapeHidden(`What there is of ${quoted(id)}:`),
    ...tableLines(rows.map(([what, count]) => [`  ${what}`, String(count)])),
  ]
}

function forgottenLines(
  { erased, left, logs }: ForgottenPerson,
  { store, observe: { audit } }: Places,
): string[] {
  const began = left ? sumOf(left.counts) : 0
  return [
    `Erased ${countText(sumOf(erased), 'record')}.`,
    ...(began > 0
      ? [
          `Not erased, because it began meanwhile: ${countsText(left?.counts ?? new Map())}. Run the command again.`,
        ]
      : []),
    ...logs.map(({ file, lines }) => leftLine({ file, lines }, store !== undefined)),
    ...(audit && store
      ? [
          'Gateways on other machines that share the store erase the person from their audit logs now, or when they start within 30 days.',
        ]
      : []),
    'Not reached: what was copied elsewhere, such as the output of logs, traces, exports, recordings and backups; and what a running gateway keeps in memory, until it ends.',
  ]
}

function leftLine({ file, lines }: NamingLog, isOrdered: boolean): string {
  const why = isOrdered
    ? 'the process that writes it did not erase them in time'
    : 'a gateway writes it, which cannot be told, as its store is in memory'
  return `${file} still has ${countText(lines, 'line')}: ${why}. Stop it, and run the command again.`
}

function countsText(counts: Counts): string {
  return [...counts].map(([what, count]) => `${what}: ${count}`).join('; ')
}

function view({ person: { id }, survey, logs }: FoundPerson): Readonly<Record<string, unknown>> {
  return {
    person: id,
    person_hash: personHash(id),
    records: Object.fromEntries(survey?.counts ?? []),
    in_use: Object.fromEntries(survey?.running ?? []),
    audit_logs: logs,
  }
}

function forgottenView({ erased, left, logs }: ForgottenPerson): Readonly<Record<string, unknown>> {
  return {
    erased: Object.fromEntries(erased),
    left: Object.fromEntries(left?.counts ?? []),
    audit_logs_left: logs,
  }
}
