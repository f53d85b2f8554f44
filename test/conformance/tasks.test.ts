// The official scenarios of the tasks extension, through the gateway in front of a server without tasks, of one with the
// core tasks of 2025-11-25, and of one with the extension. The scenarios mostly wait, so several run at a time.
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type RunningGateway, startGateway } from '../support/gateway.ts'
import { runServerSuite, type SuiteRun } from './suite.ts'
import { scenarioOf } from './verdict.ts'

const server = fileURLToPath(new URL('../fixtures/task-server/main.ts', import.meta.url))

/** The scenarios, and the number of checks that each of them passes. */
const scenarios = [
  ['tasks-lifecycle', 9],
  ['tasks-capability-negotiation', 5],
  ['tasks-wire-fields', 4],
  ['tasks-request-state-removal', 3],
  ['tasks-mrtr-input', 4],
  ['tasks-request-headers', 5],
  ['tasks-dispatch-and-envelope', 9],
  ['tasks-mrtr-composition', 2],
] as const

/** Tools that are to be tasks at once, however fast the machine is. */
const slow = ['slow_compute', 'failing_job', 'protocol_error_job', 'confirm_delete', 'multi_input']

/** Why a server makes a scenario fail. */
const expected: Readonly<Record<string, readonly string[]>> = {
  // Tasks of 2025-11-25 ask for input as tasks: there is no round before the task is made.
  'core tasks-mrtr-composition': ['sep-2663-mrtr-synchronous-before-task-creation'],
}

describe.each([
  ['plain', 'a server without tasks'],
  ['core', 'a server with the tasks of 2025-11-25'],
  ['extension', 'a server with the extension for tasks'],
])('tasks in front of %s: %s', (mode) => {
  let gateway: RunningGateway
  const run = (scenario: string): Promise<SuiteRun> =>
    runServerSuite(gateway.url, { scenario, specVersion: '2026-07-28' }, { isForced: true })

  beforeAll(async () => {
    const command = [process.execPath, server]
    gateway = await startGateway({
      // Long enough for the handshake of a server, and half as long as the tool works that asks before it is a task.
      features: { confirm: 'off', progress: { tasks: { after: '2s' } } },
      upstreams: {
        jobs: {
          command,
          env: { MODE: mode },
          tools: Object.fromEntries(slow.map((name) => [name, { latency: 'minutes' }])),
        },
      },
    })
  })
  afterAll(() => gateway.close())

  it.concurrent.each(scenarios)('%s passes its %d checks', async (name, count) => {
    const failures = expected[`${mode} ${name}`] ?? []
    const scenario = scenarioOf(await run(name), name)
    expect(scenario?.failures.map((failure) => failure.split(': ', 1)[0])).toEqual(failures)
    expect(scenario?.checks.SUCCESS).toBe(count - failures.length)
  })

  // The gateway follows the task itself, so that a client without tasks gets the result.
  it.concurrent('tasks-required-task-error fails as a tool that only runs as a task can be called by every client', async () => {
    const scenario = scenarioOf(await run('tasks-required-task-error'), 'tasks-required-task-error')
    expect(scenario?.failures).toEqual([
      expect.stringContaining('sep-2663-server-returns-missing-capability-when-required'),
    ])
  })
})
