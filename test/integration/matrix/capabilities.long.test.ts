import { describe, expect, it } from 'vitest'
import { textOf } from '../../support/client/options.ts'
import { describePairs, type Pair } from '../../support/matrix.ts'
import { mark } from '../../support/meeting.ts'
import { objectAt } from '../../support/server/json.ts'

const isRemote = ({ client }: Pair): boolean => client.transport !== 'stdio'

describe('for a server without subscriptions and logging', () => {
  const without = [
    'resources.subscribe',
    'tools.listChanged',
    'prompts.listChanged',
    'logging',
    'completions',
  ]
  describePairs({ server: () => ({ without }), only: isRemote }, (meeting) => {
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
        expect(await listening.acknowledged).toEqual({ resourcesListChanged: true })
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
})

describe('for a client whose roots change', () => {
  const changed = 'notifications/roots/list_changed'
  const only = (pair: Pair): boolean => isRemote(pair) && pair.client.revision !== '2026-07-28'
  const client = () => ({
    answers: { 'roots/list': () => ({ roots: [] }) },
    capabilities: { roots: { listChanged: true } },
  })

  for (const roots of ['client', 'off']) {
    describe(`with the configuration roots: ${roots}`, () => {
      describePairs({ upstream: { roots }, client, only }, (meeting) => {
        const isTold = roots === 'client' && !meeting.server.modern

        it(`${isTold ? 'notifies the server' : 'does not notify a server that does not receive roots'}`, async () => {
          const from = meeting.seen().length
          const word = mark()
          await meeting.connected.notify(changed)
          await meeting.connected.notify('notifications/vendor', { word })
          await meeting.until(({ text }) => text.includes(word), from)
          const told = meeting
            .seen()
            .slice(from)
            .filter(({ message }) => message?.['method'] === changed)
          expect(told).toHaveLength(isTold ? 1 : 0)
        })
      })
    })
  }
})

describe('for a server that asks on the stream of the session', () => {
  const answers = { 'elicitation/create': () => ({ action: 'accept', content: { name: 'Ada' } }) }
  const only = ({ client, server }: Pair): boolean =>
    client.revision >= '2025-06-18' && server.transport === 'http' && /^2025-(06|11)/.test(server.revision)
  describePairs({ server: () => ({ questions: 'get' }), client: () => ({ answers }), only }, (meeting) => {
    const answer = { action: 'accept', content: { name: 'Ada' } }

    it('returns the response of the client whose call it belongs to', async () => {
      expect(JSON.parse(textOf(await meeting.call('ask_form')))).toEqual({ answer })
      const rounds = await meeting.call('ask_rounds', { n: 3 })
      expect(Object.keys(objectAt({ rounds: JSON.parse(textOf(rounds)) }, 'rounds'))).toHaveLength(3)
      expect(JSON.parse(textOf(await meeting.call('ask_two')))).toEqual({ first: answer, second: answer })
    })
  })
})
