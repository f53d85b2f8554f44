import { rmSync } from 'node:fs'
import { expect, onTestFinished, test } from 'vitest'
import { until } from '../../support/condition.ts'
import { servedAt, startCommandProcess } from '../../support/gateway-process.ts'
import { storeFixture } from '../../support/store-fixture.ts'

test('a rewind in a store of an earlier version is carried out to its end, and what was undone is not undone again', async () => {
  const { folder, config, env, done } = storeFixture('store-rewind', '2026-11-30T02:22:20Z')
  const gateway = startCommandProcess(['serve', '--config', config], { env })
  onTestFinished(async () => {
    await gateway.close()
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
  })
  await servedAt(gateway)
  await until(() => done().includes('unsend first'), 'the last action to be undone')
  expect(done()).toEqual(['unsend second', 'unsend first'])
})
