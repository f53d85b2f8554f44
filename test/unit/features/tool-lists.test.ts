import { expect, it, vi } from 'vitest'
import { Payload } from '../../../src/core/payload.ts'
import { describingTools } from '../../../src/features/tool-lists.ts'
import { toolCall } from '../../support/tool-call.ts'

it('tools are described once, whatever surrounds them in the list', async () => {
  const describe = vi.fn<(tool: Payload) => Payload>((tool) => tool.with({ title: 'T' }))
  const results = ['1', '2', '2'].map((left) =>
    Payload.text(`{"tools":[{"name":"a"},{"name":"b","n":1.0}],"_meta":{"left":${left}}}`),
  )
  const handle = describingTools(describe)(async () => ({
    kind: 'result',
    result: results.shift() ?? Payload.of({}),
  }))
  for (const left of [1, 2, 2]) {
    const outcome = await handle(toolCall())
    expect(outcome.kind === 'result' && outcome.result.text).toBe(
      `{"tools":[{"name":"a","title":"T"},{"name":"b","n":1.0,"title":"T"}],"_meta":{"left":${left}}}`,
    )
  }
  expect(describe).toHaveBeenCalledTimes(2)
})

it('a list without descriptions is the same object', async () => {
  const outcome = { kind: 'result', result: Payload.text('{"tools":[{"name":"a"}]}') } as const
  const handle = describingTools((tool) => tool)(async () => outcome)
  expect(await handle(toolCall())).toBe(outcome)
})
