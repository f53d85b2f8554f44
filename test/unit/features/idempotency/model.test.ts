import fc from 'fast-check'
import { expect, it } from 'vitest'
import type { Handler } from '../../../../src/core/call.ts'
import { GatewayError } from '../../../../src/core/error.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { bench, done, keyed } from '../../../support/idempotency-bench.ts'

type End = 'ok' | 'failed' | 'released' | 'lost' | 'crash'

/** The state of one key: unused, completed with its result, or unknown. */
type Model =
  | { readonly state: 'none' }
  | { readonly state: 'done' | 'unknown'; readonly x: number; readonly code: string }

const step = fc.record({
  x: fc.integer({ min: 1, max: 2 }),
  end: fc.constantFrom<End>('ok', 'ok', 'failed', 'released', 'lost', 'crash'),
  isNew: fc.boolean(),
})

it('idempotency: for any sequence of events a call takes effect once and its replays never change', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 12 }), async (steps) => {
      const store = new MemoryStore()
      const alive = new Set<string>(['g0'])
      let end: End = 'ok'
      let runs = 0
      const server: Handler = async () => {
        runs++
        if (end === 'ok') return done(runs)
        if (end === 'failed') throw rejected(runs)
        if (end === 'released') throw new GatewayError('SERVER_UNAVAILABLE', 'Away.', { isUnsent: true })
        if (end === 'lost') throw new GatewayError('OUTCOME_UNKNOWN', 'It broke.')
        return new Promise(() => undefined)
      }
      let me = 'g0'
      let gateway = bench({ store, me, alive, server })
      let model: Model = { state: 'none' }
      for (const [index, { x, end: next, isNew }] of steps.entries()) {
        end = next
        if (isNew) {
          me = `g${index + 1}`
          alive.add(me)
          gateway = bench({ store, me, alive, server })
        }
        const before = runs
        const call = gateway.make({}, keyed('k', { arguments: { x } })).then(
          () => 'result',
          (error: unknown) => (error instanceof GatewayError ? error.code : 'bug'),
        )
        if (model.state === 'none') {
          while (runs === before) await new Promise(setImmediate)
          if (end === 'crash') alive.delete(me)
          const code = end === 'crash' ? '' : await call
          model = after(end, x, code)
          if (end === 'crash')
            gateway = bench({ store, me: (me = `n${index}`), alive: alive.add(me), server })
          continue
        }
        const told = await call
        expect(runs).toBe(before)
        if (model.x !== x) expect(told).toBe('IDEMPOTENCY_CONFLICT')
        else expect(told).toBe(model.state === 'done' ? model.code : 'OUTCOME_UNKNOWN')
      }
    }),
    { numRuns: 100 },
  )
}, 30_000)

function after(end: End, x: number, code: string): Model {
  if (end === 'released') return { state: 'none' }
  if (end === 'ok' || end === 'failed') return { state: 'done', x, code }
  return { state: 'unknown', x, code }
}

function rejected(run: number): GatewayError {
  const message = `no: ${run}`
  return new GatewayError('UPSTREAM_ERROR', message, { relayed: Payload.of({ code: -32000, message }) })
}
