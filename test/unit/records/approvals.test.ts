import fc from 'fast-check'
import { beforeEach, describe, expect, it } from 'vitest'
import {
  mayDecide,
  type Approval,
  type Decision,
  type ApprovalRequest,
  Approvals,
  approvalView,
} from '../../../src/records/approvals.ts'
import { callerHash } from '../../../src/records/principal.ts'
import { MemoryStore } from '../../../src/store/memory.ts'

const draft: ApprovalRequest = {
  kind: 'page',
  caller: 'agent',
  upstream: 'files',
  tool: 'delete_file',
  arguments: { path: '/a' },
  digest: 'd1',
  risk: 'destructive',
  message: 'Delete /a?',
  needed: 1,
  approvers: [],
  ttl: 300_000,
}
const others: ApprovalRequest = { ...draft, kind: 'out_of_band', needed: 2 }
const operator = { by: 'operator', via: 'command_line', verdict: 'approved' } as const
const ada = { by: 'ada', via: 'password', verdict: 'approved' } as const
const bob = { by: 'bob', via: 'password', verdict: 'approved' } as const

let now: number
let store: MemoryStore
let approvals: Approvals
let elsewhere: Approvals
beforeEach(() => {
  now = 1_000_000
  store = new MemoryStore(() => now)
  approvals = new Approvals(store, () => now)
  elsewhere = new Approvals(store, () => now)
})

async function decided(
  given: ApprovalRequest,
  ...decisions: readonly Omit<Decision, 'at'>[]
): Promise<Approval> {
  const { approval } = await approvals.request(given)
  for (const decision of decisions) await approvals.decide(approval.id, decision)
  return approval
}

describe('records of other software', () => {
  it.each(['no JSON', '[]', '{"id":"x","expiresAt":9e99}'])('foreign record %s is ignored', async (text) => {
    await store.put('approval/x', text, 1000)
    await approvals.request(draft)
    expect(await approvals.list()).toHaveLength(1)
    expect(await approvals.find('x')).toBeUndefined()
    expect(await approvals.isExpired('x')).toBe(false)
  })
})

describe('the client of a call', () => {
  it.each([
    ['of a version that did not record it', {}, undefined],
    ['that is none', { client: 5 }, undefined],
    ['that is empty', { client: '' }, undefined],
    ['as recorded', { client: 'claude-code 2.1' }, 'claude-code 2.1'],
  ])('is read from a record %s', async (_, given, client) => {
    const { approval } = await approvals.request(draft)
    await store.put(`approval/${approval.id}`, JSON.stringify({ ...approval, ...given }), 1000)
    const found = await approvals.find(approval.id)
    expect(found && approvalView(found)['client']).toBe(client)
    expect((await approvals.decide(approval.id, operator)).status).toBe('approved')
  })
})

