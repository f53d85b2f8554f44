import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { until } from '../../support/condition.ts'
import { runCommand } from '../../support/gateway.ts'
import { clientOf, folder, gatewayProcessTo, httpServer } from '../../support/journey.ts'
import type { Json } from '../../support/server/json.ts'

const lines = (file: string): string[] =>
  existsSync(file) ? readFileSync(file, 'utf8').split('\n').filter(Boolean) : []

/** The settings of a server that outlives the gateways, which start faster so. */
async function upstreams(): Promise<Json> {
  return { one: { url: (await httpServer()).url, revision: '2025-11-25' } }
}

async function verify(...files: string[]): Promise<number | null> {
  return (await runCommand(['audit', 'verify', ...files])).code
}

describe('the audit log at the end of its gateway', () => {
  it.each(['SIGTERM', 'SIGKILL'] as const)(
    'is unbroken after %s, and is continued by the next gateway',
    async (signal) => {
      const file = join(folder(), 'audit.jsonl')
      for (const count of [2, 4]) {
        const gateway = await gatewayProcessTo(await upstreams(), { config: { observe: { audit: file } } })
        const client = await clientOf(gateway)
        await client.request('tools/call', { name: 'echo' })
        await until(() => lines(file).length === count, 'the lines of the call')
        gateway.signal(signal)
        await gateway.ended
      }
      expect(await verify(file)).toBe(0)
      expect(existsSync(file.replace('audit', 'audit.2'))).toBe(false)
    },
  )

  it('is anchored in the store: truncation together with the file beside it is detected', async () => {
    const file = join(folder(), 'audit.jsonl')
    const config = { observe: { audit: file }, store: './store' }
    const gateway = await gatewayProcessTo(await upstreams(), { config })
    const client = await clientOf(gateway)
    for (let n = 0; n < 3; n++) await client.request('tools/call', { name: 'echo', arguments: { n } })
    await client.close()
    gateway.signal('SIGTERM')
    await gateway.ended
    const { configFile } = gateway
    const run = (...words: string[]) => runCommand(['audit', 'verify', file, ...words])
    expect((await run('--config', configFile)).stdout).toMatch(
      /4 lines, intact; head \w{64}; anchored in the store up to line 4\n$/,
    )
    writeFileSync(file, `${lines(file).slice(0, 2).join('\n')}\n`)
    rmSync(`${file}.head`)
    const alone = await run()
    expect(alone.code).toBe(0)
    expect(alone.stdout).toContain('the end is not anchored')
    const anchored = await run('--config', configFile)
    expect(anchored.code).toBe(1)
    expect(anchored.stderr).toContain('line(s) 3 to 4 of the log are missing at the end')
    const json = JSON.parse((await run('--json', '--config', configFile)).stdout)
    expect(json).toMatchObject({ ok: false, logs: [{ lines: 2, anchored: 4 }] })
    expect(JSON.parse((await run('--json')).stdout)).toMatchObject({ logs: [{ anchored: null }] })
  })

  it('contains every answered call, even if the gateway is stopped twice', async () => {
    const file = join(folder(), 'audit.jsonl')
    const gateway = await gatewayProcessTo(await upstreams(), { config: { observe: { audit: file } } })
    const client = await clientOf(gateway)
    const hanging = client
      .request('tools/call', { name: 'sleep', arguments: { ms: 60_000 } })
      .catch(() => undefined)
    for (let n = 0; n < 30; n++) await client.request('tools/call', { name: 'echo', arguments: { n } })
    gateway.signal('SIGTERM')
    gateway.signal('SIGINT')
    await gateway.ended
    await Promise.race([hanging, client.close()])
    expect(lines(file).filter((line) => line.includes('"tool":"echo"'))).toHaveLength(30)
    expect(await verify(file)).toBe(0)
  })

  it('of two gateways with one file is one file each', async () => {
    const file = join(folder(), 'audit.jsonl')
    for (let started = 0; started < 2; started++) {
      const gateway = await gatewayProcessTo(await upstreams(), { config: { observe: { audit: file } } })
      const client = await clientOf(gateway)
      await client.request('tools/call', { name: 'echo' })
    }
    const other = file.replace('audit.jsonl', 'audit.2.jsonl')
    await until(() => lines(file).length === 2 && lines(other).length === 2, 'both logs')
    expect(await verify(file, other)).toBe(0)
  })

  it('follows a changed configuration, and a file that cannot be written changes nothing', async () => {
    const place = folder()
    const [first = '', second = ''] = ['one.jsonl', 'two.jsonl'].map((name) => join(place, name))
    const servers = await upstreams()
    const gateway = await gatewayProcessTo(servers, { config: { observe: { audit: first } } })
    gateway.configure({ upstreams: servers, observe: { audit: '/proc/none/audit.jsonl' } })
    await gateway.logged((line) => line['event'] === 'config.rejected')
    gateway.configure({ upstreams: servers, observe: { audit: second } })
    await until(() => lines(second).length > 0, 'the other file')
    const client = await clientOf(gateway)
    await client.request('tools/call', { name: 'echo' })
    await until(() => lines(second).length === 2, 'the call')
    expect(lines(first)).toHaveLength(1)
    expect(await verify(first, second)).toBe(0)
  })
})
