import { isObject } from '../core/json.ts'
import { Payload } from '../core/payload.ts'
import { metaKeys } from '../wire/extensions.ts'
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
