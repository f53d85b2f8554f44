/** The tools of the built-in server, and their configuration in a run. */
import { latestLegacy } from '../../protocol/revisions.ts'
import { self } from '../../core/identity.ts'
import type { ToolSettings, UpstreamSettings } from '../../core/settings.ts'
import type { Fields } from '../../core/payload.ts'

/** The names of the tools. */
export type ToolName =
  | 'get_echo'
  | 'get_limited'
  | 'get_metered'
  | 'get_status'
  | 'get_failure'
  | 'get_picture_size'
  | 'list_entries'
  | 'create_entry'
  | 'add_note'
  | 'delete_entry'

/** The name and version of the server. */
export const SERVER_INFO = { name: `${self.name}-conformance`, version: self.version }

const reading = { readOnlyHint: true, openWorldHint: false }
const writing = { readOnlyHint: false, destructiveHint: false, idempotentHint: false, openWorldHint: false }
const text = { type: 'string', description: 'A text.' }
const echo = { type: 'object', properties: { echo: { type: 'string' } }, required: ['echo'] }

/** The entries of `tools/list`. */
export const definitions: readonly (Fields & { readonly name: ToolName })[] = [
  {
    name: 'get_echo',
    description: 'Returns the text that it gets.',
    inputSchema: object({ text }, ['text']),
    outputSchema: echo,
    annotations: reading,
  },
  {
    name: 'get_limited',
    description: 'Returns the text that it gets, once a minute.',
    inputSchema: object({ text }, ['text']),
    annotations: reading,
  },
  {
    name: 'get_metered',
    description: 'Returns the text that it gets, for a price.',
    inputSchema: object({ text }, ['text']),
    annotations: reading,
  },
  {
    name: 'get_status',
    description: 'Returns a status after a number of steps.',
    inputSchema: object({ steps: { type: 'integer' }, milliseconds: { type: 'integer' } }, [
      'steps',
      'milliseconds',
    ]),
    annotations: reading,
  },
  {
    name: 'get_failure',
    description: 'Fails with a text.',
    inputSchema: object({ text }, ['text']),
    outputSchema: echo,
    annotations: reading,
  },
  {
    name: 'get_picture_size',
    description: 'Returns the size of a picture.',
    inputSchema: object({ image: { type: 'string', contentEncoding: 'base64' } }, ['image']),
    annotations: reading,
  },
  {
    name: 'list_entries',
    description: 'Lists numbered items in pages.',
    inputSchema: object({ cursor: { type: 'string', description: 'The nextCursor of the last page.' } }, []),
    annotations: reading,
  },
  {
    name: 'create_entry',
    description: 'Creates an entry with a text.',
    inputSchema: object({ text }, ['text']),
    annotations: writing,
  },
  {
    name: 'add_note',
    description: 'Adds a note.',
    inputSchema: object({ text }, ['text']),
    annotations: writing,
  },
  {
    name: 'delete_entry',
    description: 'Deletes an entry.',
    inputSchema: object({ id: { type: 'string' } }, ['id']),
    annotations: { ...writing, destructiveHint: true },
  },
]

function object(properties: Fields, required: readonly string[]): Fields {
  return { type: 'object', properties, required }
}

/** The price of a call of `get_metered`. */
export const PRICE = { units: 2, label: 'credits' }

/** The largest picture that `get_picture_size` accepts, in bytes. */
export const MAX_PICTURE_BYTES = 1024

/** The intent for which `get_echo` is the wrong tool, and the capability that another server has. */
export const OTHER_INTENT = 'conformance intent'
export const OTHER_CAPABILITY = 'conformance capability'

/** The server that is recommended for that capability. */
export const OTHER_SERVER = 'conformance-elsewhere'

const tools: Readonly<Partial<Record<ToolName, ToolSettings>>> = {
  get_limited: { rate: '1/minute' },
  get_metered: { cost: { category: 'metered', units: PRICE.units, label: PRICE.label } },
  // At once a task for clients with tasks.
  get_status: { latency: 'minutes' },
  get_picture_size: { maxInput: MAX_PICTURE_BYTES },
  create_entry: { op: 'write', risk: 'reversible', confirm: false, undo: 'delete_entry(id=$.result.id)' },
  add_note: { op: 'write', risk: 'reversible', confirm: false },
  delete_entry: { op: 'delete', risk: 'destructive', confirm: 'Delete entry {id}?' },
}

/** The settings of the built-in server, from those of a server that has only defaults. */
export function echoSettings(plain: UpstreamSettings, name: string): UpstreamSettings {
  return {
    ...plain,
    name,
    transport: 'stdio',
    revision: latestLegacy.name,
    isolation: 'shared',
    trust: true,
    tools,
    intent: [
      { when: OTHER_INTENT, on: 'get_echo', suggest: 'list_entries', reason: 'the check asks for it' },
    ],
    recommend: [{ capability: OTHER_CAPABILITY, server: OTHER_SERVER, confidence: 'high' }],
  }
}
