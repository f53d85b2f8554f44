import { type Row, binding, deviations, gaps, pending, rows, startOf } from './standard.ts'

/** A test of one run, with the names of its groups before its own. */
export interface Ran {
  readonly names: readonly string[]
  readonly state: string
}

/** The report of one run: every row with its tests, and whether each has what it needs. */
export interface StandardReport {
  readonly text: string
  readonly isComplete: boolean
}

/** Puts the tests of a run beside the rows their names start with. */
export function standardReport(tests: readonly Ran[]): StandardReport {
  const byRow = new Map<string, Of[]>()
  for (const { names, state } of tests) {
    for (const [id, name] of numbered(names)) byRow.set(id, [...(byRow.get(id) ?? []), { name, state }])
  }
  const { untested, pendingButTested, deviatingUntested, unknown } = gaps(new Set(byRow.keys()))
  const failed = [...byRow].filter(([, own]) => own.some(({ state }) => state !== 'passed')).map(([id]) => id)
  const problems = [
    ...told('has neither a test nor an entry in pending.json', untested),
    ...told('is pending and has a test', pendingButTested),
    ...told('deviates and has no test that shows how', deviatingUntested),
    ...told('is no row', unknown),
    ...told('has a test that did not pass', failed),
    ...told('could not be loaded', tests.filter(({ state }) => state === 'not loaded').map(nameOf)),
  ]
  const kept = binding.filter(({ id }) => byRow.has(id) && !failed.includes(id))
  const deviating = kept.filter(({ id }) => deviations.has(id))
  const passed = kept.length - deviating.length
  const lines = [
    '# The corporate standard, row by row',
    '',
    `${passed} of ${binding.length} rows pass, ${deviating.length} deviate on purpose, ${pending.size} are pending, ${problems.length} have a problem.`,
    '',
    ...(problems.length > 0 ? ['## Problems', '', ...problems.map((each) => `- ${each}`), ''] : []),
    ...(deviating.length > 0 ? ['## Deviations', '', ...deviating.map(deviation), ''] : []),
    '| Row | Level | Who | Result | Tests |',
    '|---|---|---|---|---|',
    ...rows.map((row) => line(row, byRow.get(row.id) ?? [])),
    '',
  ]
  return { text: lines.join('\n'), isComplete: problems.length === 0 }
}

/** A test of a row, named without its number. */
interface Of {
  readonly name: string
  readonly state: string
}

/** The rows a test is of: its own name or that of a group it is in starts with their numbers. */
function numbered(names: readonly string[]): [id: string, name: string][] {
  return names.flatMap((name, index) => {
    const { ids, rest } = startOf(name)
    const within = [rest, ...names.slice(index + 1)].join(' > ')
    return ids.map((id): [string, string] => [id, within])
  })
}

function nameOf({ names }: Ran): string {
  return names.join(' > ')
}

function told(what: string, ids: readonly string[]): string[] {
  return ids.map((id) => `${id} ${what}`)
}

function deviation({ id, level }: Row): string {
  return `- ${id} (${level}) deviates: ${deviations.get(id)}`
}

/** How many tests of a row are named. */
const SHOWN = 12

function line({ id, level, who }: Row, own: readonly Of[]): string {
  const names = own.map(({ name, state }) => (state === 'passed' ? '' : `**${state}** `) + name)
  const more = names.length > SHOWN ? [`and ${names.length - SHOWN} more`] : []
  const tests = [...names.slice(0, SHOWN), ...more].map((each) => each.replaceAll(/[|\n]/g, ' ')).join('<br>')
  return `| ${id} | ${level} | ${[...who].join(' ')} | ${result(id, own)} | ${tests} |`
}

function result(id: string, own: readonly Of[]): string {
  if (own.some(({ state }) => state !== 'passed')) return 'failed'
  if (own.length > 0) return deviations.has(id) ? 'deviates' : 'passed'
  const area = pending.get(id)
  if (area !== undefined) return `pending: ${area}`
  return binding.some((row) => row.id === id) ? 'missing' : 'asked of servers alone'
}
