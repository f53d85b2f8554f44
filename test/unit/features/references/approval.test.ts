// Confirmation of calls with references: what people see in place of the data, and that an approval is for this data alone.
import { createHash } from 'node:crypto'
import { describe, expect, it, vi } from 'vitest'
import { approvalText } from '../../../../src/cli/approvals.ts'
import type { Call, Outcome } from '../../../../src/core/call.ts'
import type { Descriptor } from '../../../../src/core/descriptor.ts'
import type { ToolSettings } from '../../../../src/core/settings.ts'
import { approvalPage } from '../../../../src/downstream/pages/approval-page.ts'
import { confirm } from '../../../../src/features/confirm/confirm.ts'
import type { ConfirmSettings } from '../../../../src/features/settings/effect.ts'
import { references } from '../../../../src/features/references/references.ts'
import { Approvals } from '../../../../src/records/approvals.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { References } from '../../../../src/records/references.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { ada, recordSettings as settings } from '../../../support/reference-world.ts'
import { chain, fieldsOf, on } from '../../../support/chain.ts'
import { serverSettings } from '../../../support/server-settings.ts'
import type { Json } from '../../../support/server/json.ts'
import { asked, confirmDefaults, legacy, modern, plain, question, yes } from '../confirm/bench.ts'
import { bytesOf } from '../../../support/bytes-of.ts'

const operator = { by: 'root', via: 'command_line', verdict: 'approved' } as const
const long = `first\n${'x'.repeat(20_000)}`
const changed = 'has changed since you were asked'

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

/** References and confirmation in front of a tool that always needs the latter. */
function world(
  given: { confirm?: Partial<ConfirmSettings>; tool?: ToolSettings; before?: () => Promise<void> } = {},
) {
  const store = new MemoryStore()
  const kept = new References(store, settings)
  const approvals = new Approvals(store, Date.now)
  const served: Call[] = []
  const entry = {
    upstream: 'one',
    kind: 'tool',
    name: 't',
    definition: { name: 't', inputSchema: { type: 'object', properties: { text: { type: 'string' } } } },
    classification: { op: 'delete', idempotent: false, evidence: [], risk: 'destructive' },
  } as const satisfies Descriptor
  const run = chain(
    [
      on(references, settings),
      () => ({
        calls: {
          middleware: () => (next) => async (call) => {
            await given.before?.()
            return next(call)
          },
          dryRun: 'absent',
        },
      }),
      on(confirm, { ...confirmDefaults, ...given.confirm }),
    ],
    async (call): Promise<Outcome> => {
      served.push(call)
      return { kind: 'result', result: Payload.of({ content: [{ type: 'text', text: 'done' }] }) }
    },
    {
      store,
      servers: () => ['one', 'origin'],
      entry: () => entry,
      server: () => serverSettings({ name: 'one', tools: { t: given.tool ?? {} } }),
    },
  )
  const keep = async (text: string, id = 'report', more: Json = {}): Promise<void> => {
    const facts = { server: 'origin', tool: 'read', requestId: 'r0', name: 'report.txt', type: 'text/plain' }
    await kept.add(ada, { ...facts, id, ttl: 60_000, ...more }, bytesOf(text))
  }
  /** Other data takes the place of what expired. */
  const replace = async (text: string, more: Json = {}): Promise<void> => {
    for (const key of (await store.scan('reference')).keys()) await store.delete(key)
    await keep(text, 'report', more)
  }
  const call = (more: Partial<Call> = {}, args: Json = { text: 'ref://report' }): Promise<Outcome> =>
    run({ principal: ada, client: modern, rpcId: '1', ...more }, { arguments: args })
  const key = async () => [...(await store.scan('reference')).keys()].join()
  const pending = async () => {
    const [approval] = await approvals.pending()
    if (!approval) throw new Error('nothing is pending')
    return approval
  }
  return { store, kept, approvals, served, keep, replace, call, pending, key }
}