describe('requesting an approval', () => {
  it('an equal call finds the pending approval with its token', async () => {
    const first = await approvals.request(draft)
    const second = await elsewhere.request(draft)
    expect({ ...second, isNew: true }).toEqual(first)
    expect(await approvals.list()).toHaveLength(1)
  })

  it('concurrent requests create one approval', async () => {
    const all = await Promise.all(
      Array.from({ length: 20 }, (_, index) => (index % 2 ? approvals : elsewhere).request(draft)),
    )
    expect(new Set(all.map(({ approval }) => approval.id)).size).toBe(1)
    expect(await approvals.list()).toHaveLength(1)
  })

  it('concurrent requests of a caller are a quarter of all at most, and leave nothing of the others', async () => {
    const requests = Array.from({ length: 110 }, (_, at) =>
      approvals.request({ ...draft, digest: `more${at}` }),
    )
    const done = await Promise.allSettled(requests)
    expect(done.filter(({ status }) => status === 'fulfilled')).toHaveLength(100)
    expect(await approvals.list()).toHaveLength(100)
    await expect(approvals.request(draft)).rejects.toMatchObject({
      code: 'QUOTA_EXHAUSTED',
      message: 'Too many calls of this caller wait for approval.',
    })
  })

  it('a damaged record of the open approval of a call is replaced', async () => {
    await approvals.request(draft)
    const [key] = (await store.scan(`approval:of:${callerHash(draft.caller)}`)).keys()
    await store.put(String(key), 'damaged', 1000)
    expect(await approvals.peek(draft)).toBeUndefined()
    expect(await approvals.request(draft)).toMatchObject({ isNew: true })
  })

  it('another call, caller, kind or number of approvers creates another approval', async () => {
    const drafts = [
      draft,
      { ...draft, digest: 'd2' },
      { ...draft, caller: 'other' },
      { ...draft, kind: 'out_of_band' as const },
      { ...draft, needed: 2 },
      { ...draft, approvers: ['ada'] },
    ]
    const ids = await Promise.all(drafts.map(async (each) => (await approvals.request(each)).approval.id))
    expect(new Set(ids).size).toBe(drafts.length)
  })

  it('an approval has a random id of 128 bits that is not its token', async () => {
    const { approval, token } = await approvals.request(draft)
    expect(approval.id).toMatch(/^[0-9a-f]{32}$/)
    expect(token).toMatch(/^[0-9a-f]{32}$/)
    expect(token).not.toBe(approval.id)
    expect(JSON.stringify(await approvals.list())).not.toContain(token)
  })

  it('a caller with a hundred pending approvals is refused another, and other callers are not', async () => {
    for (let index = 0; index < 100; index++) await approvals.request({ ...draft, digest: `d${index}` })
    await expect(approvals.request({ ...draft, digest: 'more' })).rejects.toMatchObject({
      code: 'QUOTA_EXHAUSTED',
    })
    await expect(approvals.request({ ...draft, digest: 'd7' })).resolves.toBeDefined()
    await expect(approvals.request({ ...draft, caller: 'other' })).resolves.toBeDefined()
  })

  it('an approval with arguments too large to read is refused', async () => {
    const large = { ...draft, arguments: { text: 'x'.repeat(1024 * 1024) } }
    await expect(approvals.request(large)).rejects.toMatchObject({ code: 'PAYLOAD_TOO_LARGE' })
  })
})

describe('deciding on an approval', () => {
  it('a decision on an unknown or expired approval is refused', async () => {
    const { id } = await decided(draft)
    await expect(approvals.decide('nothing', operator)).rejects.toMatchObject({ code: 'RESOURCE_NOT_FOUND' })
    await expect(approvals.decide('../x', operator)).rejects.toMatchObject({ code: 'RESOURCE_NOT_FOUND' })
    now += 300_001
    await expect(approvals.decide(id, operator)).rejects.toMatchObject({ code: 'RESOURCE_NOT_FOUND' })
    expect(await approvals.find(id)).toBeUndefined()
    expect(await approvals.list()).toEqual([])
  })

  it('a decision on a decided approval is refused', async () => {
    const { id } = await decided(draft, operator)
    await expect(approvals.decide(id, operator)).rejects.toMatchObject({ code: 'CONFLICT' })
  })

  it('an unauthorized decision is refused and not recorded', async () => {
    const { id } = await decided(draft)
    const decision = { by: 'agent', via: 'token', verdict: 'approved' } as const
    await expect(approvals.decide(id, decision)).rejects.toMatchObject({ code: 'PERMISSION_DENIED' })
    expect(await approvals.find(id)).toMatchObject({ status: 'pending', decisions: [] })
  })

  it('the required number of different people must approve', async () => {
    const { id } = await decided(others, ada)
    expect(await approvals.find(id)).toMatchObject({ status: 'pending' })
    await expect(approvals.decide(id, { ...ada, via: 'token' })).rejects.toMatchObject({ code: 'CONFLICT' })
    expect(await approvals.decide(id, bob)).toMatchObject({ status: 'approved' })
  })

  it('everyone at the terminal counts as one person', async () => {
    const { id } = await decided(others, operator)
    const code = { by: 'somebody', via: 'code', verdict: 'approved' } as const
    await expect(approvals.decide(id, code)).rejects.toMatchObject({ code: 'CONFLICT' })
  })

  it('one denial denies the approval', async () => {
    const { id } = await decided(others, ada, { ...bob, verdict: 'denied', reason: 'no' })
    expect(await approvals.find(id)).toMatchObject({ status: 'denied' })
  })

  it('a person who approved can still deny', async () => {
    const { id } = await decided(others, ada, { ...ada, verdict: 'denied' })
    expect(await approvals.find(id)).toMatchObject({ status: 'denied' })
  })

  it('an approval given late leaves time to make the call', async () => {
    const { id } = await decided(draft)
    now += 299_000
    await approvals.decide(id, operator)
    now += 200_000
    expect(await approvals.use(draft)).toMatchObject({ id, status: 'approved' })
  })

  it('all concurrent decisions are recorded', async () => {
    const { id } = await decided({ ...others, needed: 10 })
    const people = Array.from({ length: 10 }, (_, index) => ({ ...ada, by: `person ${index}` }))
    await Promise.all(people.map((each, index) => (index % 2 ? approvals : elsewhere).decide(id, each)))
    expect(await approvals.find(id)).toMatchObject({ status: 'approved' })
    expect((await approvals.find(id))?.decisions).toHaveLength(10)
  })
})

