import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { until } from '../../support/condition.ts'
import { connect } from '../../support/fake-client.ts'
import { fakeServerCommand } from '../../support/fake-server.ts'
import { initialize } from '../../support/fronts.ts'
import { type CommandProcess, gatewayProgram, startCommandProcess } from '../../support/gateway-process.ts'
import { folder, gatewayProcessTo, httpServer } from '../../support/journey.ts'
import { plainFeatures } from '../../support/undescribed.ts'
import { openSession, toolCall } from '../../support/raw-session.ts'
import { isObject, type Json, objectAt } from '../../support/server/json.ts'

const banner = ['Server starting…', '{"not":"a message"}', 'listening on \u0000 nothing']

function gatewayOnStdio(upstreams: Json): CommandProcess {
  const config = join(folder(), 'gateway.config.yaml')
  writeFileSync(config, JSON.stringify({ features: plainFeatures({}), upstreams }))
  const command = startCommandProcess(['stdio', '--config', config])
  onTestFinished(() => command.close())
  return command
}

function noisy(): Json {
  const { command, args } = fakeServerCommand({ revision: '2025-11-25', banner })
  return {
    command: ['sh', '-c', 'echo a word on stderr >&2\nexec "$0" "$@"', command, ...args],
    revision: '2025-11-25',
  }
}

function send(command: CommandProcess, message: Json): void {
  command.stdin.write(`${JSON.stringify(message)}\n`)
}

/** The response to the request with this id. */
function answerTo(command: CommandProcess, id: number): Promise<Json> {
  return until(() => {
    const lines = command.stdout().split('\n').slice(0, -1)
    const messages = lines.map((line) => JSON.parse(line) as Json)
    return messages.find((message) => message['id'] === id && message['method'] === undefined)
  }, `the answer to ${id}`)
}

it('C024 C028 C029 C030 on stdio stdout contains only messages, one per line, and stderr the logs', async () => {
  const command = gatewayOnStdio({ noisy: noisy() })
  send(command, initialize())
  await answerTo(command, 1)
  send(command, { jsonrpc: '2.0', method: 'notifications/initialized' })
  const calls: readonly Json[] = [
    toolCall(2, 'separators'),
    toolCall(3, 'echo', { text: 'a\nb\r\nc\u2028d' }),
    toolCall(4, 'slow', { ms: 30, steps: 3 }, 'p'),
    toolCall(5, 'change', { what: ['tools', 'prompts'] }),
    { jsonrpc: '2.0', id: 6, method: 'nothing/known' },
    toolCall(7, 'fail'),
  ]
  for (const call of calls) send(command, call)
  command.stdin.write('no message\n[]\n\n{"jsonrpc":"2.0","id":\n')
  for (const { id } of calls) await answerTo(command, Number(id))
  await until(() => command.stderr().includes('a word on stderr'), 'the log')
  const lines = command.stdout().split('\n')
  expect(lines.pop()).toBe('')
  expect(lines.length).toBeGreaterThan(calls.length)
  for (const line of lines) expect(JSON.parse(line)).toMatchObject({ jsonrpc: '2.0' })
  for (const word of banner) expect(command.stdout()).not.toContain(word)
  expect(command.stdout()).not.toContain('a word on stderr')
  expect(JSON.stringify(await answerTo(command, 3))).toContain('a\\\\nb')
})

it('C085 on stdio only a ping can precede the handshake', async () => {
  const server = await httpServer()
  const command = gatewayOnStdio({ it: server.url })
  send(command, { jsonrpc: '2.0', id: 1, method: 'ping' })
  expect(await answerTo(command, 1)).toEqual({ jsonrpc: '2.0', id: 1, result: {} })
  send(command, toolCall(2, 'echo'))
  expect(await answerTo(command, 2)).toMatchObject({ error: { code: -32600 } })
  expect(server.received('tools/call')).toEqual([])
  send(command, initialize('2025-11-25', 3))
  expect(await answerTo(command, 3)).toMatchObject({ result: { protocolVersion: '2025-11-25' } })
  send(command, toolCall(4, 'echo'))
  expect(await answerTo(command, 4)).toMatchObject({ result: { content: [{ text: '{}' }] } })
})

it('C111 initialize cannot be cancelled', async () => {
  const command = gatewayOnStdio({ slow: { url: (await httpServer({ delayMs: 300 })).url } })
  send(command, initialize())
  send(command, {
    jsonrpc: '2.0',
    method: 'notifications/cancelled',
    params: { requestId: 1, reason: 'in a hurry' },
  })
  expect(await answerTo(command, 1)).toMatchObject({ result: { protocolVersion: '2025-11-25' } })
})

it('C004 C023 C027 the same call has the same result over stdio, as JSON and as events', async () => {
  const server = await httpServer()
  const gateway = await gatewayProcessTo({ it: server.url })
  const command = gatewayOnStdio({ it: server.url })
  send(command, initialize())
  await answerTo(command, 1)
  const session = await openSession(gateway.url, '2025-11-25')
  for (const [index, name] of [
    'echo',
    'all_content',
    'structured',
    'fail',
    'error',
    'vendor',
    'slow',
  ].entries()) {
    const id = index + 10
    const args = { text: 'é\n', steps: 2, ms: 20 }
    send(command, toolCall(id, name, args, `p${id}`))
    const overStdio = await answerTo(command, id)
    const asJson = JSON.parse((await session.post(toolCall(id, name, args))).text) as Json
    const asEvents = await session.post(toolCall(id, name, args, `q${id}`))
    const last = asEvents.events.findLast(({ data }) => data !== undefined && data !== '')?.data
    for (const each of [overStdio, JSON.parse(last ?? asEvents.text) as Json])
      expect(unnamed(each)).toEqual(unnamed(asJson))
  }
})

/** A response without the ids and the time. */
function unnamed(message: Json): unknown {
  return JSON.parse(
    JSON.stringify(message, (key, value: unknown) =>
      ['requestId', 'retrieved_at'].includes(key) || isOperationAlone(key, value) ? undefined : value,
    ),
  )
}

/** Whether this is the metadata of a call with progress, whose operation can be resumed. */
function isOperationAlone(key: string, value: unknown): boolean {
  return key === '_meta' && isObject(value) && Object.keys(value).join() === 'dev.gatehouse/operation_id'
}

it('C024 a client starts the gateway as its own server', async () => {
  const server = await httpServer()
  const file = join(folder(), 'gateway.config.yaml')
  writeFileSync(file, JSON.stringify({ features: plainFeatures({}), upstreams: { it: server.url } }))
  const [command, ...args] = [...gatewayProgram(), 'stdio', '--config', file]
  const client = await connect({ transport: 'stdio', command, args, revision: '2025-11-25' })
  expect(objectAt(client.initialized, 'serverInfo')['name']).toBe('fake-server')
  expect((await client.request('tools/call', { name: 'echo', arguments: {} })).error).toBeUndefined()
  await client.close()
  expect(client.violations).toEqual([])
})
