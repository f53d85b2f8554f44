/**
 * Strict conformance of exposed names, URIs and results: snake case, URIs in the scheme of their server, complete
 * results.
 */
import type { Call, Handler, Outcome } from '../core/call.ts'
import { self } from '../core/identity.ts'
import { asObject, isObject } from '../core/json/json.ts'
import { Payload } from '../core/payload.ts'
import { aliasOf } from '../core/text/alias.ts'
import { exposedUri, isView, ownUriOf } from '../core/text/server-uri.ts'
import { metaKeys } from '../protocol/meta-keys.ts'
import { method } from '../protocol/methods.ts'
import { ACKNOWLEDGED, readFilter, withUri, withUris } from '../protocol/subscription-filter.ts'
import { withMessageContent } from '../protocol/projection.ts'
import { nameOfUri } from '../protocol/server-shapes.ts'
import { failedRead } from './aggregate.ts'
import { nameEntry, nameUris } from './exposed-uris.ts'

/** Exposes servers for strict hosts: names in snake case, resources in the scheme of their server. */
export function strictNames(next: Handler): Handler {
  return (call) => {
    const { upstream } = call.target
    if (upstream === undefined) return next(call)
    const exposed = (uri: string): string => ownUri(upstream, uri)
    const requested = original(call, upstream)
    const emit: Call['emit'] = (note) => {
      if (note.method !== ACKNOWLEDGED) return call.emit(withUri(note, exposed))
      const notifications = withUris(readFilter(note.params), exposed)
      call.emit({ ...note, params: (note.params ?? Payload.of({})).with({ notifications }) })
    }
    const named = (result: Payload): Payload => nameUris(completeResult(requested, result), exposed, upstream)
    const rewriteResult = (result: Payload): Payload => call.rewriteResult?.(named(result)) ?? named(result)
    return next({ ...requested, emit, rewriteResult }).then(
      (outcome) => inTerms(outcome, requested, { named, exposed }),
      (error: unknown) => failedRead(error, call.params, requested.params),
    )
  }
}

/** The call with the server's own URIs. */
function original(call: Call, upstream: string): Call {
  const { params } = call
  const { uri } = params.fields
  const known = (item: string): string => originalUri(upstream, item)
  if (call.method === 'resources/read' && typeof uri === 'string') {
    const name = known(uri)
    return { ...call, params: params.with({ uri: name }), target: { ...call.target, name } }
  }
  if (call.method === 'subscriptions/listen') {
    return { ...call, params: params.with({ notifications: withUris(readFilter(params), known) }) }
  }
  if (call.method !== 'completion/complete') return call
  const reference = params.at('ref')
  const template = reference?.fields.uri
  if (!reference || typeof template !== 'string') return call
  return { ...call, params: params.with({ ref: reference.with({ uri: known(template) }) }) }
}

interface Terms {
  /** A result that is not a list, with exposed URIs. */
  named(result: Payload): Payload
  exposed(uri: string): string
}

function inTerms(outcome: Outcome, call: Call, { named, exposed }: Terms): Outcome {
  if (outcome.kind !== 'result') return outcome
  if (call.method === 'server/discover') return { kind: 'result', result: introduced(outcome.result) }
  const { list } = method(call.method)
  const entries = list === undefined ? undefined : outcome.result.at(list)?.items
  if (list === undefined || !entries) return { kind: 'result', result: named(outcome.result) }
  const names = { uri: exposed, name: aliasOf }
  const exposedEntries = entries.flatMap((entry) => nameEntry(completeEntry(list, entry), list, names) ?? [])
  return { kind: 'result', result: outcome.result.with({ [list]: Payload.list(exposedEntries) }) }
}

/**
 * A server's description of itself under the name and version of the gateway, with logging if no server supports it.
 */
function introduced(result: Payload): Payload {
  const capabilities = result.at('capabilities') ?? Payload.of({})
  const meta = result.fields._meta
  const info = isObject(meta) ? meta[metaKeys.serverInfo] : undefined
  const title = isObject(info) ? (info.title ?? info.name) : undefined
  const own = { ...self, ...(typeof title === 'string' && { title }) }
  const logging = asObject(capabilities.fields.logging)
  return result
    .with({ capabilities: capabilities.with({ logging }) })
    .withMeta({ [metaKeys.serverInfo]: own })
}

/**
 * The URI of a resource in the scheme of its server: `files://file//srv/notes.md` for `file:///srv/notes.md`. Views keep
 * their scheme.
 */
export function ownUri(upstream: string, uri: string): string {
  if (isView(uri)) return exposedUri(upstream, uri)
  const [, scheme, slashes] = /^([a-z][a-z0-9+.-]*):(\/\/)?/.exec(uri) ?? []
  // `~` occurs in no scheme, so the text after it cannot be mistaken for a scheme.
  if (scheme === undefined) return `${upstream}://~/${uri}`
  const mark = slashes === undefined ? `${scheme}~` : scheme
  return `${upstream}://${mark}/${uri.slice(scheme.length + 1 + (slashes?.length ?? 0))}`
}