describe('using an approval', () => {
  it('without an approval nothing is returned, and a pending one is returned as pending', async () => {
    expect(await approvals.use(draft)).toBeUndefined()
    const { id } = await decided(draft)
    expect(await approvals.use(draft)).toMatchObject({ id, status: 'pending' })
  })

  it('an approval is used by exactly one of many concurrent calls', async () => {
    const { id } = await decided(draft, operator)
    const all = await Promise.all(
      Array.from({ length: 20 }, (_, index) => (index % 2 ? approvals : elsewhere).use(draft)),
    )
    expect(all.filter((each) => each?.status === 'approved')).toHaveLength(1)
    expect(await approvals.find(id)).toMatchObject({ status: 'used' })
    expect((await approvals.request(draft)).approval.id).not.toBe(id)
  })

  it('an approval does not cover a call that requires more people', async () => {
    await decided(draft, operator)
    expect(await approvals.use({ ...draft, needed: 2 })).toBeUndefined()
    expect(await approvals.use({ ...draft, kind: 'out_of_band' })).toBeUndefined()
  })

  it('a denial is reported once', async () => {
    const { id } = await decided(draft, { ...operator, verdict: 'denied' })
    expect(await approvals.use(draft)).toMatchObject({ id, status: 'denied' })
    expect(await approvals.use(draft)).toBeUndefined()
    expect((await approvals.request(draft)).approval.id).not.toBe(id)
  })
})

describe('the token of an approval', () => {
  it('the token is valid once, for its own call', async () => {
    const { token, approval } = await approvals.request(draft)
    await approvals.request({ ...draft, digest: 'd2' })
    expect(await approvals.consume({ ...draft, digest: 'd2' }, token)).toBeUndefined()
    expect(await approvals.consume({ ...draft, caller: 'other' }, token)).toBeUndefined()
    expect(await approvals.consume(draft, `${token}x`)).toBeUndefined()
    const all = await Promise.all([approvals.consume(draft, token), elsewhere.consume(draft, token)])
    expect(all.filter((each) => each?.id === approval.id)).toHaveLength(1)
    expect(await approvals.consume(draft, token)).toBeUndefined()
  })

  it('the token is not valid after expiry or a denial', async () => {
    const { token, approval } = await approvals.request(draft)
    await approvals.decide(approval.id, { ...operator, verdict: 'denied' })
    expect(await approvals.consume(draft, token)).toBeUndefined()
    const later = await approvals.request({ ...draft, digest: 'd2' })
    now += 300_001
    expect(await approvals.consume({ ...draft, digest: 'd2' }, later.token)).toBeUndefined()
  })
})

