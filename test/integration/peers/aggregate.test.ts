import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { until } from '../../support/condition.ts'
import type { PeerClient } from '../../support/peers/client.ts'
import { peerKinds } from '../../support/peers/clients.ts'
import { type House, openHouse } from '../../support/peers/house.ts'

// Each stdio client starts its own servers, so one of each era is enough.
const kinds = peerKinds.filter(({ title }) => !/\((legacy|auto)\) over stdio/.test(title))

let house: House
beforeAll(async () => {
  house = await openHouse(['everything', 'filesystem', 'memory', 'context7'])
})
afterAll(() => house.close())

describe.each(kinds)('a client of the $title of the aggregate endpoint', ({ transport, connect }) => {
  let client: PeerClient
  beforeAll(async () => {
    client = await connect(house.way(transport))
  })
  afterAll(() => client.close())

  it('sees the tools of every server, each prefixed with the name of its server', async () => {
    const some = ['everything_echo', 'filesystem_read_text_file', 'memory_read_graph', 'context7_query-docs']
    // A server that starts slowly is listed later.
    const tools = await until(async () => {
      const listed = await client.tools()
      return some.every((name) => listed.includes(name)) && listed
    }, 'the tools of every server')
    expect(new Set(tools).size).toBe(tools.length)
  })

  it('calls tools of different servers', async () => {
    const path = join(house.folder, 'note.txt')
    await writeFile(path, 'from a file')
    const [echo, file, graph] = await Promise.all([
      client.call('everything_echo', { message: 'hello' }),
      client.call('filesystem_read_text_file', { path }),
      client.call('memory_read_graph'),
    ])
    expect(echo.text).toBe('Echo: hello')
    expect(file.text).toBe('from a file')
    expect(graph.structured).toEqual({ entities: [], relations: [] })
  })

  it('calls tools by the names that they have on their server', async () => {
    expect((await client.call('echo', { message: 'without a prefix' })).text).toBe('Echo: without a prefix')
    expect((await client.call('read_graph')).structured).toEqual({ entities: [], relations: [] })
  })

  it('receives an error that names the unknown tool', async () => {
    await expect(client.call('no_such_tool')).rejects.toThrow(/Unknown tool: no_such_tool/)
  })

  it('gets prompts by their listed names, and completes their arguments', async () => {
    expect(await client.prompts()).toContain('everything_completable-prompt')
    expect(await client.prompt('everything_simple-prompt')).toBe('This is a simple prompt without arguments.')
    const reference = { type: 'ref/prompt', name: 'everything_completable-prompt' } as const
    expect(await client.complete(reference, { name: 'department', value: 'E' })).toEqual(['Engineering'])
  })

  it('reads every resource by its listed URI', async () => {
    const uris = await client.resources()
    expect(uris.length).toBeGreaterThanOrEqual(7)
    const contents = await Promise.all(uris.map((uri) => client.read(uri)))
    expect(contents).not.toContain('')
  })

  it('expands a listed template, and completes its arguments', async () => {
    const template = (await client.templates()).find((each) => each.includes('dynamic/text/'))
    expect(template).toMatch(/^everything\+/)
    const uri = template?.replace('{resourceId}', '3') ?? ''
    expect(await client.read(uri)).toContain('Resource 3')
    const reference = { type: 'ref/resource', uri: template ?? '' } as const
    expect(await client.complete(reference, { name: 'resourceId', value: '12' })).toEqual(['12'])
  })

  it('reads the resources that a tool result links to', async () => {
    const links = await client.links('everything_get-resource-links', { count: 2 })
    expect(links).toHaveLength(2)
    const contents = await Promise.all(links.map((uri) => client.read(uri)))
    expect(contents).not.toContain('')
  })

  it('receives updates under the URI it subscribed to', async () => {
    const uri = 'everything+demo://resource/dynamic/text/5'
    await client.subscribe(uri)
    await client.call('everything_toggle-subscriber-updates')
    const isUpdate = ({ method, params }: (typeof client.heard)[number]): boolean =>
      method === 'notifications/resources/updated' && params?.['uri'] === uri
    await until(() => client.heard.find(isUpdate), 'an update')
    await client.call('everything_toggle-subscriber-updates')
  })

  it('answers a question of one of the servers', async () => {
    const { text } = await client.call('everything_trigger-elicitation-request')
    expect(text).toContain('- Name: Ada')
  })
})
