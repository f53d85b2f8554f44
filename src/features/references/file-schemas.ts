/**
 * What the draft extension `files` (SEP-2631) changes in lists and results for clients that do not transfer files: the
 * arguments of tools take files inline, and files in results become links. At the address of all servers, no server
 * sees that its client can transfer files, because only the gateway can be asked to.
 */
import type { Call, Middleware, Outcome } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import { isObject } from '../../core/json/json.ts'
import type { Payload } from '../../core/payload.ts'
import { canTransfer } from './file-transfer.ts'
import { SCHEME } from './selection.ts'

/** The member of the schema of an argument that is a file. */
const FILE = 'x-mcp-file'
/** How deep schemas and arguments are looked at. */
const MAX_DEPTH = 16

/** The middleware around the responses to a method; undefined for those without files. */
export function filesMiddleware(
  method: string,
  isOn: (upstream?: string) => boolean,
): Middleware | undefined {
  const change = changes[method]
  if (!change) return undefined
  return (next) => async (call) => {
    if (!isOn(call.target.upstream)) return next(call)
    return change(await next(method === 'tools/call' ? forServer(call) : call), call)
  }
}

const changes: Readonly<Record<string, (outcome: Outcome, call: Call) => Outcome>> = {
  'tools/list': withModes,
  'tools/call': (outcome, call) => withLinks(outcome, call, 'content'),
  'resources/read': (outcome, call) => withLinks(outcome, call, 'contents'),
}

/** A call as servers see it: the client transfers files only where it reaches one server. */
function forServer(call: Call): Call {
  const { files, ...capabilities } = call.client.capabilities
  if (files === undefined || call.target.upstream !== undefined) return call
  return { ...call, client: { ...call.client, capabilities } }
}

function withModes(outcome: Outcome, call: Call): Outcome {
  if (outcome.kind !== 'result' || !outcome.result.text.includes(FILE)) return outcome
  const isTransferring = canTransfer(call, 'upload')
  if (isTransferring && call.target.upstream !== undefined) return outcome
  const tools = (outcome.result.at('tools')?.items ?? []).map((tool) =>
    tool.text.includes(FILE) ? inlineOnly(tool, isTransferring) : tool.value,
  )
  return { kind: 'result', result: outcome.result.with({ tools }) }
}

function inlineOnly(tool: Payload, isTransferring: boolean): unknown {
  const inputSchema = schemaFor(tool.member('inputSchema'), isTransferring, 0)
  return tool.with({ inputSchema }).value
}

/** A schema without what only servers of files can take, and for other clients without transfers at all. */
function schemaFor(schema: unknown, isTransferring: boolean, depth: number): unknown {
  if (depth > MAX_DEPTH) return schema
  if (Array.isArray(schema)) return schema.map((each: unknown) => schemaFor(each, isTransferring, depth + 1))
  if (!isObject(schema)) return schema
  return Object.fromEntries(
    Object.entries(schema).flatMap(([name, value]) => {
      if (name !== FILE || !isObject(value)) return [[name, schemaFor(value, isTransferring, depth + 1)]]
      const { transferModes: modes } = value
      if (Array.isArray(modes) && !modes.includes('inline')) return []
      return [[name, isTransferring ? value : { ...value, transferModes: ['inline'] }]]
    }),
  )
}

/** The result with links in place of files, for a client that does not transfer them. */
function withLinks(outcome: Outcome, call: Call, member: 'content' | 'contents'): Outcome {
  if (outcome.kind !== 'result' || canTransfer(call, 'download')) return outcome
  const { result } = outcome
  const toLink = member === 'content' ? linkOf : textOf
  const items = result.at(member)?.items ?? []
  const links = items.map(({ value }) => (isObject(value) ? toLink(value) : undefined))
  if (links.every((link) => link === undefined)) return outcome
  return {
    kind: 'result',
    result: result.with({ [member]: items.map(({ value }, at) => links[at] ?? value) }),
  }
}

type Fields = Readonly<Record<string, unknown>>

function linkOf({ type, file }: Fields): Fields | undefined {
  if (type !== 'file' || !isObject(file) || typeof file.uri !== 'string') return undefined
  const { uri, name, mimeType, size } = file
  return {
    type: 'resource_link',
    uri,
    name: typeof name === 'string' ? name : uri.slice(-100),
    mimeType,
    size,
  }
}

function textOf({ uri, mimeType, content }: Fields): Fields | undefined {
  if (!isObject(content) || typeof content.uri !== 'string') return undefined
  return { uri, mimeType, text: `The content is the file ${content.uri}.` }
}

/** @throws INVALID_INPUT if an argument that takes a file inline is the URI of one */
export function checkFileArguments({ tool, params }: Call): void {
  const schema = tool?.definition.inputSchema
  const given = params.member('arguments')
  if (!isObject(schema) || !isObject(given) || !isObject(schema.properties)) return
  for (const [name, property] of Object.entries(schema.properties)) {
    const value = Object.hasOwn(given, name) ? given[name] : undefined
    if (typeof value === 'string' && isInlineOnly(property) && !isInline(value)) throw notInline(name)
  }
}

function isInlineOnly(property: unknown): boolean {
  const file = isObject(property) ? property[FILE] : undefined
  const modes = isObject(file) ? file.transferModes : undefined
  return Array.isArray(modes) && modes.length > 0 && !modes.includes('upload')
}

/** A reference is replaced by the data, inline. */
function isInline(value: string): boolean {
  return /^data:/i.test(value) || value.startsWith(SCHEME)
}

function notInline(name: string): GatewayError {
  return new GatewayError('INVALID_INPUT', `Invalid params: ${name} must be a data: URI.`, {
    field: name,
    reason: 'transfer_mode',
    suggestion: 'Send the file inline, or a reference such as ref://ref_1.',
  })
}
