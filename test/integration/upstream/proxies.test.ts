import { describe, expect, it, onTestFinished } from 'vitest'
import { forwardProxy } from '../../support/forward-proxy.ts'
import { startGateway } from '../../support/gateway.ts'
import { clientOf } from '../../support/journey.ts'
import { sessionServer } from '../../support/session-server.ts'
import { until } from '../../support/condition.ts'

const PASSWORD = 'proxy-pass-4711'

describe('servers behind proxies', () => {
  it('get calls through the proxy of the environment, a proxy of their own, or none', async () => {
    const { url: direct } = await sessionServer({})
    const port = Number(direct.port)
    const user = `Basic ${Buffer.from(`me:${PASSWORD}`).toString('base64')}`
    const [shared, own] = [await forwardProxy(port, { authorization: user }), await forwardProxy(port)]
    const url = 'http://mcp.corp.invalid/mcp'
    const upstreams = {
      shared: url,
      own: { url: direct.href, proxy: own.url },
      none: { url: 'http://mcp.none.invalid/mcp', proxy: 'off' },
      listed: 'http://mcp.listed.invalid/mcp',
      here: direct.href,
      wrong: {
        url: 'http://mcp.wrong.invalid/mcp',
        proxy: `http://me:\${PROXY_PASSWORD}@127.0.0.1:${shared.port}`,
      },
    }
    const gateway = await startGateway(
      { upstreams },
      {
        env: {
          http_proxy: `http://me:${PASSWORD}@127.0.0.1:${shared.port}`,
          HTTPS_PROXY: 'socks5://127.0.0.1:1',
          NO_PROXY: '.listed.invalid',
          PROXY_PASSWORD: 'another-pass-4711',
        },
      },
    )
    onTestFinished(() => gateway.close())
    const call = async (name: string): Promise<string> => {
      const client = await clientOf(
        { url: `${gateway.url}/${name}` },
        { revision: '2026-07-28', handshake: false },
      )
      const reply = await client.request('tools/list')
      return reply.error === undefined ? 'listed' : reply.text
    }
    expect(await call('shared')).toBe('listed')
    expect(await call('here')).toBe('listed')
    expect(await call('own')).toBe('listed')
    expect(own.used.length).toBeGreaterThan(0)
    expect(await call('none')).toContain('its host name')
    expect(await call('listed')).toContain('its host name')
    const wrong = await call('wrong')
    expect(wrong).toContain('the proxy refused the request')
    const named = new Set(shared.used.map((line) => new URL(line.split(' ')[1] ?? '').hostname))
    expect([...named].toSorted()).toEqual(['mcp.corp.invalid', 'mcp.wrong.invalid'])
    const log = await until(() => /proxy\.invalid/.test(gateway.stderr()) && gateway.stderr(), 'the warning')
    expect(log).toContain('HTTPS_PROXY')
    expect(`${log}${wrong}`).not.toMatch(new RegExp(`pass-4711|${user.slice(6)}`))
  })
})
