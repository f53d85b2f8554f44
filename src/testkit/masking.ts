/** Removes from recorded messages what must not be in a file: secrets of the gateway, and what the rules of `mask` name. */
import { isUtf8 } from 'node:buffer'
import { isObject } from '../core/json/json.ts'
import type { Fields } from '../core/payload.ts'
import { cleanedValue, withoutSecrets } from '../core/text/redact.ts'
import { Redactor, secretsOf } from '../core/text/redactor.ts'
import { featureSettings, type Settings } from '../core/settings.ts'
import { copyMask } from '../features/mask/mask.ts'
import { defaultMarks } from './cassette.ts'

/** Masks messages of one server. */
export interface CassetteMask {
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
      const params = isObject(request.params) ? request.params : {}
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
