/**
 * Puts the pages of a tool together to one result that looks like a page: the items of all pages where the tool has its
 * items, and what the last page says about the end.
 *
 * Invariant: nothing that a page contains is lost, and items keep the text that the server sent.
 */
import { isObject, isSame, readJson } from '../../core/json/json.ts'
import { isPagingMember, type PageReading } from '../../core/judgement/pages.ts'
import { Payload } from '../../core/payload.ts'
import { MASKED_KEY, PROVENANCE_KEY } from '../../protocol/meta-keys.ts'

/** The document of a page: the structured content, or the JSON of a text. */
export interface PageDocument {
  readonly json: Payload
  /** Whether it is the structured content. */
  readonly isStructured: boolean
  /** The text block that holds it; absent if it is in the structured content only. */
  readonly textIndex?: number
}

/** One page with its reading. */
export interface Page {
  readonly result: Payload
  readonly document: PageDocument
  readonly reading: PageReading
}

/** The documents in a result, the structured content first. */
export function documentsOf(result: Payload): readonly PageDocument[] {
  const structured = result.at('structuredContent')
  const blocks = result.at('content')?.items ?? []
  const texts = blocks.flatMap(({ fields: { type, text } }, textIndex) => {
    const value = type === 'text' && typeof text === 'string' ? readJson(text) : undefined
    return isObject(value)
      ? [{ json: Payload.text(String(text), value), isStructured: false, textIndex }]
      : []
  })
  if (!structured || !isObject(structured.value)) return texts
  const same = texts.find(({ json }) => isSame(json.value, structured.value))
  return [
    { json: structured, isStructured: true, ...(same && { textIndex: same.textIndex }) },
    ...texts.filter((each) => each !== same),
  ]
}

/** The pages as one result. */
export function mergePages(pages: readonly [Page, ...Page[]]): Payload {
  const [first] = pages
  const last = pages.at(-1) ?? first
  const json = mergeDocuments(pages)
  const wasText = first.document.isStructured ? undefined : textOf(first)
  return first.result.with({
    content: Payload.text(`[${contentOf(pages, json).join(',')}]`),
    ...(first.document.isStructured && { structuredContent: json }),
    ...wrappedText(first.result, wasText, json),
    ...(isSame(first.result.member('result'), first.document.json.value) && { result: json }),
    ...mergeClaims(pages, last),
  })
}

/** Some SDKs repeat a text at `structuredContent.result`. */
function wrappedText(
  result: Payload,
  text: string | undefined,
  json: Payload,
): { readonly structuredContent?: Payload } {
  const structured = text === undefined ? undefined : result.at('structuredContent')
  if (!structured || structured.fields.result !== text) return {}
  return { structuredContent: structured.with({ result: json.text }) }
}

function textOf({ result, document: { textIndex = -1 } }: Page): string | undefined {
  const text = result.at('content')?.items[textIndex]?.fields.text
  return typeof text === 'string' ? text : undefined
}

/** The blocks of all pages in their order; the one with the document becomes that of the whole document. */
function contentOf(pages: readonly Page[], json: Payload): string[] {
  return pages.flatMap(({ result, document }, index) =>
    (result.at('content')?.items ?? []).flatMap((block, at) => {
      if (at !== document.textIndex) return [block.text]
      return index === 0 ? [block.with({ text: json.text }).text] : []
    }),
  )
}

function mergeDocuments(pages: readonly [Page, ...Page[]]): Payload {
  const [first] = pages
  const last = pages.at(-1) ?? first
  const { path } = first.reading
  const ended = withEnd(first.document.json, last.document.json)
  return changeAt(ended, path.slice(0, -1), (parent) => ({
    ...mergedLists(
      pages.map(({ document }) => memberAt(document.json, path.slice(0, -1))),
      path.at(-1),
    ),
    ...mergedCounts(pages, parent),
  }))
}

/** How deep the end of the result may be stated. */
const MAX_DEPTH = 3

/** The first document with what the last one says about further pages. */
function withEnd(first: Payload, last: Payload | undefined, depth = 0): Payload {
  const [before, after] = [first.fields, last?.fields ?? {}]
  const edits: Record<string, Payload | undefined> = {}
  for (const name of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const [old, own] = [before[name], after[name]]
    if (isPagingMember(name) && !isContainer(old) && !isContainer(own)) {
      if (old !== own) edits[name] = last?.at(name)
    } else if (hasPagingMember(old, depth)) {
      const [at, inner] = [first.at(name), last?.at(name)]
      edits[name] = at && inner && withEnd(at, inner, depth + 1)
    }
  }
  return Object.keys(edits).length === 0 ? first : first.with(edits)
}

function isContainer(value: unknown): boolean {
  return isObject(value) || Array.isArray(value)
}

