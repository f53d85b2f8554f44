import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { PeerClient } from '../../support/peers/client.ts'
import { bothEras } from '../../support/peers/clients.ts'
import { type House, openHouse, type Server } from '../../support/peers/house.ts'

const everythings = ['everything', 'everything-http', 'everything-sse'] as const
const servers = [...everythings, 'filesystem', 'memory', 'thinking', 'context7'] as const

let house: House
beforeAll(async () => {
  house = await openHouse(servers)
})
afterAll(() => house.close())

describe.each(bothEras)('a client of the $title', ({ connect, era }) => {
  const opened: PeerClient[] = []
  const to = async (server: Server): Promise<PeerClient> => {
    const client = await connect(house.way('http', server))
    opened.push(client)
    return client
  }
  afterAll(() => Promise.all(opened.map((client) => client.close())))

  it.each(everythings)('uses %s', async (server) => {
    const client = await to(server)
    expect(await client.tools()).toEqual(expect.arrayContaining(['echo', 'trigger-sampling-request']))
    expect(await client.resources()).toHaveLength(7)
    expect(await client.call('get-sum', { a: 1, b: 2 })).toMatchObject({ text: 'The sum of 1 and 2 is 3.' })
    const steps: number[] = []
    await client.call('trigger-long-running-operation', { duration: 0.2, steps: 4 }, (step) =>
      steps.push(step),
    )
    expect(steps).toEqual([1, 2, 3, 4])
  })

  it('uses server-filesystem', async () => {
    const client = await to('filesystem')
    const tools = await client.tools()
    expect(tools).toHaveLength(14)
    const path = join(house.folder, `${era}.txt`)
    await writeFile(path, 'written beside the gateway\n')
    expect(await client.call('read_text_file', { path })).toMatchObject({
      text: 'written beside the gateway\n',
    })
    await client.call('edit_file', { path, edits: [{ oldText: 'beside', newText: 'behind' }] })
    expect((await client.call('read_text_file', { path })).text).toBe('written behind the gateway\n')
    expect((await client.call('list_directory', { path: house.folder })).text).toContain(`${era}.txt`)
    const refused = await client.call('read_text_file', { path: '/etc/hostname' })
    expect(refused).toMatchObject({ isError: true, text: expect.stringContaining('Access denied') })
  })

  it('uses server-memory', async () => {
    const client = await to('memory')
    expect(await client.tools()).toHaveLength(9)
    const name = `Ada of ${era} ${opened.length}`
    const entities = [{ name, entityType: 'person', observations: ['wrote the first program'] }]
    await client.call('create_entities', { entities })
    const { structured } = await client.call('open_nodes', { names: [name] })
    expect(structured).toEqual({ entities, relations: [] })
  })

  it('uses server-sequential-thinking', async () => {
    const client = await to('thinking')
    expect(await client.tools()).toEqual(['sequentialthinking'])
    const thought = { thought: 'Hm', nextThoughtNeeded: true, thoughtNumber: 1, totalThoughts: 2 }
    const { structured } = await client.call('sequentialthinking', thought)
    expect(structured).toMatchObject({ thoughtNumber: 1, totalThoughts: 2, nextThoughtNeeded: true })
  })

  it('lists the tools of context7, which speaks 2026-07-28', async () => {
    const client = await to('context7')
    expect(client.server).toBe('Context7')
    expect((await client.tools()).toSorted()).toEqual(['query-docs', 'resolve-library-id'])
  })
})
