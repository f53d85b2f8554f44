import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { defineConfig } from 'vitest/config'
import { ciSummary } from './test/support/ci-summary.ts'

const build = 'test/support/build.ts'
const foreign = 'test/support/foreign.ts'
// Gateways without a file keep what they have to in the folder of the user.
const env = {
  XDG_STATE_HOME: join(tmpdir(), 'gatehouse-test-state'),
  // Most of the time of a short-lived process is compiling.
  NODE_COMPILE_CACHE: join(tmpdir(), 'gatehouse-test-compiled'),
}
const summary = process.env['TEST_SUMMARY']

/** Tests of crashes, lost stores, restarts and time-outs, which take most of the time: `npm run test:long`. */
const long = 'test/{integration,conformance}/**/*.long.test.ts'

// Machines may be several times slower than the one a test was written on.
const expecting = { poll: { timeout: 15_000 } }

export default defineConfig({
  test: {
    reporters: summary ? ['default', ciSummary(summary)] : ['default'],
    projects: [
      {
        test: {
          env,
          expect: expecting,
          name: 'unit',
          testTimeout: 20_000,
          include: ['test/unit/**/*.test.ts'],
          // Nothing of a file stays behind, so that files share what they import.
          isolate: false,
          sequence: { groupOrder: 0 },
        },
      },
      {
        test: {
          env,
          expect: expecting,
          name: 'integration',
          include: ['test/integration/**/*.test.ts'],
          exclude: [long],
          globalSetup: [build, foreign],
          testTimeout: 60_000,
          hookTimeout: 60_000,
          maxWorkers: 2,
          sequence: { groupOrder: 1 },
        },
      },
      {
        test: {
          env,
          expect: expecting,
          name: 'conformance',
          include: ['test/conformance/**/*.test.ts'],
          exclude: [long],
          globalSetup: [build, foreign],
          testTimeout: 300_000,
          hookTimeout: 300_000,
          fileParallelism: false,
          sequence: { groupOrder: 2 },
        },
      },
      {
        test: {
          env,
          expect: expecting,
          name: 'long',
          include: [long],
          globalSetup: [build, foreign],
          testTimeout: 300_000,
          hookTimeout: 300_000,
          maxWorkers: 2,
          sequence: { groupOrder: 3 },
        },
      },
      {
        // Peers in other languages: `npm run test:peers`.
        test: {
          env,
          expect: expecting,
          name: 'peers',
          include: ['test/peers/**/*.test.ts'],
          globalSetup: build,
          testTimeout: 300_000,
          hookTimeout: 300_000,
          sequence: { groupOrder: 4 },
        },
      },
    ],
  },
})