/** Whether an object has a member about further pages, at any depth up to the limit. */
function hasPagingMember(value: unknown, depth: number): boolean {
  if (depth >= MAX_DEPTH || !isObject(value)) return false
  return Object.entries(value).some(
    ([name, each]) => isPagingMember(name) || hasPagingMember(each, depth + 1),
  )
}

/** The items of all pages, and other lists beside them, each as one, unless a list is the same on every page. */
function mergedLists(parents: readonly Payload[], items: string | undefined): Record<string, Payload> {
  const [first] = parents
  const lists: Record<string, Payload> = {}
  for (const [name, value] of Object.entries(first?.fields ?? {})) {
    if (!Array.isArray(value)) continue
    const all = parents.map((parent) => parent.at(name))
    if (name !== items && all.every((each) => isSame(each?.value, value))) continue
    const texts = all.flatMap((each) => each?.items ?? []).map(({ text }) => text)
    lists[name] = Payload.text(`[${texts.join(',')}]`)
  }
  return lists
}

const countNames =
  'count returned returned_count result_count num_results number_of_results items_count length'
const counts: ReadonlySet<string> = new Set(countNames.split(' '))

/** Numbers of items that belong to a page, for all pages together. */
function mergedCounts(pages: readonly Page[], parent: Payload): Record<string, number> {
  const sizes = pages.map(({ document, reading: { path } }) => memberAt(document.json, path).items.length)
  const total = sizes.reduce((sum, size) => sum + size, 0)
  const changed: Record<string, number> = {}
  for (const name of Object.keys(parent.fields)) {
    if (!counts.has(name)) continue
    const isOwn = pages.every(
      ({ document, reading: { path } }, index) =>
        memberAt(document.json, path.slice(0, -1)).fields[name] === sizes[index],
    )
    if (isOwn) changed[name] = total
  }
  return changed
}

function memberAt(payload: Payload, path: readonly string[]): Payload {
  let at = payload
  for (const name of path) at = at.at(name) ?? Payload.of(null)
  return at
}

function changeAt(
  payload: Payload,
  path: readonly string[],
  change: (at: Payload) => Readonly<Record<string, unknown>>,
): Payload {
  const [name, ...rest] = path
  if (name === undefined) return payload.with(change(payload))
  const inner = payload.at(name)
  return inner ? payload.with({ [name]: changeAt(inner, rest, change) }) : payload
}

const MERGED = 'pages were put together'

/** The `_meta` of the last page, and the sources of all pages. */
function mergeClaims(
  pages: readonly Page[],
  last: Page,
): { readonly _meta?: Payload | undefined; readonly provenance?: unknown } {
  const [first, ...others] = pages
  const meta = first?.result.at('_meta')
  if (others.length === 0) return meta ? { _meta: meta } : {}
  const lastMeta = last.result.at('_meta')
  if (!meta && !lastMeta) return {}
  const newer = Object.keys(lastMeta?.fields ?? {}).map((key) => [key, lastMeta?.at(key)] as const)
  const merged = (meta ?? Payload.of({})).with(Object.fromEntries(newer))
  const masked = pages.reduce((sum, { result }) => sum + Number(result.meta(MASKED_KEY) ?? 0), 0)
  const counted = masked > 0 ? merged.with({ [MASKED_KEY]: masked }) : merged
  const inMeta = sourcesOf(pages.map(({ result }) => result.meta(PROVENANCE_KEY)))
  const beside = sourcesOf(pages.map(({ result }) => result.member('provenance')))
  return {
    _meta: inMeta === undefined ? counted : counted.with({ [PROVENANCE_KEY]: inMeta }),
    ...(beside !== undefined && { provenance: beside }),
  }
}

/** The most sources that are named. */
const MAX_SOURCES = 50
/** The attester of the gateway's own claims; they come last. */
const ATTESTED_BY = 'gatehouse'

/** The claims of all pages about their sources. Those of the gateway say that the result is put together. */
function sourcesOf(claims: readonly unknown[]): unknown {
  const [own, others] = [new Map<unknown, unknown>(), new Map<unknown, unknown>()]
  for (const claim of claims.flat()) {
    if (!isObject(claim)) continue
    const found = claim.attested_by === ATTESTED_BY ? own : others
    const key = JSON.stringify([claim.source, claim.attested_by])
    if (!found.has(key) && found.size < MAX_SOURCES) found.set(key, found === own ? derived(claim) : claim)
  }
  const all = [...others.values(), ...own.values()]
  return all.length > 1 ? all : all[0]
}

/** A claim about one page as one about all of them, which have another hash and other places. */
function derived({
  content_hash: _hash,
  location: _location,
  ...claim
}: Readonly<Record<string, unknown>>): unknown {
  const { transformation } = claim
  const described = typeof transformation === 'string' ? `${transformation}; ${MERGED}` : MERGED
  return { ...claim, confidence: 'derived', transformation: described }
}
