/** `docs/performance.md` and its plots, from the results of the benchmarks. */
import { readFileSync } from 'node:fs'
import type { Comparison, Described } from '../../test/bench/gateways/results.ts'
import { benchSection, type BenchResults } from './bench-section.ts'
import { grouped, markdownTable, quoted } from './markdown.ts'
import { type Chart, svgOf } from './plot.ts'

/** The generated files by their path from the root. */
export type Documents = ReadonlyMap<string, string>

/** How many calls are made at once in plots and sentences; tables have all. */
const SHOWN_CONCURRENCY = 64
const OWN = /^gatehouse/

/** The page and its plots from the files beside this one; what `npm run bench` found is left out if there is none. */
export function performanceDocuments(): Documents {
  const read = (name: string): unknown => {
    try {
      return JSON.parse(readFileSync(new URL(name, import.meta.url), 'utf8'))
    } catch (error) {
      if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
      throw error
    }
  }
  return documentsOf(read('gateways.json') as Comparison, read('bench.json') as BenchResults | undefined)
}

/** The same from results. */
export function documentsOf(comparison: Comparison, bench: BenchResults | undefined): Documents {
  const charts = chartsOf(comparison)
  return new Map([
    ['docs/performance.md', pageOf(comparison, bench, charts)],
    ...[...charts].map(([name, chart]) => [imagePath(name), svgOf(chart)] as const),
  ])
}

function imagePath(name: string): string {
  return `docs/images/performance-${name}.svg`
}

/** What a reader has to know of a run with one launch. */
const SHORT_RUN = [
  '**This was a short run on a machine that did other work too.** Each gateway was warmed for a second only, which makes those in',
  'JavaScript, Gatehouse too, look several times as expensive as they are after half a minute. Kills and dangerous calls do not',
  'depend on that.',
]

function pageOf(
  comparison: Comparison,
  bench: BenchResults | undefined,
  charts: ReadonlyMap<string, Chart>,
): string {
  const plot = (name: string): string[] => {
    const chart = charts.get(name)
    return chart ? [`![${chart.description}](images/performance-${name}.svg)`, ''] : []
  }
  const { machine, taken, plan } = comparison
  return [
    '# Performance',
    '',
    'What Gatehouse costs, what bare programs and other gateways cost on the same machine, and what each does when it is killed',
    'and with calls that are dangerous. The figures are of one machine; ratios repeat better than times. `npm run docs` writes',
    'this page from the results in `scripts/performance/`.',
    '',
    `The comparison was measured on ${machine.cpu}, ${machine.cores} cores, Linux ${machine.kernel}, Node.js ${machine.node} ` +
      `(${Object.entries(taken)
        .map(([part, date]) => `${part}: ${date.slice(0, 10)}`)
        .join(', ')}); ` +
      `launches: ${plan.launches} of ${plan.rounds} rounds, turns of ${plan.seconds} s, ${plan.kills} kills.`,
    ...(plan.launches === 1 ? ['', ...SHORT_RUN] : []),
    '',
    ...(bench ? benchSection(bench) : []),
    '## Other gateways',
    '',
    '`npm run bench:gateways` installs each in the version named below, configures it as its own documentation says, and starts',
    'all in front of the same server, whose tool `write` answers with 1 KB at once. Those that only reach servers over stdio are',
    'compared with the bare relay over stdio. CPU is that of all processes of a gateway, without the server, in microseconds per call.',
    '',
    ...markdownTable(
      ['Gateway', 'From', 'Server over', 'Configured'],
      comparison.gateways.map(({ title, source, transport, configuration }) => [
        ...[title, source, transport === 'http' ? 'HTTP' : 'stdio', configuration],
      ]),
    ),
    '',
    ...speedSection(comparison, plot),
    ...killsSection(comparison, plot),
    ...dangerousSection(comparison, plot),
    ...lossesSection(comparison),
    ...methodSection(comparison),
  ].join('\n')
}

