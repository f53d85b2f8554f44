/** Joins the discovery results of several servers, and gives entries and URIs their names there. */
import { GatewayError } from '../core/error.ts'
import { isObject } from '../core/json/json.ts'
import { Payload } from '../core/payload.ts'
import { metaKeys } from '../protocol/meta-keys.ts'
import type { Naming } from './names.ts'

/** What several servers say of themselves, as one: what any can do, and the instructions of each. */
export function mergeDiscovered(found: readonly Payload[], own: Readonly<Record<string, unknown>>): Payload {
  const capabilities = found.map(({ fields }) => fields.capabilities).filter(isObject)
  const instructions = found.flatMap(({ fields }) => {
    const { instructions: text } = fields
    return typeof text === 'string' && text !== '' ? [`# ${titleOf(fields)}\n\n${text}`] : []
  })
  return Payload.of({
    capabilities: withoutVendors(capabilities.reduce(union, {})),
    ...(instructions.length > 0 && { instructions: instructions.join('\n\n') }),
    _meta: { [metaKeys.serverInfo]: own },
  })
}

/** The entries of a server's list under the names they have beside those of other servers. */
export function nameEntries(upstream: string, entries: readonly Payload[], naming: Naming): Payload[] {
  return entries.map((entry) => {
    const { name, uri, uriTemplate } = entry.fields
    if (typeof uri === 'string') return entry.with({ uri: naming.uri(upstream, uri) })
    if (typeof uriTemplate === 'string') return entry.with({ uriTemplate: naming.uri(upstream, uriTemplate) })
    return typeof name === 'string' ? entry.with({ name: naming.name(upstream, name) }) : entry
  })
}

/** A result whose resource URIs are as the client knows them. */
export function nameUris(result: Payload, exposed: (uri: string) => string): Payload {
  const { content, contents, messages } = result.fields
  let named = result
  if (Array.isArray(content) && content.some(hasUri)) named = named.withItems('content', rename)
  if (Array.isArray(contents)) named = named.withItems('contents', renamed)
  if (Array.isArray(messages) && messages.some((each) => isObject(each) && hasUri(each.content))) {
    named = named.withItems('messages', (message) => {
      const block = message.at('content')
      return block ? message.with({ content: rename(block) }) : message
    })
  }
  return named

  function renamed(value: Payload): Payload {
    const { uri } = value.fields
    return typeof uri === 'string' ? value.with({ uri: exposed(uri) }) : value
  }

  function rename(block: Payload): Payload {
    if (block.fields.type !== 'resource') return renamed(block)
    const resource = block.at('resource')
    return resource ? block.with({ resource: renamed(resource) }) : block
  }
}

function hasUri(block: unknown): boolean {
  return isObject(block) && (typeof block.uri === 'string' || isObject(block.resource))
}

/** Methods of extensions name no server, so they work at the address of one server only. */
function withoutVendors(capabilities: Record<string, unknown>): Record<string, unknown> {
  const { extensions: _extensions, experimental: _experimental, tasks: _tasks, ...rest } = capabilities
  return rest
}

function union(one: Record<string, unknown>, other: Record<string, unknown>): Record<string, unknown> {
  const merged = { ...one }
  for (const [key, value] of Object.entries(other)) {
    const before = merged[key]
    merged[key] = isObject(before) && isObject(value) ? union(before, value) : before === true ? true : value
  }
  return merged
}

function titleOf(fields: Readonly<Record<string, unknown>>): string {
  const meta = fields._meta
  const info = isObject(meta) ? meta[metaKeys.serverInfo] : undefined
  const name = isObject(info) ? (info.title ?? info.name) : undefined
  return typeof name === 'string' ? name : 'Server'
}

// What a server says of a thing it failed to give names it as the server knows it. Where the client asked by another
// name, at the address of all servers or in the scheme of its server, the failure is worded with the client's names.

/** Throws a failure on, about the resource or prompt as its client asked for it where the server was sent another name. */
export function failedRead(thrown: unknown, asked: Payload, sent: Payload): never {
  const known = sent.fields.uri ?? sent.fields.name
  const told = asked.fields.uri ?? asked.fields.name
  if (!(thrown instanceof GatewayError) || typeof known !== 'string' || typeof told !== 'string') throw thrown
  if (known === told) throw thrown
  const { data, relayed } = thrown.extra
  const renamed = (text: string): string => withName(text, known, told)
  const inData = (fields: Readonly<Record<string, unknown>>): Record<string, unknown> => ({
    ...(fields.uri === known && { uri: told }),
    ...(typeof fields.message === 'string' && { message: renamed(fields.message) }),
  })
  const theirs = relayed?.at('data')
  throw new GatewayError(thrown.code, renamed(thrown.message), {
    ...thrown.extra,
    ...(data && { data: { ...data, ...inData(data) } }),
    ...(relayed && {
      relayed: relayed.with({
        message: renamed(thrown.message),
        ...(isObject(theirs?.value) && { data: theirs.with(inData(theirs.fields)) }),
      }),
    }),
  })
}

/** Characters that mean something in a regular expression. */
const SPECIAL = /[\\^$.*+?()[\]{}|/-]/g

/** A text with a name in place of another, where that stands by itself; the new one may hold the old one. */
function withName(text: string, known: string, told: string): string {
  const word = new RegExp(`(?<![\\w/+:.-])${known.replaceAll(SPECIAL, '\\$&')}(?![\\w/+-])`, 'g')
  return text
    .split(told)
    .map((part) => part.replaceAll(word, () => told))
    .join(told)
}
