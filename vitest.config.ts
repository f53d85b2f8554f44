import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { defineConfig } from 'vitest/config'
import { leftOut } from './test/support/left-out.ts'
import { runSummary } from './test/support/run-summary.ts'

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

const common = {
  env,
  // Node.js itself loads the files, as it does outside of tests. Files share the modules that they import, since what a
  // gateway keeps belongs to that gateway.
  experimental: { viteModuleRunner: false },
  isolate: false,
  setupFiles: 'test/support/file-cost.ts',
  // Many tests wait for processes and connections, so one more file than there are cores runs at a time.
  maxWorkers: availableParallelism() + 1,
  // Machines may be several times slower than the one a test was written on.
  expect: { poll: { timeout: 15_000 } },
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
    projects: [
      {
        test: {
          ...common,
          name: 'unit',
          testTimeout: 20_000,
          include: ['test/unit/**/*.test.ts'],
          sequence: { groupOrder: 0 },
        },
      },
      {
        test: {
          ...withGateway(60_000),
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
          ...withGateway(300_000),
          name: 'long',
          include: [long],
        },
      },
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
