/**
 * Lists of tools that would take too many tokens: in their place, clients get `search_tools`, which finds tools by words, and
 * `call_tool`, which calls them. Invariant: `call_tool` is replaced by the call of the tool that it names before anything
 * else sees it, so permissions, confirmations, idempotency keys, limits, logs and records are those of that tool.
 */
import { type Call, type Handler, type Outcome } from '../core/call.ts'
import { invalidParam } from '../core/error.ts'
import { asObject, isObject } from '../core/json/json.ts'
import { Payload } from '../core/payload.ts'
import { CALL_TOOL, type ListSettings, SEARCH_TOOL } from '../core/settings.ts'
import { fits } from '../core/text/pattern.ts'
import { createRanking, type Described } from '../core/text/ranking.ts'
import { estimatedTokens } from '../core/text/words.ts'
import { listAllPages } from '../protocol/listing.ts'
import { type Answering, PREFIX } from './builtins.ts'
import { itemCall } from './listed-names.ts'

/** How many tools a search returns by default, and at most. */
const DEFAULT_RESULTS = 5
const MAX_RESULTS = 20
/** The size of a result in tokens beyond which further tools are returned without their schemas. */
const MAX_RESULT_TOKENS = 8000
/** How many names are returned if no tool matches. */
const MAX_NAMES = 100

/** What a search depends on. */
interface ToolLists {
  /** When the list that a call is about is replaced; undefined if it never is. */
  settings(call: Call): ListSettings | undefined
  /** Whether a server has the tool that a call names. */
  isTaken(call: Call): boolean | Promise<boolean>
  /** Lists all tools at the address of a call, for its caller. */
  readonly list: Handler
}

/** The search for the tools of one gateway. */
export class ToolSearch {
  readonly #lists: ToolLists
  /** The two tools as built-ins, for addresses where lists can be replaced. */
  readonly part: Answering

