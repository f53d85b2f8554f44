// Measures the CPU time of calls that take a second and report progress every 100 ms: through a bare pass-through,
// through a gateway without features, and through one with all that is on by default, where each is an operation.
// Usage: node test/bench/long-calls.ts [calls at once] [rounds]
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { Agent, request } from 'undici'
import { workingCopy } from './builds.ts'
import { launchOf } from './gateway.ts'
import { launchScript, type Serving } from './launch.ts'
import { cpuNanoseconds } from './process-stats.ts'
import { REVISIONS } from './reply.ts'
import { spread } from './statistics.ts'

const [count = 300, rounds = 5] = process.argv.slice(2).map(Number)
/** How much CPU time an operation may take beyond a gateway without features, in milliseconds. */
const BUDGET_MS = 1

const dispatcher = new Agent({ connections: count })
const prefix = 'io.modelcontextprotocol'
const headers = {
  'content-type': 'application/json',
  accept: 'application/json, text/event-stream',
  'mcp-protocol-version': REVISIONS.modern,
  'mcp-method': 'tools/call',
  'mcp-name': 'wait',
}

const launchBuilt = launchOf(await workingCopy())
const folder = mkdtempSync(`${tmpdir()}/gatehouse-bench-`)
const upstream = await launchScript('slow-upstream.ts')
const targets: readonly (readonly [name: string, target: Serving])[] = [
  ['pass-through', await launchScript('pass-through.ts', [upstream.url])],
  ['gateway without features', await launchBuilt(upstream, { folder: `${folder}/none`, setup: 'none' })],
  [
    'gateway with its defaults',
    await launchBuilt(upstream, { folder: `${folder}/default`, setup: 'default' }),
  ],
]
try {
  // The first round compiles the hot code.
  await measureAll()
  const taken: (readonly number[])[] = []
  for (let round = 0; round < rounds; round++) taken.push(await measureAll())
  const medians = targets.map(([name], index) => {
    const each = taken.map((round) => round[index] ?? Number.NaN)
    return [name, spread(each)?.median ?? Number.NaN] as const
  })
  for (const [name, median] of medians)
    process.stdout.write(
      `${name.padEnd(26)} ${median.toFixed(3)} ms of CPU per call of 1 s with 10 notifications\n`,
    )
  const [, bare = Number.NaN, defaults = Number.NaN] = medians.map(([, median]) => median)
  const more = defaults - bare
  process.stdout.write(
    `the operation and all other defaults take ${more.toFixed(3)} ms; budget ${BUDGET_MS} ms\n`,
  )
  if (!(more < BUDGET_MS)) process.exitCode = 1
} finally {
  for (const [, target] of targets) await target.stop()
  await upstream.stop()
  await dispatcher.close()
  rmSync(folder, { recursive: true, force: true })
}

/** The CPU time of each target, one after the other. */
async function measureAll(): Promise<number[]> {
  const times: number[] = []
  for (const [, target] of targets) times.push(await measure(target))
  return times
}

/** The CPU time of a target for each of many calls at once, in milliseconds. */
async function measure({ url, pid }: Serving): Promise<number> {
  const before = cpuNanoseconds(pid)
  await Promise.all(Array.from({ length: count }, (_each, id) => call(url, id)))
  return (cpuNanoseconds(pid) - before) / 1e6 / count
}

async function call(url: string, id: number): Promise<void> {
  const _meta = {
    progressToken: id,
    [`${prefix}/protocolVersion`]: REVISIONS.modern,
    [`${prefix}/clientInfo`]: { name: 'bench', version: '1.0.0' },
    [`${prefix}/clientCapabilities`]: {},
  }
  const body = JSON.stringify({ jsonrpc: '2.0', id, method: 'tools/call', params: { name: 'wait', _meta } })
  const answer = await request(url, { method: 'POST', headers, body, dispatcher })
  const text = await answer.body.text()
  const notes = text.split('"notifications/progress"').length - 1
  if (answer.statusCode !== 200 || notes !== 10 || !text.includes('done'))
    throw new Error(`HTTP ${answer.statusCode}, ${notes} notifications: ${text.slice(0, 300)}`)
}
