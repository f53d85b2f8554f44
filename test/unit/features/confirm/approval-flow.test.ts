import { deadlineSlot } from '../../../../src/core/slot.ts'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { Notification, Outcome } from '../../../../src/core/call.ts'
import type { Log } from '../../../../src/core/log.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { operationSlot } from '../../../../src/records/operations.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { silentLog } from '../../../support/silent-log.ts'
import {
  agent,
  asked,
  type Bench,
  bench,
  fieldsOf,
  host,
  modern,
  plain,
  question,
  says,
  TOOL,
} from './bench.ts'

const operator = { by: 'root', via: 'command_line', verdict: 'approved' } as const
const ada = { by: 'ada', via: 'password', verdict: 'approved' } as const
const confirmation = 'dev.gatehouse/confirmation'

async function pendingId({ approvals }: Bench): Promise<string> {
  const [approval] = (await approvals.list()).filter(({ status }) => status === 'pending')
  if (!approval) throw new Error('nothing is pending')
  return approval.id
}

function text(outcome: Outcome): string {
  return JSON.stringify(fieldsOf(outcome)['content'])
}

function tokenOf(outcome: Outcome): unknown {
  return fieldsOf(outcome)['confirmation_token']
}

describe('a client without elicitation', () => {
  it('the client receives a failed result with the page on which the call is approved', async () => {
    const one = bench()
    const outcome = await one.call({ client: plain })
    const id = await pendingId(one)
    expect(fieldsOf(outcome)).toMatchObject({
      isError: true,
      status: 'confirmation_required',
      requires_confirmation: true,
      confirmation_message: 'Run delete_repo on hub with owner: octo, repo: test-repo? Deletes a repository.',
      risk_level: 'destructive',
      confirmation_token: expect.stringMatching(/^\w{32}$/),
      tool: 'delete_repo',
      parameters: { owner: 'octo', repo: 'test-repo' },
      error: { code: 'CONFIRMATION_REQUIRED', category: 'permanent', user_actionable: true, requestId: 'r1' },
      _meta: {
        'dev.gatehouse/error': { code: 'CONFIRMATION_REQUIRED' },
        [confirmation]: { approval: id, url: `http://127.0.0.1:8900/confirm/${id}` },
      },
    })
    expect(text(outcome)).toContain(`http://127.0.0.1:8900/confirm/${id}`)
    expect(JSON.stringify(outcome)).not.toContain('gatehouse approvals')
    expect(fieldsOf(outcome)).not.toHaveProperty('structuredContent')
    expect(one.served).toHaveLength(0)
  })

  it('the confirmation token never appears in text a model reads', async () => {
    const outcome = await bench().call({ client: plain })
    expect(text(outcome)).not.toContain(tokenOf(outcome))
    const meta = Object(fieldsOf(outcome)['_meta'])
    expect(JSON.stringify(meta['dev.gatehouse/error'])).not.toContain(tokenOf(outcome))
    expect(meta[confirmation].confirmation_token).toBe(tokenOf(outcome))
  })

  it('an approved call runs once when it is made again', async () => {
    const one = bench()
    await one.call({ client: plain })
    await one.approvals.decide(await pendingId(one), operator)
    expect(fieldsOf(await one.call({ client: plain }))['_meta']).toHaveProperty(['dev.gatehouse/approval'])
    expect(one.signed[0]).toMatchObject({ by: ['root'], via: ['command_line'], sub: 'agent' })
    expect(fieldsOf(await one.call({ client: plain }))['isError']).toBe(true)
    expect(one.served).toHaveLength(1)
  })

  it.each([
    ['its caller', {}],
    ['others', { tool: { approval: 'out_of_band' } }],
  ] as const)(
    'a call that continues after a restart uses no approval of %s, unless it is a task',
    async (_who, given) => {
      const one = bench(given)
      const operation = { id: 'o', key: 'operation:a/b' }
      const goOn = (isTask?: true) =>
        one.call({ client: plain, slots: operationSlot.put({ ...operation, ...(isTask && { isTask }) }) })
      const refused = { code: 'CONFIRMATION_REQUIRED', extra: { isUnsent: true } }
      await expect(goOn()).rejects.toMatchObject(refused)
      expect(await one.approvals.list()).toEqual([])
      await one.call({ client: plain })
      await one.approvals.decide(await pendingId(one), operator)
      await expect(goOn()).rejects.toMatchObject(refused)
      expect(one.served).toHaveLength(0)
      await goOn(true)
      expect(one.served).toHaveLength(1)
    },
  )

  it('an approval for the session covers further calls of the tool', async () => {
    const session = { ...plain, session: 's1' }
    const one = bench({ settings: { remember: { for: 600_000, max: 3, offer: true } } })
    await one.call({ client: session })
    const id = await pendingId(one)
    expect(await one.approvals.find(id)).toMatchObject({ offer: { for: 600_000, max: 3 } })
    await one.approvals.decide(id, { ...operator, remember: true })
    await one.call({ client: session })
    await one.call({ client: session }, { repo: 'another' })
    expect(one.served).toHaveLength(2)
    await one.call({ client: { ...session, session: 's2' } })
    expect(one.served).toHaveLength(2)
  })

  it('an approval for the session is refused if it is not offered', async () => {
    const one = bench()
    await one.call({ client: plain })
    const decision = { ...operator, remember: true } as const
    await expect(one.approvals.decide(await pendingId(one), decision)).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      extra: { field: 'remember' },
    })
  })

  it('an approval does not cover another call or another caller', async () => {
    const one = bench()
    await one.call({ client: plain })
    await one.approvals.decide(await pendingId(one), operator)
    await one.call({ client: plain }, { owner: 'octo', repo: 'production-db' })
    await one.call({ client: plain, principal: { id: 'other' } })
    expect(one.served).toHaveLength(0)
  })

  it('a call with changed arguments continues with them when its server requests input', async () => {
    let rounds = 0
    const ask: Outcome = { kind: 'input_required', inputRequests: {}, requestState: { upstream: 'more' } }
    const one = bench({
      serve: async () => (rounds++ === 0 ? ask : { kind: 'result', result: Payload.of({ content: [] }) }),
    })
    const args = { owner: 'octo', repo: 'test-repo', id: 7 }
    await one.call({ client: plain }, args)
    const id = await pendingId(one)
    expect(await one.approvals.find(id)).toMatchObject({ editable: ['owner', 'repo', 'id'] })
    await one.approvals.decide(id, { ...operator, edited: { id: '9007199254740993' } })
    const { requestState } = asked(await one.call({ client: plain }, args))
    const last = await one.call({ client: plain, requestState }, args)
    expect(text(last)).toContain('id is 9007199254740993')
    const sent = one.served.map(({ params }) => params.at('arguments')?.text)
    const changed = '{"owner":"octo","repo":"test-repo","id":9007199254740993}'
    expect(sent).toEqual([changed, changed])
    expect(one.served[1]?.requestState).toEqual({ upstream: 'more' })
    await expect(one.call({ client: plain, requestState }, args)).rejects.toMatchObject({
      code: 'CONFIRMATION_TOKEN_INVALID',
    })
  })

  it('only arguments that may be changed are', async () => {
    const one = bench()
    await one.call({ client: plain })
    const decision = { ...operator, edited: { other: '1' } }
    await expect(one.approvals.decide(await pendingId(one), decision)).rejects.toMatchObject({
      code: 'INVALID_INPUT',
    })
  })

  it('a denial is reported once, with its reason', async () => {
    const one = bench()
    await one.call({ client: plain })
    await one.approvals.decide(await pendingId(one), { ...operator, verdict: 'denied', reason: 'not today' })
    const logFields = new Map<string, unknown>()
    const refused = one.call({ client: plain, logFields })
    await expect(refused).rejects.toMatchObject({
      code: 'CONFIRMATION_DECLINED',
      extra: { reason: 'denied' },
    })
    await expect(refused).rejects.toThrow('“not today”')
    expect(logFields.get('declined_by')).toBe('root')
    expect(fieldsOf(await one.call({ client: plain }))['status']).toBe('confirmation_required')
  })

  it.each(['page', 'two_step'] as const)(
    'a call with its confirmation token runs once: %s',
    async (fallback) => {
      const one = bench({ settings: { fallback } })
      const token = tokenOf(await one.call({ client: plain }))
      const meta = { user_confirmed: true, confirmation_token: token }
      expect(fieldsOf(await one.call(host(meta)))['isError']).toBeUndefined()
      expect(one.served[0]?.meta).toEqual({})
      expect(one.served[0]?.params.fields['_meta']).toBeUndefined()
      expect(one.signed[0]).toMatchObject({ by: ['agent'], via: ['confirmation_token'] })
      const again = fieldsOf(await one.call(host(meta)))
      expect(again).toMatchObject({ error: { code: 'CONFIRMATION_TOKEN_INVALID' }, isError: true })
      expect(again['confirmation_token']).not.toBe(token)
      expect(one.served).toHaveLength(1)
    },
  )

  it('no page is named if only the host can confirm', async () => {
    const outcome = await bench({ settings: { fallback: 'two_step' } }).call({ client: plain })
    expect(text(outcome)).not.toMatch(/confirm\/|gatehouse approvals/)
  })

  it.each([
    ['a flag alone', { user_confirmed: true }],
    ['a flag and a made-up token', { user_confirmed: true, confirmation_token: 'f'.repeat(32) }],
    [
      "the gateway's own metadata names",
      { 'dev.gatehouse/user_confirmed': true, 'dev.gatehouse/confirmation_token': '' },
    ],
  ])('a call with %s does not run', async (_what, meta) => {
    const one = bench()
    await one.call({ client: plain })
    expect(fieldsOf(await one.call(host(meta)))['status']).toBe('confirmation_required')
    expect(one.served).toHaveLength(0)
  })

  it('the id of the approval is not accepted as confirmation token', async () => {
    const one = bench()
    await one.call({ client: plain })
    const meta = { user_confirmed: true, confirmation_token: await pendingId(one) }
    expect(fieldsOf(await one.call(host(meta)))).toMatchObject({ isError: true })
    expect(one.served).toHaveLength(0)
  })

  it('the confirmation token is valid for the same arguments and caller only', async () => {
    const one = bench()
    const token = tokenOf(await one.call({ client: plain }))
    const meta = { user_confirmed: true, confirmation_token: token }
    await one.call(host(meta, { owner: 'octo', repo: 'production-db' }))
    await one.call({ ...host(meta), principal: { id: 'other' } })
    expect(one.served).toHaveLength(0)
  })

  it('a confirmation flag in the arguments remains an argument', async () => {
    const one = bench()
    const args = { repo: 'a', user_confirmed: true, confirmation_token: 'x' }
    expect(fieldsOf(await one.call({ client: plain }, args))['parameters']).toEqual(args)
    expect(one.served).toHaveLength(0)
  })

  it('a refusal with the confirmation token declines the call', async () => {
    const one = bench()
    const token = tokenOf(await one.call({ client: plain }))
    const meta = { user_confirmed: false, confirmation_token: token }
    await expect(one.call(host(meta))).rejects.toMatchObject({ code: 'CONFIRMATION_DECLINED' })
    const yes = { user_confirmed: true, confirmation_token: token }
    expect(fieldsOf(await one.call(host(yes)))).toMatchObject({ isError: true })
    expect(one.served).toHaveLength(0)
  })

  it('a call with a bare confirmation flag runs only if configured', async () => {
    const one = bench({ settings: { accept_bare_flag: true } })
    await one.call(host({ user_confirmed: true }))
    expect(one.served).toHaveLength(1)
  })

  it('models receive the confirmation token only if they are trusted and can use it', async () => {
    const trusted = { model_may_confirm: true }
    const own = { name: TOOL, inputSchema: { properties: { _confirmation_token: {} } } }
    const text = async (one: Bench): Promise<string> => {
      const { content } = fieldsOf(await one.call({ client: plain }))
      return JSON.stringify(content)
    }
    expect(bench({ settings: trusted }).told).toEqual(['_confirmation_token'])
    expect(await text(bench({ settings: trusted }))).toContain('`_confirmation_token`')
    expect(bench().told).toEqual([])
    expect(await text(bench())).not.toContain('_confirmation_token')
    expect(bench({ settings: { ...trusted, fallback: 'deny' } }).told).toEqual([])
    expect(bench({ settings: trusted, tool: { approval: 'out_of_band' } }).told).toEqual([])
    expect(bench({ settings: trusted, risk: 'safe' }).told).toEqual([])
    expect(await text(bench({ settings: trusted, definition: own }))).not.toContain('_confirmation_token')
    const off = { isOn: (name: string) => name !== 'inject_arguments' }
    expect(await text(bench({ settings: trusted, deps: off }))).not.toContain('_confirmation_token')
    // A bare flag is never described to models.
    expect(bench({ settings: { accept_bare_flag: true } }).told).toEqual([])
  })

  it.each([{ user_confirmed: 'yes' }, { confirmation_token: 1 }])(
    'the invalid confirmation %j is refused',
    async (meta) => {
      await expect(bench().call(host(meta))).rejects.toMatchObject({ code: 'INVALID_INPUT' })
    },
  )

  it('a call is refused if the fallback is deny or there is no way to approve it', async () => {
    const nowhere = { page: () => undefined, isStoreShared: false }
    for (const one of [bench({ settings: { fallback: 'deny' } }), bench({ deps: nowhere })]) {
      await expect(one.call({ client: plain })).rejects.toMatchObject({
        code: 'CONFIRMATION_REQUIRED',
        extra: { suggestion: 'Use a client that supports elicitation.' },
        // Error messages are logged.
        message: expect.not.stringContaining('test-repo'),
      })
    }
  })

  it('a repeated confirmation request is logged once', async () => {
    const info = vi.fn<Log['info']>()
    const { call } = bench({ deps: { log: { ...silentLog, info } } })
    for (let times = 0; times < 3; times++) await call({ client: plain })
    const url = expect.stringMatching(/^http:\/\/127\.0\.0\.1:8900\/confirm\/[\da-f]{32}$/)
    expect(info.mock.calls).toEqual([['confirm.requested', expect.objectContaining({ tool: TOOL, url })]])
  })

  it('the result names the available way to approve: a page or a command', async () => {
    const command = await bench({ deps: { page: () => undefined } }).call({ client: plain })
    expect(text(command)).toContain('in a terminal, with the command and the code')
    expect(text(command)).not.toContain('http')
    const named = await bench({ tool: { approvers: ['user:anna'] } }).call({ client: plain })
    expect(text(named)).toContain('http')
    expect(text(named)).not.toContain('gatehouse approvals')
    const page = await bench({ deps: { isStoreShared: false } }).call({ client: plain })
    expect(text(page)).not.toContain('gatehouse approvals')
  })
})

