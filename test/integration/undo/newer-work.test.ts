// What the official servers did is undone without any configuration of undo, and never over what others changed since.
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { until } from '../../support/condition.ts'
import { runCommand } from '../../support/gateway.ts'
import { type OfficialServers, openOfficialServers } from '../../support/official-servers.ts'
import { isScattered } from '../../support/scattered.ts'
import type { Json } from '../../support/server/json.ts'

let place: OfficialServers
beforeAll(async () => void (place = await openOfficialServers()))
afterAll(() => place.close())

test('a configuration that only names the servers undoes what packs prove, and says what the state is', async () => {
  const { call, file, folder, recorded, undo, write } = place
  const { path, since } = file('day-one.txt', 'one\ntwo\n')
  const moved = join(folder, 'moved.txt')
  await write('files_write_file', { path, content: 'three\n' })
  await write('files_edit_file', { path, edits: [{ oldText: 'three', newText: 'four' }] })
  await call('files_move_file', { source: path, destination: moved })
  await write('graph_create_entities', {
    entities: [{ name: 'ada', entityType: 'person', observations: ['x'] }],
  })
  await recorded(since, 4)
  const { code, stdout, stderr } = await undo(since, '--yes')
  expect([code, stderr]).toEqual([0, ''])
  for (const tool of ['write_file', 'edit_file', 'create_entities'])
    expect(stdout).toMatch(new RegExp(`^undone .*${tool}: the state is the old one again$`, 'm'))
  expect(stdout).toMatch(/^undone .*move_file: cannot tell whether the state is the old one$/m)
  expect(readFileSync(path, 'utf8')).toBe('one\ntwo\n')
  expect(existsSync(moved)).toBe(false)
  expect(JSON.stringify(await call('graph_read_graph', {}))).not.toContain('ada')
})

test('what somebody else changed since is not overwritten without --force', async () => {
  const { file, home, recorded, undo, write } = place
  const { path, since } = file('changed.txt', 'old\n')
  await write('files_write_file', { path, content: 'title\nmine\nend\n' })
  await recorded(since, 1)
  writeFileSync(path, 'title\ntheirs\nend\n')
  // The gateway that plans waits only for what it is about to record itself.
  if (isScattered())
    await until(
      async () => !(await undo(since, '--dry-run')).stdout.includes('cannot tell'),
      'what the call left',
    )
  const refused = await undo(since, '--yes')
  expect(refused.code).toBe(1)
  expect(refused.stdout).toMatch(
    /^not undone .*write_file: Something else changed it since: read_text_file\(/m,
  )
  expect(refused.stdout).toContain('\n    content, line 2:\n    - mine\n    + theirs\n')
  expect(refused.stdout).toContain('repeat the command with --force')
  expect(readFileSync(path, 'utf8')).toBe('title\ntheirs\nend\n')
  const [one, other] = await Promise.all([undo(since, '--yes', '--force'), undo(since, '--yes', '--force')])
  // One of them undoes it; the other says that it does not.
  expect([one, other].map(({ code }) => code)).toEqual(expect.arrayContaining([0, 1]))
  const [done = one] = [one, other].filter(({ code }) => code === 0)
  expect(done.stdout).toMatch(/^undone .*write_file: the state is the old one again$/m)
  expect(readFileSync(path, 'utf8')).toBe('old\n')
  // A command beside a gateway writes to a file of its own.
  const logs = readdirSync(home).filter((name) => name.startsWith('audit') && !name.endsWith('.head'))
  const audit = logs.flatMap((name) => readFileSync(join(home, name), 'utf8').split('\n'))
  const lines = audit.filter((line) => line.startsWith('{')).map((line) => JSON.parse(line) as Json)
  // The order that left it as it was, and the order to undo it in any case.
  const left = [expect.any(String)]
  expect(lines).toContainEqual(expect.objectContaining({ event: 'order', order: 'undo', left }))
  expect(lines).toContainEqual(expect.objectContaining({ event: 'order', order: 'undo', force: true }))
})

test('a rollback leaves a step that others changed, says which one, and overwrites it by force alone', async () => {
  const { call, file, gateway, write } = place
  const { path } = file('step.txt', 'old')
  const { path: other } = file('other.txt', 'other')
  const id = { transaction_id: 'newer' }
  await call('begin_transaction', id)
  await write('files_write_file', { path: other, content: 'changed' }, id)
  await write('files_write_file', { path, content: 'mine' }, id)
  writeFileSync(path, 'theirs')
  const { structuredContent: refused } = await call('rollback_transaction', id)
  expect(refused).toMatchObject({
    status: 'partially_rolled_back',
    needs_attention: true,
    steps_compensated: [
      {
        step_id: 'step-2',
        status: 'compensation_failed',
        error: {
          code: 'CONFLICT',
          reason: 'changed_since',
          user_actionable: true,
          details: { difference: ['content:', '- mine', '+ theirs'] },
        },
      },
      { step_id: 'step-1', status: 'compensated', state: 'old' },
    ],
  })
  expect([readFileSync(path, 'utf8'), readFileSync(other, 'utf8')]).toEqual(['theirs', 'other'])
  const shown = await runCommand(['tx', 'show', 'newer', '--config', gateway.configFile])
  expect(shown.stdout).toContain('               - mine\n               + theirs')
  const plain = await runCommand(['tx', 'rollback', 'newer', '--config', gateway.configFile])
  expect(plain.stderr).toContain('it is partially rolled back')
  const forced = await call('rollback_transaction', { ...id, force: true })
  expect(forced['structuredContent']).toMatchObject({
    status: 'rolled_back',
    steps_compensated: expect.arrayContaining([
      { step_id: 'step-2', status: 'compensated', state: 'old', out_of_order: true },
    ]),
  })
  expect(readFileSync(path, 'utf8')).toBe('old')
})
