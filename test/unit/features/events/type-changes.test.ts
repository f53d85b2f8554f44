import { describe, expect, it } from 'vitest'
import type { Call, Handler, Notification } from '../../../../src/core/call.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { listenToAll } from '../../../../src/catalog/aggregate.ts'
import { Naming } from '../../../../src/catalog/names.ts'
import { eventsGateway } from '../../../support/events-gateway.ts'
import type { Json } from '../../../support/server/json.ts'
import { toolCall } from '../../../support/tool-call.ts'

const method = 'subscriptions/listen'
const acknowledged = 'notifications/subscriptions/acknowledged'
const [toolsChanged, eventsChanged] = ['tools', 'events'].map((list) => `notifications/${list}/list_changed`)

/** A listening client, and what its server can send to it. */
function listening(notifications: Json, around: (server: Handler) => Handler = (server) => server) {
  const { instance } = eventsGateway()
  const calls: Call[] = []
  const server: Handler = (call) => {
    calls.push(call)
    // The server has no events of its own, so it does not accept the member.
    const { eventsListChanged: _unknown, ...accepted } = call.params.fields['notifications'] as Json
    call.emit({ method: acknowledged, params: Payload.of({ notifications: accepted }) })
    return new Promise((_resolve, reject) => {
      call.signal.addEventListener('abort', () => reject(call.signal.reason as Error))
    })
  }
  const sent: [method: string, filter?: unknown][] = []
  const emit = ({ method: name, params }: Notification): void => {
    const filter = params?.fields['notifications']
    sent.push(filter === undefined ? [name] : [name, filter])
  }
  const middleware = instance.responseMiddleware?.(method)
  if (!middleware) throw new TypeError('there is no middleware')
  const target = { method, upstream: 'one' }
  const call = toolCall({ method, target, params: Payload.of({ notifications }), emit })
  middleware(around(server))(call).catch(() => undefined)
  return { instance, calls, sent, notify: (name = '') => calls[0]?.emit({ method: name }) }
}

describe('E23 changes of the types of events', () => {
  it('are notified to clients that ask for them, and accepted in their acknowledgement', () => {
    const { sent, notify } = listening({ eventsListChanged: true, promptsListChanged: true })
    expect(sent).toEqual([[acknowledged, { eventsListChanged: true, promptsListChanged: true }]])
    for (const name of [toolsChanged, eventsChanged, 'notifications/prompts/list_changed']) notify(name)
    expect(sent.slice(1)).toEqual([[eventsChanged], [eventsChanged], ['notifications/prompts/list_changed']])
  })

  it('come with those of tools for clients that ask for both', () => {
    const { sent, notify } = listening({ eventsListChanged: true, toolsListChanged: true })
    notify(toolsChanged)
    expect(sent).toEqual([
      [acknowledged, { eventsListChanged: true, toolsListChanged: true }],
      [toolsChanged],
      [eventsChanged],
    ])
  })

  it('are not notified to others, whose requests reach the server unchanged', () => {
    const { sent, calls, notify } = listening({ toolsListChanged: true })
    notify(toolsChanged)
    expect(sent).toEqual([[acknowledged, { toolsListChanged: true }], [toolsChanged]])
    expect(calls[0]?.params.fields['notifications']).toEqual({ toolsListChanged: true })
  })

  it('are notified when another configuration is loaded', async () => {
    const { sent, instance } = listening({ eventsListChanged: true })
    await instance.close?.()
    expect(sent.slice(1)).toEqual([[eventsChanged]])
  })

  it('are notified at the address of all servers', async () => {
    const names = ['one', 'two']
    const { signal: ended } = new AbortController()
    const options = {
      names,
      naming: new Naming(),
      resource: async () => undefined,
      ended,
      acknowledged: (_upstream: string, acknowledgement: Promise<void>) => acknowledgement,
    }
    const { sent, calls, notify } = listening(
      { eventsListChanged: true },
      (handle) => (call) => listenToAll(call, { ...options, handle }),
    )
    await expect.poll(() => sent).toEqual([[acknowledged, { eventsListChanged: true }]])
    expect(calls.map(({ params }) => params.fields['notifications'])).toEqual(
      names.map(() => ({ eventsListChanged: true, toolsListChanged: true })),
    )
    notify(eventsChanged)
    expect(sent.slice(1)).toEqual([[eventsChanged]])
  })
})
