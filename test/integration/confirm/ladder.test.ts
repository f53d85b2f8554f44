import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { type Approving, approvingGateway, bearer, pageOf, peopleNamed } from '../../support/approving.ts'
import { auditLines } from '../../support/audit-lines.ts'
import { post } from '../../support/client/raw.ts'
import { until } from '../../support/condition.ts'
import {
  type Connect,
  type ConfirmingClient,
  connectModern,
  eras,
  type Person,
} from '../../support/peers/confirming.ts'

const agent = { authorization: `Bearer ${bearer.agent}` }
const other = {
  authorization: `Bearer ${bearer.other}`,
  accept: 'application/json',
  'content-type': 'application/json',
}
const rules = { approval: 'out_of_band' }
const patient = { auth: peopleNamed(), features: { confirm: { wait: '45s' } } }
const agrees: Person = () => ({ action: 'accept', content: { confirm: true } })

async function clientOf(
  { gateway }: Approving,
  connect: Connect,
  person?: Person,
): Promise<ConfirmingClient> {
  const client = await connect({ transport: 'http', url: gateway.url }, person, agent)
  onTestFinished(() => client.close())
  return client
}

/** The page of the latest approval request, once there is one. */
async function asked({ gateway }: Approving): Promise<string> {
  const { approval } = await gateway.logged(({ event, msg }) => (event ?? msg) === 'confirm.requested')
  return `${gateway.origin}/confirm/${String(approval)}`
}

async function decide(url: string, verdict: 'approved' | 'denied'): Promise<void> {
  expect((await post(url, JSON.stringify({ verdict }), other)).status).toBe(200)
}

describe.each(eras)('a client of the $title', ({ connect }) => {
  test('waits for an out-of-band approval, and runs the call once it is approved', async () => {
    const approving = await approvingGateway({ config: patient, rules })
    const client = await clientOf(approving, connect, agrees)
    const called = client.call('wipe', { disk: 'a' })
    await decide(await asked(approving), 'approved')
    expect((await called)['content']).toEqual([{ type: 'text', text: 'wiped' }])
    expect(client.asked).toEqual([])
    expect(approving.ran).toEqual([{ disk: 'a' }])
  })

  test('waits for an out-of-band approval, and receives the denial', async () => {
    const approving = await approvingGateway({ config: patient, rules })
    const client = await clientOf(approving, connect)
    const called = client.call('wipe', { disk: 'a' })
    await decide(await asked(approving), 'denied')
    expect(await called).toMatchObject({ isError: true, error: { code: 'CONFIRMATION_DECLINED' } })
    expect(approving.ran).toEqual([])
  })

  test('receives a response before its timeout, and repeats the call', async () => {
    const config = { auth: peopleNamed(), features: { confirm: { wait: '100ms' } } }
    const approving = await approvingGateway({ config, rules })
    const client = await clientOf(approving, connect)
    const url = pageOf(await client.call('wipe', { disk: 'a' }))
    await decide(url, 'approved')
    expect((await client.call('wipe', { disk: 'a' }))['isError']).not.toBe(true)
    expect(await client.call('wipe', { disk: 'a' })).toMatchObject({ isError: true })
    expect(approving.ran).toHaveLength(1)
  })

  test('without elicitation is refused in the corporate profile, and with it is asked to confirm', async () => {
    const approving = await approvingGateway({ config: { profile: 'corporate', auth: peopleNamed() } })
    const refused = await (await clientOf(approving, connect)).call('wipe', { disk: 'a' })
    expect(refused).toMatchObject({
      isError: true,
      error: { code: 'CONFIRMATION_REQUIRED', suggestion: 'Use a client that supports elicitation.' },
    })
    expect(JSON.stringify(refused)).not.toContain('/confirm/')
    const client = await clientOf(approving, connect, agrees)
    expect((await client.call('wipe', { disk: 'a' }))['isError']).not.toBe(true)
    expect(approving.ran).toHaveLength(1)
  })

  test('confirms once for several calls if that is configured', async () => {
    const approving = await approvingGateway({ rules: { remember: { for: '1m', max: 2 } } })
    const client = await clientOf(approving, connect, agrees)
    for (const disk of ['a', 'b', 'c']) await client.call('wipe', { disk })
    expect(client.asked).toHaveLength(2)
    expect(client.asked[0]?.['message']).toContain('Your approval applies to 2 calls')
    expect(approving.ran).toHaveLength(3)
  })
})

test('the audit log names the person who confirmed or declined a call', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'audit-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const file = join(folder, 'audit.jsonl')
  const approving = await approvingGateway({ config: { auth: peopleNamed(), observe: { audit: { file } } } })
  let isAgreed = false
  const client = await clientOf(approving, connectModern, () =>
    isAgreed ? agrees({}) : { action: 'decline' },
  )
  await client.call('wipe', { disk: 'a' })
  isAgreed = true
  await client.call('wipe', { disk: 'a' })
  const lines = () => auditLines(file).filter(({ event }) => event === 'call')
  const declined = await until(
    () => lines().find(({ declined_by: by }) => by !== undefined),
    'the declined call',
  )
  expect(declined).toMatchObject({ declined_by: 'token:agent', code: 'CONFIRMATION_DECLINED' })
  const done = await until(
    () => lines().find(({ approved_by: by }) => by !== undefined),
    'the confirmed call',
  )
  expect(done).toMatchObject({ approved_by: 'token:agent', outcome: 'ok' })
  expect(done['approval']).toMatch(/./)
})
