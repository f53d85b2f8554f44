import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { operationList, operationText, operationView } from '../../../src/cli/ops.ts'
import { storeAlone } from '../../../src/cli/config-file.ts'
import { run } from '../../../src/cli/run.ts'
import { GatewayError } from '../../../src/core/error.ts'
import { Payload } from '../../../src/core/payload.ts'
import { openSharedStore } from '../../../src/gateway/offline.ts'
import { type OperationRecord, Operations, operationsOf } from '../../../src/records/operations.ts'
import { memoryIo } from '../../support/memory-io.ts'
import { silentLog } from '../../support/silent-log.ts'

const at = Date.UTC(2026, 10, 21, 12)

const working: OperationRecord = {
  expiresAt: at + 86_400_000,
  state: 'working',
  id: 'the-id-of-its-caller',
  owner: 'aa.1.host',
  startedAt: at,
  updatedAt: at,
  upstream: 'files',
  tool: 'report',
  principal: { id: 'token:agent' },
  requestId: 'r-1',
  request: {
    params: Payload.of({ name: 'report', arguments: { secret: 'of the caller' } }),
    meta: { trace: 'of the caller' },
    client: {
      era: 'legacy',
      revision: '2025-11-25',
      capabilities: {},
      info: { name: 'agent', version: '1' },
      session: 'session of the client',
    },
    requestState: { upstream_task: 'of the server' },
  },
}

const asking: OperationRecord = {
  ...working,
  state: 'input_required',
  session: 'session of the caller',
  taskTtl: 600_000,
  message: 'half done',
  input: {
    round: 1,
    requests: {
      '1.name': { method: 'elicitation/create', params: Payload.of({ message: 'of the server' }) },
      '1.age': { method: 'elicitation/create' },
    },
    responses: { '1.name': { result: Payload.of({ content: 'of the caller' }) } },
  },
}

const { request: _request, ...ended } = working
const completed: OperationRecord = {
  ...ended,
  state: 'completed',
  result: Payload.of({ content: 'of the server' }),
}
const failed: OperationRecord = {
  ...ended,
  state: 'failed',
  failure: new GatewayError('UPSTREAM_ERROR', 'The disk is full.'),
}

const keyed = (name: string, record: OperationRecord) => ({ key: `operation:0123/${name}`, record })

