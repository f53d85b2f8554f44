import { rmSync } from 'node:fs'
import { expect, onTestFinished, test } from 'vitest'
import { post } from '../../support/client/raw.ts'
import { until } from '../../support/condition.ts'
import { servedAt, startCommandProcess } from '../../support/gateway-process.ts'
import { toolCall } from '../../support/raw-session.ts'
import { storeFixture } from '../../support/store-fixture.ts'

test('a session in a store of an earlier version continues, with its subscription', async () => {
  const { folder, config, env, done } = storeFixture('store-sessions', '2026-11-29T22:28:15Z')
  const gateway = startCommandProcess(['serve', '--config', config], { env })
  onTestFinished(async () => {
    await gateway.close()
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
  })
  const url = `${await servedAt(gateway)}/shop`
  const headers = {
    authorization: 'Bearer token-of-ada',
    'mcp-session-id': '7450e85f-249d-4a96-8528-b28fc82234a6',
  }
  const called = await post(url, JSON.stringify(toolCall(1, 'look')), headers)
  expect(called.text).toContain('seen')
  await until(() => done().includes('shop://stock'), 'the subscription')
})
