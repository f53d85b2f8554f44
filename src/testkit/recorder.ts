/**
 * Writes the messages between the gateway and a server to a recording, without secrets, and without what the
 * rules of `mask` name.
 */
import { isoTime } from '../core/time/waiting.ts'
import { isUtf8 } from 'node:buffer'
import { asObject, isObject, readJson } from '../core/json/json.ts'
import { self } from '../core/identity.ts'
import type { Fields } from '../core/payload.ts'
import { type UpstreamSettings, featureSettings, type Settings } from '../core/settings.ts'
import { metaKeys } from '../protocol/meta-keys.ts'
import type { TransportInterceptor } from '../upstream/transport/transport.ts'
import { CASSETTE_VERSION, frameLine, headerLine, defaultMarks, handshakes } from './cassette.ts'
import { cleanedValue, withoutSecrets } from '../core/text/redact.ts'
import { Redactor, secretsOf } from '../core/text/redactor.ts'
import { copyMask } from '../features/mask/mask.ts'

interface Recording {
  readonly mask: CassetteMask
  readonly now: () => number
  /** Appends to the file. Not called before a client requests something: some start a process only to try it. */
  write(line: string): void
}

/** The maximum number of lines kept before anything is requested. */
const MAX_HELD = 1000

/** The maximum number of requests of a connection that wait for their responses. */
const MAX_UNANSWERED = 10_000

/** An interceptor that records what passes. */
export function recordingInterceptor({ mask, now, write }: Recording): TransportInterceptor {
  const startedAt = now()
  let connections = 0
  let held: string[] | undefined = []
  const append = (line: string): void => {
    if (!held) return write(line)
    held.push(line)
    if (held.length >= MAX_HELD) begin()
  }
  const begin = (): void => {
    for (const line of held ?? []) write(line)
    held = undefined
  }
  return (open, { settings, era }) =>
    async (receiver) => {
      const connection = ++connections
      if (connection === 1) append(headerLine(headerOf(settings, { era, startedAt, marks: mask.marks })))
      const methods = new Map<string, Fields>()
      const record = (dir: 'c2s' | 's2c', text: string, about?: number): void => {
        const value = readJson(text)
        // Servers of 2025-03-26 may send several messages at once.
        for (const message of Array.isArray(value) ? value : [value]) {
          if (!isObject(message)) continue
          const request = requestOf(methods, dir, message)
          const { id, method } = message
          if (dir === 'c2s' && id !== undefined && typeof method === 'string' && !handshakes.has(method))
            begin()
          const frame = numbered(mask.message(message, request), connection)
          const source = about === undefined ? {} : { about: unique(about, connection) }
          append(frameLine({ t: now() - startedAt, dir, frame, connection, ...source }))
        }
      }
      const transport = await open({
        ...receiver,
        receive: (text, about) => {
          record('s2c', text, about)
          receiver.receive(text, about)
        },
      })
      const send = transport.send.bind(transport)
      transport.send = (message, exchange) => {
        record('c2s', message)
        return send(message, exchange)
      }
      return transport
    }
}

/** The request that a message is, or that it answers. */
function requestOf(requests: Map<string, Fields>, dir: 'c2s' | 's2c', message: Fields): Fields {
  if (typeof message.method === 'string') {
    if (message.id !== undefined) requests.set(`${dir} ${JSON.stringify(message.id)}`, message)
    // Some are never answered, such as cancelled ones.
    const [oldest] = requests.keys()
    if (requests.size > MAX_UNANSWERED && oldest !== undefined) requests.delete(oldest)
    return message
  }
  const key = `${dir === 'c2s' ? 's2c' : 'c2s'} ${JSON.stringify(message.id)}`
  const request = requests.get(key)
  requests.delete(key)
  return request ?? {}
}

interface Facts {
  readonly era: 'legacy' | 'modern'
  readonly startedAt: number
  readonly marks: readonly string[]
}

function headerOf({ reach }: UpstreamSettings, { era, startedAt, marks }: Facts) {
  return {
    type: 'header',
    cassetteVersion: CASSETTE_VERSION,
    recorder: `${self.name}/${self.version}`,
    startedAt: isoTime(startedAt),
    ...(reach.kind === 'command'
      ? { transport: 'stdio' as const, command: [reach.command] }
      : { transport: 'http' as const, url: new URL(reach.url).origin }),
    era,
    redaction: { applied: true, marks },
  } as const
}

// Connections number their requests from 1 each. The ids of later ones are made unique, for readers that do not know of
// connections.

function unique(id: unknown, connection: number): unknown {
  if (connection === 1 || (typeof id !== 'string' && typeof id !== 'number')) return id
  return `${connection}:${id}`
}

function numbered(frame: Fields, connection: number): Fields {
  if (connection === 1) return frame
  const change = (fields: Fields, key: string): Fields =>
    fields[key] === undefined ? fields : { ...fields, [key]: unique(fields[key], connection) }
  if (!isObject(frame.params)) return change(frame, 'id')
  let params = change(change(frame.params, 'progressToken'), 'requestId')
  if (isObject(params._meta)) {
    const meta = change(change(params._meta, 'progressToken'), metaKeys.subscription)
    params = { ...params, _meta: meta }
  }
  return { ...change(frame, 'id'), params }
}

/** Masks messages of one server. */
interface CassetteMask {
  /** The texts that stand for removed values. */
  readonly marks: readonly string[]
  /** A JSON-RPC message without secrets; `request` is the message itself, or the request that it answers. */
  message(message: Fields, request: Fields): Fields
}

/** The mask of a server, by all settings and further secrets. */
export function cassetteMask(settings: Settings, upstream: string, more: readonly string[]): CassetteMask {
  const redactor = new Redactor()
  redactor.learn([...secretsOf(settings), ...more])
  const clean = (text: string): string => withoutSecrets(redactor.text(text))
  const renames = settings.upstreams.find(({ name }) => name === upstream)?.renames ?? {}
  const rules = copyMask(featureSettings(settings, 'mask', upstream))
  return {
    marks: [...new Set([...defaultMarks, ...rules.marks])],
    message: (message, request) => {
      const params = asObject(request.params)
      const name = typeof params.name === 'string' ? (renames[params.name] ?? params.name) : undefined
      const target = { upstream, method: String(request.method), ...(name !== undefined && { name }) }
      const masked = Object.entries(message).map(([key, value]) => {
        if (key === 'result' || key === 'error' || key === 'params') {
          const ruled = isObject(value) ? rules.mask(value, { part: key, target, uri: params.uri }) : value
          return [key, cleanedBlobs(cleanedValue(ruled, clean), clean)] as const
        }
        return [key, key === 'method' || key === 'id' ? value : cleanedValue(value, clean)] as const
      })
      return Object.fromEntries(masked)
    },
  }
}

/** Members whose texts are base64. */
const binary = new Set(['blob', 'data'])

/** A value in which base64 of texts has no secrets either. */
function cleanedBlobs(value: unknown, clean: (text: string) => string): unknown {
  if (Array.isArray(value)) return value.map((each) => cleanedBlobs(each, clean))
  if (!isObject(value)) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, member]) => [
      key,
      typeof member === 'string' && binary.has(key)
        ? cleanedBlob(member, clean)
        : cleanedBlobs(member, clean),
    ]),
  )
}

function cleanedBlob(blob: string, clean: (text: string) => string): string {
  const bytes = Buffer.from(blob, 'base64')
  if (!isUtf8(bytes)) return blob
  const text = bytes.toString()
  const cleaned = clean(text)
  return cleaned === text ? blob : Buffer.from(cleaned).toString('base64')
}