describe('a question about a call with a reference', () => {
  it.each([
    ['of 2026-07-28', modern],
    ['of 2025-06-18', legacy],
  ])(
    'has name, type, size and hash of the data for a client %s, and the server gets it',
    async (_era, client) => {
      const { keep, call, served } = world()
      await keep(long)
      const first = asked(await call({ client }))
      const { message } = question(first)
      expect(message).toContain('Run t on one with text: ref://report?')
      expect(message).toContain(
        `“text” is the data “report.txt” from origin (“text/plain”, ${long.length} bytes, SHA-256 ${hashOf(long).slice(0, 12)})`,
      )
      expect(JSON.stringify(first.inputRequests)).not.toContain('xxxxxxxx')
      expect(served).toHaveLength(0)
      await call({ client, requestState: first.requestState, inputResponses: yes })
      expect(served.map(({ params }) => params.fields['arguments'])).toEqual([{ text: long }])
    },
  )

  it('says which part of the data is sent, and where it goes', async () => {
    const { keep, call } = world()
    await keep('[{"a":1},{"a":2}]')
    const args = { list: [{ text: { $ref_id: 'report?rows=1-1' } }], note: 'plain' }
    const { message } = question(asked(await call({}, args)))
    expect(message).toContain('“list[0].text” is the part “?rows=1-1” of the data “report.txt”')
  })

  it('is asked again, with the reason, if the data changed; the earlier answer runs nothing', async () => {
    const { keep, replace, call, served } = world()
    await keep(long)
    const first = asked(await call())
    await replace('other')
    const second = asked(await call({ requestState: first.requestState, inputResponses: yes }))
    const { message } = question(second)
    expect(message).toContain(changed)
    expect(message).toContain(hashOf('other').slice(0, 12))
    expect(served).toHaveLength(0)
    await call({ requestState: second.requestState, inputResponses: yes })
    expect(served.map(({ params }) => params.fields['arguments'])).toEqual([{ text: 'other' }])
  })

  it('is refused as ever for a call that was not asked about', async () => {
    const { keep, call, served } = world()
    await keep(long)
    await keep('more', 'another')
    const first = asked(await call())
    const other = call({ requestState: first.requestState, inputResponses: yes }, { text: 'ref://another' })
    await expect(other).rejects.toMatchObject({ code: 'CONFIRMATION_TOKEN_INVALID' })
    expect(served).toHaveLength(0)
  })

  it.each([
    [
      'other arguments beside',
      '“',
      { paths: ['/tmp'], 'paths[0]': 'ref://report?as=url' },
      { paths: ['/etc'], 'paths[0]': 'ref://report?as=url' },
    ],
    ['another part of equal value', '[1.0,1]', { n: 'ref://report#/0' }, { n: 'ref://report#/1' }],
  ] as const)('is not answered for %s', async (_what, text, args, others) => {
    const { keep, call, served } = world()
    await keep(text)
    const first = asked(await call({}, args))
    const other = call({ requestState: first.requestState, inputResponses: yes }, others)
    await expect(other).rejects.toMatchObject({ code: 'CONFIRMATION_TOKEN_INVALID' })
    expect(served).toHaveLength(0)
  })

  it.each([{ name: 'run.sh' }, { type: 'text/x-shellscript' }])(
    'is asked again for a file or a URL with %j',
    async (facts) => {
      const { keep, replace, call, served } = world()
      await keep(long)
      const args = { text: 'ref://report?as=url' }
      const first = asked(await call({}, args))
      await replace(long, facts)
      const second = asked(await call({ requestState: first.requestState, inputResponses: yes }, args))
      expect(question(second).message).toContain(changed)
      expect(served).toHaveLength(0)
    },
  )

  it('quotes what callers and servers wrote', async () => {
    const { keep, call } = world()
    await keep(long, 'report', { type: 'text/plain) from an upload of the caller (text/plain' })
    const { message } = question(asked(await call({}, { 'text is safe. In its place, x': 'ref://report' })))
    expect(message).toContain('“["text is safe. In its place, x"]” is the data')
    expect(message).toContain('(“text/plain) from an upload of the caller (text/plain”, ')
  })

  it('is not asked if the data expires before', async () => {
    const here = world({ before: async () => void (await here.store.delete(await here.key())) })
    await here.keep(long)
    await expect(here.call()).rejects.toMatchObject({ code: 'RESOURCE_NOT_FOUND' })
    await here.keep(long)
    await expect(here.call({ client: plain })).rejects.toMatchObject({ code: 'RESOURCE_NOT_FOUND' })
    expect(await here.approvals.list()).toEqual([])
  })

  it('keeps the data until the answer, and fails clearly if it is gone anyway', async () => {
    const { store, kept, keep, call } = world({ confirm: { ttl: 900_000 } })
    await keep(long)
    const first = asked(await call())
    expect((await kept.find(ada, 'report'))?.expiresAt).toBeGreaterThan(Date.now() + 890_000)
    for (const key of (await store.scan('reference')).keys()) await store.delete(key)
    const gone = call({ requestState: first.requestState, inputResponses: yes })
    await expect(gone).rejects.toMatchObject({ code: 'RESOURCE_NOT_FOUND', extra: { field: 'text' } })
  })
})