  constructor(lists: ToolLists) {
    this.#lists = lists
    this.part = {
      isOn: () => true,
      isKept: true,
      tools: [
        { definition: searchTool, isListed: false, handle: (call) => this.#search(call) },
        { definition: callTool, isListed: false, handle: async (call) => invalidCall(call) },
      ],
    }
  }

  /** Whether a tool of the gateway is one of the two, and exists at the address of a call. */
  has(call: Call, name: string): boolean | undefined {
    const isOwn = name === SEARCH_TOOL || name === CALL_TOOL
    return isOwn ? this.#lists.settings(call) !== undefined : undefined
  }

  /** Whether a call may be one of `call_tool`. */
  mayWrap({ method, target: { name } }: Call): boolean {
    return method === 'tools/call' && (name === CALL_TOOL || name === PREFIX + CALL_TOOL)
  }

  /** The call that one of `call_tool` stands for; the same call if it stands for none. */
  async unwrapped(call: Call): Promise<Call> {
    if (!this.#lists.settings(call) || (await this.#lists.isTaken(call))) return call
    const wrapped = call.params.at('arguments')
    if (!wrapped || problemOf(wrapped)) return call
    const inner = String(wrapped.fields.name)
    const params = call.params.with({ name: inner, arguments: wrapped.at('arguments') })
    return { ...call, params, target: { ...call.target, name: inner } }
  }

  /** The list that a call requests, or what takes its place. */
  async list(call: Call): Promise<Outcome> {
    const { list } = this.#lists
    const settings = call.internal ? undefined : this.#lists.settings(call)
    const outcome = await list(call)
    if (!settings || outcome.kind !== 'result') return outcome
    const { nextCursor } = outcome.result.fields
    const isPart = typeof nextCursor === 'string' || call.params.fields.cursor !== undefined
    const tools = isPart
      ? await listAllPages(list, call, 'tools/list')
      : (outcome.result.at('tools')?.items ?? [])
    const { budget = Number.POSITIVE_INFINITY, search, always } = settings
    if (search === 'auto' && tokensOf(tools) <= budget) return outcome
    const kept = tools.filter(({ fields: { name } }) => always.some((glob) => fits(glob, String(name))))
    const own = await Promise.all(
      [withCount(tools.length - kept.length), callTool].map((tool) => this.#named(call, tool)),
    )
    const entries = Payload.list([...own, ...kept])
    return { kind: 'result', result: outcome.result.with({ tools: entries, nextCursor: undefined }) }
  }

  async #named(call: Call, tool: Readonly<Record<string, unknown>>): Promise<Payload> {
    const name = String(tool.name)
    const { upstream } = call.target
    const isTaken = await this.#lists.isTaken(itemCall(call, 'tools/call', { upstream, name }))
    return Payload.of(isTaken ? { ...tool, name: PREFIX + name } : tool)
  }

  async #search(call: Call): Promise<Outcome> {
    const { query, limit = DEFAULT_RESULTS } = asObject(call.params.at('arguments')?.value)
    if (typeof query !== 'string' || query.trim() === '') throw invalidParam('query', 'must be a text')
    if (typeof limit !== 'number' || !Number.isInteger(limit) || limit < 1)
      throw invalidParam('limit', 'must be a positive integer')
    const all = await listAllPages(this.#lists.list, { ...call, internal: 'read' }, 'tools/list')
    const found = ranked(all, query).slice(0, Math.min(limit, MAX_RESULTS))
    const text = found.length > 0 ? foundText(found) : missText(query, all)
    return { kind: 'result', result: Payload.of({ content: [{ type: 'text', text }] }) }
  }
}

const searchTool = {
  name: SEARCH_TOOL,
  description:
    'Finds the tools that are not listed, by words of a name or of what should be done. Returns their names, descriptions and input schemas. Call the tool that fits with call_tool.',
  inputSchema: {
    type: 'object',
    properties: {
      query: { type: 'string', description: 'The name of a tool, or what it should do.' },
      limit: {
        type: 'integer',
        minimum: 1,
        maximum: MAX_RESULTS,
        description: `How many tools to return, ${DEFAULT_RESULTS} by default.`,
      },
    },
    required: ['query'],
  },
  annotations: { readOnlyHint: true, openWorldHint: false },
}

/** It may be the call of any tool, and says so. */
const callTool = {
  name: CALL_TOOL,
  description:
    'Calls a tool that search_tools returned, by its name and with the arguments of its input schema. The result is that of the tool.',
  inputSchema: {
    type: 'object',
    properties: {
      name: { type: 'string', description: 'The name of the tool.' },
      arguments: {
        type: 'object',
        description: 'The arguments of the tool, as its input schema says.',
        additionalProperties: true,
      },
    },
    required: ['name'],
  },
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true },
}

function withCount(count: number): Readonly<Record<string, unknown>> {
  return { ...searchTool, description: `${searchTool.description} There are ${count} tools to find.` }
}

/** An estimate of the tokens of a list of tools. */
function tokensOf(tools: readonly Payload[]): number {
  return tools.reduce((sum, { text }) => sum + estimatedTokens(text), 0)
}

/** What is wrong with the arguments of `call_tool`: where, and in words. */
function problemOf(wrapped: Payload): readonly [string, string] | undefined {
  if (!isObject(wrapped.value)) return ['arguments', 'must be an object']
  const { name, arguments: _arguments, ...others } = wrapped.fields
  if (typeof name !== 'string' || name === '') return ['name', 'must be the name of a tool']
  if (name === CALL_TOOL || name === PREFIX + CALL_TOOL)
    return ['name', 'must be another tool: call_tool does not call itself']
  const [other] = Object.keys(others)
  if (other === undefined) return undefined
  return [other, 'is no argument of call_tool: put the arguments of the tool into `arguments`']
}

/** @throws INVALID_INPUT */
function invalidCall(call: Call): never {
  const wrapped = call.params.at('arguments') ?? Payload.of({})
  const [field, problem] = problemOf(wrapped) ?? ['name', 'must be the name of a tool']
  throw invalidParam(field, problem)
}

interface FoundTool extends Described {
  readonly tool: Payload
}

/** The tools that match a query, best first: a tool of exactly that name before all others. */
function ranked(tools: readonly Payload[], query: string): readonly Payload[] {
  const word = query.trim().toLowerCase()
  const described = tools.map(describedTool)
  const named = described.filter(({ name }) => name.toLowerCase() === word)
  const others = createRanking(described).rank(query)
  return [...new Set([...named, ...others.map(({ of }) => of)])].map(({ tool }) => tool)
}

function describedTool(tool: Payload): FoundTool {
  const { name, title, description, inputSchema, annotations } = tool.fields
  const shownTitle = title ?? asObject(annotations).title
  return {
    tool,
    name: String(name),
    ...(typeof shownTitle === 'string' && { title: shownTitle }),
    ...(typeof description === 'string' && { description }),
    parameters: Object.keys(asObject(asObject(inputSchema).properties)),
  }
}

/** What models need of found tools; the texts of schemas stay as they are. */
function foundText(found: readonly Payload[]): string {
  let tokens = 0
  const entries = found.map((tool) => {
    const members = ['name', 'description', 'inputSchema']
    const whole = Payload.of({}).with(Object.fromEntries(members.map((key) => [key, tool.at(key)])))
    tokens += estimatedTokens(whole.text)
    const isFirst = tool === found[0]
    return tokens > MAX_RESULT_TOKENS && !isFirst ? whole.with({ inputSchema: undefined }) : whole
  })
  const isCut = entries.some(({ fields }) => fields.inputSchema === undefined)
  const note = isCut && 'Search for the name of a tool to get its inputSchema.'
  return Payload.of({ ...(note && { note }) }).with({ tools: Payload.list(entries) }).text
}

function missText(query: string, tools: readonly Payload[]): string {
  const names = tools.map(({ fields }) => fields.name)
  const more = names.length > MAX_NAMES ? ` and ${names.length - MAX_NAMES} more` : ''
  const what = `No tool matches ${JSON.stringify(query.slice(0, 200))}. Try other words.`
  return `${what} The tools are: ${names.slice(0, MAX_NAMES).join(', ')}${more}`
}
