// Measures events at scale: 100,000 calls that write, 50 subscribers, and 20 kills of the gateway and the receivers. Fails if an
// event was lost, came out of order, or came again with another id.
// Usage: node test/bench/events.ts [events] [kills]
import { runEvents } from './event-run.ts'

const [events = 100_000, kills = 20] = process.argv.slice(2).map(Number)

const run = await runEvents({ events, kills })
const perDelivery = run.cpu / run.deliveries
const lines = [
  `${run.calls} calls, ${run.confirmed} with a result, in ${(run.duration / 1000).toFixed(0)} s; ${run.kills} kills`,
  `${run.subscribers} subscribers were owed ${run.owed} events: ${run.lost} lost, ${run.repeated} repeated`,
  `lag: p50 ${run.lagP50} ms, p99 ${run.lagP99} ms; p99 without kills ${run.quietLagP99} ms`,
  `lag p99: ${Object.entries(run.lagP99By)
    .map(([kind, lag]) => `${kind} ${lag} ms`)
    .join(', ')}`,
  `CPU of the gateway: ${(run.cpu / run.calls).toFixed(3)} ms per call, ${perDelivery.toFixed(3)} ms per delivery`,
  ...run.faults.slice(0, 20),
]
process.stdout.write(`${lines.join('\n')}\n`)
if (run.faults.length > 0) process.exitCode = 1
