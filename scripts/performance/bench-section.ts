/** The part of the page about Gatehouse alone: what `npm run bench -- --json` found, beside the budgets. */
import type { Results } from '../../test/bench/results.ts'
import { grouped, markdownTable, quoted } from './markdown.ts'

/** What the page needs of the results of `npm run bench`. */
export type BenchResults = Pick<
  Results,
  'takenAt' | 'machine' | 'command' | 'notes' | 'targets' | 'rows' | 'ceilings' | 'verdicts'
>

/** Ratios to bare programs, and the budgets with what became of them. */
export function benchSection({
  takenAt,
  machine,
  command,
  notes,
  targets,
  rows,
  ceilings,
  verdicts,
}: BenchResults): string[] {
  const titles = new Map(targets.map(({ name, title }) => [name, title]))
  const size = (bytes: number): string =>
    bytes < 1_000_000 ? `${Math.round(bytes / 1024)} KB` : `${bytes / 1_000_000} MB`
  const digits = (value: number): string => grouped(value, value < 10 ? 2 : 0)
  return [
    ...ceilingSection(ceilings),
    '## Gatehouse and bare programs',
    '',
    'Each is compared with the bare program that does the same work: `node:http` and `undici` over HTTP, a multiplexer of lines over',
    `stdio. Measured on ${takenAt.slice(0, 10)}: ${machine.cpu}, ${machine.cores} cores, Node.js ${machine.node}.`,
    '',
    ...markdownTable(
      [
        'Target',
        'At once',
        'Reply',
        'CPU µs a call',
        '× bare',
        '95 %',
        'p50 ms',
        'p99 ms',
        'p99 × bare',
        'Peak MB',
      ],
      rows
        .filter(({ build }) => build === undefined)
        .map(({ target, concurrency, bytes, cpu, toBase, p50, p99, peak }) => [
          ...[titles.get(target) ?? target, `${concurrency}`, size(bytes), cpu ? grouped(cpu.median) : ''],
          toBase?.cpu ? toBase.cpu.median.toFixed(2) : '',
          toBase?.cpu ? `${toBase.cpu.low.toFixed(2)} to ${toBase.cpu.high.toFixed(2)}` : '',
          ...[p50.toFixed(2), p99.toFixed(2), toBase?.p99 ? toBase.p99.median.toFixed(2) : ''],
          peak === undefined ? '' : grouped(peak),
        ]),
    ),
    '',
    `Command: \`${['npm run bench --', ...command].join(' ')}\`.`,
    '',
    ...notes.map((note) => `- Left out: ${quoted(note)}`),
    ...(notes.length > 0 ? [''] : []),
    '### Budgets',
    '',
    ...markdownTable(
      ['What', 'Budget', 'Aim', 'Measured', ''],
      verdicts.map(({ name, target = '', limit, stretch, unit, value, met }) => [
        name.includes(target) ? name : `${name}, ${target}`,
        `${limit} ${unit}`,
        stretch === undefined ? '' : `${stretch}`,
        value === undefined ? 'not measured' : digits(value),
        ...[value === undefined ? '' : met ? 'met' : '**missed**'],
      ]),
    ),
    '',
  ]
}

/** What the stores can commit. */
function ceilingSection(ceilings: BenchResults['ceilings']): string[] {
  if (ceilings.length === 0) return []
  return [
    '## The store first',
    '',
    'A call with an idempotency key is recorded before it is sent and when it is answered, and each record is durable before the',
    'call continues. This is how many pairs of records each store takes, and the share of it that keyed calls reach.',
    '',
    ...markdownTable(
      ['Store', 'At once', 'Calls a second', 'CPU µs', 'Keyed calls reach'],
      ceilings.map(({ store, concurrency, rate, cpu, share }) => [
        ...[store, `${concurrency}`, grouped(rate), grouped(cpu, 1)],
        share === undefined ? '' : `${(share * 100).toFixed(0)} %`,
      ]),
    ),
    '',
  ]
}
