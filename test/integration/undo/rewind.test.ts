// Fifty writes over three servers, of which five cannot be undone and three were changed by somebody else since.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { auditLines } from '../../support/audit-lines.ts'
import { connect } from '../../support/fake-client.ts'
import { runCommand, startGateway } from '../../support/gateway.ts'
import { folder } from '../../support/journey.ts'
import { localGateway } from '../../support/local-gateway.ts'
import { publishedServer } from '../../support/peers/servers.ts'
import { alone } from '../../support/scattered.ts'
import { scriptedServer } from '../../support/scripted-server.ts'
import { type Json, objectAt } from '../../support/server/json.ts'

/** A server of settings, which everybody can announce something to. */
async function openSettings() {
  const values = new Map<string, string>()
  const inputSchema = { type: 'object', properties: { name: { type: 'string' }, value: { type: 'string' } } }
  const server = await scriptedServer(
    { tools: {} },
    {
      'tools/list': () => ({
        tools: [
          { name: 'get', inputSchema, annotations: { readOnlyHint: true } },
          { name: 'set', inputSchema },
          { name: 'announce', inputSchema },
        ],
      }),
      'tools/call': ({ params }) => {
        const { name = '', value = '' } = objectAt(params, 'arguments')
        if (params['name'] === 'set') values.set(String(name), String(value))
        return { content: [], structuredContent: { value: values.get(String(name)) ?? '' } }
      },
    },
  )
  onTestFinished(() => server.close())
  const undo = { snapshot: 'get(name=$.args.name)', restore: 'set(name=$.args.name, value=$.snapshot.value)' }
  return { values, upstream: { url: server.url, revision: '2025-11-25', tools: { set: { undo } } } }
}

