import { expect, it } from 'vitest'
import { LogFeeds } from '../../../../../src/features/events/sinks/log-feed.ts'
import { openEventLog } from '../../../../../src/records/logged-events.ts'
import { MemoryStore } from '../../../../../src/store/memory.ts'
import { until } from '../../../../support/condition.ts'
import { silentLog } from '../../../../support/silent-log.ts'

it('an event that is appended after a subscription read the log, and before its end is followed, is announced', async () => {
  const log = openEventLog(new MemoryStore(), 'notes', { ttl: 60_000, isShared: false })
  const position = await log.end()
  const begins = Promise.withResolvers<void>()
  let changes = 0
  // Nothing changes after the end of the log is known.
  const changed = (): Promise<void> => new Promise(() => undefined)
  const feeds = new LogFeeds(
    () => ({ log, changed, retain: () => begins.promise }),
    silentLog,
    () => void changes++,
  )
  const feed = feeds.of('notes')
  expect((await feed.read(position, 10)).entries).toEqual([])
  await log.append([{ id: 'e', name: 'add_note.succeeded', at: 0, data: {} }])
  begins.resolve()
  await until(() => changes > 0, 'the announcement', 2000)
  expect(feed.isEnd(position)).toBe(false)
  expect((await feed.read(position, 10)).entries).toHaveLength(1)
  feeds.endAllBut(new Set())
})
