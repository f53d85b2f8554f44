import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { until } from '../../support/condition.ts'
import { startCommandProcess } from '../../support/gateway-process.ts'
import { runCommand } from '../../support/gateway.ts'
import { corporate } from '../../support/local-gateway.ts'
import { clientOf, folder, gatewayTo, httpServer } from '../../support/journey.ts'

/** A gateway with events in front of one server, a client that writes through it, and commands beside it. */
async function running() {
  const { url } = await httpServer()
  const store = join(folder(), 'store')
  const gateway = await gatewayTo({ one: { url } }, { config: { store, features: { events: 'on' } } })
  const client = await clientOf(gateway)
  const write = (what: string) =>
    client.request('tools/call', { name: 'change', arguments: { what: [what] } })
  // Events are kept only if clients request them.
  const reader = await clientOf(gateway, { revision: '2026-07-28' })
  await reader.request('events/poll', { name: 'change.succeeded' })
  const command = (...words: string[]) => ['events', ...words, '--config', gateway.configFile]
  return { write, command }
}

/** The events that were printed, without the places where events may be missing. */
function linesOf(text: string): { readonly type?: string; readonly data: unknown }[] {
  return text
    .split('\n')
    .filter((line) => line.endsWith('}') && !line.includes('"gap":'))
    .map((line) => JSON.parse(line))
}

test('events list has what clients are offered, and what a running gateway has logged', async () => {
  const { write, command } = await running()
  await write('vendor')
  await write('watched')
  const { code, stdout } = await runCommand(command('list', '--json'))
  expect(code).toBe(0)
  const [one, gateway, ...others] = JSON.parse(stdout).servers
  expect([one.server, gateway.server, others]).toEqual(['one', null, []])
  const types = new Map(one.types.map((type: { readonly name: string }) => [type.name, type]))
  expect(types.get('change.succeeded')).toMatchObject({
    is_offered: true,
    source: 'writes',
    delivery: expect.arrayContaining(['poll', 'push']),
    logged: 2,
    last_at: expect.stringMatching(/^\d{4}-.*Z$/),
  })
  expect(types.get('tools_changed')).toMatchObject({ source: 'notifications', logged: 0 })
  expect(types.has('echo.succeeded')).toBe(false)
  const names = gateway.types.map((type: { readonly name: string }) => type.name)
  expect(names.filter((name: string) => types.has(name))).toEqual([])
  const text = await runCommand(command('list', 'one'))
  expect(text.stdout).toMatch(/^one\n {2}type +source +delivery +logged +last\n/)
})

test('events list names a server that cannot be asked, and one without events, and ends with 1', async () => {
  const { url } = await httpServer()
  const file = join(folder(), 'gateway.config.yaml')
  const upstreams = { off: { url, features: { events: 'off' } }, down: { url: 'http://127.0.0.1:9/mcp' } }
  writeFileSync(file, JSON.stringify({ store: 'memory', features: { events: 'on' }, upstreams }))
  const { code, stdout } = await runCommand(['events', 'list', '--config', file])
  expect(code).toBe(1)
  expect(stdout).toMatch(
    /^off\n {2}features\.events is off, and the server has no events of its own\ndown\n {2}\S/,
  )
  expect((await runCommand(['events', 'list', 'off', '--config', file])).code).toBe(0)
})

test('events list has webhooks if callers authenticate', async () => {
  const { url } = await httpServer()
  const file = join(folder(), 'gateway.config.yaml')
  const { auth } = corporate
  for (const [more, delivery] of [
    [{ auth }, 'poll, push, webhook'],
    [{}, 'poll, push'],
  ] as const) {
    writeFileSync(file, JSON.stringify({ ...more, features: { events: 'on' }, upstreams: { one: { url } } }))
    const { stdout } = await runCommand(['events', 'list', '--config', file])
    expect(/^ {2}change\.succeeded +writes +(.*?) {2,}/m.exec(stdout)?.[1]).toBe(delivery)
  }
})

test('explain says which event a success is, and who receives it', async () => {
  const { url } = await httpServer()
  const file = join(folder(), 'gateway.config.yaml')
  const write = (events: unknown) =>
    writeFileSync(file, JSON.stringify({ features: { events }, upstreams: { one: { url } } }))
  const explain = async (...words: string[]) =>
    (await runCommand(['explain', 'one', ...words, '--config', file])).stdout
  write('on')
  expect(await explain('change')).toContain(
    'event        a success is change.succeeded; its caller receives it',
  )
  write({ writes: 'all' })
  const { tools } = JSON.parse(await explain('change', '--json'))
  expect(tools[0].event).toEqual({ type: 'change.succeeded', receivers: 'all' })
  expect(await explain('echo')).not.toContain('event ')
  write('off')
  expect(await explain('change')).not.toContain('event ')
})

test('events tail prints the events of a running gateway, and follows it until it is interrupted', async () => {
  const { write, command } = await running()
  await write('vendor')
  const { code, stdout } = await runCommand(command('tail', '--json'))
  expect(code).toBe(0)
  expect(linesOf(stdout)).toEqual([
    expect.objectContaining({
      server: 'one',
      type: 'change.succeeded',
      data: { tool: 'change', arguments: { what: ['vendor'] } },
    }),
  ])
  const tail = startCommandProcess(command('tail', '--follow', '--json'))
  onTestFinished(() => tail.close())
  await until(() => linesOf(tail.stdout()).length === 1, 'the events before')
  await write('watched')
  const [, second] = await until(() => {
    const lines = linesOf(tail.stdout())
    return lines.length === 2 && lines
  }, 'the next event')
  expect(second).toMatchObject({ data: { arguments: { what: ['watched'] } } })
  tail.signal('SIGINT')
  expect(await tail.ended).toMatchObject({ code: 0, stderr: '' })
})
