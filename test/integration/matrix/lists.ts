// Lists of several pages, whose cursors each revision ends in its own way, and completions.
import { expect, it } from 'vitest'
import { type Kind, subject } from '../../support/matrix.ts'
import type { Meeting } from '../../support/meeting.ts'
import { promptEntries, resourceEntries, templateEntries, toolEntries } from '../../support/server/catalog.ts'
import { isObject, type Json } from '../../support/server/json.ts'
import type { ServerOptions } from '../../support/server/options.ts'
import { traitsOf } from '../../support/server/revisions.ts'
import { World } from '../../support/server/world.ts'

const pageSize = 3

/** A server whose lists have several pages. Older ones end them with an empty cursor, which newer clients would use. */
export function pagedServer({ revision }: Kind): Partial<ServerOptions> {
  return { pageSize, ttlMs: 5000, emptyLastCursor: !traitsOf(revision).modern }
}

export const lists = subject('matrix/lists', (meeting) => {
  const { client, server, kinds } = meeting
  const world = new World({ ...pagedServer(kinds.server), ...kinds.server })

  it('lists the tools page by page', async () => {
    const own = toolEntries(world).map((tool) => (client.modern ? tool : withObjectSchema(tool)))
    const expected = client.coreTasks
      ? own.map((tool) => ({ ...tool, execution: { taskSupport: 'optional' } }))
      : own
    expect(await walk(meeting, 'tools/list', 'tools', expected.length)).toEqual(expected)
  })

  it('lists the prompts page by page', async () => {
    expect(await walk(meeting, 'prompts/list', 'prompts', 3)).toEqual(promptEntries())
  })

  it('lists the resources page by page', async () => {
    const expected = resourceEntries(world)
    expect(await walk(meeting, 'resources/list', 'resources', expected.length)).toEqual(expected)
  })

  it('lists the resource templates', async () => {
    expect(await walk(meeting, 'resources/templates/list', 'resourceTemplates', 1)).toEqual(templateEntries())
  })

  it('refuses an unknown cursor', async () => {
    const reply = await meeting.request('tools/list', { cursor: 'after-nothing' })
    expect(reply.error).toMatchObject({ code: -32602 })
  })

  it('completes an argument, with the context of the others if both sides support it', async () => {
    const reply = await meeting.request('completion/complete', {
      ref: { type: 'ref/prompt', name: 'greet' },
      argument: { name: 'name', value: 'a' },
      ...(client.structured && { context: { arguments: { style: 'Anna' } } }),
    })
    const values = client.structured && server.structured ? ['Ada', 'Alan', 'Anna'] : ['Ada', 'Alan']
    expect(reply.result).toMatchObject({ completion: { values, total: values.length, hasMore: false } })
  })
})

/** All entries of a list, in at most as many pages as it has. */
async function walk(meeting: Meeting, method: string, member: string, size: number): Promise<unknown[]> {
  const entries: unknown[] = []
  let cursor: unknown
  for (let page = 0; page < Math.ceil(size / pageSize); page++) {
    const { result } = await meeting.request(method, cursor === undefined ? {} : { cursor })
    const list = result?.[member]
    expect(list).toBeInstanceOf(Array)
    if (Array.isArray(list)) entries.push(...list)
    cursor = result?.['nextCursor']
    if (meeting.client.modern) expect(result).toMatchObject({ ttlMs: meeting.server.modern ? 5000 : 0 })
  }
  expect(cursor).toBeUndefined()
  return entries
}

/** A tool as clients before 2026-07-28 know it: its structured content is an object. */
function withObjectSchema(tool: Json): Json {
  const { outputSchema } = tool
  if (!isObject(outputSchema) || outputSchema['type'] === 'object') return tool
  return {
    ...tool,
    outputSchema: { type: 'object', properties: { result: outputSchema }, required: ['result'] },
  }
}
