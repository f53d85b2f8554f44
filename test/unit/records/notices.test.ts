import { expect, it } from 'vitest'
import type { Approval } from '../../../src/records/approvals.ts'
import { Notices, TOLD } from '../../../src/records/notices.ts'
import { MemoryStore } from '../../../src/store/memory.ts'

const approval: Approval = {
  id: 'abc',
  kind: 'page',
  caller: 'user:anna',
  upstream: 'disks',
  tool: 'wipe',
  arguments: {},
  digest: 'd',
  risk: 'destructive',
  message: 'Run wipe?',
  createdAt: 0,
  expiresAt: Date.now() + 60_000,
  needed: 1,
  approvers: [],
  decisions: [],
  status: 'pending',
}

it('a notice is made once, and belongs to one process as long as that one lives', async () => {
  const notices = new Notices(new MemoryStore())
  const [made, again] = await Promise.all([1, 2].map(() => notices.add(approval, 'ops', false)))
  expect([made?.id, again]).toEqual(['abc.ops', undefined])
  if (!made) return
  const ofFirst = await notices.claim(made, 'a')
  expect(ofFirst).toMatchObject({ owner: 'a' })
  expect(await notices.claim(made, 'b')).toBeUndefined()
  expect(await notices.advance(made.id, 'b', { watermark: TOLD, settled: [] })).toBe(false)
  if (!ofFirst) return
  expect(await notices.claim(ofFirst, 'b')).toMatchObject({ owner: 'b' })
  expect(await notices.claim(ofFirst, 'c')).toBeUndefined()
  expect(await notices.advance(made.id, 'b', { watermark: TOLD, settled: [], isTold: true })).toBe(true)
  expect(await notices.all()).toMatchObject([{ watermark: TOLD, isTold: true, owner: 'b' }])
})
