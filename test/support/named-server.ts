import { type Asked, type ScriptedServer, scriptedServer } from './scripted-server.ts'
import type { Json } from './server/json.ts'

/** What a named server offers. All of it can be changed while it runs. */
export interface Offered {
  readonly tools?: readonly (string | Json)[]
  readonly prompts?: readonly string[]
  readonly resources?: readonly string[]
  readonly templates?: readonly string[]
}

/** Members of every result of a tool. */
type ResultOf = (tool: string) => Json

/** A server whose answers say what was called, and on which server. */
export interface NamedServer extends ScriptedServer {
  /** The names and URIs of its calls, prompts and reads, in order. */
  readonly requested: readonly string[]
}

const inputSchema = { type: 'object', properties: { key: { type: 'string' } } }

/** Starts a server; `result` adds to the results of its tools. */
export async function namedServer(
  label: string,
  { tools = [], prompts = [], resources = [], templates = [] }: Offered,
  { result = () => ({}), extensions }: { readonly result?: ResultOf; readonly extensions?: Json } = {},
): Promise<NamedServer> {
  const requested: string[] = []
  const said = (what: unknown): string => {
    requested.push(String(what))
    return `${String(what)} of ${label}`
  }
  const capabilities = {
    tools: {},
    prompts: {},
    resources: { subscribe: true },
    completions: {},
    ...(extensions && { extensions }),
  }
  const server = await scriptedServer(capabilities, {
    'tools/list': () => ({
      tools: tools.map((each) => ({
        inputSchema,
        description: 'Returns what it is called.',
        annotations: { readOnlyHint: true },
        ...(typeof each === 'string' ? { name: each } : each),
      })),
    }),
    'tools/call': ({ params: { name } }: Asked) => ({
      content: [{ type: 'text', text: said(name) }],
      ...result(String(name)),
    }),
    'prompts/list': () => ({ prompts: prompts.map((name) => ({ name })) }),
    'prompts/get': ({ params: { name } }: Asked) => ({
      messages: [{ role: 'user', content: { type: 'text', text: said(name) } }],
    }),
    'resources/list': () => ({ resources: resources.map((uri) => ({ uri, name: uri })) }),
    'resources/templates/list': () => ({
      resourceTemplates: templates.map((uriTemplate) => ({ uriTemplate, name: uriTemplate })),
    }),
    'resources/read': ({ params: { uri } }: Asked) => ({ contents: [{ uri, text: said(uri) }] }),
    'resources/subscribe': ({ params: { uri } }: Asked) => {
      said(uri)
      return {}
    },
    'completion/complete': ({ params: { ref } }: Asked) => ({
      completion: { values: [said(Object.values(Object(ref)).at(-1))] },
    }),
  })
  return { ...server, url: server.url, seen: server.seen, open: server.open, requested }
}
