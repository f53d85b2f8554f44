import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { verifyAudit } from '../../../src/observability/audit/verify.ts'
import { auditLines } from '../../support/audit-lines.ts'
import { enveloped, mirrorHeaders } from '../../support/client/modern-request.ts'
import { reportFigure } from '../../support/figure.ts'
import { runCommand, startGateway } from '../../support/gateway.ts'
import { folder } from '../../support/journey.ts'
import { openRoom } from '../../support/room.ts'
import { type Seeded, seeded } from '../../simulate/random.ts'
import type { Json } from '../../support/server/json.ts'
import { repetitions, seedOf } from '../../support/soak.ts'
import { plainFeatures } from '../../support/undescribed.ts'

/** AUDIT_SEED reproduces the requests and the edits of the log. */
const SEED = seedOf('AUDIT_SEED', 20_264)
/** How many requests each gateway process gets, how many at a time, and how many processes follow one another. */
const REQUESTS = 500
const AT_ONCE = 25
const PROCESSES = repetitions(2, 4)
/** How often the finished log is edited, each time in another way and place. */
const EDITS = repetitions(40, 200)

/** A request, and how its line must say that it ended. */
interface Wanted {
  readonly method: string
  readonly params: Json
  readonly event: 'call' | 'refused'
  readonly outcome?: string
}

const toolCall = (name: string, args: Json): Json => ({ name, arguments: args })
const kinds: readonly [Wanted, ...Wanted[]] = [
  { method: 'tools/call', params: toolCall('send', { text: 'a' }), event: 'call', outcome: 'ok' },
  { method: 'tools/call', params: toolCall('send', { text: 7 }), event: 'call', outcome: 'INVALID_INPUT' },
  {
    method: 'tools/call',
    params: toolCall('shout', { text: 'a' }),
    event: 'call',
    outcome: 'PERMISSION_DENIED',
  },
  { method: 'tools/call', params: toolCall('absent', {}), event: 'call', outcome: 'UNKNOWN_TOOL' },
  { method: 'vendor/method', params: {}, event: 'call', outcome: 'UNSUPPORTED_OPERATION' },
]

test('each call and refusal has one line, and no line can be edited unseen', async ({ task }) => {
  const room = await openRoom()
  const file = join(folder(), 'audit.jsonl')
  const config = {
    store: join(dirname(file), 'store'),
    observe: { audit: { file, max_size: '200KB' } },
    features: plainFeatures({ validate: { input: 'strict' } }),
    upstreams: { room: { url: room.url, revision: '2025-11-25', deny: { shout: true } } },
  }
  const random = seeded(SEED)
  const sent = new Map<string, Wanted>()
  for (let process = 0; process < PROCESSES; process++) {
    const gateway = await startGateway(config)
    await sendAll(gateway.url, { random, sent, process })
    gateway.stop()
    expect((await gateway.ended).code).toBe(0)
    await gateway.close()
  }
  const files = readdirSync(dirname(file)).filter((name) => /^audit\.jsonl(\.\d+)?$/.test(name))
  const paths = files.map((name) => join(dirname(file), name))
  expect(paths.length).toBeGreaterThan(2)
  const lines = paths.flatMap(auditLines)
  const faults = [...sent].flatMap(([id, wanted]) => {
    const own = lines.filter((line) => line['request_id'] === id)
    const [line] = own
    const isRight =
      own.length === 1 &&
      line?.['event'] === wanted.event &&
      (line['code'] ?? line['outcome']) === wanted.outcome
    return isRight ? [] : [`${id} ${JSON.stringify(wanted)}: ${JSON.stringify(own)}`]
  })
  expect(faults, `AUDIT_SEED=${SEED}`).toEqual([])
  expect((await runCommand(['audit', 'verify', ...paths])).code).toBe(0)
  const isWhole = async () => (await verifyAudit(paths)).every(({ problem }) => !problem)
  for (let edit = 0; edit < EDITS; edit++) {
    const path = random.pick([paths[0] ?? '', ...paths.slice(1)])
    const before = readFileSync(path, 'utf8')
    writeFileSync(path, edited(before, edit, random))
    expect(await isWhole(), `edit ${edit} of ${path}, AUDIT_SEED=${SEED}`).toBe(false)
    writeFileSync(path, before)
  }
  expect(await isWhole()).toBe(true)
  reportFigure(task, { requests: sent.size, edits: EDITS })
})

interface Sending {
  readonly random: Seeded
  readonly sent: Map<string, Wanted>
  readonly process: number
}

async function sendAll(url: string, { random, sent, process }: Sending): Promise<void> {
  const left = Array.from({ length: REQUESTS }, (_, index) => ({
    id: `request-${process}-${index}`,
    wanted: random.pick(kinds),
  }))
  const work = async (): Promise<void> => {
    for (let next = left.shift(); next; next = left.shift()) {
      sent.set(next.id, next.wanted)
      await send(url, next.id, next.wanted)
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work))
}

async function send(url: string, id: string, { method, params: given }: Wanted): Promise<void> {
  const params = enveloped(given, '2026-07-28', {})
  const headers = {
    ...mirrorHeaders(method, params, new Map()),
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    'x-request-id': id,
  }
  const response = await fetch(url, {
    method: 'POST',
    headers,
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  })
  await response.text()
}

/** The text of a log with one line removed, altered, repeated or moved. */
function edited(text: string, edit: number, random: Seeded): string {
  const lines = text.split('\n').slice(0, -1)
  // Not the last line: a log may be read while it grows.
  const at = random.below(lines.length - 2)
  const line = lines[at] ?? ''
  const [place, next] = [random.below(line.length - 2) + 1, lines[at + 1] ?? '']
  const altered = `${line.slice(0, place)}${line[place] === '0' ? '1' : '0'}${line.slice(place + 1)}`
  const changes = [[], [altered], [line, line], [next, line]] as const
  const change = changes[edit % changes.length] ?? []
  lines.splice(at, change[0] === next ? 2 : 1, ...change)
  return `${lines.join('\n')}\n`
}
