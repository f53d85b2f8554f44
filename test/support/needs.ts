/**
 * Programs that some tests need, and not every machine has. Tests that need one are left out where it is missing, and the
 * reporter of `left-out.ts` says so at the end of the run. Invariant: where CI is set no test is left out, so a missing
 * program is an error, unless it is one that is built from packages of a registry that may be out of reach.
 */
import { existsSync } from 'node:fs'
import type { TestContext, TestOptions } from 'vitest'

/** A program, and how to get it. */
export interface Need {
  readonly program: string
  readonly get: string
  /** Whether its tests may be left out where CI is set. */
  readonly isOptional?: boolean
}

declare module 'vitest' {
  interface TaskMeta {
    /** What the test, or every test of the suite, needs and this machine does not have. */
    missing?: Need
  }
}

/** The options of tests and suites that need programs. @throws Error if one is missing, not optional, and CI is set */
export function needs(...all: readonly Need[]): TestOptions & { readonly skip: boolean } {
  const missing = all.find(({ program }) => !existsSync(program))
  if (missing && missing.isOptional !== true && process.env['CI'] !== undefined)
    throw new Error(`${missing.program} is missing`)
  return { skip: missing !== undefined, meta: missing ? { missing } : {} }
}

/** Leaves out the test that runs, where it needs a program that is missing: for tests that find out which they need. */
export function skipWithout({ skip, meta }: ReturnType<typeof needs>, context: TestContext): void {
  Object.assign(context.task.meta, meta)
  context.skip(skip)
}
