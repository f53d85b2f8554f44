import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { runCommand } from '../../support/gateway.ts'
import { clientOf, codeOf, folder, gatewayTo } from '../../support/journey.ts'
import { notes } from '../../support/notes.ts'
import { parse } from '../../support/server/json.ts'
import { storeFixture } from '../../support/store-fixture.ts'

const add = { name: 'add', arguments: { text: 'a' } }

describe('gatehouse pause', () => {
  it('returns when all gateways of the store refuse writes, which outlasts their restart, and is audited', async () => {
    const home = folder()
    const [store, audit, config] = ['store', 'audit.jsonl', 'gateway.config.yaml'].map((name) =>
      join(home, name),
    )
    const server = await notes()
    const upstreams = { notes: server.upstream }
    writeFileSync(config ?? '', JSON.stringify({ store, observe: { audit }, upstreams }))
    const run = (...words: string[]) => runCommand([...words, '--config', config ?? ''])
    const start = () => gatewayTo(upstreams, { config: { store } })
    const [one, other] = await Promise.all([start(), start()])
    const [first, second] = [await clientOf(one), await clientOf(other, { revision: '2026-07-28' })]
    for (const client of [first, second])
      expect((await client.request('tools/call', add)).result?.['isError']).not.toBe(true)

    expect(await run('pause', '--status', '--json')).toMatchObject({
      code: 0,
      stdout: '{\n  "paused": false\n}\n',
    })
    expect(await run('resume')).toMatchObject({ code: 0, stdout: 'Writes are not paused.\n' })
    const by = userInfo().username
    const paused = await run('pause', '--reason', 'restoring\n\u001b[31mthe database', '--for', '2h')
    const since =
      /^Writes are paused since (?<since>\S+), by (?<by>.+): restoring\\n\\u001b\[31mthe database\n/.exec(
        paused.stdout,
      )?.groups
    expect([paused.code, since?.['by']]).toEqual([0, by])
    expect(paused.stdout).toMatch(
      /\nAll gateways that can read the store refuse them now\. They resume at 20\S+Z, or with gatehouse resume\.\n$/,
    )
    for (const client of [first, second])
      expect(codeOf(await client.request('tools/call', add))).toBe('WRITES_PAUSED')

    await one.close()
    const restarted = await clientOf(await start())
    expect(codeOf(await restarted.request('tools/call', add))).toBe('WRITES_PAUSED')
    expect((await restarted.request('tools/call', { ...add, name: 'look' })).result?.['isError']).not.toBe(
      true,
    )
    expect(server.calls).toEqual(['add a', 'add a', 'look a'])
    const status = await run('pause', '--status', '--json')
    expect(parse(status.stdout)).toEqual({
      paused: true,
      since: expect.stringContaining(String(since?.['since']).replace('Z', '.')),
      by,
      reason: 'restoring\n\u001b[31mthe database',
      until: expect.any(String),
    })
    const lines = readFileSync(audit ?? '', 'utf8')
      .trimEnd()
      .split('\n')
      .map(parse)
    const step = {
      event: 'order',
      order: 'pause',
      principal: by,
      via: 'command_line',
      until: expect.any(String),
    }
    expect(lines).toContainEqual(
      expect.objectContaining({ ...step, reason: 'restoring\n\u001b[31mthe database' }),
    )
  })

  it('reads the pause in a store of an earlier version', async () => {
    const { folder: home, config } = storeFixture('store-paused', '2026-11-30T02:01:00Z')
    onTestFinished(() => rmSync(home, { recursive: true, force: true }))
    const { stdout } = await runCommand(['pause', '--status', '--config', config])
    expect(stdout).toBe('Writes are paused since 2026-11-30T02:00:21Z, by root: restoring the database\n')
  })

  it.each([
    [['pause', '--status', '--for', '1h'], 2, '--status changes nothing: leave out --reason and --for'],
    [['pause', '--for', '0s'], 2, '--for must be a duration of at most 365d'],
    [['pause', '--for', '999999999999999d'], 2, '--for must be a duration of at most 365d'],
    [['pause', '--for', 'soon'], 2, '--for must be a duration such as 30m or 2h'],
    [['pause', 'now'], 2, 'pause takes no arguments; give a reason with --reason'],
    [['resume', 'now'], 2, 'resume takes no arguments'],
  ])('%j is wrong usage', async (words, code, message) => {
    const { stderr, ...result } = await runCommand(words, { cwd: folder() })
    expect([result.code, stderr]).toEqual([code, expect.stringContaining(message)])
  })

  it.each(['pause', 'pause --status', 'resume'])(
    'gatehouse %s says what to do about a store in memory',
    async (words) => {
      const config = join(folder(), 'gateway.config.yaml')
      writeFileSync(config, JSON.stringify({ store: 'memory', upstreams: { notes: 'node notes.js' } }))
      const { code, stderr } = await runCommand([...words.split(' '), '--config', config])
      expect([code, stderr]).toEqual([
        1,
        expect.stringContaining('Remove the setting to use the default, a folder, or use Redis'),
      ])
    },
  )
})
