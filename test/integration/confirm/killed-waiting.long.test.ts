// A gateway that is killed while a call waits for approval: the call is not run by the next one, its repetition is.
import { setTimeout as pause } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { decideOnPage, requestedPage, textIn } from '../../support/approving.ts'
import { type GatewayProcess, startGatewayProcess } from '../../support/gateway-process.ts'
import { folder } from '../../support/journey.ts'
import { eras } from '../../support/peers/confirming.ts'
import { scriptedServer } from '../../support/scripted-server.ts'
import { type Json, objectAt } from '../../support/server/json.ts'

test.each(eras)('a client of the $title has its call approved once, and run once', async ({ connect }) => {
  const ran: Json[] = []
  const annotations = { destructiveHint: true, idempotentHint: true }
  const server = await scriptedServer(
    { tools: {} },
    {
      'tools/list': () => ({ tools: [{ name: 'wipe', inputSchema: { type: 'object' }, annotations }] }),
      'tools/call': ({ params }) => {
        ran.push(objectAt(params, 'arguments'))
        return { content: [{ type: 'text', text: 'wiped' }] }
      },
    },
  )
  onTestFinished(() => server.close())
  const store = folder()
  const serve = async (): Promise<GatewayProcess> => {
    const gateway = await startGatewayProcess({
      store,
      features: { confirm: { wait: '60s' } },
      upstreams: { disks: { url: server.url, transport: 'streamable', revision: '2025-11-25' } },
    })
    onTestFinished(() => gateway.close())
    return gateway
  }
  const call = async (gateway: GatewayProcess): Promise<Json> => {
    const client = await connect({ transport: 'http', url: gateway.url })
    onTestFinished(() => client.close())
    return client.call('wipe', { disk: 'a' }, undefined, () => undefined)
  }

  const first = await serve()
  const lost = call(first).catch(() => 'lost')
  const { pathname } = new URL(await requestedPage({ gateway: first }))
  // It is an operation by then.
  await pause(1500)
  first.signal('SIGKILL')
  await first.ended

  const next = await serve()
  expect(
    await next.logged(({ event, msg }) => (event ?? msg) === 'operation.interrupted', 60_000),
  ).toMatchObject({
    resumed: false,
  })
  const code = /enter the code (\S+)/.exec(next.stdout())?.[1] ?? ''
  await decideOnPage({ code }, `${next.origin}${pathname}`, { verdict: 'approved' })
  await pause(1000)
  expect(ran).toEqual([])
  expect(textIn(await call(next))).toBe('wiped')
  expect(ran).toEqual([{ disk: 'a' }])
  expect(next.log().filter(({ event, msg }) => (event ?? msg) === 'confirm.requested')).toEqual([])
  void lost
})