function speedSection(comparison: Comparison, plot: (name: string) => string[]): string[] {
  const { calls, footprint } = comparison
  const title = titlesOf(comparison)
  return [
    '### What a call costs',
    '',
    ...plot('cpu-http'),
    ...plot('cpu-stdio'),
    ...markdownTable(
      [
        'Gateway',
        'At once',
        'CPU µs a call',
        'Quartiles',
        '× bare relay',
        'Calls a second',
        'p50 ms',
        'p99 ms',
      ],
      calls.map(({ gateway, concurrency, cpu, ratio, rate, p50, p99 }) => [
        ...[
          title(gateway),
          `${concurrency}`,
          grouped(cpu.median),
          `${grouped(cpu.low)} to ${grouped(cpu.high)}`,
        ],
        ...[ratio === undefined ? '' : ratio.toFixed(2), grouped(rate), p50.toFixed(1), p99.toFixed(1)],
      ]),
    ),
    '',
    '### Memory and start',
    '',
    'From the start of the process until a call was answered; an installation that was there before. Memory is the resident set',
    'of all processes, one second after the first answer and at its peak.',
    '',
    ...plot('start'),
    ...plot('memory'),
    ...markdownTable(
      ['Gateway', 'First answer after ms', 'Idle MB', 'Peak MB'],
      footprint.map(({ gateway, startMs, idle, peak }) => [
        ...[title(gateway), grouped(startMs.median), grouped(idle), grouped(peak)],
      ]),
    ),
    '',
    'Command: `npm run bench:gateways -- --parts speed`.',
    '',
  ]
}

function killsSection(comparison: Comparison, plot: (name: string) => string[]): string[] {
  const title = titlesOf(comparison)
  return [
    '### Calls while the gateway is killed',
    '',
    'Eight clients write through each gateway, which is killed by SIGKILL and started again under load. A client repeats a call whose',
    'connection breaks, with the same arguments and the same `idempotency_key` in `_meta`. The server counts executions. A call that',
    'ends with an error says so to the client; Gatehouse does so where it cannot know whether the server carried the call out, and',
    'does not try again. None of the others documents such a key: to them these are two calls.',
    '',
    ...plot('repeated'),
    ...markdownTable(
      [
        'Gateway',
        'Kills',
        'Calls',
        'Carried out twice or more',
        'Answered, not carried out',
        'Ended with an error',
        'Of these, carried out',
      ],
      comparison.kills.map((row) => [
        title(row.gateway),
        ...[row.kills, row.calls, row.repeated, row.lost, row.failed, row.failedButDone].map((value) =>
          grouped(value),
        ),
      ]),
    ),
    '',
    'Command: `npm run bench:gateways -- --parts kills`.',
    '',
  ]
}

function dangerousSection(comparison: Comparison, plot: (name: string) => string[]): string[] {
  const title = titlesOf(comparison)
  return [
    '### Dangerous calls without a question',
    '',
    'The server offers `delete_file`, `drop_table`, `send_email`, `transfer_funds` and the like, with annotations that say what they do',
    'and without. The client can ask its user, who declines. Harmless tools are called too: a gateway that stops these protects by',
    'being of no use. Several gateways can be configured to hide tools, such as `hide_destructive` of joshrotenberg/mcp-proxy; here',
    'each has its default. A gateway with `features: none` protects as little as the others.',
    '',
    ...plot('dangerous'),
    ...markdownTable(
      [
        'Gateway',
        'Annotated',
        'Dangerous calls',
        'Reached the server unasked',
        'Questions',
        'Harmless calls that passed',
      ],
      comparison.dangerous.map((row) => [
        ...[title(row.gateway), row.annotated ? 'yes' : 'no', `${row.dangerous}`, `${row.reached}`],
        ...[`${row.asked}`, `${row.harmlessReached} of ${row.harmless}`],
      ]),
    ),
    '',
    'Command: `npm run bench:gateways -- --parts dangerous`.',
    '',
  ]
}

