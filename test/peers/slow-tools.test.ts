// Clients on Python that call slow tools through the gateway: with progress, and as tasks where their package has them.
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type RunningGateway, startGateway } from '../support/gateway.ts'
import { early, taskServer } from '../support/task-peers.ts'
import { buildPythonPeers } from './toolchains.ts'

/** What a client saw. */
interface Seen {
  readonly text: string
  readonly progress: readonly number[]
  readonly task: null | {
    readonly states: readonly string[]
    readonly text: string
    readonly listed?: boolean
  }
  readonly asked?: { readonly text: string; readonly questions: readonly string[] }
}

const peers = await buildPythonPeers()
/** The clients, and which tasks their packages have. */
const clients = [
  { name: 'mcp old', tasks: '2025-11-25' },
  { name: 'mcp new', tasks: 'none' },
  { name: 'fastmcp old', tasks: '2025-11-25' },
  { name: 'fastmcp new', tasks: '2026-07-28' },
] as const

const run = promisify(execFile)
const TIMEOUT_MS = 120_000
let gateway: RunningGateway

beforeAll(async () => {
  // Tools that ask are tasks before they ask.
  const jobs = taskServer('plain', { tools: { confirm_delete: { latency: 'minutes' } } })
  const features = { ...early, confirm: 'off' }
  gateway = await startGateway({ store: 'memory', features, upstreams: { jobs } })
})
afterAll(() => gateway.close())

describe.each(clients)('the client of $name', ({ name, tasks }) => {
  test('gets the progress of a slow tool, and gets it as a task if it has tasks', async ({ skip }) => {
    const built = peers[name]
    if (!built || !('peer' in built)) return skip(built?.missing ?? `there is no peer ${name}`)
    const [program = '', ...args] = built.peer.slow ?? []
    const { stdout } = await run(program, [...args, gateway.url], { timeout: TIMEOUT_MS })
    const seen: Seen = JSON.parse(stdout)
    expect(seen.text).toBe('computed a sum')
    expect(seen.progress).toEqual([...new Set(seen.progress)].toSorted((one, other) => one - other))
    expect(seen.progress.length).toBeGreaterThanOrEqual(1)
    // Every slow call of a client with the extension becomes a task, and no progress follows that.
    if (tasks === '2026-07-28') expect(seen.progress.at(-1)).toBeLessThan(12)
    else expect(seen.progress.at(-1)).toBe(12)
    if (tasks === 'none') return expect(seen.task).toBeNull()
    expect(seen.task).toMatchObject({ text: 'computed a sum' })
    expect([seen.task?.states[0], seen.task?.states.at(-1)]).toEqual(['working', 'completed'])
    if (name === 'mcp old') expect(seen.task?.listed).toBe(true)
    if (tasks !== '2026-07-28') return
    expect(seen.asked).toEqual({ text: 'deleted plan.txt', questions: ['Please give confirm.'] })
  })
})
