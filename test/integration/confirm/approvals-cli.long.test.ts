import { userInfo } from 'node:os'
import { describe, expect, onTestFinished, test } from 'vitest'
import { type Approving, approvingGateway, pageOf, textIn } from '../../support/approving.ts'
import { until } from '../../support/condition.ts'
import { type Finished, runCommand } from '../../support/gateway.ts'
import { needsRedis, startRedis } from '../../support/redis-server.ts'
import { type Json, parse } from '../../support/server/json.ts'

describe('gatehouse approvals', () => {
  const gatewayOf = (rules: Json = {}, config: Json = {}): Promise<Approving> =>
    approvingGateway({ config, rules })
  const approvals = ({ gateway }: Approving, ...words: readonly string[]): Promise<Finished> =>
    runCommand(['approvals', ...words, '--config', gateway.configFile])
  const idOf = (result: Json): string => pageOf(result).split('/').at(-1) ?? ''

  test('list, show and approve: the next identical call runs, once', async () => {
    const approving = await gatewayOf()
    const { call, ran } = approving
    const id = idOf(await call({ disk: 'list\u202e', size: 1 }))
    const list = await approvals(approving, 'list')
    expect(list).toMatchObject({ code: 0, stderr: '' })
    expect(list.stdout).toContain(`${id}  pending   destructive  wipe on disks, by anonymous, until 2`)
    const show = await approvals(approving, 'show', id.slice(0, 6))
    expect(show.code).toBe(0)
    expect(show.stdout).toContain('  {\n    "disk": "list\\u202e",\n    "size": 1\n  }\n')
    const approve = await approvals(approving, 'approve', id.slice(0, 8), '--reason', 'spare')
    expect(approve).toMatchObject({ code: 0, stderr: '' })
    expect(approve.stdout).toBe(
      `Approved wipe on disks (${id}). No client waits for it: it runs once, when the client makes the same call again.\n`,
    )
    const after = await approvals(approving, 'show', id, '--json')
    expect(parse(after.stdout)).toMatchObject({
      status: 'approved',
      decisions: [{ by: userInfo().username, via: 'command_line', verdict: 'approved', reason: 'spare' }],
    })
    expect(textIn(await call({ disk: 'list\u202e', size: 1 }))).toBe('wiped')
    expect((await call({ disk: 'list\u202e', size: 1 }))['isError']).toBe(true)
    expect(ran).toHaveLength(1)
    // The repeated call waits for its own approval, which is listed before the used one.
    const lines = (await approvals(approving, 'list')).stdout.split('\n').filter((line) => /^\S/.test(line))
    expect(lines.map((line) => line.split(/\s+/)[1])).toEqual(['pending', 'used'])
  })

  test('deny: the next identical call is declined, and cannot be approved any more', async () => {
    const approving = await gatewayOf()
    const { call, ran } = approving
    const id = idOf(await call({ disk: 'deny' }))
    expect((await approvals(approving, 'deny', id, '--reason', 'wrong disk')).code).toBe(0)
    const late = await approvals(approving, 'approve', id)
    expect(late).toMatchObject({ code: 1, stdout: '' })
    expect(late.stderr).toBe('gatehouse: The approval is already denied.\n')
    expect(textIn(await call({ disk: 'deny' }))).toContain('wrong disk')
    expect(ran).toEqual([])
  })

  test('approve requires the confirmation text', async () => {
    const approving = await gatewayOf({ type_to_confirm: 'disk' })
    const id = idOf(await approving.call({ disk: 'production' }))
    const without = await approvals(approving, 'approve', id)
    expect(without).toMatchObject({
      code: 1,
      stderr: `gatehouse: to approve ${id}, add --typed "production"\n`,
    })
    expect((await approvals(approving, 'approve', id, '--typed', 'production')).code).toBe(0)
  })

  test('an approval that cannot be decided is a one-line error', async () => {
    const rules = { approval: 'out_of_band', approvers: ['nobody-of-this-name'] }
    const approving = await gatewayOf(rules, { features: { confirm: { wait: '1s' } } })
    const id = idOf(await approving.call({ disk: 'other' }))
    const notMine = await approvals(approving, 'approve', id)
    expect(notMine.code).toBe(1)
    expect(notMine.stderr).toMatch(/^gatehouse: You may not decide on this call.*\n$/)
    const unknown = await approvals(approving, 'approve', '0123456789')
    expect(unknown).toMatchObject({
      code: 1,
      stderr: 'gatehouse: no such approval: "0123456789". See gatehouse approvals list\n',
    })
    const short = await approvals(approving, 'show', id.slice(0, 5))
    expect(short.code).toBe(1)
  })

  test('an expired approval is reported as expired', async () => {
    const approving = await gatewayOf({}, { features: { confirm: { ttl: '1s' } } })
    const id = idOf(await approving.call({ disk: 'late' }))
    const asked = Date.now()
    await until(() => Date.now() - asked > 1000, 'the end of its time')
    expect((await approvals(approving, 'approve', id)).stderr).toBe(
      `gatehouse: the time to decide ${id} is over\n`,
    )
  })

  test.each<[string, readonly string[]]>([
    ['no action', []],
    ['an unknown action', ['forget']],
    ['no id', ['approve']],
    ['two ids', ['show', 'aaaaaa', 'bbbbbb']],
    ['a reason for show', ['show', 'aaaaaa', '--reason', 'x']],
    ['an unknown option', ['list', '--all']],
  ])('with %s it prints its usage', async (_name, words) => {
    const { code, stderr } = await runCommand(['approvals', ...words])
    expect(code).toBe(2)
    expect(stderr).toMatch(/^gatehouse: .*Run gatehouse approvals --help\n$/)
  })
})

test('approvals in Redis can be decided by a command', needsRedis, async () => {
  const redis = await startRedis()
  onTestFinished(() => redis.stop())
  const { call, gateway } = await approvingGateway({ config: { store: redis.url } })
  const id =
    pageOf(await call({ disk: 'a' }))
      .split('/')
      .at(-1) ?? ''
  const approve = await runCommand(['approvals', 'approve', id, '--config', gateway.configFile])
  expect(approve).toMatchObject({ code: 0, stderr: '' })
  expect(textIn(await call({ disk: 'a' }))).toBe('wiped')
})

test('approvals in memory are not visible to commands', async () => {
  const { gateway } = await approvingGateway({ config: { store: 'memory' } })
  const { code, stderr } = await runCommand(['approvals', 'list', '--config', gateway.configFile])
  expect(code).toBe(1)
  expect(stderr).toContain('store: memory exists only inside the process')
})
