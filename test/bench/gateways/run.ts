// Compares Gatehouse with other gateways of the public registries, on the same servers: docs/performance.md.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { parseArgs } from 'node:util'
import { gateways } from './all.ts'
import { measureDangerous } from './dangerous.ts'
import type { Gateway, Part } from './gateway.ts'
import { measureKills } from './kills.ts'
import { machine, tables, type Comparison, type NotMeasured, type Plan } from './results.ts'
import { measureSpeed } from './speed.ts'

const allParts: readonly Part[] = ['speed', 'kills', 'dangerous']
const usage = `node test/bench/gateways/run.ts [options]
  --quick        one launch and few repetitions, to see whether all works
  --only A,B     only these gateways: ${gateways.map(({ name }) => name).join(', ')}
  --parts A,B    only these of ${allParts.join(', ')}
  --json FILE    write the results as JSON; docs/performance.md is made of docs/performance/gateways.json
Gateways are installed into $GATEHOUSE_BENCH_CACHE, or else ~/.cache/gatehouse-bench, and used again by the next run.
`
const thorough: Plan = { launches: 5, rounds: 3, seconds: 0.5, warmUpSeconds: 4, kills: 10 }
const quick: Plan = { launches: 1, rounds: 3, seconds: 0.25, warmUpSeconds: 1, kills: 3 }

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
  const notMeasured: NotMeasured[] = []
  const installed = await installAll(wanted, notMeasured)
  const parts = chosen(
    allParts.map((name) => ({ name })),
    values.parts,
  ).map(({ name }) => name)
  const taking = (part: Part): Gateway[] =>
    installed.filter((each) => parts.includes(part) && (each.parts ?? allParts).includes(part))
  const folder = mkdtempSync(`${tmpdir()}/gatehouse-gateways-`)
  /** What is measured of one gateway after the other. */
  const each = async <Row>(part: Part, measure: (gateway: Gateway) => Promise<Row>): Promise<Row[]> => {
    const rows: Row[] = []
    for (const gateway of taking(part)) {
      process.stderr.write(`${part} of ${gateway.name}\n`)
      try {
        rows.push(await measure(gateway))
      } catch (error) {
        notMeasured.push({ gateway: gateway.name, part, reason: String(error) })
      }
    }
    return rows
  }
  try {
    const speed = await measureSpeed(taking('speed'), `${folder}/speed`, plan)
    for (const [gateway, reason] of speed.failed) notMeasured.push({ gateway, part: 'speed', reason })
    const kills = await each('kills', (gateway) =>
      measureKills(gateway, `${folder}/kills-${gateway.name}`, plan.kills),
    )
    const dangerous = await each('dangerous', async (gateway) => [
      await measureDangerous(gateway, `${folder}/unannotated-${gateway.name}`, false),
      await measureDangerous(gateway, `${folder}/annotated-${gateway.name}`, true),
    ])
    report({
      taken: new Date().toISOString(),
      machine: machine(),
      plan,
      gateways: wanted.map(({ name, title, source, transport, configuration }) => ({
        ...{ name, title, source, transport, configuration },
      })),
      calls: speed.calls,
      footprint: speed.footprint,
      kills,
      dangerous: dangerous.flat(),
      notMeasured,
    })
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

function report(results: Comparison): void {
  process.stdout.write(tables(results))
  if (values.json !== undefined) writeFileSync(values.json, JSON.stringify(results, null, 2) + '\n')
}

async function installAll(wanted: readonly Gateway[], notMeasured: NotMeasured[]): Promise<Gateway[]> {
  const installed: Gateway[] = []
  for (const gateway of wanted) {
    try {
      if (gateway.notMeasured !== undefined) throw new Error(gateway.notMeasured)
      await gateway.install?.()
      installed.push(gateway)
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error)
      process.stderr.write(`${gateway.name} is left out: ${reason}\n`)
      notMeasured.push({ gateway: gateway.name, part: 'all', reason })
    }
  }
  return installed
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
