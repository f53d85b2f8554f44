import { join } from 'node:path'
import type { FakeClient } from './fake-client.ts'
import { isObject, type Json } from './server/json.ts'

/** What a client asks for at an endpoint, by the path of the endpoint. */
interface Tour {
  readonly client: FakeClient
  /** The name of the server, or nothing at the endpoint of all. */
  readonly server: string | undefined
  /** The folder server-filesystem serves. */
  readonly folder: string
}

/** Asks for everything there is at an endpoint, and for much that there is not. */
export async function tour({ client, server, folder }: Tour): Promise<void> {
  await browse(client)
  await ask(client, unknown)
  if (server === undefined) await useOwn(client, folder)
  else if (server === 'files') await useFiles(client, folder)
  else if (server === 'memory') await call(client, 'read_graph', {}, { _meta: wanted })
  else if (server === 'everything') await callAll(client, tools.everything)
  else if (server.startsWith('fake')) await useFake(client)
}

const wanted = { 'dev.gatehouse/intent': 'find somebody' }

type Ask = readonly [method: string, params?: Json]

/** Lists everything, gets every prompt, reads every resource, and completes an argument of each. */
async function browse(client: FakeClient): Promise<void> {
  await all(client, 'tools/list', 'tools')
  const prompts = await all(client, 'prompts/list', 'prompts')
  const resources = await all(client, 'resources/list', 'resources')
  const templates = await all(client, 'resources/templates/list', 'resourceTemplates')
  const complete = (ref: Json, name: unknown): Ask => [
    'completion/complete',
    { ref, argument: { name, value: '' } },
  ]
  await ask(client, [
    ...prompts.flatMap(({ name, arguments: listed }): Ask[] => {
      const args: readonly Json[] = Array.isArray(listed) ? listed.filter(isObject) : []
      const given = Object.fromEntries(args.map((each) => [String(each['name']), 'Paris']))
      const [first] = Object.keys(given)
      return [
        ['prompts/get', { name, arguments: given }],
        ...(first === undefined ? [] : [complete({ type: 'ref/prompt', name }, first)]),
      ]
    }),
    ...resources.map(({ uri }): Ask => ['resources/read', { uri }]),
    ...templates.map(({ uriTemplate }) => complete({ type: 'ref/resource', uri: uriTemplate }, 'id')),
    ...(client.traits.modern ? [] : ([['ping'], ['logging/setLevel', { level: 'debug' }]] as const)),
  ])
}

/** Requests for what is not there, and of methods that are no part of the protocol. */
const unknown: readonly Ask[] = [
  ['tools/call', { name: 'nothing_like_it', arguments: {} }],
  ['prompts/get', { name: 'nothing_like_it' }],
  ['resources/read', { uri: 'nothing://like/it' }],
  ['tools/list', { cursor: 'made up' }],
  ['vendor/unknown', {}],
  ['skills/list', {}],
  ['ai_help', {}],
  ['servers/recommend', { capability_needed: 'wiki' }],
  ['permissions/check', { tool: 'read_text_file' }],
]

/** Uses what the gateway has itself. */
async function useOwn(client: FakeClient, folder: string): Promise<void> {
  await callAll(client, tools.own)
  const id = `tour-of-${client.traits.revision}`
  const step = { _meta: { 'dev.gatehouse/transaction_id': id } }
  await call(client, 'begin_transaction', { transaction_id: id })
  const path = join(folder, `step-of-${client.traits.revision}`)
  await call(client, 'files_create_directory', { path }, step)
  await callAll(client, [
    ['get_transaction', { transaction_id: id }],
    ['rollback_transaction', { transaction_id: id }],
    ['commit_transaction', { transaction_id: 'nobody-began-it' }],
  ])
}

