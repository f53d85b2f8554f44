import { operationCounts } from '../../../../src/features/offers.ts'
import { expect, it, onTestFinished } from 'vitest'
import { type Call, compose, type Outcome } from '../../../../src/core/call.ts'
import { GatewayError } from '../../../../src/core/error.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { progress } from '../../../../src/features/progress/progress.ts'
import { featureDeps, offeredBy } from '../../../support/feature-deps.ts'
import { toolCall } from '../../../support/tool-call.ts'

it('an operation is counted by its state until it has ended', async () => {
  const settings = { heartbeat: 5000, keep: 60_000, tasks: { after: 20_000 }, compat: false }
  const observeRest = (_call: Call, rest: Promise<Outcome>): void => void rest.catch(() => undefined)
  const instance = progress.create(() => settings, featureDeps({ observeRest }))
  onTestFinished(async () => instance.close?.())
  const call = toolCall({
    client: { era: 'legacy', revision: '2025-11-25', capabilities: { elicitation: {} } },
    params: Payload.of({ name: 't', arguments: {}, task: {} }),
  })
  const answer = Promise.withResolvers<Outcome>()
  const counts = () => offeredBy(instance, operationCounts)?.()
  expect(counts()).toEqual({ working: 0, input_required: 0 })

  const accepted = compose([instance.calls?.middleware(call.target)], () => answer.promise)(call)
  await expect.poll(counts).toEqual({ working: 1, input_required: 0 })
  expect(await accepted).toMatchObject({ kind: 'task' })

  const inputRequests = { name: { method: 'elicitation/create' } }
  answer.resolve({ kind: 'input_required', inputRequests, requestState: {} })
  await expect.poll(counts).toEqual({ working: 0, input_required: 1 })

  call.abort(new GatewayError('CANCELLED', 'The task was cancelled.'))
  await expect.poll(counts).toEqual({ working: 0, input_required: 0 })
})