test('a rewind of fifty writes over three servers does exactly what its plan says, and overwrites nothing of others', async () => {
  const home = folder()
  const file = (name: string): string => join(home, 'files', name)
  const content = (name: string): string => readFileSync(file(name), 'utf8')
  const graph = join(home, 'graph.jsonl')
  const entity = (name: string, ...observations: string[]): string =>
    JSON.stringify({ type: 'entity', name, entityType: 'thing', observations })
  mkdirSync(join(home, 'files'))
  const twice = ['1', '2', '3', '4', '5', '6', '7'].map((name) => `twice-${name}.txt`)
  for (const name of [...twice, 'theirs.txt', 'a.txt', 'b.txt', 'c.txt'])
    writeFileSync(file(name), `old ${name}\n`)
  writeFileSync(graph, [entity('old'), entity('older')].join('\n'))
  const settings = await openSettings()
  const names = ['one', 'two', 'three', 'four', 'five', 'theirs']
  for (const name of names) settings.values.set(name, 'old')

  const gateway = await startGateway({
    store: './store',
    observe: { audit: './audit.jsonl' },
    features: { confirm: { level: 'none' } },
    upstreams: {
      files: { command: publishedServer('@modelcontextprotocol/server-filesystem', join(home, 'files')) },
      graph: {
        command: publishedServer('@modelcontextprotocol/server-memory'),
        env: { MEMORY_FILE_PATH: graph },
      },
      settings: settings.upstream,
    },
  })
  onTestFinished(() => gateway.close())
  const client = await connect({ transport: 'http', url: gateway.url, revision: '2025-11-25' })
  onTestFinished(() => client.close())
  let writes = 0
  const write = async (name: string, args: Json): Promise<void> => {
    const { result, error } = await client.request('tools/call', { name, arguments: args })
    expect([name, error, result?.['isError'] ?? false]).toEqual([name, undefined, false])
    writes++
  }

  const since = new Date().toISOString()
  for (const name of twice) await write('files_write_file', { path: file(name), content: `mine ${name}\n` })
  await write('graph_create_relations', {
    relations: ['a', 'b', 'c'].map((relationType) => ({ from: 'old', to: 'older', relationType })),
  })
  for (const name of names) await write('settings_set', { name, value: 'mine' })
  await write('files_write_file', { path: file('theirs.txt'), content: 'mine\n' })
  for (let number = 1; number <= 10; number++)
    await write('graph_create_entities', {
      entities: [{ name: `new-${number}`, entityType: 'thing', observations: [] }],
    })
  for (const name of twice)
    await write('files_edit_file', { path: file(name), edits: [{ oldText: 'mine', newText: 'edited' }] })
  await write('settings_announce', { value: 'a thing' })
  for (const value of ['second', 'third'])
    for (const name of names.slice(0, 5)) await write('settings_set', { name, value })
  for (const name of ['a', 'b', 'c'])
    await write('files_move_file', { source: file(`${name}.txt`), destination: file(`${name}.moved`) })
  for (const name of ['new-1.txt', 'new-2.txt'])
    await write('files_write_file', { path: file(name), content: 'new' })
  await write('graph_add_observations', { observations: [{ entityName: 'old', contents: ['noted'] }] })
  await write('settings_announce', { value: 'another thing' })
  expect(writes).toBe(50)

  const undo = async (...more: string[]) => {
    const { code, stdout, stderr } = await runCommand([
      'undo',
      '--config',
      gateway.configFile,
      '--since',
      since,
      '--json',
      ...more,
    ])
    const deeds: readonly Json[] = JSON.parse(stdout).deeds
    return { code, stderr, deeds }
  }
  // What others changed is known once what the calls left has been read, which a plan waits for.
  const before = await undo('--dry-run')
  expect(before.deeds.filter(({ present }) => present === 'as_left')).toHaveLength(41)
  writeFileSync(file('theirs.txt'), 'theirs\n')
  settings.values.set('theirs', 'theirs')
  const lines = readFileSync(graph, 'utf8').replace(entity('new-3'), entity('new-3', 'theirs'))
  writeFileSync(graph, lines)

  const planned = await undo('--dry-run')
  const shown = planned.deeds.map(({ tool, undo: how, present, difference }) => [
    tool,
    how,
    present,
    difference,
  ])
  const cannot = shown.filter(([, how]) => how === 'not_at_all').map(([tool]) => tool)
  expect(cannot).toEqual(['announce', 'add_observations', 'write_file', 'write_file', 'announce'])
  expect(shown.filter(([, , present]) => present === 'changed')).toEqual([
    ['create_entities', 'exactly', 'changed', ['entities[0].observations[0]:', '+ "theirs"']],
    ['write_file', 'exactly', 'changed', ['content, line 1:', '- mine', '+ theirs']],
    ['set', 'exactly', 'changed', ['value:', '- mine', '+ theirs']],
  ])
  expect(shown.filter(([, , present]) => present === 'unknown')).toEqual([])
  expect(shown).toHaveLength(50)

  const { code, stderr, deeds } = await undo('--yes')
  expect([code, stderr]).toEqual([1, ''])
  expect(deeds.map(({ key, undo: how, present, difference }) => [key, how, present, difference])).toEqual(
    planned.deeds.map(({ key, undo: how, present, difference }) => [key, how, present, difference]),
  )
  for (const { undo: how, present, undone } of deeds)
    expect(undone).toBe(how === 'not_at_all' ? undefined : present !== 'changed')
  expect(deeds.filter(({ undone }) => undone === true)).toHaveLength(42)

  expect(twice.map(content)).toEqual(twice.map((name) => `old ${name}\n`))
  expect(content('theirs.txt')).toBe('theirs\n')
  const left = ['a.txt', 'b.txt', 'c.txt', 'new-1.txt', 'new-2.txt', 'theirs.txt', ...twice]
  expect(readdirSync(join(home, 'files')).toSorted()).toEqual(left.toSorted())
  expect(Object.fromEntries(settings.values)).toEqual({
    ...Object.fromEntries(names.map((name) => [name, 'old'])),
    theirs: 'theirs',
  })
  const rest = readFileSync(graph, 'utf8').split('\n').toSorted()
  expect(rest).toEqual([entity('new-3', 'theirs'), entity('old', 'noted'), entity('older')].toSorted())

  const audit = auditLines(join(dirname(gateway.configFile), 'audit.jsonl'))
  const order = { event: 'order', order: 'undo', via: 'command_line', caller: 'anonymous' }
  const changed = planned.deeds.filter(({ present }) => present === 'changed').map(({ key }) => key)
  expect(audit.filter(({ event }) => event === 'order')).toMatchObject([
    { ...order, transaction: expect.stringMatching(/^undo-/) },
    { ...order, left: changed },
  ])
  expect(audit.filter(({ code: why }) => why === 'CONFLICT')).toEqual([])
  const { stdout } = await runCommand(['tx', 'list', '--config', gateway.configFile])
  expect(stdout).toMatch(/^rolled back .* 42 steps$/m)
  expect((await undo('--dry-run')).deeds).toHaveLength(8)
})

test('a gateway plans a rewind for its own pages, and the audit log says on which way it was ordered', async () => {
  alone('a plan waits for what its own gateway is about to record')
  const settings = await openSettings()
  settings.values.set('one', 'old')
  const file = join(folder(), 'audit.jsonl')
  const gateway = await localGateway({
    observe: { audit: file },
    features: { confirm: { level: 'none' } },
    upstreams: { settings: settings.upstream },
  })
  const client = await connect({ transport: 'http', url: gateway.url, revision: '2025-11-25' })
  onTestFinished(async () => {
    await client.close().catch(() => undefined)
    await gateway.close()
  })
  const set = (value: string) =>
    client.request('tools/call', { name: 'set', arguments: { name: 'one', value } })
  await set('mine')
  await set('mine again')
  const { rewinding } = gateway
  const plan = await rewinding?.plan({ since: 0 })
  expect(plan?.actions.map(({ present }) => present?.kind)).toEqual(['as_left', 'as_left'])
  const id = plan?.id ?? ''
  expect(await rewinding?.carryOut(id, { by: 'ann', via: 'page' })).toEqual({ id })
  await expect.poll(async () => (await rewinding?.progress(id))?.rewind.status).toBe('ended')
  expect(settings.values.get('one')).toBe('old')
  await gateway.close()
  expect(auditLines(file)).toContainEqual(
    expect.objectContaining({
      event: 'order',
      order: 'undo',
      principal: 'ann',
      via: 'page',
      transaction: id,
    }),
  )
})
