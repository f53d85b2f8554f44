import { globSync, readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { defineConfig } from 'vitest/config'
import { leftOut } from './test/support/left-out.ts'
import { WAIT_TIMEOUT_MS } from './test/support/condition.ts'
import { runSummary } from './test/support/run-summary.ts'
import { WaitingFirst } from './test/support/sequencer.ts'

const build = 'test/support/build.ts'
const foreign = 'test/support/foreign.ts'

// What is compiled is run without a check, so it is in this checkout, and not among the temporary files of all users.
const out = join(import.meta.dirname, 'out')
const env = {
  // Gateways without a configuration file keep their state in the state folder of the user.
  XDG_STATE_HOME: join(out, 'test-state'),
  // A short-lived process spends most of its time on compiling.
  NODE_COMPILE_CACHE: join(out, 'compiled'),
}

/** Tests of crashes, lost stores, restarts and time-outs, which take most of the time: `npm run test:long`. */
const long = 'test/{integration,conformance}/**/*.long.test.ts'

/** The files whose tests repeat more than the ordinary run does: `npm run test:soak`. */
const repeating = globSync('test/{unit,integration}/**/*.test.ts', { cwd: import.meta.dirname }).filter(
  (file) => readFileSync(join(import.meta.dirname, file), 'utf8').includes('support/soak.ts'),
)

const common = {
  env,
  // Node.js itself loads the files, as it does outside of tests. Files share the modules that they import, since what a
  // gateway keeps belongs to that gateway.
  experimental: { viteModuleRunner: false },
  isolate: false,
  setupFiles: 'test/support/file-cost.ts',
  // Many tests wait for processes and connections, so one more file than there are cores runs at a time.
  maxWorkers: availableParallelism() + 1,
  expect: { poll: { timeout: WAIT_TIMEOUT_MS } },
}

/** Settings of tests that start the built gateway; `timeout` is that of a test and of a hook, in milliseconds. */
const withGateway = (timeout: number) => ({
  ...common,
  globalSetup: [build, foreign],
  testTimeout: timeout,
  hookTimeout: timeout,
  sequence: { groupOrder: 1 },
})

export default defineConfig({
  test: {
    reporters: ['default', runSummary(out), leftOut()],
    sequence: { sequencer: WaitingFirst },
    projects: [
      {
        test: {
          ...common,
          name: 'unit',
          testTimeout: 60_000,
          include: ['test/unit/**/*.test.ts'],
          sequence: { groupOrder: 0 },
        },
      },
      {
        test: {
          ...withGateway(120_000),
          name: 'integration',
          include: ['test/integration/**/*.test.ts'],
          exclude: [long],
        },
      },
      {
        test: {
          ...withGateway(300_000),
          name: 'conformance',
          include: ['test/conformance/**/*.test.ts'],
          exclude: [long],
        },
      },
      {
        test: {
          ...withGateway(600_000),
          name: 'long',
          include: [long],
        },
      },
      // Their files are in other projects too, so they run only where they are asked for.
      ...(process.argv.includes('soak')
        ? [
            {
              test: {
                ...withGateway(1_800_000),
                env: { ...env, SOAK: 'on' },
                name: 'soak',
                include: repeating,
              },
            },
          ]
        : []),
      {
        // Peers in other languages: `npm run test:peers`.
        test: {
          ...withGateway(300_000),
          name: 'peers',
          include: ['test/peers/**/*.test.ts'],
          globalSetup: build,
        },
      },
    ],
  },
})
