import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type CrashField, startField } from '../../support/crash-field.ts'
import { type Ending, isSameAnswer, runWithKills, untilAnswered } from '../../support/crash-run.ts'
import { faultsOf } from '../../support/crash-verdict.ts'
import { effectsOf } from '../../support/effects.ts'
import { reportFigure } from '../../support/figure.ts'
import { skipWithout } from '../../support/needs.ts'
import { hasRedis, needsRedis, type RedisServer, startRedis } from '../../support/redis-server.ts'
import { seeded } from '../../simulate/random.ts'
import { repetitions, seedOf, variantsOf } from '../../support/soak.ts'

/** CRASH_SEED reproduces the points at which processes were killed. */
const SEED = seedOf('CRASH_SEED', 20_261)

const verify = 'list_effects(key=$.args.key) -> $.result.effects[0]'
/** An earlier attempt may still be running for as long as the timeout, so the timeout is short. */
const tools = { add_effect: { verify, timeout: '1s' }, add_blind_effect: { timeout: '1s' } }

const every = (['stdio', 'http'] as const).flatMap((upstream) =>
  (['LMDB', 'Redis'] as const).flatMap((store) => [
    { upstream, store, kills: 'gateways' as const, keys: repetitions(105, 350), batch: 35 },
    // More kills within a minute would make a gateway pause before it restarts its server.
    { upstream, store, kills: 'server' as const, keys: repetitions(76, 150), batch: 38 },
  ]),
)
/** Each server with each store, each of them with each kill. */
const variants = variantsOf(every, ({ upstream, store, kills }) => {
  return (kills === 'gateways') === ((upstream === 'stdio') === (store === 'LMDB'))
})

describe('keyed calls while processes are killed', () => {
  let redis: RedisServer | undefined
  beforeAll(async () => {
    redis = hasRedis() ? await startRedis() : undefined
  })
  /** Of the variants in which gateways are killed. */
  const doubts: ReturnType<typeof doubtIn>[] = []
  afterAll(() => redis?.stop())

  test.for(variants)(
    'run once: $kills killed, server over $upstream, store in $store',
    async (variant, context) => {
      const { upstream, store, kills, keys, batch } = variant
      if (store === 'Redis') skipWithout(needsRedis, context)
      const seed = SEED + 1000 * every.indexOf(variant)
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
        const again = await makeAgain(field, endings, seed)
        expect(unlike(endings, again), `CRASH_SEED=${SEED}`).toEqual([])
        await field.settled()
        const effects = effectsOf(field.log)
        expect([...faultsOf(endings, effects), ...faultsOf(again, effects)], `CRASH_SEED=${SEED}`).toEqual([])
        if (kills === 'gateways') doubts.push(doubtIn([...endings, ...again]))
        reportFigure(context.task, { calls: endings.length + again.length, kills: Math.ceil(keys / batch) })
      } finally {
        await field.close()
      }
    },
  )

  test('some calls were in doubt, and a read settled some of those', (context) => {
    if (doubts.length === 0) context.skip('no gateways were killed')
    expect(doubts.some(({ open }) => open > 0)).toBe(true)
    expect(doubts.some(({ verified }) => verified > 0)).toBe(true)
  })
})

/** How many calls were in doubt after their gateway was killed, and how many of those a read settled. */
function doubtIn(ended: readonly Ending[]): { readonly open: number; readonly verified: number } {
  return {
    open: ended.filter(({ answer }) => !answer).length,
    verified: ended.filter(({ answer }) => answer?.isVerified).length,
  }
}

/** Repeats calls: those in doubt, and some of those that were answered. */
function makeAgain(field: CrashField, endings: readonly Ending[], seed: number): Promise<Ending[]> {
  const random = seeded(seed)
  const chosen = endings.filter(({ answer }) => !answer || random.chance(0.25))
  return Promise.all(chosen.map(({ call }) => untilAnswered(call, field.gateways, random)))
}

/** What is wrong with the second response, given the first. */
function unlike(endings: readonly Ending[], again: readonly Ending[]): readonly string[] {
  return again.flatMap(({ call, answer, wrong }) => {
    const first = endings.find((each) => each.call === call)?.answer
    if (wrong !== undefined) return [`${call.key}: ${wrong}`]
    // A read can settle a call in doubt; without one it stays in doubt.
    if (!first) return call.tool === 'add_effect' || !answer ? [] : [`${call.key} was guessed`]
    if (answer?.wasReplay && isSameAnswer(first, answer)) return []
    return [`${call.key}: ${JSON.stringify([first, answer])}`]
  })
}
