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
  if (call.method === 'resources/read' && Array.isArray(contents)) {
    const whole = contents.map((each) => (isObject(each) ? typed(placed(each, uri)) : each))
    return isChanged(contents, whole) ? result.with({ contents: whole }) : result
  }
  if (Array.isArray(content)) {
    const whole = content.map(wholeBlock)
    return isChanged(content, whole) ? result.with({ content: whole }) : result
  }
  if (!Array.isArray(messages)) return result
  const whole = messages.map((each) => (isObject(each) ? withBlock(each) : each))
  return isChanged(messages, whole) ? result.with({ messages: whole }) : result
}

type Fields = Readonly<Record<string, unknown>>

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

function withBlock(message: Fields): Fields {
  const content = wholeBlock(message.content)
  return content === message.content ? message : { ...message, content }
}

function wholeBlock(block: unknown): unknown {
  if (!isObject(block)) return block
  if (block.type === 'resource' && isObject(block.resource)) {
    const resource = typed(block.resource)
    return resource === block.resource ? block : { ...block, resource }
  }
  const isBinary = block.type === 'image' || block.type === 'audio'
  if (!isBinary || typeof block.mimeType === 'string') return block
  return { ...block, mimeType: typeOfBytes(block.data) ?? 'application/octet-stream' }
}

function placed(contents: Fields, uri: string | undefined): Fields {
  return contents.uri === undefined && uri !== undefined ? { uri, ...contents } : contents
}

/** Contents with their type, where it is missing: by their first bytes, the end of their URI, or what they are. */
function typed(contents: Fields): Fields {
  const { uri, mimeType, text, blob } = contents
  if (typeof mimeType === 'string' && mimeType !== '') return contents
  const byName = typeof uri === 'string' ? types.get(extensionOf(uri)) : undefined
  const isText = typeof text === 'string'
  const fallback = isText ? 'text/plain' : 'application/octet-stream'
  return { ...contents, mimeType: (isText ? undefined : typeOfBytes(blob)) ?? byName ?? fallback }
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

function isChanged(before: readonly unknown[], after: readonly unknown[]): boolean {
  return before.some((each, index) => each !== after[index])
}
