/**
 * Adds servers, and settings of tools, to the text of a configuration file. Comments, quotes and the order of the existing content are
 * kept, and no existing setting is changed. If that is not possible, no text is returned.
 */
import { type Document, isMap, isScalar, parseDocument, YAMLMap } from 'yaml'
import { isHttpUrl } from './names.ts'

/** Settings to add to a tool, with a comment. */
export interface ToolAddition {
  readonly upstream: string
  readonly tool: string
  readonly settings: Readonly<Record<string, unknown>>
  /** Comment lines, without `#`. */
  readonly comment: readonly string[]
}

/** The changed text, or why it cannot be changed. */
type Added = { readonly text: string; readonly count: number } | { readonly problem: string }

/** Adds settings to a YAML text. */
export function addToolSettings(text: string, additions: readonly ToolAddition[]): Added {
  const names = additions.flatMap(({ upstream, tool }) => [upstream, tool])
  return changed(text, ['tools', ...names], (document) => {
    let count = 0
    for (const addition of additions) {
      const found = add(document, addition)
      if (typeof found === 'string') return found
      count += found
    }
    return count
  })
}

/** Adds the servers of another YAML text, with their comments. Their names must be free. */
export function addServers(text: string, others: string): Added {
  const added = mapAt(parseDocument(others), ['upstreams'])?.items ?? []
  // Nothing, or comments alone.
  if (parseDocument(text).contents === null) return { text: `${text}${others}`, count: added.length }
  return changed(text, ['upstreams'], (document) => {
    const { contents } = document
    const upstreams = isMap(contents) && childMap(document, contents, 'upstreams')
    if (!upstreams) return '`upstreams` is an alias, or not a mapping'
    if (upstreams.flow === true && !isJson(document)) upstreams.flow = false
    upstreams.items.push(...added)
    return added.length
  })
}

/** The text with a change, which returns how much it added, or why it cannot; `names` are the keys whose lines may change. */
function changed(
  text: string,
  names: readonly string[],
  change: (document: Document) => number | string,
): Added {
  const document = parseDocument(text)
  if (document.errors.length > 0) return { problem: 'the file is not valid YAML' }
  const count = change(document)
  if (typeof count === 'string') return { problem: count }
  const written = document.toString({ lineWidth: 0, flowCollectionPadding: /\{ /.test(text) })
  const lost = lostLine(text, written, new Set(names))
  return lost === undefined
    ? { text: written, count }
    : { problem: `line ${lost} of the file would change, which is unrelated` }
}

/** The number of added settings, or why none can be added. */
function add(document: Document, { upstream, tool, settings, comment }: ToolAddition): number | string {
  const server = mapAt(document, ['upstreams', upstream]) ?? serverMap(document, upstream)
  if (!server) return `upstreams.${upstream} is an alias, or not a mapping`
  const tools = childMap(document, server, 'tools')
  const own = tools && childMap(document, tools, tool)
  if (!tools || !own) return `upstreams.${upstream}.tools is an alias, or not a mapping`
  const fresh = Object.entries(settings).filter(([name]) => !own.has(name))
  for (const [name, value] of fresh) own.set(document.createNode(name), document.createNode(value))
  const pair = tools.items.find(({ key }) => isScalar(key) && key.value === tool)
  if (fresh.length > 0 && isScalar(pair?.key) && comment.length > 0) {
    const before = pair.key.commentBefore
    pair.key.commentBefore = [...(before ? [before] : []), ...comment.map((line) => ` ${line}`)].join('\n')
  }
  return fresh.length
}

/** Expands the short form of a server, a command line or URL, to a mapping. */
function serverMap(document: Document, upstream: string): YAMLMap | undefined {
  const upstreams = mapAt(document, ['upstreams'])
  const pair = upstreams?.items.find(({ key }) => isScalar(key) && key.value === upstream)
  if (!pair || !isScalar(pair.value) || typeof pair.value.value !== 'string') return undefined
  const short = pair.value
  const map = new YAMLMap(document.schema)
  map.set(document.createNode(isHttpUrl(String(short.value)) ? 'url' : 'command'), short)
  pair.value = map
  return map
}

function childMap(document: Document, parent: YAMLMap, name: string): YAMLMap | undefined {
  const found = parent.get(name, true)
  if (isMap(found)) {
    if (found.items.length === 0) found.flow = false
    return found
  }
  if (found !== undefined && !(isScalar(found) && found.value === null)) return undefined
  if (parent.flow === true && !isJson(document)) parent.flow = false
  const map = new YAMLMap(document.schema)
  parent.set(isScalar(found) ? name : document.createNode(name), map)
  return map
}

/** Whether the whole text is one flow mapping, such as JSON. */
function isJson({ contents }: Document): boolean {
  return isMap(contents) && contents.flow === true
}

function mapAt(document: Document, path: readonly string[]): YAMLMap | undefined {
  const found = document.getIn(path, true)
  return isMap(found) ? found : undefined
}

/** The number of the first lost line. Lines with expanded short forms do not count, but their comments must be kept. */
function lostLine(before: string, after: string, names: ReadonlySet<string>): number | undefined {
  const left = new Map<string, number>()
  // Whitespace may change: indentation, or between the members of a flow collection.
  const bare = (line: string): string => line.replaceAll(/\s+/g, '')
  for (const line of after.split('\n').map(bare)) left.set(line, (left.get(line) ?? 0) + 1)
  const isRewritten = (line: string): boolean => {
    const name = /^["']?([\w.-]+)["']?\s*:/.exec(line)?.[1]
    return (name !== undefined && names.has(name)) || line.startsWith('{')
  }
  for (const [index, whole] of before.split('\n').entries()) {
    const line = whole.trim()
    const count = left.get(bare(line)) ?? 0
    if (line === '') continue
    if (isRewritten(line)) {
      const comment = /\s#.*$/.exec(line)?.[0].trim() ?? ''
      if (!after.includes(comment)) return index + 1
      continue
    }
    if (count === 0) return index + 1
    left.set(bare(line), count - 1)
  }
  return undefined
}