describe('operations as text', () => {
  it('operations are listed in aligned columns', () => {
    const all = [
      keyed('one', asking),
      keyed('three', { ...working, startedAt: at + 1000, upstream: 'f', principal: { id: 'me' } }),
      keyed('two', { ...completed, startedAt: at - 7_200_000 }),
      keyed('four', { ...failed, startedAt: at - 3 * 86_400_000 }),
      keyed('five', { ...ended, state: 'cancelled', startedAt: at - 59_000 }),
    ]
    expect(operationList(all, at + 61_000).split('\n')).toEqual([
      'one    input required  files/report  token:agent  1m  task',
      'three  working         f/report      me           1m  call',
      'two    completed       files/report  token:agent  2h  call',
      'four   failed          files/report  token:agent  3d  call',
      'five   cancelled       files/report  token:agent  2m  call',
    ])
  })

  it('a clock that is behind that of the gateway shows an age of zero', () => {
    expect(operationList([keyed('one', working)], at - 5000)).toContain('  0s  ')
  })

  it('the details contain sizes in place of what was sent and received', () => {
    expect(operationText(keyed('one', asking))).toBe(`one: input required
  tool         files/report
  of           token:agent
  kind         task, kept for 10m
  began        2026-11-21T12:00:00Z
  changed      2026-11-21T12:00:00Z
  expires      2026-11-22T12:00:00Z
  process      aa.1.host
  request id   r-1
  session      recorded, not shown
  message      half done
  client       agent 1, 2025-11-25
  params       56 bytes, not shown
  metadata     25 bytes, not shown
  state        33 bytes, not shown
  input        1.name elicitation/create, answered
  input        1.age elicitation/create, not answered`)
  })

  it('the details of an operation that has ended say what it ended with', () => {
    expect(operationText(keyed('two', completed))).toMatch(
      /^two: completed\n.*\n {2}result +27 bytes, not shown$/s,
    )
    expect(operationText(keyed('four', failed))).toMatch(
      /^four: failed\n.*\n {2}failure +UPSTREAM_ERROR: The disk is full\.$/s,
    )
  })

  it('the JSON has the same fields, with sizes in bytes', () => {
    expect(operationView(keyed('one', asking))).toEqual({
      name: 'one',
      state: 'input_required',
      upstream: 'files',
      tool: 'report',
      principal: 'token:agent',
      kind: 'task',
      task_ttl_ms: 600_000,
      started_at: '2026-11-21T12:00:00.000Z',
      updated_at: '2026-11-21T12:00:00.000Z',
      expires_at: '2026-11-22T12:00:00.000Z',
      owner: 'aa.1.host',
      request_id: 'r-1',
      has_session: true,
      message: 'half done',
      request: {
        client: 'agent 1',
        revision: '2025-11-25',
        params_bytes: 56,
        meta_bytes: 25,
        state_bytes: 33,
      },
      input_requests: [
        { name: '1.name', method: 'elicitation/create', is_answered: true },
        { name: '1.age', method: 'elicitation/create', is_answered: false },
      ],
    })
    expect(operationView(keyed('two', completed))).toMatchObject({ kind: 'call', result_bytes: 27 })
    expect(operationView(keyed('four', failed))).toMatchObject({
      error: { code: 'UPSTREAM_ERROR', message: 'The disk is full.' },
    })
  })

  it('neither the text nor the JSON contains what was sent, what was received, or a session', () => {
    const shown = [asking, completed].map((record) => {
      const operation = keyed('one', record)
      return `${operationText(operation)}${JSON.stringify(operationView(operation))}`
    })
    for (const kept of ['of the caller', 'of the server', 'of the client'])
      expect(shown.join('\n')).not.toContain(kept)
  })

  it('text of callers and servers never starts a line of its own', () => {
    const hostile = 'x\n\u001b[2Kall is well\u202e'
    const record: OperationRecord = {
      ...asking,
      upstream: hostile,
      tool: hostile,
      principal: { id: hostile, scopes: [hostile] },
      requestId: hostile,
      message: hostile,
      input: { round: 1, requests: { [hostile]: { method: hostile } }, responses: {} },
      failure: new GatewayError('UPSTREAM_ERROR', hostile),
    }
    const texts = [operationList([keyed(hostile, record)], at), operationText(keyed(hostile, record))]
    for (const line of texts.join('\n').split('\n')) expect(line).not.toMatch(/^\s*all is well|\p{C}/u)
  })
})

