import type { Call } from '../core/call.ts'
import { isObject } from '../core/json.ts'
import type { Payload } from '../core/payload.ts'

/** An entry of a list with what strict hosts want it to have and its server left out. */
export function completeEntry(list: string, entry: Payload): Payload {
  const { name, uri, uriTemplate, arguments: wanted } = entry.fields
  if (list === 'prompts' && Array.isArray(wanted) && wanted.some((each) => !isWhole(each))) {
    return entry.with({ arguments: wanted.map(described) })
  }
  const address = typeof uri === 'string' ? uri : uriTemplate
  if (typeof address !== 'string' || (typeof name === 'string' && name !== '')) return entry
  return entry.with({ name: lastPart(address) })
}

/** A result in which everything that can be read says where it is from and of what type it is. */
export function completeResult(call: Call, result: Payload): Payload {
  const { contents, content, messages } = result.fields
  const { name: uri } = call.target
  if (call.method === 'resources/read' && Array.isArray(contents))
    return result.withItems('contents', (each) => (isObject(each.value) ? typed(placed(each, uri)) : each))
  if (Array.isArray(content))
    return content.every(isWholeBlock) ? result : result.withItems('content', wholeBlock)
  const isComplete = (message: unknown): boolean => !isObject(message) || isWholeBlock(message.content)
  if (!Array.isArray(messages) || messages.every(isComplete)) return result
  return result.withItems('messages', (message) => {
    const block = message.at('content')
    return block ? message.with({ content: wholeBlock(block) }) : message
  })
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

function lastPart(uri: string): string {
  return uri.split(/[/:?#]/).findLast((part) => part !== '') ?? uri
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

/** Contents with their type, where it is missing: by their first bytes, the end of their URI, or what they are. */
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

/** How the base64 of well-known kinds of bytes begins. */
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