/** Where other gateways were better than Gatehouse as it comes, in the words of the figures. */
function lossesSection(comparison: Comparison): string[] {
  const title = titlesOf(comparison)
  const others = comparison.gateways.filter(({ name }) => !OWN.test(name)).map(({ name }) => name)
  const ownCalls = comparison.calls.find(
    ({ gateway, concurrency }) => gateway === 'gatehouse' && concurrency === SHOWN_CONCURRENCY,
  )
  const ownFootprint = comparison.footprint.find(({ gateway }) => gateway === 'gatehouse')
  const isStdio = new Set(
    comparison.gateways.filter(({ transport }) => transport === 'stdio').map(({ name }) => name),
  )
  const better = <Row extends { readonly gateway: string }>(
    rows: readonly Row[],
    own: Row | undefined,
    value: (row: Row) => number,
  ): string[] => {
    if (!own) return []
    const list = rows.filter((row) => others.includes(row.gateway) && value(row) < value(own))
    return list
      .toSorted((one, other) => value(one) - value(other))
      .map((row) => `${title(row.gateway)} (${grouped(value(row))})`)
  }
  const overHttp = comparison.calls.filter(
    ({ gateway, concurrency }) => concurrency === SHOWN_CONCURRENCY && !isStdio.has(gateway),
  )
  const losses: [string, number | undefined, string[]][] = [
    ['CPU per call, µs', ownCalls?.cpu.median, better(overHttp, ownCalls, ({ cpu }) => cpu.median)],
    ['p99, ms', ownCalls?.p99, better(overHttp, ownCalls, ({ p99 }) => p99)],
    [
      'Milliseconds until the first answer',
      ownFootprint?.startMs.median,
      better(comparison.footprint, ownFootprint, ({ startMs }) => startMs.median),
    ],
    ['Idle memory, MB', ownFootprint?.idle, better(comparison.footprint, ownFootprint, ({ idle }) => idle)],
    ['Peak memory, MB', ownFootprint?.peak, better(comparison.footprint, ownFootprint, ({ peak }) => peak)],
  ]
  return [
    '### Where others are better',
    '',
    `Than Gatehouse out of the box, with ${SHOWN_CONCURRENCY} calls at once:`,
    '',
    ...markdownTable(
      ['What', 'Gatehouse', 'Better'],
      losses.map(([what, own, list]) => [
        ...[
          what,
          own === undefined ? 'not measured' : grouped(own),
          list.length > 0 ? list.join(', ') : 'none of those measured',
        ],
      ]),
    ),
    '',
    'A call whose outcome a kill made unknown ends with an error, although it was carried out in most cases, and somebody has to look;',
    'other gateways send it again, which is right for calls that may happen twice. A caller has 1,000 keys at a time',
    'unless configured otherwise. And calls of a tool that is dangerous by its name alone are asked about, though they may do nothing.',
    '',
  ]
}

function methodSection({ notMeasured, gateways, plan }: Comparison): string[] {
  const titles = new Map(gateways.map(({ name, title }) => [name, title]))
  return [
    '## Method',
    '',
    '- All gateways of a launch run at the same time. In every round each has one turn at each number of calls at once, in an order that',
    '  is drawn anew, so that what else the machine does affects all alike. Figures are medians over all turns of all launches.',
    '- The load generator and the server are processes of their own, whose CPU time is not counted. CPU time is that of `schedstat`.',
    '- Every answer is checked for its status, its id and a result, and one in 32 for its text. A gateway with a wrong answer is not',
    '  measured.',
    '- Clients speak revision 2025-11-25 over Streamable HTTP, in one session for each gateway.',
    `- Before the first round each gateway is called ${plan.warmUp.calls.toLocaleString('en-US')} times, or for ${plan.warmUp.seconds} s, since compilers of JavaScript need that.`,
    '- `npm run bench:gateways -- --json scripts/performance/gateways.json` and `npm run docs` make this page again. `--only` and `--quick`',
    '  take less time. What is installed stays in `~/.cache/gatehouse-bench`, or `$GATEHOUSE_BENCH_CACHE`.',
    '',
    '## Not measured',
    '',
    ...(notMeasured.length === 0
      ? ['Nothing was left out.']
      : markdownTable(
          ['What', 'Part', 'Reason'],
          [...Map.groupBy(notMeasured, ({ gateway, reason }) => `${gateway} ${reason}`).values()].flatMap(
            (all) => {
              const [first] = all
              if (!first) return []
              const parts = all.map(({ part }) => part).join(', ')
              return [[titles.get(first.gateway) ?? first.gateway, parts, quoted(first.reason)]]
            },
          ),
        )),
    '',
    'Nor were networks, TLS, several machines, models, or servers that take time: the more time a server takes, the less any gateway matters.',
    '',
  ]
}

