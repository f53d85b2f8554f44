import { expect, it } from 'vitest'
import { listenToAll } from '../../../src/catalog/listen-all.ts'
import { plainNaming } from '../../../src/catalog/names.ts'
import type { Call, Outcome } from '../../../src/core/call.ts'
import { Payload } from '../../../src/core/payload.ts'
import { ACKNOWLEDGED } from '../../../src/protocol/subscription-filter.ts'
import { toolCall } from '../../support/tool-call.ts'

const changed = { method: 'notifications/tools/list_changed', params: Payload.of({}) }
const acknowledged = {
  method: ACKNOWLEDGED,
  params: Payload.of({ notifications: { toolsListChanged: true } }),
}

it('no notification precedes the acknowledgement, which waits for the slowest server', async () => {
  const heard: string[] = []
  const servers = new Map<string, Call>()
  const ends: ((outcome: Outcome) => void)[] = []
  const listening = listenToAll(
    toolCall({
      method: 'subscriptions/listen',
      target: { method: 'subscriptions/listen' },
      params: Payload.of({ notifications: { toolsListChanged: true } }),
      emit: ({ method }) => void heard.push(method),
    }),
    {
      names: ['quick', 'slow'],
      handle: (call) => {
        servers.set(String(call.target.upstream), call)
        return new Promise((resolve) => void ends.push(resolve))
      },
      naming: plainNaming(),
      resource: async () => undefined,
      ended: new AbortController().signal,
      acknowledged: (_upstream, acknowledgement) => acknowledgement,
    },
  )
  servers.get('quick')?.emit(acknowledged)
  servers.get('quick')?.emit(changed)
  expect(heard).toEqual([])
  servers.get('slow')?.emit(acknowledged)
  await expect.poll(() => heard).toEqual([ACKNOWLEDGED, changed.method])
  servers.get('slow')?.emit(changed)
  expect(heard).toHaveLength(3)
  ends.forEach((end) => end({ kind: 'result', result: Payload.of({}) }))
  expect(await listening).toMatchObject({ kind: 'result' })
})