/** The server's own URI; a URI not created by `ownUri` is assumed to be the server's own. */
export function originalUri(upstream: string, uri: string): string {
  if (isView(uri)) return ownUriOf(upstream, uri) ?? uri
  const start = `${upstream}://`
  const end = uri.indexOf('/', start.length)
  if (!uri.startsWith(start) || end === -1) return uri
  const mark = uri.slice(start.length, end)
  const rest = uri.slice(end + 1)
  if (mark === '~') return rest
  return mark.endsWith('~') ? `${mark.slice(0, -1)}:${rest}` : `${mark}://${rest}`
}

/** A list entry with the members strict hosts require, filled in if the server omitted them. */
export function completeEntry(list: string, entry: Payload): Payload {
  const { name, uri, uriTemplate, arguments: wanted } = entry.fields
  if (list === 'prompts' && Array.isArray(wanted) && wanted.some((item) => !isWhole(item))) {
    return entry.with({ arguments: wanted.map(described) })
  }
  const address = typeof uri === 'string' ? uri : uriTemplate
  if (typeof address !== 'string' || (typeof name === 'string' && name !== '')) return entry
  return entry.with({ name: nameOfUri(address) })
}

/** A result in which every resource content has a URI and a media type. */
export function completeResult(call: Call, result: Payload): Payload {
  const { contents, content } = result.fields
  const { name: uri } = call.target
  if (call.method === 'resources/read' && Array.isArray(contents))
    return result.withItems('contents', (item) => (isObject(item.value) ? typed(placed(item, uri)) : item))
  if (Array.isArray(content))
    return content.every(isWholeBlock) ? result : result.withItems('content', wholeBlock)
  return withMessageContent(result, isWholeBlock, wholeBlock)
}

function isWhole(argument: unknown): boolean {
  return (
    isObject(argument) && typeof argument.description === 'string' && typeof argument.required === 'boolean'
  )
}

function described(argument: unknown): unknown {
  if (!isObject(argument) || isWhole(argument)) return argument
  const { title, name, description = title ?? name, required = false } = argument
  return { ...argument, description, required }
}

function isWholeBlock(block: unknown): boolean {
  if (!isObject(block)) return true
  if (block.type === 'resource') return !isObject(block.resource) || hasType(block.resource)
  return (block.type !== 'image' && block.type !== 'audio') || typeof block.mimeType === 'string'
}

function wholeBlock(block: Payload): Payload {
  if (isWholeBlock(block.value)) return block
  const { type, data } = block.fields
  const resource = type === 'resource' ? block.at('resource') : undefined
  if (resource) return block.with({ resource: typed(resource) })
  return block.with({ mimeType: typeOfBytes(data) ?? 'application/octet-stream' })
}

function placed(contents: Payload, uri: string | undefined): Payload {
  return contents.fields.uri === undefined && uri !== undefined ? contents.with({ uri }) : contents
}

function hasType({ mimeType }: Readonly<Record<string, unknown>>): boolean {
  return typeof mimeType === 'string' && mimeType !== ''
}

/** Contents with a media type, detected if missing from their first bytes, the end of their URI, or their kind. */
function typed(contents: Payload): Payload {
  const { uri, text, blob } = contents.fields
  if (hasType(contents.fields)) return contents
  const byName = typeof uri === 'string' ? types.get(extensionOf(uri)) : undefined
  const isText = typeof text === 'string'
  const fallback = isText ? 'text/plain' : 'application/octet-stream'
  return contents.with({ mimeType: (isText ? undefined : typeOfBytes(blob)) ?? byName ?? fallback })
}

function extensionOf(uri: string): string {
  return /\.([a-z0-9]+)(?:[?#].*)?$/i.exec(uri)?.[1]?.toLowerCase() ?? ''
}

const types = new Map(
  Object.entries({
    css: 'text/css',
    csv: 'text/csv',
    gif: 'image/gif',
    gz: 'application/gzip',
    htm: 'text/html',
    html: 'text/html',
    jpeg: 'image/jpeg',
    jpg: 'image/jpeg',
    js: 'text/javascript',
    json: 'application/json',
    md: 'text/markdown',
    mp3: 'audio/mpeg',
    pdf: 'application/pdf',
    png: 'image/png',
    svg: 'image/svg+xml',
    txt: 'text/plain',
    wav: 'audio/wav',
    webp: 'image/webp',
    xml: 'application/xml',
    yaml: 'application/yaml',
    yml: 'application/yaml',
    zip: 'application/zip',
  }),
)

/** The base64 beginnings of well-known binary formats. */
const beginnings: readonly (readonly [string, string])[] = [
  ['iVBORw0KGgo', 'image/png'],
  ['/9j/', 'image/jpeg'],
  ['R0lGOD', 'image/gif'],
  ['JVBERi', 'application/pdf'],
  ['SUQz', 'audio/mpeg'],
  ['UEsDB', 'application/zip'],
  ['H4sI', 'application/gzip'],
]

function typeOfBytes(base64: unknown): string | undefined {
  if (typeof base64 !== 'string') return undefined
  if (base64.startsWith('UklGR')) {
    const form = Buffer.from(base64.slice(0, 16), 'base64').toString('latin1', 8, 12)
    return form === 'WEBP' ? 'image/webp' : form === 'WAVE' ? 'audio/wav' : undefined
  }
  return beginnings.find(([start]) => base64.startsWith(start))?.[1]
}