/** Makes calls whose results are kept, shortened, masked, refused, signed, and asked about. */
async function useFiles(client: FakeClient, folder: string): Promise<void> {
  const { revision } = client.traits
  const at = (name: string): string => join(folder, name)
  const said = { 'dev.gatehouse/receipt': true, 'dev.gatehouse/intent': 'look into a folder' }
  const keyed = { _meta: { 'dev.gatehouse/idempotency_key': `key-of-${revision}` } }
  const path = at(`${revision}.txt`)
  await call(client, 'read_text_file', { path: at('masked.txt') }, { _meta: said })
  for (const content of ['x', 'x', 'y']) await call(client, 'write_file', { path, content }, keyed)
  await callAll(client, [
    ['read_text_file', { path: at('large.txt') }],
    ['read_text_file', { path: at('missing.txt') }],
    ['read_text_file', { path: 5 }],
    ['read_file', { path }],
    ['read_media_file', { path: at('masked.txt') }],
    ['directory_tree', { path: folder }],
    ['directory_tree', { path: folder }],
    ['move_file', { source: path, destination: `${path}.moved` }],
  ])
}

/** Uses every tool of a fake server that answers, and waits for what it tells by itself. */
async function useFake(client: FakeClient): Promise<void> {
  await callAll(client, tools.fake)
  const heard = client.traits.modern ? client.listen(everyChange) : client
  if ('acknowledged' in heard) await heard.acknowledged
  else await client.subscribe('fake://watched')
  const changes = [
    'tools/list_changed',
    'prompts/list_changed',
    'resources/list_changed',
    'resources/updated',
  ]
  const told = changes.map((change) => heard.until(({ method }) => method === `notifications/${change}`))
  await call(client, 'change', { what: ['tools', 'prompts', 'resources', 'watched'] })
  await Promise.all(told)
  if ('acknowledged' in heard) await heard.close()
}

const everyChange = {
  toolsListChanged: true,
  promptsListChanged: true,
  resourcesListChanged: true,
  resourceSubscriptions: ['fake://watched'],
}

const tools = {
  own: [
    ['get_manifest'],
    ['ai_help'],
    ['ai_help', { section: 'nonsense' }],
    ['recommend_servers', { capability_needed: 'wiki' }],
    ['check_permissions', { tool: 'files_read_text_file' }],
    ['negotiate_scopes', { requested_scopes: ['read:files'] }],
  ],
  everything: [
    ['echo', { message: 'hello' }],
    ['get-annotated-message', { messageType: 'error', includeImage: true }],
    ['get-resource-links', { count: 2 }],
    ['get-resource-reference', {}],
    ['get-structured-content', { location: 'New York' }],
    ['get-tiny-image', {}],
    ['get-sum', { a: 1, b: 2 }],
    ['trigger-long-running-operation', { duration: 0.1, steps: 2 }],
    ['trigger-elicitation-request', {}],
    ['trigger-sampling-request', { prompt: 'the capital of France', maxTokens: 5 }],
    ['get-roots-list', {}],
    // Runs as a task, of which the server tells on its own.
    ['simulate-research-query', { topic: 'gates' }],
  ],
  fake: [
    ...['echo', 'all_content', 'vendor', 'structured', 'structured_list', 'headers', 'fail', 'error'],
    ...['ask_form', 'ask_url', 'ask_sampling', 'ask_roots', 'ask_two', 'ask_parallel', 'ask_rounds'],
    'ask_later',
    'slow',
  ]
    .map((name): readonly [string, Json?] => [name, {}])
    .concat([
      ['log', { levels: ['debug', 'emergency'] }],
      ['big', { bytes: 250_000 }],
    ]),
} as const satisfies Readonly<Record<string, readonly (readonly [string, Json?])[]>>

async function callAll(client: FakeClient, calls: readonly (readonly [string, Json?])[]): Promise<void> {
  for (const [name, args] of calls) await call(client, name, args)
}

/** Calls a tool, and wants to hear of its progress. */
async function call(client: FakeClient, name: string, args: Json = {}, more: Json = {}): Promise<void> {
  const options = { onProgress: () => undefined }
  await client.request('tools/call', { name, arguments: args, ...more }, options)
}

async function ask(client: FakeClient, asks: readonly Ask[]): Promise<void> {
  for (const [method, params] of asks) await client.request(method, params)
}

/** The entries of all pages of a list. */
async function all(client: FakeClient, method: string, member: string): Promise<Json[]> {
  const found: Json[] = []
  let cursor: unknown
  do {
    const { result } = await client.request(method, cursor === undefined ? {} : { cursor })
    const items = result?.[member]
    if (Array.isArray(items)) found.push(...items.filter(isObject))
    cursor = result?.['nextCursor']
  } while (cursor !== undefined)
  return found
}
