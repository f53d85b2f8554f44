import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Client, Task, TaskStatus } from '../../../src/core/call.ts'
import { numberOf } from '../../../src/core/json/exact-number.ts'
import { Payload } from '../../../src/core/payload.ts'
import {
  acceptanceOf,
  readAcceptance,
  readTask,
  relatedTask,
  requestedTask,
  declaresTasks,
  taskFields,
  requireTasks,
  withoutTask,
} from '../../../src/protocol/tasks.ts'
import { toolCall } from '../../support/tool-call.ts'

const extension = 'io.modelcontextprotocol/tasks'
const NOW = Date.UTC(2026, 0, 2, 3, 4, 5, 6)

const task: Task = {
  id: 'g9',
  status: 'working',
  createdAt: NOW,
  updatedAt: NOW + 1000,
  ttl: 600_000,
  pollInterval: 1000,
}

function modern(capabilities: Client['capabilities'] = {}): Client {
  return { era: 'modern', revision: '2026-07-28', capabilities }
}

function legacy(capabilities: Client['capabilities'] = {}): Client {
  return { era: 'legacy', revision: '2025-11-25', capabilities }
}

describe('a client that takes tasks', () => {
  it.each([
    ['the extension of 2026-07-28', modern({ extensions: { [extension]: {} } }), true],
    ['settings of the extension', modern({ extensions: { [extension]: { x: 1 }, other: {} } }), true],
    ['no extensions', modern(), false],
    ['other extensions', modern({ extensions: { other: {} } }), false],
    ['extensions that are no object', modern({ extensions: [extension] }), false],
    ['the extension as true', modern({ extensions: { [extension]: true } }), false],
    ['the extension as null', modern({ extensions: { [extension]: null } }), false],
    ['the capability of 2025-11-25 at 2026-07-28', modern({ tasks: { list: {}, cancel: {} } }), false],
    ['the extension at 2025-11-25', legacy({ extensions: { [extension]: {} } }), false],
  ])('is recognised by what it declares: %s', (_what, client, expected) => {
    expect(declaresTasks(client)).toBe(expected)
  })
})

describe('the request of a client of 2025-11-25 for a task', () => {
  const wanted = (given: unknown, client = legacy()) =>
    requestedTask(toolCall({ client, params: Payload.of({ name: 't', task: given }) }))

  it.each([
    [{}, {}],
    [{ ttl: 60_000 }, { ttl: 60_000 }],
    [{ ttl: 0 }, { ttl: 0 }],
    [{ ttl: 1500.7 }, { ttl: 1500 }],
    [{ ttl: numberOf('9223372036854775807') }, { ttl: 2 ** 63 }],
    [{ ttl: numberOf('0.10000000000000001') }, { ttl: 0 }],
    [{ ttl: null }, {}],
    [{ ttl: 5, other: true }, { ttl: 5 }],
    [undefined, undefined],
    [null, undefined],
  ])('%j is read as %j', (given, expected) => {
    expect(wanted(given)).toEqual(expected)
  })

  it.each([
    ['x', 'task'],
    [true, 'task'],
    [[], 'task'],
    [{ ttl: '60000' }, 'task.ttl'],
    [{ ttl: -1 }, 'task.ttl'],
    [{ ttl: numberOf('-9223372036854775807') }, 'task.ttl'],
    [{ ttl: numberOf('1e400') }, 'task.ttl'],
    [{ ttl: Number.POSITIVE_INFINITY }, 'task.ttl'],
  ])('%j is refused, and the error names %s', (given, field) => {
    expect(() => wanted(given)).toThrow(
      expect.objectContaining({ code: 'INVALID_INPUT', extra: expect.objectContaining({ field }) }),
    )
  })

  it('is ignored at 2026-07-28, whatever it is', () => {
    for (const given of [{}, { ttl: -1 }, 'x']) expect(wanted(given, modern())).toBeUndefined()
  })

  it('is taken out of the call, which otherwise keeps its text', () => {
    const text = '{"name":"t","task":{"ttl":1},"arguments":{"n":12345678901234567890}}'
    const call = toolCall({ client: legacy(), params: Payload.text(text) })
    expect(withoutTask(call).params.text).toBe('{"name":"t","arguments":{"n":12345678901234567890}}')
    expect(withoutTask(call).requestId).toBe(call.requestId)
    const plain = toolCall({ params: Payload.of({ name: 't' }) })
    expect(withoutTask(plain)).toBe(plain)
  })
})

