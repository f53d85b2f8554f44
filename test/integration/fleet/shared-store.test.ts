// Two gateways in processes of their own that share a store: what a client does at one of them, it can continue at the other.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { CookieBrowser } from '../../support/auth/browser.ts'
import { type GatewayProcess, startGatewayProcess } from '../../support/gateway-process.ts'
import { hasRedis, startRedis } from '../../support/redis-server.ts'
import { beginTask, taskClient, taskServer } from '../../support/task-peers.ts'

/** Where gateways keep their data, and what ends it. */
interface Place {
  readonly store: string
  remove(): Promise<void> | void
}

const places: readonly { readonly title: string; readonly open: () => Promise<Place> }[] = [
  {
    title: 'Redis',
    open: async () => {
      const redis = await startRedis()
      return { store: redis.url, remove: () => redis.stop() }
    },
  },
  {
    title: 'a folder',
    open: async () => {
      const folder = mkdtempSync(join(tmpdir(), 'gatehouse-test-'))
      return { store: join(folder, 'store'), remove: () => rmSync(folder, { recursive: true, force: true }) }
    },
  },
]

const features = { progress: { tasks: { after: '100ms' } } }

describe.each(places.filter(({ title }) => title !== 'Redis' || hasRedis()))(
  'two gateways that share $title',
  ({ open }) => {
    let place: Place
    let one: GatewayProcess
    let other: GatewayProcess
    beforeAll(async () => {
      place = await open()
      const config = { store: place.store, features, upstreams: { tasks: taskServer() } }
      const gateways = await Promise.all([startGatewayProcess(config), startGatewayProcess(config)])
      ;[one, other] = gateways
    })
    afterAll(async () => {
      await Promise.all([one.close(), other.close()])
      await place.remove()
    })

    it('both notify of a task that one of them runs', async () => {
      const clients = await Promise.all([one, other].map((each) => taskClient(each, '2026-07-28')))
      const [here] = clients
      if (!here) throw new TypeError('there is no client')
      const { taskId } = await beginTask(here, 'slow_compute', { seconds: 0.6, label: 'it' })
      const listeners = clients.map((client) => client.listen({ taskIds: [String(taskId)] }))
      for (const listener of listeners) {
        expect(await listener.acknowledged).toEqual({ taskIds: [taskId] })
        const { params } = await listener.until(({ params: { status } }) => status === 'completed')
        expect(params).toMatchObject({ taskId, result: { content: [{ text: 'computed it' }] } })
      }
      await Promise.all(listeners.map((listener) => listener.close()))
      const ends = listeners.map(({ notes }) =>
        notes.filter(({ params }) => params['status'] === 'completed'),
      )
      expect(ends.map(({ length }) => length)).toEqual([1, 1])
    })

    it('the code of one opens the pages of the other, and the cookie of that those of both', async () => {
      const code = codeOf(one)
      const browser = new CookieBrowser()
      expect((await browser.open(`${other.origin}/console`)).status).toBe(401)
      const wrong = await browser.submit(`${other.origin}/console`, { code: 'AAAA-AAAA' })
      expect(wrong.status).toBe(403)
      expect((await browser.submit(`${other.origin}/console`, { code })).status).toBe(200)
      expect((await browser.open(`${one.origin}/console`)).status).toBe(200)
    })

    it('the console of each lists both, and says which of them it is', async () => {
      for (const each of [one, other]) {
        const browser = new CookieBrowser()
        await browser.submit(`${each.origin}/console`, { code: codeOf(one) })
        const { text } = await browser.open(`${each.origin}/console/servers`)
        expect(text).toContain('2 gateways with this store')
        for (const { pid } of [one, other]) {
          const isMarked = new RegExp(`process ${pid}<.*this one`).test(text)
          expect([pid, text.includes(`process ${pid}<`), isMarked]).toEqual([pid, true, pid === each.pid])
        }
      }
    })
  },
)

/** The code with which people enter the pages. */
function codeOf(gateway: GatewayProcess): string {
  return /enter the code (\S+)/.exec(gateway.stdout())?.[1] ?? ''
}
