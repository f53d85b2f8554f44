import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { until } from '../../support/condition.ts'
import type { PeerClient } from '../../support/peers/client.ts'
import { type PeerKind, peerKinds } from '../../support/peers/clients.ts'
import { type House, openHouse } from '../../support/peers/house.ts'

const servers = ['everything', 'everything-http', 'everything-sse'] as const
const meetings = peerKinds.flatMap((kind) => servers.map((server) => ({ ...kind, server })))

let house: House
beforeAll(async () => {
  house = await openHouse(servers, { roots: 'client', isolation: 'per_client' })
})
afterAll(() => house.close())

describe.each(meetings)('a client of the $title, asked by $server', (meeting) => {
  const { server, transport, connect } = meeting
  let client: PeerClient
  beforeAll(async () => {
    client = await connect(house.way(transport, server))
  })
  afterAll(() => client.close())
  const asked = (): readonly string[] => client.asked.filter((method) => method !== 'roots/list')

  it('lends its model', async () => {
    const { text } = await client.call('trigger-sampling-request', { prompt: 'What is it?' })
    expect(text).toContain('forty-two')
    expect(asked().at(-1)).toBe('sampling/createMessage')
  })

  it('fills in a form', async () => {
    const { text } = await client.call('trigger-elicitation-request')
    expect(text).toContain('- Name: Ada')
    expect(text).toContain('- Agreed to terms: true')
    expect(asked().at(-1)).toBe('elicitation/create')
  })

  it('opens a page', async () => {
    const { text } = await client.call('trigger-url-elicitation', { url: 'https://example.com/', message: 'Sign in' })
    expect(text).toContain('User completed the URL elicitation flow')
  })

  it('names its roots', async () => {
    const { text } = await client.call('get-roots-list')
    expect(text).toContain('file:///srv/project')
    if (!isModern(meeting)) expect(client.asked).toContain('roots/list')
  })

  it.runIf(!isModern(meeting))('is asked for its roots anew once they changed', async () => {
    await client.move('file:///srv/elsewhere')
    const roots = async (): Promise<string> => (await client.call('get-roots-list')).text
    await until(async () => (await roots()).includes('file:///srv/elsewhere'), 'the other roots')
  })

  it('is asked for one call while it makes others', async () => {
    const [sampled, form, echo] = await Promise.all([
      client.call('trigger-sampling-request', { prompt: 'Together' }),
      client.call('trigger-elicitation-request'),
      client.call('echo', { message: 'beside' }),
    ])
    expect(sampled.text).toContain('forty-two')
    expect(form.text).toContain('- Name: Ada')
    expect(echo.text).toBe('Echo: beside')
  })

  it.runIf(isModern(meeting))('opens the page a server names in an error, and calls again', async () => {
    const { text } = await client.call('trigger-url-elicitation', {
      url: 'https://example.com/before',
      errorPath: true,
    })
    expect(text).toContain('User completed the URL elicitation flow')
    expect(asked().slice(-2)).toEqual(['elicitation/create', 'elicitation/create'])
  })

  it.runIf(!isModern(meeting))('is told by an error which page to open first', async () => {
    const args = { url: `https://example.com/${server}`, errorPath: true, elicitationId: meeting.title }
    await expect(client.call('trigger-url-elicitation', args)).rejects.toMatchObject({ code: -32042 })
  })
})

function isModern({ era }: PeerKind): boolean {
  return era === 'modern'
}