describe('a task on the wire', () => {
  const times = { createdAt: '2026-01-02T03:04:05.006Z', lastUpdatedAt: '2026-01-02T03:04:06.006Z' }

  it('has the members of 2025-11-25 for its clients', () => {
    const fields = { taskId: 'g9', status: 'working', ...times, ttl: 600_000, pollInterval: 1000 }
    expect(taskFields(task, 'legacy')).toEqual(fields)
    expect(acceptanceOf(task, 'legacy').value).toEqual({ task: fields })
  })

  it('has the members of the extension for clients of 2026-07-28', () => {
    const fields = { taskId: 'g9', status: 'working', ...times, ttlMs: 600_000, pollIntervalMs: 1000 }
    expect(taskFields(task, 'modern')).toEqual(fields)
    expect(acceptanceOf(task, 'modern').value).toEqual({ resultType: 'task', ...fields })
  })

  it('has a message and an interval only where they are known, and says null where it has no end', () => {
    const { pollInterval: _interval, ...rest } = task
    const endless = { ...rest, ttl: null }
    expect(Object.keys(taskFields(endless, 'legacy'))).not.toContain('pollInterval')
    expect(taskFields(endless, 'legacy')).toMatchObject({ ttl: null })
    expect(Object.keys(taskFields(endless, 'modern'))).not.toContain('pollIntervalMs')
    expect(taskFields(endless, 'modern')).toMatchObject({ ttlMs: null })
    for (const era of ['legacy', 'modern'] as const) {
      expect(taskFields(task, era)).not.toHaveProperty('statusMessage')
      expect(taskFields({ ...task, statusMessage: '' }, era)).toMatchObject({ statusMessage: '' })
    }
  })

  it('is read as it was written, in the words of either revision', () => {
    const arbitrary = fc.record({
      id: fc.string({ minLength: 1 }),
      status: fc.constantFrom<TaskStatus>('working', 'input_required', 'completed', 'failed', 'cancelled'),
      statusMessage: fc.option(fc.string(), { nil: undefined }),
      ttl: fc.option(fc.nat()),
      pollInterval: fc.option(fc.nat(), { nil: undefined }),
      era: fc.constantFrom<Client['era']>('legacy', 'modern'),
    })
    fc.assert(
      fc.property(arbitrary, ({ era, ...given }) => {
        const written = { ...given, createdAt: NOW, updatedAt: NOW }
        const wire = Payload.text(acceptanceOf(written, era).text)
        expect(readAcceptance(wire, era, NOW)).toEqual(written)
        expect(readAcceptance(wire, era === 'legacy' ? 'modern' : 'legacy', NOW)).toBeUndefined()
      }),
    )
  })
})

describe('the task of a server', () => {
  const read = (fields: object) => readTask(Payload.of({ taskId: 'u1', ...fields }), NOW)

  it.each([
    ['fractional durations', { ttl: 1000.6, pollInterval: 333.3 }, { ttl: 1001, pollInterval: 333 }],
    ['fractional durations', { ttlMs: 1000.4, pollIntervalMs: 0.5 }, { ttl: 1000, pollInterval: 1 }],
    ['no end', { ttl: null }, { ttl: null }],
    ['no end', { ttlMs: null }, { ttl: null }],
    [
      'both words for its durations',
      { ttl: 1, ttlMs: 2, pollInterval: 3, pollIntervalMs: 4 },
      { ttl: 2, pollInterval: 4 },
    ],
    ['an interval of 0', { pollInterval: 0 }, { pollInterval: 0 }],
  ])('can have %s: %j', (_what, fields, expected) => {
    expect(read(fields)).toMatchObject(expected)
  })

  it.each([
    { ttl: -1, pollInterval: -1 },
    { ttl: '1', pollInterval: '1' },
    { ttlMs: Number.POSITIVE_INFINITY, pollIntervalMs: Number.NaN },
    { ttl: {}, pollInterval: null },
    {},
  ])('%j says nothing of its durations', (fields) => {
    const found = read(fields)
    expect(found?.ttl).toBeNull()
    expect(found).not.toHaveProperty('pollInterval')
  })

  it('works where its status is none of those that are defined', () => {
    for (const status of ['submitted', '', 1, undefined, null])
      expect(read({ status })?.status).toBe('working')
    expect(read({ status: 'cancelled' })?.status).toBe('cancelled')
    expect(read({ statusMessage: 1 })).not.toHaveProperty('statusMessage')
  })

  it.each([{}, { taskId: '' }, { taskId: 1 }, { taskId: null }, []])('%j names none', (value) => {
    expect(readTask(Payload.of(value), NOW)).toBeUndefined()
  })

  it.each<[Client['era'], object]>([
    ['modern', { content: [] }],
    ['modern', { resultType: 'complete', taskId: 'u1' }],
    ['modern', { resultType: 'task' }],
    ['modern', { task: { taskId: 'u1' } }],
    ['legacy', { content: [] }],
    ['legacy', { task: { status: 'working' } }],
    ['legacy', { task: 'u1' }],
    ['legacy', { resultType: 'task', taskId: 'u1' }],
  ])('a result of a %s server is none: %j', (era, value) => {
    expect(readAcceptance(Payload.of(value), era, NOW)).toBeUndefined()
  })
})

it('a message is tied to a task by the key of 2025-11-25', () => {
  expect(relatedTask('g9')).toEqual({ 'io.modelcontextprotocol/related-task': { taskId: 'g9' } })
})

it('a client of 2026-07-28 that did not declare tasks is refused with what it has to declare', () => {
  expect(() => requireTasks(modern())).toThrow(
    expect.objectContaining({
      rpc: -32021,
      data: expect.objectContaining({
        requiredCapabilities: { extensions: { [extension]: {} } },
        suggestion: expect.stringContaining(extension),
      }),
    }),
  )
  expect(() => requireTasks(modern({ extensions: { [extension]: {} } }))).not.toThrow()
  expect(() => requireTasks(legacy())).not.toThrow()
})
