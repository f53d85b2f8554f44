import type { Json } from './server/json.ts'

/** Settings of a gateway in which every feature is on and says all it can. */
export const everythingOn: Json = {
  meta_tools: 'listed',
  listen: { legacy_sse: 'on' },
  limits: { rate: '100000/minute', concurrency: 64, result: '200KB' },
  features: {
    agent_profile: 'on',
    structured_text: 'on',
    complete: 'on',
    manifest: { inline: '1MB' },
    cost: { budget: { units: 100_000, per: 'day', label: 'credits' } },
    provenance: { hash: 'on' },
    intent: { mode: 'advise', across: 'on' },
    mask: { rules: [{ pattern: 'xyzzy', replace: '***' }] },
    validate: { output: 'warn' },
    transactions: { uncompensable: 'allow' },
  },
}

/** What the owner of server-filesystem says, with a word for every kind there is. */
export const filesOfTheirOwner: Json = {
  about: 'Files of one folder.',
  use_when: ['read or write a file'],
  not_for: ['web pages'],
  intent: [{ when: 'folder', on: 'read_text_file', suggest: 'list_directory', reason: 'it is a folder' }],
  recommend: [{ capability: 'wiki', server: 'confluence', registry_url: 'https://catalog.example.com/c' }],
  tools: {
    read_text_file: {
      cost: '1 read credit',
      latency: 'instant',
      examples: [{ input: { path: 'a.txt' } }],
      errors: [{ code: 'NOT_FOUND', description: 'No such file.' }],
      provenance: { source: 'file:{path}' },
      rate: '1000/minute',
    },
    read_file: { deprecated: 'use read_text_file, support ends 2099-03-31' },
    move_file: { confirm: true },
    directory_tree: { rate: '1/hour' },
  },
}

/** What the owner of server-memory says: a call that fits another tool better is not made. */
export const memoryOfItsOwner: Json = {
  features: { intent: { mode: 'redirect' } },
  intent: [{ when: 'somebody', on: 'read_graph', suggest: 'search_nodes', reason: 'the graph is large' }],
}