describe('who may decide on an approval', () => {
  const page = { kind: 'page', caller: 'agent', approvers: [] } as const
  const band = { kind: 'out_of_band', caller: 'agent', approvers: [] } as const
  const everybody = { kind: 'page', caller: 'anonymous', isEverybody: true, approvers: [] } as const
  it.each([
    ['the caller with its password on its own page', page, 'agent', 'password', true],
    ['another user with a password on the page of the caller', page, 'ada', 'password', false],
    ['a named approver', { ...page, approvers: ['ada'] }, 'ada', 'password', true],
    ['any user with a password if callers are anonymous', everybody, 'ada', 'password', true],
    ['the caller with its token', page, 'agent', 'token', false],
    ['another token on the page of the caller', page, 'ada', 'token', false],
    ['an anonymous token', everybody, 'anonymous', 'token', false],
    ['the caller as an owner', page, 'agent', 'operator_mcp', false],
    ['another owner', page, 'ada', 'operator_mcp', true],
    ['a named owner', { ...page, approvers: ['ada'] }, 'ada', 'operator_mcp', true],
    ['an owner if another is named', { ...page, approvers: ['bob'] }, 'ada', 'operator_mcp', false],
    ['an owner who may be the caller', everybody, 'ada', 'operator_mcp', false],
    ['the person with the code from the terminal', page, 'operator', 'code', true],
    ['the person at the command line', page, 'root', 'command_line', true],
    ['the caller, out of band', band, 'agent', 'password', false],
    ['the calling token, out of band', band, 'agent', 'token', false],
    ['the caller as an owner, out of band', band, 'agent', 'operator_mcp', false],
    ['another owner, out of band', band, 'ada', 'operator_mcp', true],
    ['another token, out of band', band, 'ada', 'token', true],
    ['another user with a password, out of band', band, 'ada', 'password', true],
    ['the command line, out of band', band, 'root', 'command_line', true],
    ['an approver who is not named', { ...band, approvers: ['bob'] }, 'ada', 'password', false],
    ['the command line if it is not named', { ...band, approvers: ['bob'] }, 'root', 'command_line', false],
    ['the caller if it is named', { ...band, approvers: ['agent'] }, 'agent', 'password', false],
  ] as const)('the right to decide of %s', (...row) => {
    const [, approval, by, via, expected] = row
    expect(mayDecide(approval, { by, via })).toBe(expected)
  })
})

describe('references that stand for other data', () => {
  const stale: ApprovalRequest = { ...draft, written: 'w1', digest: 'before' }
  const current: ApprovalRequest = { ...stale, digest: 'after' }

  it('make the open approvals of the call void', async () => {
    const { approval } = await approvals.request(stale)
    expect(await approvals.voidOthers(current)).toBe(true)
    expect(await approvals.find(approval.id)).toMatchObject({ status: 'void' })
    expect(await approvals.voidOthers(current)).toBe(false)
  })

  it('leave an approval that is used or denied meanwhile as it is', async () => {
    const end = async (verdict: 'approved' | 'denied') => {
      const { id } = await decided({ ...stale, digest: verdict })
      const list = approvals.list.bind(approvals)
      approvals.list = async () => {
        const found = await list()
        await elsewhere.decide(id, { ...ada, by: 'operator', via: 'code', verdict })
        await elsewhere.use({ ...stale, digest: verdict })
        return found
      }
      await approvals.voidOthers(current)
      approvals.list = list
      return (await approvals.find(id))?.status
    }
    expect(await end('approved')).toBe('used')
    expect(await end('denied')).toBe('denied')
  })
})

const step = fc.record({
  by: fc.constantFrom('ada', 'bob', 'eve', 'agent'),
  via: fc.constantFrom('password', 'code', 'token', 'command_line'),
  verdict: fc.constantFrom('approved', 'denied'),
  use: fc.boolean(),
})

it('a call never runs more often or with fewer approvals than required', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { maxLength: 12 }),
      fc.integer({ min: 1, max: 3 }),
      async (steps, needed) => {
        const ours = new Approvals(new MemoryStore(() => now), () => now)
        const own = { ...others, needed }
        const { approval } = await ours.request(own)
        let runs = 0
        for (const { use, ...decision } of steps) {
          await ours.decide(approval.id, decision).catch(() => undefined)
          const used = use ? await ours.use(own) : undefined
          if (used?.status !== 'approved') continue
          runs++
          const people = new Set(used.decisions.map(({ by, via }) => (/code|command/.test(via) ? 'us' : by)))
          expect(people.size).toBeGreaterThanOrEqual(needed)
          expect(used.decisions.every(({ verdict, by }) => verdict === 'approved' && by !== 'agent')).toBe(
            true,
          )
        }
        expect(runs).toBeLessThanOrEqual(1)
      },
    ),
    { numRuns: 200 },
  )
})
