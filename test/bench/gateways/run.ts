// Compares Gatehouse with other gateways of the public registries, on the same servers: docs/performance.md.
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { parseArgs } from 'node:util'
import { gateways } from './all.ts'
import { measureDangerous } from './dangerous.ts'
import type { Gateway, Part } from './gateway.ts'
import { measureKills } from './kills.ts'
import { machine, tables, withEarlier, type Comparison, type Plan } from './results.ts'
import { measureSpeed } from './speed.ts'

const allParts: readonly Part[] = ['speed', 'kills', 'dangerous']
const usage = `node test/bench/gateways/run.ts [options]
  --quick        one launch and few repetitions, to see whether all works
  --only A,B     only these gateways: ${gateways.map(({ name }) => name).join(', ')}
  --parts A,B    only these of ${allParts.join(', ')}
  --json FILE    write the results as JSON, and keep those parts of the file that are not measured; docs/performance.md is made of scripts/performance/gateways.json
Gateways are installed into $GATEHOUSE_BENCH_CACHE, or else ~/.cache/gatehouse-bench, and used again by the next run.
`
const thorough: Plan = {
  launches: 5,
  rounds: 3,
  seconds: 0.5,
  warmUp: { calls: 20_000, seconds: 12 },
  kills: 10,
}
const quick: Plan = { launches: 1, rounds: 3, seconds: 0.25, warmUp: { calls: 3000, seconds: 1 }, kills: 3 }

const { values } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    only: { type: 'string' },
    parts: { type: 'string' },
    json: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
})
if (values.help) process.stdout.write(usage)
else await compare()

async function compare(): Promise<void> {
  const plan = values.quick ? quick : thorough
  const wanted = chosen(gateways, values.only)
  const parts = chosen(
    allParts.map((name) => ({ name })),
    values.parts,
  ).map(({ name }) => name)
  const missing = await installAll(wanted)
  const taking = (part: Part): Gateway[] =>
    wanted.filter((each) => (each.parts ?? allParts).includes(part) && !missing.has(each.name))
  const folder = mkdtempSync(`${tmpdir()}/gatehouse-gateways-`)
  let results: Comparison = {
    taken: {},
    machine: machine(),
    plan,
    gateways: wanted.map(({ name, title, source, transport, configuration }) => ({
      ...{ name, title, source, transport, configuration },
    })),
    ...{ calls: [], footprint: [], kills: [], dangerous: [], notMeasured: [] },
  }
  const measures: Readonly<Record<Part, () => Promise<Found>>> = {
    speed: () => measureSpeed(taking('speed'), `${folder}/speed`, plan),
    kills: async () => {
      const { rows, failed } = await oneByOne(taking('kills'), (gateway) =>
        measureKills(gateway, `${folder}/kills-${gateway.name}`, plan.kills),
      )
      return { kills: rows, failed }
    },
    dangerous: async () => {
      const { rows, failed } = await oneByOne(taking('dangerous'), async (gateway) => [
        await measureDangerous(gateway, `${folder}/unannotated-${gateway.name}`, false),
        await measureDangerous(gateway, `${folder}/annotated-${gateway.name}`, true),
      ])
      return { dangerous: rows.flat(), failed }
    },
  }
  try {
    for (const part of parts) {
      process.stderr.write(`${part}\n`)
      const { failed, ...found } = await measures[part]()
      const reasons = [...missing, ...failed].map(([gateway, reason]) => ({ gateway, part, reason }))
      const taken = { ...results.taken, [part]: new Date().toISOString() }
      results = { ...results, ...found, taken, notMeasured: [...results.notMeasured, ...reasons] }
      // A run that is interrupted has at least these.
      if (values.json !== undefined) save(results, values.json)
    }
    process.stdout.write(tables(results))
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

type Found = Partial<Comparison> & { readonly failed: ReadonlyMap<string, string> }

/** Writes the results, with the other parts of those that are there. */
function save(results: Comparison, file: string): void {
  const earlier = existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as Comparison) : results
  writeFileSync(file, JSON.stringify(withEarlier(results, earlier), null, 2) + '\n')
}

/** What is measured of one gateway after the other; of those that fail the reason. */
async function oneByOne<Row>(
  all: readonly Gateway[],
  measure: (gateway: Gateway) => Promise<Row>,
): Promise<{ readonly rows: readonly Row[]; readonly failed: ReadonlyMap<string, string> }> {
  const rows: Row[] = []
  const failed = new Map<string, string>()
  for (const gateway of all) {
    process.stderr.write(`  ${gateway.name}\n`)
    try {
      rows.push(await measure(gateway))
    } catch (error) {
      failed.set(gateway.name, String(error))
    }
  }
  return { rows, failed }
}

/** The gateways that cannot be installed here, with the reason. */
async function installAll(wanted: readonly Gateway[]): Promise<ReadonlyMap<string, string>> {
  const missing = new Map<string, string>()
  for (const gateway of wanted) {
    try {
      if (gateway.notMeasured !== undefined) throw new Error(gateway.notMeasured)
      await gateway.install?.()
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error)
      process.stderr.write(`${gateway.name} is left out: ${reason}\n`)
      missing.set(gateway.name, reason)
    }
  }
  return missing
}

function chosen<Name extends string, Item extends { readonly name: Name }>(
  all: readonly Item[],
  names: string | undefined,
): readonly Item[] {
  if (names === undefined) return all
  const unknown = names.split(',').filter((name) => !all.some((each) => each.name === name))
  if (unknown.length > 0) throw new TypeError(`unknown: ${unknown.join(', ')}`)
  return all.filter(({ name }) => names.split(',').includes(name))
}
