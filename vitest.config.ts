import { join } from 'node:path'
import { defineConfig } from 'vitest/config'
import { ciSummary } from './test/support/ci-summary.ts'

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
const summary = process.env['TEST_SUMMARY']

/** Tests of crashes, lost stores, restarts and time-outs, which take most of the time: `npm run test:long`. */
const long = 'test/{integration,conformance}/**/*.long.test.ts'

// Machines may be several times slower than the one a test was written on.
const common = { env, expect: { poll: { timeout: 15_000 } } }

/** Settings of tests that start the built gateway; `timeout` is that of a test and of a hook, in milliseconds. */
const withGateway = (timeout: number) => ({
  ...common,
  globalSetup: [build, foreign],
  testTimeout: timeout,
  hookTimeout: timeout,
})

export default defineConfig({
  test: {
    reporters: summary ? ['default', ciSummary(summary)] : ['default'],
    projects: [
      {
        test: {
          ...common,
          name: 'unit',
          testTimeout: 20_000,
          include: ['test/unit/**/*.test.ts'],
          // Unit tests leave nothing behind in modules, so test files share the modules that they import.
          isolate: false,
          sequence: { groupOrder: 0 },
        },
      },
      {
        test: {
          ...withGateway(60_000),
          name: 'integration',
          include: ['test/integration/**/*.test.ts'],
          exclude: [long],
          maxWorkers: 2,
          sequence: { groupOrder: 1 },
        },
      },
      {
        test: {
          ...withGateway(300_000),
          name: 'conformance',
          include: ['test/conformance/**/*.test.ts'],
          exclude: [long],
          fileParallelism: false,
          sequence: { groupOrder: 2 },
        },
      },
      {
        test: {
          ...withGateway(300_000),
          name: 'long',
          include: [long],
          maxWorkers: 2,
          sequence: { groupOrder: 3 },
        },
      },
      {
        // Peers in other languages: `npm run test:peers`.
        test: {
          ...withGateway(300_000),
          name: 'peers',
          include: ['test/peers/**/*.test.ts'],
          globalSetup: build,
          sequence: { groupOrder: 4 },
        },
      },
    ],
  },
})