/** Titles of gateways, told apart where two have the same. */
function titlesOf({ gateways }: Comparison): (name: string) => string {
  const repeated = (one: Described): boolean => gateways.filter(({ title }) => title === one.title).length > 1
  const titles = new Map(
    gateways.map((one) => [
      one.name,
      repeated(one) && one.transport === 'stdio' ? `${one.title}, stdio` : one.title,
    ]),
  )
  return (name) => titles.get(name) ?? name
}

function chartsOf(comparison: Comparison): ReadonlyMap<string, Chart> {
  const titled = titlesOf(comparison)
  // A label of a plot has no markup.
  const label = (name: string): string => titled(name).replaceAll('`', '')
  const bars = <Row extends { readonly gateway: string }>(
    rows: readonly Row[],
    value: (row: Row) => number,
    text = (row: Row): string => grouped(value(row)),
  ) =>
    rows
      .toSorted((one, other) => value(one) - value(other))
      .map((row) => ({
        label: label(row.gateway),
        value: value(row),
        text: text(row),
        isOwn: OWN.test(row.gateway),
      }))
  const transportOf = (name: string) => comparison.gateways.find((each) => each.name === name)?.transport
  const shown = comparison.calls.filter(({ concurrency }) => concurrency === SHOWN_CONCURRENCY)
  const cpu = (transport: Described['transport'], over: string): Chart => ({
    title: `CPU per call, µs (${over}, ${SHOWN_CONCURRENCY} at once): shorter is better`,
    description: `Microseconds of CPU per call of each gateway in front of a server over ${over}.`,
    bars: bars(
      shown.filter(({ gateway }) => transportOf(gateway) === transport),
      (row) => row.cpu.median,
    ),
  })
  const share = (row: Comparison['kills'][number]): number =>
    row.calls === 0 ? 0 : (100 * row.repeated) / row.calls
  const unasked = [...Map.groupBy(comparison.dangerous, ({ gateway }) => gateway)].map(([gateway, rows]) => ({
    gateway,
    reached: rows.reduce((sum, row) => sum + row.reached, 0),
    all: rows.reduce((sum, row) => sum + row.dangerous, 0),
  }))
  const charts: [string, Chart][] = [
    ['cpu-http', cpu('http', 'HTTP')],
    ['cpu-stdio', cpu('stdio', 'stdio')],
    [
      'start',
      {
        title: 'Milliseconds until the first answer: shorter is better',
        description: 'Milliseconds from the start of each gateway until it answered a call.',
        bars: bars(comparison.footprint, ({ startMs }) => startMs.median),
      },
    ],
    [
      'memory',
      {
        title: 'Peak memory, MB: shorter is better',
        description: 'Megabytes of resident memory of each gateway at its peak, and idle.',
        bars: bars(
          comparison.footprint,
          ({ peak }) => peak,
          ({ peak, idle }) => `${grouped(peak)} (idle ${grouped(idle)})`,
        ),
      },
    ],
    [
      'repeated',
      {
        title: 'Calls carried out more than once while the gateway is killed',
        description: 'The share of calls that the server carried out more than once, for each gateway.',
        bars: bars(comparison.kills, share, (row) => `${row.repeated} of ${row.calls}`),
      },
    ],
    [
      'dangerous',
      {
        title: 'Dangerous calls that reached the server without a question',
        description:
          'The dangerous calls that the server carried out although no person was asked, for each gateway.',
        bars: bars(
          unasked,
          ({ reached, all }) => reached / all,
          ({ reached, all }) => `${reached} of ${all}`,
        ),
      },
    ],
  ]
  return new Map(charts.filter(([, chart]) => chart.bars.length > 0))
}
