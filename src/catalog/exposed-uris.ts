/**
 * URIs of resources in lists and results of a server, as clients know them at an address where they differ from those of
 * the server. Invariant: a URI that a client receives is one that it can read at that address, also where `_meta` names
 * the view of a tool (MCP Apps, SEP-1865).
 */
import { isObject } from '../core/json/json.ts'
import type { Payload } from '../core/payload.ts'
import { viewKeys } from '../core/text/server-uri.ts'
import { REFERENCE_KEY } from '../protocol/meta-keys.ts'
import { withMessageContent } from '../protocol/projection.ts'
import { keyOfEntries } from '../protocol/server-shapes.ts'

type Exposed = (uri: string) => string

/** How clients know what a server lists. */
interface ExposedNames {
  readonly uri: Exposed
  /** The name of a tool or prompt; undefined if it is left out. */
  name(own: string): string | undefined
}

/** An entry of a list, such as `tools`, as clients know it; undefined if it is left out. */
export function nameEntry(entry: Payload, list: string, { uri, name }: ExposedNames): Payload | undefined {
  const key = keyOfEntries(list)
  const own = entry.fields[key]
  const named = withNamedViews(entry, uri)
  if (typeof own !== 'string') return named
  const exposed = key === 'name' ? name(own) : uri(own)
  return exposed === undefined ? undefined : named.with({ [key]: exposed })
}

/** A result of a server with its resource URIs converted to those of the client. */
export function nameUris(result: Payload, exposed: Exposed, upstream: string): Payload {
  const { content, contents } = result.fields
  let named = withNamedViews(result, exposed)
  if (Array.isArray(content) && content.some(mayHaveUri)) named = named.withItems('content', rename)
  if (Array.isArray(contents)) named = named.withItems('contents', renamed)
  return withMessageContent(named, (block) => !mayHaveUri(block), rename)

  function renamed(value: Payload): Payload {
    const { uri } = value.fields
    const viewed = withNamedViews(value, exposed)
    return typeof uri === 'string' ? viewed.with({ uri: exposed(uri) }) : viewed
  }

  function rename(block: Payload): Payload {
    if (isKept(block, upstream)) return block
    if (block.fields.type !== 'resource') return renamed(block)
    const resource = block.at('resource')
    const viewed = withNamedViews(block, exposed)
    return resource ? viewed.with({ resource: renamed(resource) }) : viewed
  }
}

/** The same value with the URIs of views in its `_meta` converted. */
function withNamedViews(value: Payload, exposed: Exposed): Payload {
  const meta = value.fields._meta === undefined ? undefined : value.at('_meta')
  if (!meta || !isObject(meta.value)) return value
  const edits: Record<string, unknown> = {}
  for (const key of viewKeys) {
    const uri = meta.fields[key]
    if (typeof uri === 'string') edits[key] = exposed(uri)
  }
  const view = meta.at('ui')
  const uri = view?.fields.resourceUri
  if (view && typeof uri === 'string') edits.ui = view.with({ resourceUri: exposed(uri) })
  return Object.keys(edits).length === 0 ? value : value.with({ _meta: meta.with(edits) })
}

/** Whether a block links to data of the server that this gateway keeps, whose URI is the same at all addresses. */
function isKept(block: Payload, upstream: string): boolean {
  const kept = block.meta(REFERENCE_KEY)
  return isObject(kept) && kept.origin_server === upstream
}

function mayHaveUri(block: unknown): boolean {
  return (
    isObject(block) && (typeof block.uri === 'string' || isObject(block.resource) || isObject(block._meta))
  )
}
/** The URIs of the views that a tool names. */
export function viewsOf({ _meta: meta }: Readonly<Record<string, unknown>>): string[] {
  if (!isObject(meta)) return []
  const { ui } = meta
  const named = [isObject(ui) ? ui.resourceUri : undefined, ...viewKeys.map((key) => meta[key])]
  return named.filter((uri) => typeof uri === 'string')
}
