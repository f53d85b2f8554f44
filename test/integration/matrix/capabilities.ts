// What the server does not offer is not requested of it, and what the client offers reaches the server where the configuration
// says so.
import { expect, it } from 'vitest'
import { type Answers, textOf } from '../../support/client/options.ts'
import { type Pair, type Subject, subject } from '../../support/matrix.ts'
import { mark } from '../../support/meeting.ts'
import { objectAt } from '../../support/server/json.ts'

/** Capabilities that a server may lack. */
export const lacked = [
  'resources.subscribe',
  'tools.listChanged',
  'prompts.listChanged',
  'logging',
  'completions',
]

/** Of a server that has none of these. */
export const lackedCapabilities = subject('matrix/capabilities of a bare server', (meeting) => {
  const { client } = meeting

  it('declares only the capabilities of the server', () => {
    // The extensions of the gateway are declared there too.
    const { extensions: _own, ...declared } = objectAt(meeting.connected.initialized, 'capabilities')
    expect(declared).toEqual({
      tools: { listChanged: false },
      prompts: { listChanged: false },
      resources: { listChanged: true, subscribe: false },
      experimental: { 'com.example/fake': { level: 1 } },
      ...(client.coreTasks && { tasks: { list: {}, cancel: {}, requests: { tools: { call: {} } } } }),
    })
  })

  it('C008 C173 sends the server no request for an undeclared capability', async () => {
    if (client.modern) {
      const wanted = {
        toolsListChanged: true,
        resourcesListChanged: true,
        resourceSubscriptions: ['fake://static'],
      }
      const listening = meeting.connected.listen(wanted)
      expect(await listening.acknowledged).toEqual({
        ...(!meeting.server.modern && { toolsListChanged: true }),
        resourcesListChanged: true,
      })
      await listening.close()
      expect(textOf(await meeting.call('echo', {}, { logLevel: 'debug' }))).toBe('{}')
      return
    }
    const subscribed = await meeting.request('resources/subscribe', { uri: 'fake://static' })
    expect(subscribed.error).toMatchObject({ code: -32601 })
    expect((await meeting.request('logging/setLevel', { level: 'info' })).error).toMatchObject({
      code: -32601,
    })
  })
})

/** Of a client whose roots change, with this setting of the upstream. */
export function changingRoots(roots: 'client' | 'off'): Subject {
  const changed = 'notifications/roots/list_changed'
  const define: Subject['define'] = (meeting) => {
    const isTold = roots === 'client' && !meeting.server.modern

    it(`${isTold ? 'notifies the server' : 'does not notify a server that does not receive roots'}`, async () => {
      const own = await meeting.connect({
        answers: { 'roots/list': () => ({ roots: [] }) },
        capabilities: { roots: { listChanged: true } },
      })
      const from = meeting.seen().length
      const word = mark()
      await own.notify(changed)
      await own.notify('notifications/vendor', { word })
      await meeting.until(({ text }) => text.includes(word), from)
      const told = meeting
        .seen()
        .slice(from)
        .filter(({ message }) => message?.['method'] === changed)
      expect(told).toHaveLength(isTold ? 1 : 0)
    })
  }
  const only = (pair: Pair): boolean => isRemote(pair) && pair.client.revision !== '2026-07-28'
  return subject(`matrix/capabilities with the configuration roots: ${roots}`, define, only)
}

const accepted = { action: 'accept', content: { name: 'Ada' } }

/** The answers of a client to a server that asks on the stream of the session. */
export const acceptance: Answers = { 'elicitation/create': () => accepted }

/** Of a server that asks on the stream of the session. */
export const questionsOfSession = subject('matrix/capabilities on the stream of the session', (meeting) => {
  it('returns the response of the client whose call it belongs to', async () => {
    expect(JSON.parse(textOf(await meeting.call('ask_form')))).toEqual({ answer: accepted })
    const rounds = await meeting.call('ask_rounds', { n: 3 })
    expect(Object.keys(objectAt({ rounds: JSON.parse(textOf(rounds)) }, 'rounds'))).toHaveLength(3)
    expect(JSON.parse(textOf(await meeting.call('ask_two')))).toEqual({ first: accepted, second: accepted })
  })
})

/** Servers and clients that have questions on a stream of the session, over HTTP. */
export function hasSessionStream({ client, server }: Pair): boolean {
  return (
    client.revision >= '2025-06-18' && server.transport === 'http' && /^2025-(06|11)/.test(server.revision)
  )
}

/** Clients that share a gateway. */
export function isRemote({ client }: Pair): boolean {
  return client.transport !== 'stdio'
}
