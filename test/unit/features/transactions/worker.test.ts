import { expect, it } from 'vitest'
import { createQueue } from '../../../../src/features/transactions/service.ts'
import { WorkerIdentity } from '../../../../src/features/transactions/rollback.ts'
import { createMembership } from '../../../../src/durable/members.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'

function gate(): { readonly opened: Promise<void>; open(): void } {
  let open = (): void => undefined
  const opened = new Promise<void>((resolve) => (open = resolve))
  return { opened, open: () => open() }
}

it('a closing worker is present until its work is done, also for other workers of its process', async () => {
  const membership = createMembership(() => new MemoryStore())
  const [old, next] = [new WorkerIdentity(membership), new WorkerIdentity(membership)]
  const work = gate()
  const done = old.during('t', () => work.opened)
  expect(await old.isWorkingOn(old.id, 't')).toBe(true)
  expect(await old.isWorkingOn(old.id, 'u')).toBe(false)
  old.close()
  expect(await next.isWorkingOn(old.id, 't')).toBe(true)
  work.open()
  await done
  expect(await next.isAlive(old.id)).toBe(false)
  expect(await old.isAlive(next.id)).toBe(true)
})

it('a worker of a crashed gateway is not present', async () => {
  const store = new MemoryStore()
  const [mine, other] = [createMembership(() => store), createMembership(() => store)]
  const [me, away] = [new WorkerIdentity(mine), new WorkerIdentity(other)]
  await away.register()
  expect(await me.isAlive(away.id)).toBe(true)
  await other.close()
  expect(await me.isAlive(away.id)).toBe(false)
  expect(await me.isAlive('')).toBe(false)
})

it('a queue runs one task at a time and releases aborted waiters', async () => {
  const queue = createQueue()
  const order: string[] = []
  const first = gate()
  const forever = new AbortController().signal
  const impatient = new AbortController()
  const add = (name: string, signal: AbortSignal, until: Promise<void>): Promise<void> =>
    queue('t', signal, async () => {
      order.push(name)
      await until
    })
  const all = [
    add('one', forever, first.opened),
    add('two', impatient.signal, Promise.resolve()),
    queue('t', forever, async () => {
      order.push('three')
      throw new Error('it fails')
    }),
    add('four', forever, Promise.resolve()),
    queue('u', forever, async () => void order.push('other')),
  ]
  const ends = Promise.allSettled(all)
  impatient.abort(new Error('too late'))
  await expect(all[1]).rejects.toThrow('too late')
  expect(order).toEqual(['one', 'other'])
  first.open()
  const ok = [true, false, false, true, true]
  expect((await ends).map(({ status }) => status === 'fulfilled')).toEqual(ok)
  expect(order).toEqual(['one', 'other', 'three', 'four'])
})
