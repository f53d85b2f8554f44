import { scriptedServer, type ScriptedServer } from './scripted-server.ts'
import { type Json, objectAt } from './server/json.ts'

/** How many pages the tools have, and how many items each has. */
export const PAGES = 5
const PER_PAGE = 3

/** The ids of the items of some pages. */
export function idsOf(from = 0, to = PAGES): number[] {
  return Array.from({ length: (to - from) * PER_PAGE }, (_each, index) => from * PER_PAGE + index)
}

interface PagingServer extends ScriptedServer {
  /** The arguments of every call so far. */
  calls(): readonly Json[]
}

/** A server with tools that return pages: as structured content, as text, large ones, and one that writes. */
export async function pagingServer(largeBytes = 100_000): Promise<PagingServer> {
  const server = await scriptedServer(
    { tools: {} },
    {
      'tools/list': () => ({ tools }),
      'tools/call': ({ params }) => answer(String(params['name']), objectAt(params, 'arguments'), largeBytes),
    },
  )
  return Object.assign(server, {
    calls: () =>
      server.seen
        .filter(({ method }) => method === 'tools/call')
        .map((message) => objectAt(objectAt(message, 'params'), 'arguments')),
  })
}

const inputSchema = {
  type: 'object',
  properties: { cursor: { type: 'string' }, fail_at: { type: 'integer' }, mail: { type: 'boolean' } },
}
const outputSchema = {
  type: 'object',
  required: ['items'],
  properties: {
    items: { type: 'array', items: { type: 'object' } },
    nextCursor: { type: ['string', 'null'] },
  },
}
const annotations = { readOnlyHint: true }

const tools = [
  { name: 'list_items', description: 'Lists items.', inputSchema, outputSchema, annotations },
  { name: 'list_texts', description: 'Lists texts.', inputSchema, annotations },
  { name: 'list_large', description: 'Lists large items.', inputSchema, annotations },
  { name: 'delete_items', description: 'Deletes items, a page at a time.', inputSchema },
]

function answer(name: string, given: Json, largeBytes: number): Json {
  const page = Number(given['cursor'] ?? 0)
  if (page === given['fail_at'])
    return { content: [{ type: 'text', text: 'The index is being rebuilt.' }], isError: true }
  const ids = name === 'list_large' ? [page] : idsOf(page, page + 1)
  const items = ids.map((id) => ({
    id,
    ...(given['mail'] === true && { mail: `person${id}@example.com` }),
    ...(name === 'list_large' && { text: 'x'.repeat(largeBytes) }),
  }))
  const last = name === 'list_large' ? 100 : PAGES
  const document = { items, nextCursor: page + 1 < last ? String(page + 1) : null }
  const content = [{ type: 'text', text: JSON.stringify(document) }]
  return name === 'list_items' ? { content, structuredContent: document } : { content }
}
