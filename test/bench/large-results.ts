// Measures what it costs to keep a large result, and to put a reference in its place, in proportion to relaying it: the
// CPU time for each megabyte, and the most memory above that of the idle gateway.
// Usage: node test/bench/large-results.ts [options], see --help
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { request } from 'undici'
import { workingCopy } from './builds.ts'
import { launchOf } from './gateway.ts'
import { connect } from './client.ts'
import { sha256Of } from './large-text.ts'
import { launchScript, type Serving } from './launch.ts'
import { cpuNanoseconds, resetPeak, peakMegabytes, residentMegabytes } from './process-stats.ts'
import { spread } from './statistics.ts'

const usage = `node test/bench/large-results.ts [options]
  --sizes A,B        sizes of the text, in MB of 1,000,000 bytes (default 1,10)
  --ways A,B         how the server sends it: http, events, stdio (default all)
  --rounds N         how often each result is requested, besides once before (default 5)
  --no-relay         keeps results only: relaying very large ones takes memory several times their size
  --max-ratio X      fails if keeping takes more than X times the CPU time of relaying
  --max-memory MB    fails if keeping takes more memory than this above idle
`

const { values } = parseArgs({
  options: {
    sizes: { type: 'string', default: '1,10' },
    ways: { type: 'string', default: 'http,events,stdio' },
    rounds: { type: 'string', default: '5' },
    'no-relay': { type: 'boolean', default: false },
    'max-ratio': { type: 'string', default: 'Infinity' },
    'max-memory': { type: 'string', default: 'Infinity' },
    help: { type: 'boolean', default: false },
  },
})

/** What is measured of one kind of result at one gateway. */
interface Cost {
  /** Of CPU, for each megabyte of the text. */
  readonly milliseconds: number
  /** The most above idle, in the first request and in all. */
  readonly firstMegabytes: number
  readonly megabytes: number
}

const launchBuilt = launchOf(await workingCopy())

if (values.help) process.stdout.write(usage)
else process.exitCode = await bench()

async function bench(): Promise<number> {
  const rounds = Number(values.rounds)
  const kinds = values['no-relay'] ? (['keeping'] as const) : (['relaying', 'keeping'] as const)
  let isOver = false
  for (const way of values.ways.split(',')) {
    for (const size of values.sizes.split(',').map(Number)) {
      const costs = new Map<string, Cost>()
      for (const kind of kinds) {
        const cost = await measure(kind, way, size * 1e6, rounds)
        costs.set(kind, cost)
        process.stdout.write(`${line(kind, way, size, cost)}\n`)
      }
      const [relayed, kept] = [costs.get('relaying'), costs.get('keeping')]
      const ratio = relayed && kept ? kept.milliseconds / relayed.milliseconds : 0
      if (relayed)
        process.stdout.write(`  keeping takes ${ratio.toFixed(2)} times the CPU time of relaying\n`)
      isOver ||= ratio > Number(values['max-ratio']) || (kept?.megabytes ?? 0) > Number(values['max-memory'])
    }
  }
  return isOver ? 1 : 0
}

function line(kind: string, way: string, size: number, cost: Cost): string {
  const { milliseconds, firstMegabytes, megabytes } = cost
  const name = `${kind} ${size} MB over ${way}`.padEnd(28)
  const memory = `${megabytes.toFixed(0)} MB above idle at most, ${firstMegabytes.toFixed(0)} MB in the first request`
  return `${name} ${milliseconds.toFixed(2).padStart(6)} ms of CPU per MB; ${memory}`
}

/** Each size has processes of its own: what one leaves in memory, another would use again. */
async function measure(
  kind: 'relaying' | 'keeping',
  way: string,
  bytes: number,
  rounds: number,
): Promise<Cost> {
  const folder = mkdtempSync(`${tmpdir()}/gatehouse-bench-`)
  const upstream = way === 'stdio' ? undefined : await launchScript('large-upstream.ts')
  const command = [process.execPath, fileURLToPath(new URL('large-upstream.ts', import.meta.url)), '--stdio']
  const reach = upstream ? { url: upstream.url } : { command }
  let gateway: Serving | undefined
  try {
    gateway = await launchBuilt(reach, { folder: `${folder}/gateway`, setup: kind })
    const { url, pid } = gateway
    const sha256 = sha256Of(bytes)
    const caller = await connect(url, 'modern', { bytes })
    const call = (id: number, size: number): Promise<void> =>
      check(
        url,
        caller.headers,
        { id, bytes: size, isEvent: way === 'events' },
        kind === 'keeping' && size === bytes ? sha256 : undefined,
      )
    // Nothing is compiled or connected for the first time while it is measured.
    for (let id = 1; id <= 20; id++) await call(id, 200)
    const idle = residentMegabytes(pid)
    resetPeak(pid)
    await call(100, bytes)
    const first = peakMegabytes(pid)
    const times: number[] = []
    for (let round = 1; round <= rounds; round++) {
      const before = cpuNanoseconds(pid)
      await call(100 + round, bytes)
      times.push((cpuNanoseconds(pid) - before) / bytes)
    }
    const milliseconds = spread(times)?.median ?? Number.NaN
    return { milliseconds, firstMegabytes: first - idle, megabytes: peakMegabytes(pid) - idle }
  } finally {
    await gateway?.stop()
    await upstream?.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Makes a call. @throws if the text did not come, or its reference, with this SHA-256 */
async function check(
  url: string,
  headers: Record<string, string>,
  { id, bytes, isEvent }: { readonly id: number; readonly bytes: number; readonly isEvent: boolean },
  sha256: string | undefined,
): Promise<void> {
  const prefix = 'io.modelcontextprotocol'
  const params = {
    name: 'get_text',
    arguments: { bytes, as_events: isEvent },
    _meta: {
      [`${prefix}/protocolVersion`]: headers['mcp-protocol-version'],
      [`${prefix}/clientInfo`]: { name: 'bench', version: '1.0.0' },
      [`${prefix}/clientCapabilities`]: {},
    },
  }
  const body = JSON.stringify({ jsonrpc: '2.0', id, method: 'tools/call', params })
  const { statusCode, body: answer } = await request(url, { method: 'POST', headers, body })
  let length = 0
  let head = ''
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    if (head.length < 4096) head += chunk.toString('latin1', 0, 4096)
    length += chunk.byteLength
  }
  const isRight = sha256 === undefined ? length > bytes : length < 8192 && head.includes(sha256)
  if (statusCode !== 200 || !isRight)
    throw new Error(`HTTP ${statusCode}, ${length} bytes: ${head.slice(0, 600)}`)
}