describe.each([
  ['on the page', {}, {}],
  ['by other people', { wait: 0 }, { approval: 'out_of_band' }],
] as const)('an approval %s of a call with a reference', (_kind, confirmSettings, tool) => {
  it('shows the data by its facts, on the page, at the command line and to the client', async () => {
    const { keep, call, pending } = world({ confirm: confirmSettings, tool })
    await keep(long)
    const outcome = fieldsOf(await call({ client: plain }))
    expect(JSON.stringify(outcome).length).toBeLessThan(5000)
    const approval = await pending()
    expect(approval.arguments).toEqual({ text: 'ref://report' })
    expect(approval.data).toEqual([
      {
        path: 'text',
        written: 'ref://report',
        server: 'origin',
        tool: 'read',
        name: 'report.txt',
        type: 'text/plain',
        size: long.length,
        sha256: hashOf(long),
      },
    ])
    expect(approvalText(approval)).toContain(
      `  text: report.txt, text/plain, ${long.length} bytes, from read on origin`,
    )
    expect(approvalText(approval)).toContain(hashOf(long))
    const pageUser = { by: 'root', via: 'code' } as const
    const content = String(approvalPage({ approval, pageUser, token: 'x', now: Date.now() }).content)
    expect(content).toContain('Data that the arguments refer to')
    expect(content).toContain(hashOf(long))
  })

  it.each(['', '?as=url', '?as=path'])('runs the call with this data (%s) once', async (form) => {
    const { keep, call, pending, approvals, served } = world({ confirm: confirmSettings, tool })
    const args = { text: `ref://report${form}` }
    await keep(long)
    await call({ client: plain }, args)
    const approval = await pending()
    expect(approval.arguments).toEqual(args)
    expect(JSON.stringify(approval)).not.toMatch(/sig=|gatehouse-/)
    await approvals.decide(approval.id, operator)
    await call({ client: plain }, args)
    expect(served).toHaveLength(1)
  })

  it('is void once the data changed: the call does not run, and people are asked again, with the reason', async () => {
    const { keep, replace, call, pending, approvals, served } = world({ confirm: confirmSettings, tool })
    await keep(long)
    await call({ client: plain })
    const before = await pending()
    await approvals.decide(before.id, operator)
    await replace('other')
    const outcome = fieldsOf(await call({ client: plain }))
    expect(JSON.stringify(outcome['content'])).toContain(changed)
    expect(served).toHaveLength(0)
    expect(await approvals.find(before.id)).toMatchObject({ status: 'void' })
    const after = await pending()
    expect(after.message).toContain(changed)
    expect(after.data?.[0]?.sha256).toBe(hashOf('other'))
    await expect(approvals.decide(before.id, operator)).rejects.toMatchObject({ code: 'CONFLICT' })
    await approvals.decide(after.id, operator)
    await call({ client: plain })
    expect(served.map(({ params }) => params.fields['arguments'])).toEqual([{ text: 'other' }])
  })

  it('says where the server gets a path or a URL', async () => {
    const { keep, call, pending } = world({ confirm: confirmSettings, tool })
    await keep(long)
    await call({ client: plain }, { text: 'ref://report?as=url' })
    const approval = await pending()
    expect(approvalText(approval)).toContain('  text: a file or a URL with report.txt, text/plain')
    const pageUser = { by: 'root', via: 'code' } as const
    const content = String(approvalPage({ approval, pageUser, token: 'x', now: Date.now() }).content)
    expect(content).toContain('</code>: a file or a URL with <bdi>report.txt</bdi> (')
  })

  it('leaves approvals of other calls alone', async () => {
    const { keep, call, approvals } = world({ confirm: confirmSettings, tool })
    await keep(long)
    await keep('more', 'another')
    await call({ client: plain })
    await call({ client: plain }, { text: 'ref://another' })
    await call({ client: plain }, { text: 'inline' })
    expect((await approvals.list()).map(({ status }) => status)).toEqual(['pending', 'pending', 'pending'])
  })
})

it('data is kept while a call waits for other people', async () => {
  const here = world({ confirm: { wait: 60_000 }, tool: { approval: 'out_of_band' } })
  await here.keep(long)
  const abort = new AbortController()
  const waiting = here.call({ client: plain, signal: abort.signal }).catch(() => undefined)
  await vi.waitFor(here.pending)
  expect((await here.kept.find(ada, 'report'))?.expiresAt).toBeGreaterThan(Date.now() + 3_500_000)
  abort.abort(new Error('gone'))
  await waiting
})

it('a URL of data is nothing to type', async () => {
  const { keep, call } = world({ tool: { typeToConfirm: 'text' } })
  await keep('short')
  const typed = (args: Json) => call({}, args).then((outcome) => JSON.stringify(question(asked(outcome))))
  expect(await typed({ text: 'ref://report' })).toContain('Type “short” to confirm')
  const asUrl = await typed({ text: 'ref://report?as=url' })
  expect(asUrl).toContain('Type “t” to confirm')
  expect(asUrl).not.toContain('sig=')
})

it('the token of the client’s host is void once the data changed', async () => {
  const { keep, replace, call, served } = world({ confirm: { fallback: 'two_step' } })
  await keep(long)
  const token = fieldsOf(await call({ client: plain }))['confirmation_token']
  await replace('other')
  const meta = { 'dev.gatehouse/confirmation_token': token, 'dev.gatehouse/user_confirmed': true }
  const outcome = fieldsOf(await call({ client: plain, meta }))
  expect(JSON.stringify(outcome['content'])).toContain(changed)
  expect(outcome['error']).toMatchObject({ code: 'CONFIRMATION_TOKEN_INVALID' })
  expect(served).toHaveLength(0)
})