describe('gatehouse ops', () => {
  let folder: string
  let store: string

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'gatehouse-ops-'))
    store = join(folder, 'store')
    mkdirSync(store)
  })

  afterEach(() => {
    rmSync(folder, { recursive: true })
  })

  /** Uses the store in the folder, and closes it. */
  async function withOperations<Result>(use: (operations: Operations) => Promise<Result>): Promise<Result> {
    const opened = await openSharedStore(storeAlone(store, memoryIo()), silentLog)
    try {
      return await use(new Operations(opened, Date.now))
    } finally {
      await opened.close()
    }
  }

  const keyOf = (name: string, { principal }: OperationRecord): string =>
    `${operationsOf(principal.id)}/${name}`

  function create(records: Readonly<Record<string, OperationRecord>>): Promise<void> {
    return withOperations(async (operations) => {
      for (const [name, record] of Object.entries(records))
        await operations.create(keyOf(name, record), { ...record, expiresAt: Date.now() + 60_000 })
    })
  }

  async function runOps(...words: string[]): Promise<{ readonly code: number; readonly text: string }> {
    const io = memoryIo()
    const code = await run(['ops', ...words], io)
    return { code, text: io.written.stdout + io.written.stderr }
  }

  it('list prints running operations first, and the newest last', async () => {
    await create({
      ended: { ...completed, startedAt: at },
      newest: { ...working, startedAt: at + 2, principal: { id: 'other' } },
      oldest: { ...working, startedAt: at + 1 },
      later: { ...failed, startedAt: at + 3 },
    })
    const { code, text } = await runOps('list', '--store', store)
    expect(code).toBe(0)
    expect(text.match(/^\w+/gm)).toEqual(['oldest', 'newest', 'ended', 'later'])
    const json = JSON.parse((await runOps('list', '--json', '--store', store)).text)
    expect(json.operations.map(({ name }: { name: string }) => name)).toEqual([
      'oldest',
      'newest',
      'ended',
      'later',
    ])
  })

  it('list says that there are none', async () => {
    expect(await runOps('list', '--store', store)).toEqual({ code: 0, text: 'No operations.\n' })
  })

  it.each(['abcdefghijklmnop', '-bcdefghijklmnop', '--cdefghijklmnop'])(
    'show and cancel take the name %s',
    async (name) => {
      await create({ [name]: asking })
      const shown = await runOps('show', name, '--json', '--store', store)
      expect(shown.code).toBe(0)
      expect(JSON.parse(shown.text)).toMatchObject({ name, state: 'input_required' })
      const cancelled = await runOps('cancel', name, '--store', store)
      expect(cancelled.code).toBe(0)
      expect(cancelled.text).toContain(`${name}: cancelled\n`)
      const found = await withOperations((operations) => operations.find(keyOf(name, asking)))
      expect(found?.record).toMatchObject({ state: 'cancelled', taskTtl: 600_000 })
      expect(found?.record.updatedAt).toBeGreaterThan(at)
      expect(found?.record).not.toHaveProperty('request')
      expect(found?.record).not.toHaveProperty('input')
    },
  )

  it('cancel refuses an operation that has ended, and leaves it as it is', async () => {
    await create({ two: completed })
    expect(await runOps('cancel', 'two', '--store', store)).toEqual({
      code: 1,
      text: 'gatehouse: two cannot be cancelled: it has ended already, and is completed\n',
    })
    const found = await withOperations((operations) => operations.find(keyOf('two', completed)))
    expect(found?.record).toMatchObject({ state: 'completed', updatedAt: at })
  })

  it.each(['show', 'cancel'])('%s says that there is no such operation', async (action) => {
    await create({ two: completed })
    expect(await runOps(action, 'a\u202eb', '--store', store)).toEqual({
      code: 1,
      text: String.raw`gatehouse: no such operation: "a\u202eb". See gatehouse ops list` + '\n',
    })
  })

  it('a store in memory is not read', async () => {
    const file = join(folder, 'gateway.config.yaml')
    writeFileSync(file, 'store: memory\nupstreams: { a: { command: x } }\n')
    const { code, text } = await runOps('list', '--config', file)
    expect(code).toBe(1)
    expect(text).toMatch(/^gatehouse: store: memory exists only inside the process of the gateway/)
  })

  it('the audit log contains who cancelled an operation', async () => {
    const file = join(folder, 'gateway.config.yaml')
    writeFileSync(
      file,
      `store: ${store}\nupstreams: { a: { command: x } }\nobserve: { audit: { file: ${join(folder, 'audit.jsonl')} } }\n`,
    )
    await create({ one: working })
    expect((await runOps('cancel', 'one', '--config', file)).code).toBe(0)
    const { code, text } = await runOps('cancel', 'one', '--config', file)
    expect([code, text]).toEqual([1, expect.stringContaining('cannot be cancelled')])
    const lines = readLines(join(folder, 'audit.jsonl'))
    const orders = lines.filter(({ event }) => event === 'order')
    expect(orders).toMatchObject([{ order: 'cancel', operation: 'one', caller: 'token:agent' }])
    expect(orders[0]).not.toHaveProperty('transaction')
  })

  it.each([
    [[], 'use gatehouse ops list, show or cancel'],
    [['cancle', 'x'], 'did you mean cancel?'],
    [['show'], 'show needs the name of an operation'],
    [['cancel'], 'cancel needs the name of an operation'],
    [['list', 'x'], 'give one operation at a time'],
    [['show', 'x', 'y'], 'give one operation at a time'],
    [['list', '--store', 'x', '--config', 'y'], 'give either --config or --store'],
    [['list', '--reason', 'x'], '--reason'],
  ])('wrong usage %j exits with 2', async (words, message) => {
    const { code, text } = await runOps(...words)
    expect([code, text]).toEqual([2, expect.stringContaining(message)])
    expect(text).toContain('Run gatehouse ops --help')
  })
})

function readLines(file: string): Record<string, unknown>[] {
  return readFileSync(file, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
}
