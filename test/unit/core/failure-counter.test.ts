import { expect, it } from 'vitest'
import { createFailureCounter } from '../../../src/core/failure-counter.ts'

it('too many failures within a minute block further attempts until the first failure is a minute old', () => {
  let now = 0
  const tries = createFailureCounter(2, () => now)
  tries.check('anna')
  tries.failed('anna')
  now = 10_000
  tries.check('anna')
  tries.failed('anna')
  expect(() => tries.check('anna')).toThrow(
    expect.objectContaining({
      code: 'RATE_LIMIT_EXCEEDED',
      extra: expect.objectContaining({ retryAfterSeconds: 50 }),
    }),
  )
  tries.check('bert')
  now = 60_001
  tries.check('anna')
  tries.failed('anna')
  expect(() => tries.check('anna')).toThrow('Wait a minute')
})

it('failures while blocked do not extend the block', () => {
  let now = 0
  const tries = createFailureCounter(1, () => now)
  for (now = 0; now < 50; now++) tries.failed('anna')
  now += 60_001
  expect(() => tries.check('anna')).not.toThrow()
})
