// What the official servers did is undone without any configuration of undo, and never over what others changed since.
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { until } from '../../support/condition.ts'
import { type OfficialServers, openOfficialServers } from '../../support/official-servers.ts'

let place: OfficialServers
beforeAll(async () => void (place = await openOfficialServers()))
afterAll(() => place.close())

test('a file that was deleted meanwhile, or is too long for a comparison, is left as it is too', async () => {
  const { file, recorded, undo, write } = place
  const deleted = file('deleted.txt', 'old')
  const long = file('long.txt', 'old')
  await write('files_write_file', { path: deleted.path, content: 'new' })
  await write('files_write_file', { path: long.path, content: `${'x'.repeat(99)}\n`.repeat(700) })
  await recorded(deleted.since, 2)
  rmSync(deleted.path)
  writeFileSync(long.path, 'theirs')
  const { stdout } = await undo(deleted.since, '--yes')
  expect(stdout).toContain('    It is not there any more.')
  expect(stdout).toContain('    What the call left is longer than 64 KB, so the difference is not known.')
  expect(existsSync(deleted.path)).toBe(false)
  expect(readFileSync(long.path, 'utf8')).toBe('theirs')
  expect((await undo(deleted.since, '--yes', '--force')).code).toBe(0)
  expect([deleted, long].map(({ path }) => readFileSync(path, 'utf8'))).toEqual(['old', 'old'])
})

test('content that others added to what was created is not removed with it', async () => {
  const { call, recorded, undo, write } = place
  const since = new Date().toISOString()
  await write('graph_create_entities', {
    entities: [{ name: 'bob', entityType: 'person', observations: [] }],
  })
  await recorded(since, 1)
  const meanwhile = new Date(Date.now() + 1).toISOString()
  await until(() => Date.now() > Date.parse(meanwhile), 'a later time')
  await call('graph_add_observations', { observations: [{ entityName: 'bob', contents: ['newer'] }] })
  const { code, stdout } = await undo(since, '--until', meanwhile, '--yes')
  expect(code).toBe(1)
  expect(stdout).toContain('    entities[0].observations[0]:\n    + "newer"')
  expect(JSON.stringify(await call('graph_read_graph', {}))).toContain('newer')
})

test('after a restart of the gateway, what it left is still known', async () => {
  const { file, gateway, recorded, undo, write } = place
  const { path, since } = file('restart.txt', 'old')
  await write('files_write_file', { path, content: 'mine' })
  await recorded(since, 1)
  gateway.stop()
  await gateway.ended
  writeFileSync(path, 'theirs')
  const refused = await undo(since, '--yes', '--json')
  expect([refused.code, readFileSync(path, 'utf8')]).toEqual([1, 'theirs'])
  expect(JSON.parse(refused.stdout)).toMatchObject({
    deeds: [{ undone: false, difference: ['content:', '- mine', '+ theirs'] }],
  })
  writeFileSync(path, 'mine')
  const { code, stdout } = await undo(since, '--yes')
  expect(stdout).toMatch(/^undone .*write_file: the state is the old one again$/m)
  expect([code, readFileSync(path, 'utf8')]).toEqual([0, 'old'])
})