describe('approval by people other than the caller', () => {
  const tool = { approval: 'out_of_band', approvals: 2 } as const

  it('the configured number of approvals is required, and the caller receives no token', async () => {
    const one = bench({ tool })
    const outcome = await one.call({ client: plain })
    expect(text(outcome)).toContain('It needs the approval of 2 people other than the caller')
    expect(tokenOf(outcome)).toBeUndefined()
    const id = await pendingId(one)
    await one.approvals.decide(id, operator)
    await one.call({ client: plain })
    expect(one.served).toHaveLength(0)
    await one.approvals.decide(id, ada)
    await one.call({ client: plain })
    expect(one.served).toHaveLength(1)
    expect(one.signed[0]).toMatchObject({ by: ['root', 'ada'], via: ['command_line', 'password'] })
  })

  it('approval by others is required even if the client supports elicitation', async () => {
    const one = bench({ tool })
    expect(
      (await one.call({ client: { ...modern, capabilities: { elicitation: { form: {} } } } })).kind,
    ).toBe('result')
  })

  it('a client with URL elicitation receives the page, and the call then waits for the approval', async () => {
    const one = bench({ tool: { approval: 'out_of_band' } })
    const first = asked(await one.call())
    const id = await pendingId(one)
    expect(question(first)).toMatchObject({ mode: 'url', url: `http://127.0.0.1:8900/confirm/${id}` })
    const second = await one.call({ requestState: first.requestState, inputResponses: says('accept') })
    expect(fieldsOf(second)['status']).toBe('confirmation_required')
    await one.approvals.decide(id, ada)
    await one.call({ requestState: first.requestState, inputResponses: says('accept') })
    expect(one.served).toHaveLength(1)
  })

  it.each([
    ['nothing', {}],
    ['an error', { confirm: { error: Payload.of({ code: -32603, message: 'no' }) } }],
  ])(
    'the approval remains pending if the client answers the page request with %s',
    async (_what, answers) => {
      const one = bench({ tool: { approval: 'out_of_band' } })
      const { requestState: state } = asked(await one.call())
      expect(fieldsOf(await one.call({ requestState: state, inputResponses: answers }))['status']).toBe(
        'confirmation_required',
      )
      await one.approvals.decide(await pendingId(one), ada)
      await one.call({ requestState: state, inputResponses: answers })
      expect(one.served).toHaveLength(1)
    },
  )

  it('the call is declined if the person at the client declines', async () => {
    const one = bench({ tool: { approval: 'out_of_band' } })
    const { requestState: state } = asked(await one.call())
    await expect(one.call({ requestState: state, inputResponses: says('decline') })).rejects.toMatchObject({
      code: 'CONFIRMATION_DECLINED',
    })
  })

  describe('a call waiting for approval', () => {
    beforeEach(
      () => void vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance', 'Date'] }),
    )
    afterEach(() => void vi.useRealTimers())
    const waiting = { tool: { approval: 'out_of_band' }, settings: { wait: 45_000 } } as const
    const store = (): { store: MemoryStore } => ({ store: new MemoryStore(Date.now) })

    async function soon(one: Bench): Promise<string> {
      for (let turn = 0; turn < 50; turn++) await Promise.resolve()
      return pendingId(one)
    }

    it('a closing gateway answers the waiting call', async () => {
      const one = bench({ ...waiting, deps: store() })
      const answer = one.call({ client: plain })
      await soon(one)
      await one.close()
      expect(fieldsOf(await answer)['status']).toBe('confirmation_required')
    })

    it('an approval lets the call run, and its deadline is paused while it waits', async () => {
      const one = bench({ ...waiting, deps: store() })
      const rests: string[] = []
      const rest = (): (() => void) => {
        rests.push('begins')
        return () => void rests.push('ends')
      }
      const outcome = one.call({
        client: plain,
        slots: deadlineSlot.put({ pause: rest, renew: () => undefined }),
      })
      const id = await soon(one)
      await vi.advanceTimersByTimeAsync(5000)
      expect(one.served).toHaveLength(0)
      expect(rests).toEqual(['begins'])
      await one.approvals.decide(id, ada)
      await vi.advanceTimersByTimeAsync(400)
      expect(fieldsOf(await outcome)['isError']).toBeUndefined()
      expect(rests).toEqual(['begins', 'ends'])
      expect(vi.getTimerCount()).toBe(0)
    })

    it('a denial ends the call', async () => {
      const one = bench({ ...waiting, deps: store() })
      const outcome = one.call({ client: plain })
      outcome.catch(() => undefined)
      await one.approvals.decide(await soon(one), { ...ada, verdict: 'denied' })
      await vi.advanceTimersByTimeAsync(400)
      await expect(outcome).rejects.toMatchObject({ code: 'CONFIRMATION_DECLINED' })
    })

    it('an approval lets one of two equal calls run', async () => {
      const one = bench({ ...waiting, deps: store() })
      const both = [one.call({ client: plain }), one.call({ client: plain })]
      await one.approvals.decide(await soon(one), ada)
      await vi.advanceTimersByTimeAsync(400)
      await Promise.all(both)
      expect(one.served).toHaveLength(1)
    })

    it('a call is answered before its client times out and can be approved later', async () => {
      const one = bench({ ...waiting, deps: store() })
      const outcome = one.call({ client: plain })
      const id = await soon(one)
      await vi.advanceTimersByTimeAsync(45_400)
      expect(fieldsOf(await outcome)['status']).toBe('confirmation_required')
      await one.approvals.decide(id, ada)
      await one.call({ client: plain })
      expect(one.served).toHaveLength(1)
    })

    it('an approval remains possible after the client disconnects, and no timer is left', async () => {
      const one = bench({ ...waiting, deps: store() })
      const controller = new AbortController()
      const outcome = one.call({ client: plain, signal: controller.signal })
      outcome.catch(() => undefined)
      const id = await soon(one)
      controller.abort(new Error('gone'))
      await expect(outcome).rejects.toThrow('gone')
      expect(vi.getTimerCount()).toBe(0)
      expect(await one.approvals.find(id)).toMatchObject({ status: 'pending' })
    })

    it('a waiting call sends progress, which the progress of the server continues', async () => {
      const notes: Notification[] = []
      const one = bench({
        ...waiting,
        deps: store(),
        serve: async (call) => {
          for (const progress of [0, 1])
            call.emit({ method: 'notifications/progress', params: Payload.of({ progress }) })
          return { kind: 'result', result: Payload.of({ content: [] }) }
        },
      })
      const params = { name: 'delete_repo', arguments: {}, _meta: { progressToken: 7 } }
      const outcome = one.call({
        client: plain,
        params: Payload.of(params),
        emit: (note) => void notes.push(note),
      })
      const id = await soon(one)
      await vi.advanceTimersByTimeAsync(25_000)
      await one.approvals.decide(id, ada)
      await vi.advanceTimersByTimeAsync(400)
      await outcome
      const all = notes.map(({ params: each }) => Number(each?.fields['progress']))
      expect(all).toHaveLength(6)
      expect(all).toEqual(all.toSorted((a, b) => a - b))
      expect(JSON.parse(notes[0]?.params?.text ?? '')).toMatchObject({
        progressToken: 7,
        message: `Waiting for approval of delete_repo: approve or deny it at http://127.0.0.1:8900/confirm/${id}.`,
      })
    })

    it('the number of waiting calls per caller is limited', async () => {
      const one = bench({ ...waiting, settings: { wait: 45_000 }, deps: store() })
      const all = Array.from({ length: 251 }, () => one.call({ client: plain, principal: agent }))
      const first = await Promise.race(all)
      expect(fieldsOf(first)['status']).toBe('confirmation_required')
      await vi.advanceTimersByTimeAsync(45_400)
      await Promise.all(all)
    })
  })
})
