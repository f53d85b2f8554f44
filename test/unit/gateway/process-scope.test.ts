// Gateways of this process that run calls, before a server that answers when it is told to.
import { afterEach, expect, it } from 'vitest'
import { loadSettings } from '../../../src/config/load.ts'
import { isObject, readJson } from '../../../src/core/json/json.ts'
import type { Settings } from '../../../src/core/settings.ts'
import { Gateway } from '../../../src/gateway/gateway.ts'
import type { TransportInterceptor } from '../../../src/upstream/transport/transport.ts'
import { until } from '../../support/condition.ts'
import { silentLog } from '../../support/silent-log.ts'

const listed = [{ name: 't', inputSchema: { type: 'object' }, annotations: { readOnlyHint: true } }]
const results: Readonly<Record<string, object>> = {
  initialize: {
    protocolVersion: '2025-11-25',
    capabilities: { tools: {} },
    serverInfo: { name: 's', version: '1' },
  },
  'tools/list': { tools: listed },
}

/** A server whose calls end once `end` is called. */
function slowServer(): { readonly intercept: TransportInterceptor; end(): void } {
  const waiting: (() => void)[] = []
  return {
    intercept: () => async (receiver) => ({
      hasProvenance: true,
      close: async () => undefined,
      send: async (text) => {
        const message = readJson(text)
        if (!isObject(message) || message.id === undefined) return
        const { id, method } = message
        const answer = (fields: object): void =>
          receiver.receive(JSON.stringify({ jsonrpc: '2.0', id, ...fields }), Number(id))
        if (method === 'tools/call') waiting.push(() => answer({ result: { content: [] } }))
        else {
          const result = results[String(method)]
          setImmediate(answer, result ? { result } : { error: { code: -32601, message: 'unknown' } })
        }
      },
    }),
    end: () => {
      for (const each of waiting) each()
    },
  }
}

function settings(heartbeat: string): Settings {
  const config = {
    store: 'memory',
    listen: { port: 0 },
    upstreams: { one: { command: 'server', revision: '2025-11-25' } },
    features: { progress: { heartbeat } },
  }
  return loadSettings(JSON.stringify(config), { file: '/tmp/gateway.config.yaml', env: {} }).settings
}

const opened: (() => Promise<unknown>)[] = []
afterEach(() => Promise.all(opened.splice(0).map((close) => close())))

async function open(intercept: TransportInterceptor) {
  const gateway = new Gateway(settings('5s'), { variables: {}, log: silentLog, intercept })
  const listener = await gateway.listen()
  opened.push(() => Promise.all([gateway.close(), listener.close()]))
  await gateway.start()
  const running = async (): Promise<number> => {
    const page = await (await fetch(`${listener.url}/metrics`)).text()
    return Number(/^gatehouse_operations\{state="working"\} (\d+)$/m.exec(page)?.[1])
  }
  return { gateway, running }
}

it('a call outlives a reload of its gateway, and is unknown to other gateways of the process', async () => {
  const server = slowServer()
  const [own, other] = [await open(server.intercept), await open(slowServer().intercept)]
  const call = own.gateway.callTool({
    upstream: 'one',
    tool: 't',
    arguments: {},
    isDryRun: false,
    answer: () => Promise.reject(new Error('nothing is requested')),
  })
  await until(async () => (await own.running()) === 1, 'the call to be an operation')
  await own.gateway.reload(settings('6s'))
  expect(await own.running()).toBe(1)
  expect(await other.running()).toBe(0)
  server.end()
  expect((await call).fields).toMatchObject({ content: [] })
  await until(async () => (await own.running()) === 0, 'the operation to end')
})
