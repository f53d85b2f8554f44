import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type CrashField, startField } from '../../support/crash-field.ts'
import { type Ending, isSameAnswer, runWithKills, untilAnswered } from '../../support/crash-run.ts'
import { faultsOf } from '../../support/crash-verdict.ts'
import { effectsOf } from '../../support/effects.ts'
import { hasRedis, type RedisServer, startRedis } from '../../support/redis-server.ts'
import { seeded } from '../../support/seeded.ts'

/** CRASH_SEED repeats the points at which processes were killed. */
const SEED = Number(process.env['CRASH_SEED'] ?? 20_261)

const verify = 'list_effects(value=$.args.value) -> $.result.effects[0]'
/** Whether what was sent before still acts is waited for as long as a call may take. */
const tools = { add_effect: { verify, timeout: '1s' }, add_blind_effect: { timeout: '1s' } }

const variants = (['stdio', 'http'] as const).flatMap((upstream) =>
  (['LMDB', 'Redis'] as const).flatMap((store) => [
    { upstream, store, kills: 'gateways' as const, keys: 350, batch: 35 },
    { upstream, store, kills: 'server' as const, keys: 150, batch: 15 },
  ]),
)

const all: Ending[] = []

describe('keyed calls while processes are killed', () => {
  let redis: RedisServer | undefined
  beforeAll(async () => {
    redis = hasRedis() ? await startRedis() : undefined
  })
  afterAll(() => redis?.stop())

  test.each(variants)(
    'are done once: $kills killed, server over $upstream, store in $store',
    { timeout: 120_000 },
    async (variant) => {
      const { upstream, store, kills, keys, batch } = variant
      if (store === 'Redis' && !redis) return
      const seed = SEED + 1000 * variants.indexOf(variant)
      const field = await startField({
        upstream,
        gateways: 2,
        tools,
        ...(store === 'Redis' && redis && { store: redis.url }),
      })
      try {
        const names = ['add_effect', 'add_blind_effect'] as const
        const endings = await runWithKills(field, { seed, keys, batch, kills, tools: names })
        expect(faultsOf(endings, effectsOf(field.log)), `CRASH_SEED=${SEED}`).toEqual([])
        expect(endings).toHaveLength(keys)
        expect(await unlikeReplays(field, endings, seed), `CRASH_SEED=${SEED}`).toEqual([])
        // What was begun by a server that outlived its gateway is done by then.
        await pause(200)
        expect(faultsOf(endings, effectsOf(field.log)), `CRASH_SEED=${SEED}`).toEqual([])
        all.push(...endings)
        process.stderr.write(`${upstream} ${store} ${kills}: ${summary(endings)}\n`)
      } finally {
        await field.close()
      }
    },
  )

  test('were in doubt in part, and settled by what a read found in part', () => {
    const doubts = all.filter(({ answer }) => !answer)
    expect(doubts.length).toBeGreaterThan(0)
    expect(doubts.length).toBeLessThan(all.length / 4)
    expect(all.some(({ answer }) => answer?.isVerified)).toBe(true)
  })
})

/** The keys whose replay is not the first answer, or no replay. */
async function unlikeReplays(
  field: CrashField,
  endings: readonly Ending[],
  seed: number,
): Promise<readonly string[]> {
  const random = seeded(seed)
  const chosen = endings.filter(({ answer }) => !answer || random.chance(0.25))
  const again = await Promise.all(
    chosen.map(async (first) => ({ first, second: await untilAnswered(first.call, field.gateways, random) })),
  )
  return again.flatMap(({ first, second }) => {
    if (second.wrong !== undefined) return [`${first.call.key}: ${second.wrong}`]
    if (!first.answer || !second.answer) return first.answer ? [`${first.call.key} was forgotten`] : []
    const isLike = second.answer.wasReplay && isSameAnswer(first.answer, second.answer)
    return isLike ? [] : [`${first.call.key}: ${JSON.stringify([first.answer, second.answer])}`]
  })
}

function summary(endings: readonly Ending[]): string {
  const doubts = endings.filter(({ answer }) => !answer).length
  const verified = endings.filter(({ answer }) => answer?.isVerified).length
  const replays = endings.filter(({ answer }) => answer?.wasReplay).length
  const retried = endings.filter(({ attempts }) => attempts > 1).length
  return `${endings.length} keys, ${retried} retried, ${replays} told again, ${verified} verified, ${doubts} in doubt`
}
