import { setTimeout as pause } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { startField } from '../../support/crash-field.ts'
import { isSameAnswer } from '../../support/crash-run.ts'
import { effectsOf } from '../../support/effects.ts'
import { type Attempt, attemptCall, type KeyedCall } from '../../support/keyed-client.ts'
import { needsRedis, startRedis } from '../../support/redis-server.ts'

const COUNT = 100

test(
  'a hundred identical concurrent calls over three gateways are one call at the server',
  needsRedis,
  async () => {
    const redis = await startRedis()
    onTestFinished(() => redis.stop())
    const field = await startField({ upstream: 'http', gateways: 3, store: redis.url, tools: {} })
    onTestFinished(() => field.close())
    const call = { tool: 'add_effect', arguments: { key: 'one', value: 'v' }, key: 'one' }
    const deadline = AbortSignal.timeout(30_000)
    const attempts = await Promise.all(
      Array.from({ length: COUNT }, (_each, index) => {
        const gateway = field.gateways[index % field.gateways.length] ?? field.gateways[0]
        return attempted(gateway.url, call, deadline)
      }),
    )
    expect(effectsOf(field.log)).toHaveLength(1)
    expect(attempts.filter(({ kind }) => kind !== 'answered')).toEqual([])
    const answers = attempts.flatMap((each) => (each.kind === 'answered' ? [each.answer] : []))
    const [first] = answers
    expect(answers.every((each) => first !== undefined && isSameAnswer(first, each))).toBe(true)
    expect(answers.filter(({ wasReplay }) => !wasReplay)).toHaveLength(1)
  },
)

/** Repeats a call while the gateway says so, as it does when a slow machine keeps Redis from responding in time. */
async function attempted(url: string, call: KeyedCall, deadline: AbortSignal): Promise<Attempt> {
  for (;;) {
    const attempt = await attemptCall(url, call, deadline)
    if (attempt.kind !== 'again' || deadline.aborted) return attempt
    await pause(attempt.wait ?? 200)
  }
}
