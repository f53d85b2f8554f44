import { expect, onTestFinished, test, vi } from 'vitest'
import type { Call } from '../../../src/core/call.ts'
import { Payload } from '../../../src/core/payload.ts'
import { ownCall } from '../../../src/protocol/lift.ts'
import { LastLists } from '../../../src/upstream/last-lists.ts'
import { MemoryStore } from '../../../src/store/memory.ts'
import { serverSettings } from '../../support/server-settings.ts'
import { silentLog } from '../../support/silent-log.ts'

const MARK = 'dev.gatehouse/last_known'

function asking(list: string, cursor?: string, more: Partial<Call> = {}): Call {
  const params = Payload.of(cursor === undefined ? {} : { cursor })
  return ownCall({ method: list, params, target: { upstream: 'one', method: list }, ...more })
}

const page = (names: readonly string[], nextCursor?: string): Payload =>
  Payload.of({ tools: names.map((name) => ({ name })), ...(nextCursor !== undefined && { nextCursor }) })

function lists(store = new MemoryStore(), isPersonal = false): LastLists {
  return new LastLists(store, serverSettings({}), isPersonal, silentLog)
}

const namesOf = ({ fields: { tools } }: Payload): unknown =>
  (tools as { name: string }[]).map(({ name }) => name)

test('pages are answered as they were listed, and one that is not there any more ends the list', async () => {
  const last = lists()
  last.remember(asking('tools/list'), page(['a'], '2'))
  expect((await last.answer(asking('tools/list'))).fields.nextCursor).toBeUndefined()
  last.remember(asking('tools/list', '2'), page(['b']))
  const first = await last.answer(asking('tools/list'))
  expect(first.fields.nextCursor).toBe('2')
  expect(namesOf(await last.answer(asking('tools/list', '2')))).toEqual(['b'])
  last.remember(asking('tools/list'), page(['a'], 'x'))
  await expect(last.answer(asking('tools/list', '2'))).rejects.toThrow('not known')
})

test('what is written keeps every digit', async () => {
  const store = new MemoryStore()
  const text = '{"tools":[{"name":"a","_meta":{"n":12345678901234567890}},null]}'
  const first = lists(store)
  first.remember(asking('tools/list'), Payload.text(text))
  await first.close()
  const answer = await lists(store).answer(asking('tools/list'))
  expect(answer.text).toContain('12345678901234567890')
  expect(answer.text).toContain(MARK)
})

test('others get the list of a caller, unless each caller has a list of its own', async () => {
  const client = { ...asking('tools/list').client, capabilities: { roots: {} } }
  for (const isPersonal of [false, true]) {
    const last = lists(new MemoryStore(), isPersonal)
    last.remember(asking('tools/list'), page(['a']))
    const other = last.answer(asking('tools/list', undefined, { client }))
    if (isPersonal) await expect(other).rejects.toThrow('not known')
    else expect(namesOf(await other)).toEqual(['a'])
  }
})

test('gateways with one store know what each of them was told last', async () => {
  vi.useFakeTimers()
  onTestFinished(() => void vi.useRealTimers())
  const store = new MemoryStore()
  const [one, other] = [lists(store), lists(store)]
  await expect(other.answer(asking('tools/list'))).rejects.toThrow('not known')
  // They write at the same time.
  one.remember(asking('tools/list'), page(['a']))
  other.remember(asking('prompts/list'), Payload.of({ prompts: [{ name: 'p' }] }))
  await vi.advanceTimersByTimeAsync(200)
  expect(namesOf(await other.answer(asking('tools/list')))).toEqual(['a'])
  expect((await one.answer(asking('prompts/list'))).fields['prompts']).toHaveLength(1)
  // A later list replaces an earlier one, which is read again now and then.
  other.remember(asking('tools/list'), page(['b']))
  await vi.advanceTimersByTimeAsync(6000)
  expect(namesOf(await one.answer(asking('tools/list')))).toEqual(['b'])
  expect(namesOf(await lists(store).answer(asking('tools/list')))).toEqual(['b'])
  expect((await lists(store).answer(asking('prompts/list'))).fields['prompts']).toHaveLength(1)
})

test('the tool of a call is found in the last list, also by its alias', async () => {
  const last = lists()
  last.remember(asking('tools/list'), page(['read-file']))
  const call = (name: string): Call => asking('tools/call', undefined, { params: Payload.of({ name }) })
  expect((await last.tool(call('read-file')))?.definition).toMatchObject({ name: 'read-file' })
  expect((await last.tool(call('read_file')))?.definition).toMatchObject({ name: 'read-file' })
  expect(await last.tool(call('other'))).toBeUndefined()
})

test('lists are known for a month, and a damaged record is none', async () => {
  vi.useFakeTimers({ toFake: ['Date'] })
  onTestFinished(() => void vi.useRealTimers())
  const last = lists()
  last.remember(asking('tools/list'), page(['a']))
  vi.setSystemTime(Date.now() + 29 * 86_400_000)
  expect(namesOf(await last.answer(asking('tools/list')))).toEqual(['a'])
  vi.setSystemTime(Date.now() + 2 * 86_400_000)
  await expect(last.answer(asking('tools/list'))).rejects.toThrow('not known')
  for (const text of [
    '',
    'null',
    '{"version":1,"callers":[["",[["tools/list",{"at":null}]]],7]}',
    '{"version":1,"callers":{}}',
  ]) {
    const damaged = new LastLists(
      Object.assign(new MemoryStore(), { get: async () => text }),
      serverSettings({}),
      false,
      silentLog,
    )
    await expect(damaged.answer(asking('tools/list'))).rejects.toThrow('not known')
  }
})
