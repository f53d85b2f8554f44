import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { PeerClient } from '../../support/peers/client.ts'
import { peerKinds } from '../../support/peers/clients.ts'
import { type House, openHouse } from '../../support/peers/house.ts'

let house: House
beforeAll(async () => {
  house = await openHouse(['everything', 'everything-http'])
})
afterAll(() => house.close())

describe.each(peerKinds)('a client of the $title', ({ transport, connect }) => {
  let client: PeerClient
  beforeAll(async () => {
    client = await connect(house.way(transport, 'everything'))
  })
  afterAll(() => client.close())

  it('receives the name of the server', () => {
    expect(client.server).toBe('mcp-servers/everything')
  })

  it('lists everything', async () => {
    expect(await client.tools()).toEqual(
      expect.arrayContaining(['echo', 'get-sum', 'trigger-elicitation-request', 'trigger-sampling-request']),
    )
    expect(await client.prompts()).toEqual(expect.arrayContaining(['simple-prompt', 'completable-prompt']))
    expect(await client.resources()).toContain('demo://resource/static/document/features.md')
    expect(await client.templates()).toContain('demo://resource/dynamic/text/{resourceId}')
  })

  it('calls tools', async () => {
    expect(await client.call('echo', { message: 'grüß dich' })).toMatchObject({ text: 'Echo: grüß dich' })
    expect(await client.call('get-sum', { a: 2, b: 40 })).toMatchObject({
      text: 'The sum of 2 and 40 is 42.',
    })
  })

  it('gets structured content', async () => {
    const { structured } = await client.call('get-structured-content', { location: 'Chicago' })
    expect(structured).toEqual({ temperature: 36, conditions: 'Light rain / drizzle', humidity: 82 })
  })

  it('gets the error of a tool as a result', async () => {
    const called = await client.call('get-sum', { a: 'two', b: 40 })
    expect(called.isError).toBe(true)
    expect(called.text).toMatch(/Invalid arguments for tool get-sum.* at a/s)
  })

  it('gets the error of a request as an error', async () => {
    await expect(client.prompt('no-such-prompt')).rejects.toThrow(/no-such-prompt/)
    await expect(client.read('demo://resource/dynamic/text/none')).rejects.toThrow(/demo:/)
  })

  it('gets prompts and reads resources', async () => {
    expect(await client.prompt('simple-prompt')).toBe('This is a simple prompt without arguments.')
    expect(await client.read('demo://resource/dynamic/text/7')).toMatch(/^Resource 7: This is a plaintext/)
  })

  it('completes arguments, with other arguments as context', async () => {
    const prompt = { type: 'ref/prompt', name: 'completable-prompt' } as const
    expect(await client.complete(prompt, { name: 'department', value: 'S' })).toEqual(['Sales', 'Support'])
    expect(await client.complete(prompt, { name: 'name', value: '' }, { department: 'Sales' })).toEqual([
      'David',
      'Eve',
      'Frank',
    ])
  })

  it('receives the progress of a call, in order', async () => {
    const done: number[] = []
    const called = await client.call(
      'trigger-long-running-operation',
      { duration: 0.3, steps: 6 },
      (step) => {
        done.push(step)
      },
    )
    expect(called.text).toContain('Long running operation completed')
    expect(done).toEqual([1, 2, 3, 4, 5, 6].slice(0, done.length))
    // Even without a gateway, these clients drop progress that they read from stdio together with the response.
    expect(done.length).toBeGreaterThanOrEqual(transport === 'http' ? 6 : 3)
  })

  it('has calls of different duration in flight at once', async () => {
    const other = await connect(house.way(transport, 'everything-http'))
    const ended: string[] = []
    const slow = other.call('trigger-long-running-operation', { duration: 0.5, steps: 1 })
    const quick = other.call('echo', { message: 'quick' })
    await Promise.all([slow.then(() => ended.push('slow')), quick.then(() => ended.push('quick'))])
    expect(ended).toEqual(['quick', 'slow'])
    await other.close()
  })
})
