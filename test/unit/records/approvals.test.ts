import fc from 'fast-check'
import { beforeEach, describe, expect, it } from 'vitest'
import {
  mayDecide,
  type Approval,
  type Approvals,
  createApprovals,
  type Decision,
  type ApprovalRequest,
} from '../../../src/records/approvals.ts'
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
  approvals = createApprovals(store, () => now)
  elsewhere = createApprovals(store, () => now)
})

async function decided(
  given: ApprovalRequest,
  ...decisions: readonly Omit<Decision, 'at'>[]
): Promise<Approval> {
  const { approval } = await approvals.request(given)
  for (const decision of decisions) await approvals.decide(approval.id, decision)
  return approval
}

describe('what another program wrote', () => {
  it.each(['no JSON', '[]', '{"id":"x","expiresAt":9e99}'])('is no approval: %s', async (text) => {
    await store.put('approval/x', text, 1000)
    await approvals.request(draft)
    expect(await approvals.list()).toHaveLength(1)
    expect(await approvals.find('x')).toBeUndefined()
    expect(await approvals.isExpired('x')).toBe(false)
  })
})

describe('asking for an approval', () => {
  it('finds the pending one of the same call again, with its token', async () => {
    const first = await approvals.request(draft)
    const second = await elsewhere.request(draft)
    expect({ ...second, isNew: true }).toEqual(first)
    expect(await approvals.list()).toHaveLength(1)
  })

  it('is one approval for many who ask at once', async () => {
    const all = await Promise.all(
      Array.from({ length: 20 }, (_, index) => (index % 2 ? approvals : elsewhere).request(draft)),
    )
    expect(new Set(all.map(({ approval }) => approval.id)).size).toBe(1)
    expect(await approvals.list()).toHaveLength(1)
  })

  it('is another approval for another call, caller, way or number of people', async () => {
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

  it('names it with 128 random bits, which are not its token', async () => {
    const { approval, token } = await approvals.request(draft)
    expect(approval.id).toMatch(/^[0-9a-f]{32}$/)
    expect(token).toMatch(/^[0-9a-f]{32}$/)
    expect(token).not.toBe(approval.id)
    expect(JSON.stringify(await approvals.list())).not.toContain(token)
  })

  it('is refused to a caller with a hundred open ones, and to nobody else', async () => {
    for (let index = 0; index < 100; index++) await approvals.request({ ...draft, digest: `d${index}` })
    await expect(approvals.request({ ...draft, digest: 'more' })).rejects.toMatchObject({
      code: 'QUOTA_EXHAUSTED',
    })
    await expect(approvals.request({ ...draft, digest: 'd7' })).resolves.toBeDefined()
    await expect(approvals.request({ ...draft, caller: 'other' })).resolves.toBeDefined()
  })

  it('is refused where nobody could read the arguments', async () => {
    const large = { ...draft, arguments: { text: 'x'.repeat(1024 * 1024) } }
    await expect(approvals.request(large)).rejects.toMatchObject({ code: 'PAYLOAD_TOO_LARGE' })
  })
})

describe('deciding', () => {
  it('is refused for an unknown approval, and for one whose time is over', async () => {
    const { id } = await decided(draft)
    await expect(approvals.decide('nothing', operator)).rejects.toMatchObject({ code: 'RESOURCE_NOT_FOUND' })
    await expect(approvals.decide('../x', operator)).rejects.toMatchObject({ code: 'RESOURCE_NOT_FOUND' })
    now += 300_001
    await expect(approvals.decide(id, operator)).rejects.toMatchObject({ code: 'RESOURCE_NOT_FOUND' })
    expect(await approvals.find(id)).toBeUndefined()
    expect(await approvals.list()).toEqual([])
  })

  it('is refused once it is decided', async () => {
    const { id } = await decided(draft, operator)
    await expect(approvals.decide(id, operator)).rejects.toMatchObject({ code: 'CONFLICT' })
  })

  it('is refused to those who may not, and nothing is written', async () => {
    const { id } = await decided(draft)
    const decision = { by: 'agent', via: 'token', verdict: 'approved' } as const
    await expect(approvals.decide(id, decision)).rejects.toMatchObject({ code: 'PERMISSION_DENIED' })
    expect(await approvals.find(id)).toMatchObject({ status: 'pending', decisions: [] })
  })

  it('takes as many different people as it needs', async () => {
    const { id } = await decided(others, ada)
    expect(await approvals.find(id)).toMatchObject({ status: 'pending' })
    await expect(approvals.decide(id, { ...ada, via: 'token' })).rejects.toMatchObject({ code: 'CONFLICT' })
    expect(await approvals.decide(id, bob)).toMatchObject({ status: 'approved' })
  })

  it('counts whoever is at the machine as one person', async () => {
    const { id } = await decided(others, operator)
    const code = { by: 'somebody', via: 'code', verdict: 'approved' } as const
    await expect(approvals.decide(id, code)).rejects.toMatchObject({ code: 'CONFLICT' })
  })

  it('is denied by one person', async () => {
    const { id } = await decided(others, ada, { ...bob, verdict: 'denied', reason: 'no' })
    expect(await approvals.find(id)).toMatchObject({ status: 'denied' })
  })

  it('is denied by one who thinks better of it', async () => {
    const { id } = await decided(others, ada, { ...ada, verdict: 'denied' })
    expect(await approvals.find(id)).toMatchObject({ status: 'denied' })
  })

  it('leaves time to make the call', async () => {
    const { id } = await decided(draft)
    now += 299_000
    await approvals.decide(id, operator)
    now += 200_000
    expect(await approvals.use(draft)).toMatchObject({ id, status: 'approved' })
  })

  it('keeps every decision of many at once', async () => {
    const { id } = await decided({ ...others, needed: 10 })
    const people = Array.from({ length: 10 }, (_, index) => ({ ...ada, by: `person ${index}` }))
    await Promise.all(people.map((each, index) => (index % 2 ? approvals : elsewhere).decide(id, each)))
    expect(await approvals.find(id)).toMatchObject({ status: 'approved' })
    expect((await approvals.find(id))?.decisions).toHaveLength(10)
  })
})

describe('using an approval', () => {
  it('tells nothing where none is open, and the pending one', async () => {
    expect(await approvals.use(draft)).toBeUndefined()
    const { id } = await decided(draft)
    expect(await approvals.use(draft)).toMatchObject({ id, status: 'pending' })
  })

  it('gives it to one of many calls at once, of all gateways', async () => {
    const { id } = await decided(draft, operator)
    const all = await Promise.all(
      Array.from({ length: 20 }, (_, index) => (index % 2 ? approvals : elsewhere).use(draft)),
    )
    expect(all.filter((each) => each?.status === 'approved')).toHaveLength(1)
    expect(await approvals.find(id)).toMatchObject({ status: 'used' })
    expect((await approvals.request(draft)).approval.id).not.toBe(id)
  })

  it('does not hold for a call that takes more people', async () => {
    await decided(draft, operator)
    expect(await approvals.use({ ...draft, needed: 2 })).toBeUndefined()
    expect(await approvals.use({ ...draft, kind: 'out_of_band' })).toBeUndefined()
  })

  it('tells of a denial once', async () => {
    const { id } = await decided(draft, { ...operator, verdict: 'denied' })
    expect(await approvals.use(draft)).toMatchObject({ id, status: 'denied' })
    expect(await approvals.use(draft)).toBeUndefined()
    expect((await approvals.request(draft)).approval.id).not.toBe(id)
  })
})

describe('the token of an approval', () => {
  it('is good once, for its own call', async () => {
    const { token, approval } = await approvals.request(draft)
    await approvals.request({ ...draft, digest: 'd2' })
    expect(await approvals.consume({ ...draft, digest: 'd2' }, token)).toBeUndefined()
    expect(await approvals.consume({ ...draft, caller: 'other' }, token)).toBeUndefined()
    expect(await approvals.consume(draft, `${token}x`)).toBeUndefined()
    const all = await Promise.all([approvals.consume(draft, token), elsewhere.consume(draft, token)])
    expect(all.filter((each) => each?.id === approval.id)).toHaveLength(1)
    expect(await approvals.consume(draft, token)).toBeUndefined()
  })

  it('is not good once its time is over, nor against a denial', async () => {
    const { token, approval } = await approvals.request(draft)
    await approvals.decide(approval.id, { ...operator, verdict: 'denied' })
    expect(await approvals.consume(draft, token)).toBeUndefined()
    const later = await approvals.request({ ...draft, digest: 'd2' })
    now += 300_001
    expect(await approvals.consume({ ...draft, digest: 'd2' }, later.token)).toBeUndefined()
  })
})

describe('who may decide', () => {
  const page = { kind: 'page', caller: 'agent', approvers: [] } as const
  const band = { kind: 'out_of_band', caller: 'agent', approvers: [] } as const
  const everybody = { kind: 'page', caller: 'anonymous', isEverybody: true, approvers: [] } as const
  it.each([
    ['the caller with its password, on its own page', page, 'agent', 'password', true],
    ['another with a password, on the page of the caller', page, 'ada', 'password', false],
    ['one who is named', { ...page, approvers: ['ada'] }, 'ada', 'password', true],
    ['anybody with a password, where callers are not told apart', everybody, 'ada', 'password', true],
    ['the caller with its token', page, 'agent', 'token', false],
    ['another with a token, on the page of the caller', page, 'ada', 'token', false],
    ['everybody with a token', everybody, 'anonymous', 'token', false],
    ['who reads the terminal', page, 'operator', 'code', true],
    ['who is at the command line', page, 'root', 'command_line', true],
    ['the caller, out of band', band, 'agent', 'password', false],
    ['the token that calls, out of band', band, 'agent', 'token', false],
    ['another token, out of band', band, 'ada', 'token', true],
    ['another with a password, out of band', band, 'ada', 'password', true],
    ['the command line, out of band', band, 'root', 'command_line', true],
    ['one who is not named', { ...band, approvers: ['bob'] }, 'ada', 'password', false],
    ['the command line that is not named', { ...band, approvers: ['bob'] }, 'root', 'command_line', false],
    ['the caller that is named', { ...band, approvers: ['agent'] }, 'agent', 'password', false],
  ] as const)('%s', (...row) => {
    const [, approval, by, via, expected] = row
    expect(mayDecide(approval, { by, via })).toBe(expected)
  })
})

const step = fc.record({
  by: fc.constantFrom('ada', 'bob', 'eve', 'agent'),
  via: fc.constantFrom('password', 'code', 'token', 'command_line'),
  verdict: fc.constantFrom('approved', 'denied'),
  use: fc.boolean(),
})

it('never lets a call run more often, or with fewer people, than were asked for', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { maxLength: 12 }),
      fc.integer({ min: 1, max: 3 }),
      async (steps, needed) => {
        const ours = createApprovals(new MemoryStore(() => now), () => now)
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
