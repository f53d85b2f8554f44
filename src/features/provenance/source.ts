import { parsePath } from '../../core/expression.ts'
import { isObject, readJson } from '../../core/json.ts'
import { find, type Scope } from '../../core/path.ts'
import type { Payload } from '../../core/payload.ts'
import { isTelling } from '../../core/redact.ts'

/** Where something came from. */
export interface Source {
  readonly source: string
  readonly version?: string
  readonly location?: { readonly json_path: string }
}

/** What the owner of a tool says of where its results come from. */
interface Words {
  readonly source?: string
  readonly version?: string
  readonly jsonPath?: string
}

type ContentFields = Readonly<Record<string, unknown>>

/** Fields that name what something is about, and those that say which version of it, the most telling first. */
const addresses = ['html_url', 'self', 'url', 'uri', 'path'] as const
const versions = ['sha', 'etag', 'version', 'updated_at', 'lastModified'] as const

/** How long a source and a version may be, in characters. */
const MAX_SOURCE_LENGTH = 500
const MAX_VERSION_LENGTH = 100
/** How long a text may be that is read as JSON: longer ones would cost more than it says. */
const MAX_JSON_TEXT_LENGTH = 2000
/** How many resources of one result are named. */
const MAX_SOURCES = 10

/** Where the result of a tool comes from, as far as it can be seen: from `own`, the tool itself, where it does not say. */
export function sourcesOf(result: Payload, own: readonly [Source], upstream: string): readonly Source[] {
  const content = result.member('content')
  const uris = urisOf(content)
  const [only] = uris
  const fields = fieldsOf(result.member('structuredContent'), content)
  if (!only && !fields) return own
  if (uris.length > 1) {
    return uris.map(({ uri, index }) => {
      return { source: `${upstream}:${uri}`, location: { json_path: `$.content[${index}]` } }
    })
  }
  const address = only ? only.uri : first(fields, addresses, MAX_SOURCE_LENGTH)
  const version = first(fields, versions, MAX_VERSION_LENGTH)
  const source = address === undefined ? own[0].source : `${upstream}:${address}`
  return [version === undefined ? { source } : { source, version }]
}

/** What the owner says, made ready: each a path, or a text in which `{argument}` stands for its value. */
export function statedSource(words: Words): (scope: Scope) => Partial<Source> {
  const source = words.source === undefined ? undefined : reader(words.source)
  const version = words.version === undefined ? undefined : reader(words.version)
  const location = words.jsonPath === undefined ? undefined : { json_path: words.jsonPath }
  return (scope) => {
    const found = { source: source?.(scope), version: version?.(scope), location }
    return Object.fromEntries(Object.entries(found).filter(([, value]) => value !== undefined))
  }
}

function reader(text: string): (scope: Scope) => string | undefined {
  if (text.startsWith('$')) {
    const path = parsePath(text)
    return (scope) => shown(find(path, scope), MAX_SOURCE_LENGTH)
  }
  return ({ args }) => filled(text, args)
}

/** A text with its arguments; nothing where one of them is not there. */
function filled(template: string, given: ContentFields): string | undefined {
  let isWhole = true
  const text = template.replaceAll(/\{([^{}]+)\}/g, (_found, name: string) => {
    if (isTelling(name)) return '***'
    const value = Object.hasOwn(given, name) ? shown(given[name], MAX_SOURCE_LENGTH) : undefined
    isWhole &&= value !== undefined
    return value ?? ''
  })
  return isWhole ? text.slice(0, MAX_SOURCE_LENGTH).toWellFormed() : undefined
}

function urisOf(content: unknown): readonly { readonly uri: string; readonly index: number }[] {
  if (!Array.isArray(content)) return []
  const found: { readonly uri: string; readonly index: number }[] = []
  for (let index = 0; index < content.length && found.length < MAX_SOURCES; index++) {
    const block: unknown = content[index]
    if (!isObject(block)) continue
    const uri = shown(isObject(block.resource) ? block.resource.uri : block.uri, MAX_SOURCE_LENGTH)
    if (uri !== undefined && !found.some((each) => each.uri === uri)) found.push({ uri, index })
  }
  return found
}

/** The members a result has, in its structured content or in the only text, where that is a short JSON object. */
function fieldsOf(structuredContent: unknown, content: unknown): ContentFields | undefined {
  if (isObject(structuredContent)) return structuredContent
  if (!Array.isArray(content) || content.length !== 1) return undefined
  const [block]: readonly unknown[] = content
  const text = isObject(block) && block.type === 'text' ? block.text : undefined
  if (typeof text !== 'string' || text.length > MAX_JSON_TEXT_LENGTH || !text.startsWith('{'))
    return undefined
  const value = readJson(text)
  return isObject(value) ? value : undefined
}

function first(fields: ContentFields | undefined, names: readonly string[], longest: number): string | undefined {
  if (!fields) return undefined
  for (const name of names) {
    const found = shown(Object.hasOwn(fields, name) ? fields[name] : undefined, longest)
    if (found !== undefined) return found
  }
  return undefined
}

function shown(value: unknown, longest: number): string | undefined {
  const text = typeof value === 'number' ? String(value) : value
  return typeof text === 'string' && text !== '' && text.length <= longest ? text : undefined
}
