// Changes of a server reach the clients that listen, in the way of their revisions. Every test waits for all notifications
// of its changes, so that none of them arrives in the next test.
import { expect, it, vi } from 'vitest'
import type { Note } from '../../support/client/options.ts'
import { until } from '../../support/condition.ts'
import { subject } from '../../support/matrix.ts'
import { mark, type Meeting } from '../../support/meeting.ts'
import { isScattered } from '../../support/scattered.ts'
import { objectAt } from '../../support/server/json.ts'
import { watchedUri } from '../../support/server/world.ts'

const lists = ['tools', 'prompts', 'resources'] as const
const updated = 'notifications/resources/updated'

export const changes = subject('matrix/changes', (meeting) => {
  const { client, server, kinds } = meeting

  it('C173 notifies clients of changed lists and of a changed resource', async () => {
    const hearing = await subscribe(meeting)
    await change(meeting, [...lists, 'watched'])
    for (const list of lists) await hearing.until(`notifications/${list}/list_changed`)
    const note = await hearing.until(updated)
    expect(note.params['uri']).toBe(watchedUri)
    await hearing.close()
  })

  it('lists the items that a change added', async () => {
    const hearing = await subscribe(meeting)
    const before = await toolNames(meeting)
    await change(meeting, ['tools'])
    await hearing.until('notifications/tools/list_changed')
    const added = (await toolNames(meeting)).filter((name) => !before.includes(name))
    expect(added).toHaveLength(1)
    const call = async (): Promise<true> => {
      const { result } = await meeting.call(String(added[0]))
      expect(result).toMatchObject({ content: [{ text: 'added' }] })
      return true
    }
    // A gateway that listed the tools a moment before does not list them again for a name that it does not know.
    await (isScattered() ? until(call, 'the tool at the gateway of the call') : call())
    await hearing.close()
  })

  it('sends no resource update after the client unsubscribed', async () => {
    const from = meeting.seen().length
    const hearing = await subscribe(meeting)
    await hearing.close()
    if (server.modern) await meeting.until(({ kind }) => kind === 'cancelled', from)
    else await meeting.until(({ message }) => message?.['method'] === 'resources/unsubscribe', from)
    const after = await listen(meeting)
    await change(meeting, ['watched', 'prompts'])
    await after.until('notifications/prompts/list_changed')
    expect(hearing.count(updated) + after.count(updated)).toBe(0)
    await after.close()
  })

  it('subscribes to any resource that the server accepts', async () => {
    const uri = `fake://${mark()}`
    if (client.modern) {
      const listening = meeting.connected.listen({ resourceSubscriptions: [uri], promptsListChanged: true })
      expect(await listening.acknowledged).toEqual({ resourceSubscriptions: [uri], promptsListChanged: true })
      return listening.close()
    }
    expect((await meeting.request('resources/subscribe', { uri: 7 })).error).toMatchObject({ code: -32602 })
    expect((await meeting.request('resources/subscribe', { uri })).result).toEqual({})
    expect((await meeting.request('resources/unsubscribe', { uri })).result).toEqual({})
  })

  if (client.modern) {
    it('sends each subscription only the notifications it requested', async () => {
      const tools = meeting.connected.listen({ toolsListChanged: true })
      const prompts = meeting.connected.listen({ promptsListChanged: true })
      expect(await tools.acknowledged).toEqual({ toolsListChanged: true })
      expect(await prompts.acknowledged).toEqual({ promptsListChanged: true })
      await change(meeting, ['resources', 'prompts', 'tools'])
      await Promise.all([tools.until(isChangeOf('tools')), prompts.until(isChangeOf('prompts'))])
      expect(tools.notes.map(({ method }) => method)).toEqual(['notifications/tools/list_changed'])
      expect(prompts.notes.map(({ method }) => method)).toEqual(['notifications/prompts/list_changed'])
      await Promise.all([tools.close(), prompts.close()])
    })
  } else if (kinds.client.transport !== 'stdio') {
    it('sends each client only updates of the resources it subscribed to', async () => {
      const other = await meeting.connect()
      await other.request('resources/subscribe', { uri: 'fake://static' })
      const hearing = await subscribe(meeting)
      await change(meeting, ['watched', 'resources'])
      await hearing.until(updated)
      await hearing.until('notifications/resources/list_changed')
      await other.until(isChangeOf('resources'))
      expect(other.notes.map(({ method }) => method)).not.toContain(updated)
      await hearing.close()
    })
  }

  if (!server.modern || kinds.server.transport !== 'http') return
  it('ends a subscription with a result, or subscribes again for a client without one', async () => {
    const hearing = await subscribe(meeting)
    if (client.modern) {
      const listening = meeting.connected.listen({ toolsListChanged: true })
      await listening.acknowledged
      meeting.behind?.endListening()
      expect((await listening.ended).result).toMatchObject({ resultType: 'complete' })
      return
    }
    meeting.behind?.endListening()
    // Anything may have changed in between.
    for (const list of lists) await hearing.until(`notifications/${list}/list_changed`)
    await change(meeting, ['watched'])
    await hearing.until(updated)
    await hearing.close()
  })
})

interface Hearing {
  /** Waits for a notification received since the call of this function. */
  until(method: string): Promise<Note>
  count(method: string): number
  close(): Promise<void>
}

/** Listens to all lists and the watched resource, as the client's revision does. */
async function subscribe(meeting: Meeting): Promise<Hearing> {
  const { connected, client } = meeting
  if (client.modern) return listen(meeting, { resourceSubscriptions: [watchedUri] })
  const hearing = await listen(meeting)
  expect((await connected.request('resources/subscribe', { uri: watchedUri })).result).toEqual({})
  const close = async (): Promise<void> => {
    expect((await connected.request('resources/unsubscribe', { uri: watchedUri })).result).toEqual({})
  }
  return { ...hearing, close }
}

/** Listens to all lists, and to what else a 2026-07-28 client requests. */
async function listen({ connected, client }: Meeting, more = {}): Promise<Hearing> {
  if (client.modern) {
    const filter = { toolsListChanged: true, promptsListChanged: true, resourcesListChanged: true, ...more }
    const listening = connected.listen(filter)
    expect(await listening.acknowledged).toEqual(filter)
    return {
      until: (method) => listening.until((note) => note.method === method),
      count: (method) => listening.notes.filter((note) => note.method === method).length,
      close: () => listening.close(),
    }
  }
  const before = connected.notes.length
  const heard = (method: string): readonly Note[] =>
    connected.notes.slice(before).filter((note) => note.method === method)
  const first = (method: string): Note => {
    const [found] = heard(method)
    if (found) return found
    throw new Error(`There was no ${method}`)
  }
  return {
    until: (method) => vi.waitFor(() => first(method), { timeout: 15_000, interval: 5 }),
    count: (method) => heard(method).length,
    close: () => Promise.resolve(),
  }
}

function isChangeOf(list: string): (note: Note) => boolean {
  return ({ method }) => method === `notifications/${list}/list_changed`
}

async function change(meeting: Meeting, what: readonly string[]): Promise<void> {
  await meeting.call('change', { what })
}

async function toolNames(meeting: Meeting): Promise<string[]> {
  const { result } = await meeting.request('tools/list')
  const tools = result?.['tools']
  return Array.isArray(tools) ? tools.map((tool) => String(objectAt({ tool }, 'tool')['name'])) : []
}
