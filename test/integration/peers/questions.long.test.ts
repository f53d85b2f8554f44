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

describe.each(meetings)('a client of the $title, asked by $server', ({ server, transport, connect }) => {
  let client: PeerClient
  beforeAll(async () => {
    client = await connect(house.way(transport, server))
  })
  afterAll(() => client.close())
  const asked = (): readonly string[] => client.asked.filter((method) => method !== 'roots/list')

  it('answers a sampling request', async () => {
    const { text } = await client.call('trigger-sampling-request', { prompt: 'What is it?' })
    expect(text).toContain('forty-two')
    expect(asked().at(-1)).toBe('sampling/createMessage')
  })

  it('answers a form elicitation', async () => {
    const { text } = await client.call('trigger-elicitation-request')
    expect(text).toContain('- Name: Ada')
    expect(text).toContain('- Agreed to terms: true')
    expect(asked().at(-1)).toBe('elicitation/create')
  })

  it('answers a URL elicitation', async () => {
    const { text } = await client.call('trigger-url-elicitation', {
      url: 'https://example.com/',
      message: 'Sign in',
    })
    expect(text).toContain('User completed the URL elicitation flow')
  })

  it('lists its roots', async () => {
    const { text } = await client.call('get-roots-list')
    expect(text).toContain('file:///srv/project')
  })

  it('answers a question of one call while it makes others', async () => {
    const [sampled, form, echo] = await Promise.all([
      client.call('trigger-sampling-request', { prompt: 'Together' }),
      client.call('trigger-elicitation-request'),
      client.call('echo', { message: 'beside' }),
    ])
    expect(sampled.text).toContain('forty-two')
    expect(form.text).toContain('- Name: Ada')
    expect(echo.text).toBe('Echo: beside')
  })
})

describe.each(meetings.filter(isLegacy))('a client of the $title, in a session with $server', (meeting) => {
  const { server, transport, connect } = meeting
  let client: PeerClient
  beforeAll(async () => {
    client = await connect(house.way(transport, server))
  })
  afterAll(() => client.close())

  it('is asked for its roots, and again after they changed', async () => {
    const roots = async (): Promise<string> => (await client.call('get-roots-list')).text
    expect(await roots()).toContain('file:///srv/project')
    expect(client.asked).toEqual(['roots/list'])
    await client.move('file:///srv/elsewhere')
    await until(async () => (await roots()).includes('file:///srv/elsewhere'), 'the other roots')
  })

  it('receives an error that names the URL to open first', async () => {
    const args = { url: 'https://example.com/before', errorPath: true }
    await expect(client.call('trigger-url-elicitation', args)).rejects.toMatchObject({ code: -32042 })
  })
})

describe.each(meetings.filter((meeting) => !isLegacy(meeting)))(
  'a client of the $title and $server',
  (meeting) => {
    const { title, server, transport, connect } = meeting

    it('opens the URL that the server names in an error, and repeats the call', async () => {
      const client = await connect(house.way(transport, server))
      const url = `https://example.com/${encodeURIComponent(title)}`
      const { text } = await client.call('trigger-url-elicitation', { url, errorPath: true })
      expect(text).toContain('User completed the URL elicitation flow')
      const asked = client.asked.filter((method) => method !== 'roots/list')
      expect(asked).toEqual(['elicitation/create', 'elicitation/create'])
      await client.close()
    })
  },
)

function isLegacy({ era }: PeerKind): boolean {
  return era === 'legacy'
}
