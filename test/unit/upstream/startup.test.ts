import { expect, test, vi } from 'vitest'
import { GatewayError } from '../../../src/core/error.ts'
import { startServers } from '../../../src/upstream/start-servers.ts'
import type { Upstream } from '../../../src/upstream/upstream.ts'
import { ownCall } from '../../../src/protocol/lift.ts'
import { silentLog } from '../../support/silent-log.ts'

test('an unavailable server is retried until it is available, and reported once', async () => {
  const away = new GatewayError('SERVER_UNAVAILABLE', 'The server cannot be reached.')
  let tries = 0
  const status = { connections: 0, problem: away.message }
  const start = (): Promise<void> => (++tries < 3 ? Promise.reject(away) : Promise.resolve())
  // The only members of an upstream used here.
  const upstream = { name: 'one', start, status } as unknown as Upstream
  const told: string[] = []
  const note = (event: string): void => void told.push(event)
  const ended = new AbortController()
  const log = { ...silentLog, info: note, warn: note, debug: (event: string) => note(`${event} again`) }
  const reached: string[] = []
  const onReached = (name: string): void => void reached.push(name)
  await startServers([upstream], ownCall(), { ended: ended.signal, onReached, log })
  expect(told).toEqual(['upstream.unavailable'])
  const all = ['upstream.unavailable', 'upstream.unavailable again', 'upstream.ready']
  await vi.waitFor(() => expect(told).toEqual(all), 10_000)
  expect(reached).toEqual(['one'])
  ended.abort()
})
