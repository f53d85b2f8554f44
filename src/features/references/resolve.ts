/**
 * Resolves references in the arguments of a call: a value that is exactly `ref://<id>`, or `{"$ref_id": "<id>"}`, becomes
 * the data in the form that the schema takes there. References inside of texts are left alone.
 *
 * A schema is read leniently: it says what a server would accept, and `validate` checks the result. Nothing in a schema says
 * for certain that a value is a path or a URL: names and descriptions must agree, and others choose `?as=path`. A tool that
 * writes to such a path would lose what it wrote.
 */
import type { Call } from '../../core/call.ts'
import type { Descriptor } from '../../core/descriptor.ts'
import type { GatewayError } from '../../core/error.ts'
import { isObject, referredTo } from '../../core/json/json.ts'
import { inputsOf } from '../../core/media-inputs.ts'
import { Payload } from '../../core/payload.ts'
import type { UpstreamSettings } from '../../core/settings.ts'
import { wordsIn } from '../../core/text/words.ts'
import { type Place, placeText, type UsedReference, referencesSlot } from '../../core/used-reference.ts'
import type { Reference } from '../../records/references.ts'
import { readableReference, type ReferenceAccess } from './read.ts'
import {
  badReference,
  type FormName,
  isJson,
  jsonIn,
  openPart,
  parseReference,
  SCHEME,
  select,
  type Selected,
  utf8Text,
  type Written,
} from './selection.ts'
import type { CallFiles } from './transfer/files.ts'
import type { CallUrls } from './transfer/urls.ts'

/** How many references the arguments of a call may have, and how deep they are looked for. */
const MAX_REFERENCES_PER_CALL = 20
const MAX_DEPTH = 32

interface ResolutionContext extends ReferenceAccess {
  /** The largest data in the arguments of a call, in bytes. */
  readonly max: number
  /** The files of the call, and whether its server can open them. */
  readonly files: Pick<CallFiles, 'write'>
  readonly server: 'yes' | 'perhaps' | 'no'
  /** The URLs of the call. */
  readonly urls: Pick<CallUrls, 'of' | 'areHosted'>
}

/**
 * A call with the data in place of the references, and what they were; undefined if there are none.
 * @throws RESOURCE_NOT_FOUND, INVALID_INPUT, PAYLOAD_TOO_LARGE
 */
export async function resolveReferences(
  call: Call,
  options: ResolutionContext,
): Promise<{ readonly call: Call; readonly used: readonly UsedReference[] } | undefined> {
  const given = call.params.at('arguments')
  if (!given) return undefined
  const resolution = new Resolution(call, options)
  const schema = call.tool?.definition.inputSchema
  const root = { place: [], schemas: schemaPlace(schema), depth: 0 }
  const resolved = await resolution.resolve(given, root)
  if (resolution.used.length === 0) return undefined
  const { used } = resolution
  const params = call.params.with({ arguments: resolved })
  const slots = referencesSlot.put({ used, written: given }, call.slots)
  return { call: { ...call, params, slots }, used }
}

/** A value in the arguments. */
interface Spot {
  readonly place: Place
  readonly schemas: SchemaPlace
  readonly depth: number
}

class Resolution {
  readonly used: UsedReference[] = []
  readonly #call: Call
  readonly #options: ResolutionContext
  #size = 0

  constructor(call: Call, options: ResolutionContext) {
    this.#call = call
    this.#options = options
  }

  /** The same payload if there is no reference in it, so that what is not replaced keeps its text. */
  async resolve(given: Payload, spot: Spot): Promise<Payload> {
    const { value } = given
    const written = writtenAt(value)
    if (written) return this.#data(written, spot)
    if (spot.depth >= MAX_DEPTH) return given
    if (Array.isArray(value)) return this.#resolveItems(given, spot)
    return isObject(value) ? this.#resolveMembers(given, spot) : given
  }

  async #resolveItems(given: Payload, { place, schemas, depth }: Spot): Promise<Payload> {
    const { items } = given
    const resolved: Payload[] = []
    for (const [index, item] of items.entries()) {
      const spot = { place: [...place, index], schemas: schemas.item(index), depth: depth + 1 }
      resolved.push(await this.resolve(item, spot))
    }
    if (resolved.every((each, index) => each === items[index])) return given
    return Payload.text(`[${resolved.map(({ text }) => text).join(',')}]`)
  }

  async #resolveMembers(given: Payload, { place, schemas, depth }: Spot): Promise<Payload> {
    const changed: (readonly [string, Payload])[] = []
    for (const [name, value] of Object.entries(given.fields)) {
      // Finding the text of a member takes as long as the object is.
      const member = holdsReference(value, depth) ? given.at(name) : undefined
      if (!member) continue
      const spot = { place: [...place, name], schemas: schemas.member(name), depth: depth + 1 }
      const resolved = await this.resolve(member, spot)
      if (resolved !== member) changed.push([name, resolved])
    }
    return changed.length === 0 ? given : given.with(Object.fromEntries(changed))
  }

  async #data(written: WrittenReference, spot: Spot): Promise<Payload> {
    const { place } = spot
    const path = placeText(place)
    const { id } = written
    if (this.used.length >= MAX_REFERENCES_PER_CALL)
      throw badReference(`there are more than ${MAX_REFERENCES_PER_CALL} references`, path)
    const reference = await readableReference(this.#call, id, this.#options, path)
    const form = written.as ?? (await this.#remoteForm(written, reference, spot))
    const { blob: _blob, expiresAt: _expiresAt, ...facts } = reference
    const isOutside = form === 'path' || form === 'url'
    this.used.push({ ...facts, place, path, written: written.text, ...(isOutside && { isOutside }) })
    if (form === 'path') return this.#asFile(written, reference, path)
    if (form === 'url') return this.#asUrl(written, reference, path)
    return this.#inline(written, form, { reference, path, schemas: spot.schemas })
  }

  async #inline(
    { part, text }: WrittenReference,
    form: InlineForm | undefined,
    {
      reference,
      path,
      schemas,
    }: { readonly reference: Reference; readonly path: string; readonly schemas: SchemaPlace },
  ): Promise<Payload> {
    const { references, max } = this.#options
    const limits = { max: Math.max(0, max - this.#size), written: text }
    const selected = await select(references, reference, part, limits)
    this.#size +=
      selected.kind === 'bytes' ? selected.bytes.byteLength : Buffer.byteLength(selected.json.text)
    if (form) return inChosenForm(selected, reference, form, path)
    return inForm(selected, reference, schemas.takes(), path)
  }

  async #asFile({ part, text }: WrittenReference, reference: Reference, path: string): Promise<Payload> {
    const { references, files, server } = this.#options
    if (server === 'no') throw unfit(path, NO_FILES)
    const bytes = await openPart(references, reference, part, text)
    const { id, blob, name, type } = reference
    return Payload.of(await files.write({ key: [id, blob, text, path], name, type, bytes }))
  }

  async #asUrl({ part, text }: WrittenReference, reference: Reference, path: string): Promise<Payload> {
    const { urls } = this.#options
    const isPart = Object.keys(part).length > 0
    if (isPart) throw unfit(path, NO_PART_URLS)
    const url = await urls.of(reference, `${path} ${text}`)
    if (url === undefined) throw unfit(path, NO_URLS)
    return Payload.of(url)
  }

  /** The form for servers that open the data themselves, if the schema asks for one and the caller did not choose. */
  async #remoteForm(
    { part }: WrittenReference,
    reference: Reference,
    { place, schemas }: Spot,
  ): Promise<'path' | 'url' | undefined> {
    const { tool } = this.#call
    const { server, urls } = this.#options
    // A value in JSON may be a path or a URL that the server knows.
    if (part.pointer || !tool || schemas.takes() !== 'text') return undefined
    // For an element, the argument is that of its list.
    const argument = place.findLast((segment) => typeof segment === 'string') ?? ''
    const descriptions = schemas.descriptions()
    if (server === 'yes' && takesPath(argument, descriptions, tool))
      return (await this.#isShort(reference, isPathItself)) ? undefined : 'path'
    const isDownloaded = urls.areHosted === true && schemas.isUri() && Object.keys(part).length === 0
    if (isDownloaded && takesDownloadUrl(argument, descriptions))
      return (await this.#isShort(reference, isUrlItself)) ? undefined : 'url'
    return undefined
  }

  /** Whether data is a short text of some kind. */
  async #isShort(reference: Reference, isOfKind: (text: string) => boolean): Promise<boolean> {
    if (reference.size > MAX_PATH_BYTES) return false
    const limits = { max: MAX_PATH_BYTES, written: reference.id }
    const whole = await select(this.#options.references, reference, {}, limits)
    return whole.kind === 'bytes' && isOfKind(utf8Text(whole.bytes) ?? '')
  }
}

/** How long a path or a URL is at most, in bytes. */
const MAX_PATH_BYTES = 4096
const NO_URLS = 'cannot be a URL: the gateway does not listen for HTTP. Choose another form, such as ?as=text'
const NO_PART_URLS =
  'cannot be a URL of a part: leave out rows, bytes and the pointer, or choose another form'
const NO_FILES =
  'cannot be a path: the server is reached by a URL, or is not on this machine. Choose another form, such as ?as=text'

/** Whether a value is a reference, or has one in it. */
function holdsReference(value: unknown, depth: number): boolean {
  if (typeof value === 'string') return value.startsWith(SCHEME)
  if (typeof value !== 'object' || value === null || depth > MAX_DEPTH) return false
  return (
    textOfObject(value) !== undefined || Object.values(value).some((each) => holdsReference(each, depth + 1))
  )
}

type WrittenReference = Written & { readonly text: string }

function writtenAt(value: unknown): WrittenReference | undefined {
  const text = typeof value === 'string' ? value : textOfObject(value)
  if (text === undefined || !text.startsWith(SCHEME)) return undefined
  const written = parseReference(text)
  return written && { ...written, text }
}

/** `{"$ref_id": "<id>"}`, where the id may have the scheme and a part. */
function textOfObject(value: unknown): string | undefined {
  if (!isObject(value)) return undefined
  const { $ref_id: id, ...rest } = value
  if (typeof id !== 'string' || Object.keys(rest).length > 0) return undefined
  return id.startsWith(SCHEME) ? id : `${SCHEME}${id}`
}

/** The forms that a schema takes; `any` leaves the choice to the data. */
type Form = InlineForm | 'any'

/** The forms of data that are in the arguments themselves. */
type InlineForm = Exclude<FormName, 'path' | 'url'>

/** The data in the form that the caller chose. @throws INVALID_INPUT */
function inChosenForm(selected: Selected, reference: Reference, form: InlineForm, path: string): Payload {
  if (selected.kind !== 'json' || form === 'text' || form === 'json')
    return inForm(selected, reference, form, path)
  const { value, text } = selected.json
  const [content, type] = typeof value === 'string' ? [value, 'text/plain'] : [text, 'application/json']
  return inForm({ kind: 'bytes', bytes: Buffer.from(content) }, { ...reference, type }, form, path)
}

/** The data as the schema takes it. @throws INVALID_INPUT */
function inForm(selected: Selected, reference: Reference, form: Form, path: string): Payload {
  if (selected.kind === 'json') {
    const { json } = selected
    const isTaken = form === 'json' || form === 'any' || typeof json.value === 'string'
    return isTaken ? json : Payload.of(json.text)
  }
  const { bytes } = selected
  if (form === 'base64') return Payload.of(bytes.toString('base64'))
  if (form === 'data_uri') return Payload.of(`data:${reference.type};base64,${bytes.toString('base64')}`)
  const text = utf8Text(bytes)
  if (form === 'json' || (form === 'any' && isJson(reference))) return parsedJson(text, path)
  if (text === undefined) throw unfit(path, `takes text, and the data is ${reference.type}`)
  return Payload.of(text)
}

function parsedJson(text = '', path: string): Payload {
  const json = jsonIn(text)
  if (!json) throw unfit(path, 'takes JSON, and the data is not JSON')
  return json
}

/** The error for data that cannot be sent at a place of the arguments. */
function unfit(path: string, problem: string): GatewayError {
  return badReference(`${path} ${problem}`, path)
}

type Schema = Readonly<Record<string, unknown>>

/** The schemas that apply to one value. */
interface SchemaPlace {
  member(name: string): SchemaPlace
  item(index: number): SchemaPlace
  takes(): Form
  /** Whether the value is a URI, by its format. */
  isUri(): boolean
  /** What the schemas say of the value in few words: the descriptions, and those of the list that it is in. */
  descriptions(): readonly string[]
}

/** The schemas for a value, and for its parts: local `$ref`s are followed, and alternatives are all considered. */
function schemaPlace(
  document: unknown,
  given: readonly unknown[] = [document],
  ofList: readonly string[] = [],
): SchemaPlace {
  const schemas = expanded(given, document)
  const descriptions = (): readonly string[] => [...ofList, ...schemas.flatMap(descriptionOf)]
  return {
    member: (name) =>
      schemaPlace(
        document,
        schemas.map((schema) => memberSchema(schema, name)),
      ),
    item: (index) =>
      schemaPlace(
        document,
        schemas.map((schema) => itemSchema(schema, index)),
        descriptions(),
      ),
    takes: () => formOf(schemas),
    isUri: () => schemas.some(({ format }) => format === 'uri' || format === 'url'),
    descriptions,
  }
}

/** The schemas and those that they consist of, each of them once: schemas can contain themselves. */
function expanded(given: readonly unknown[], document: unknown): readonly Schema[] {
  const found = new Set<Schema>()
  const waiting = [...given]
  while (waiting.length > 0) {
    const schema = waiting.pop()
    if (!isObject(schema) || found.has(schema)) continue
    found.add(schema)
    const { $ref, anyOf, oneOf, allOf } = schema
    if (typeof $ref === 'string') waiting.push(referredTo($ref, document))
    for (const each of [anyOf, oneOf, allOf]) if (Array.isArray(each)) waiting.push(...(each as unknown[]))
  }
  return [...found]
}

function memberSchema({ properties, additionalProperties }: Schema, name: string): unknown {
  return isObject(properties) && Object.hasOwn(properties, name) ? properties[name] : additionalProperties
}

function itemSchema({ items, prefixItems }: Schema, index: number): unknown {
  return Array.isArray(prefixItems) && index < prefixItems.length ? prefixItems[index] : items
}

/** Servers write descriptions; longer ones say too much to say what a value is. */
const MAX_DESCRIPTION_LENGTH = 1000

function descriptionOf({ description }: Schema): readonly string[] {
  const isShort = typeof description === 'string' && description.length < MAX_DESCRIPTION_LENGTH
  return isShort ? [description] : []
}

function formOf(schemas: readonly Schema[]): Form {
  const types = new Set(
    schemas.flatMap(({ type }) => [type].flat()).filter((type) => typeof type === 'string'),
  )
  if (types.size > 0 && !types.has('string')) return 'json'
  const encodings = schemas.map(({ contentEncoding, format, description, 'x-mcp-file': file }) => {
    // A file that is sent inline (SEP-2631).
    if (isObject(file)) return 'data_uri'
    if (contentEncoding === 'base64' || format === 'byte' || format === 'binary') return 'base64'
    const text = typeof description === 'string' ? description : ''
    if (/\bdata:|\bdata[- ]ur[il]\b/i.test(text)) return 'data_uri'
    return /\bbase-?64\b/i.test(text) ? 'base64' : undefined
  })
  const encoding = encodings.find((each) => each !== undefined)
  if (encoding) return encoding
  const mayBeText = types.has('string') && !types.has('object') && !types.has('array')
  return mayBeText ? 'text' : 'any'
}

/** Names of arguments that are paths, in the notation of `wordsIn`. */
const pathName = /\b(?:paths?|filepaths?|file ?names?)$/
/** Descriptions of paths of files. */
const pathText = /\bpaths? (?:to|of)\b[^.]*\bfiles?\b|\bfile ?paths?\b|\blocal (?:files?|paths?)\b/i
/** Words of arguments and tools that read the file, and of those that write it or take a folderWord. */
const readingWord =
  /\b(?:attach|attachments?|from|import|input|insert|load|read|send|source|upload|uploads)\b/
const writingWord =
  /\b(?:create|delete|dest|destination|download|edit|export|move|output|remove|rename|save|saved|target|write|written)\b/
const folderWord = /\b(?:dir|directory|directories|folderWord|folders|tree)\b/

/** Whether a tool reads the file that an argument, or an element of one, names. */
function takesPath(
  argument: string,
  descriptions: readonly string[],
  { name, classification }: Descriptor,
): boolean {
  const isPath = pathName.test(spelled([argument])) || descriptions.some((text) => pathText.test(text))
  if (!isPath) return false
  const words = spelled([argument, ...descriptions])
  if (writingWord.test(words) || folderWord.test(spelled([argument, name]))) return false
  const isReader =
    classification.op === 'read' || readingWord.test(spelled([argument, name, ...descriptions]))
  return isReader && !writingWord.test(spelled([name]))
}

function spelled(texts: readonly string[]): string {
  return texts.map((text) => wordsIn(text).join(' ')).join(' ')
}

/** Programs whose servers see other files than this machine has. */
const elsewhere = /(?:^|[/\\])(?:docker|kubectl|nerdctl|podman|ssh|wsl)(?:\.exe)?$/i

/** Whether a server is a process of this machine, which can open a file by its path; `perhaps` if it may see other files. */
export function canOpenFiles(settings: UpstreamSettings | undefined): 'yes' | 'perhaps' | 'no' {
  if (settings?.reach.kind !== 'command') return 'no'
  return elsewhere.test(settings.reach.command) ? 'perhaps' : 'yes'
}

/** Whether a text is a path itself, rather than data for a file. */
function isPathItself(text: string): boolean {
  return text.length <= 4096 && /^(?:[/~]|\.{1,2}[/\\]|[A-Za-z]:[\\/]|file:\/\/)[^\n]*\n?$/.test(text)
}

/** Names such as `image_url`, in the notation of `wordsIn`. */
const downloadName =
  /^(?:download|fetch|source|file|image|audio|video|media|document|attachment|upload) (?:url|uri)$/
/** Descriptions of what a server does with a URL. */
const downloadText =
  /\b(?:download(?:s|ed|able)?|fetch(?:es|ed)?|retrieved?)\b[^.]*\b(?:from|at|by)\b|\b(?:url|uri) (?:to|of) (?:the |an? )?[^.]*\b(?:to|for) (?:download|fetch|import|upload)\b|\bpublicly (?:accessible|reachable|available)\b/i

/** Whether a server downloads from the URL in an argument. */
function takesDownloadUrl(name: string, descriptions: readonly string[]): boolean {
  return downloadName.test(wordsIn(name).join(' ')) || descriptions.some((text) => downloadText.test(text))
}

/** Whether a text is a URL itself, rather than data. */
function isUrlItself(text: string): boolean {
  return /^[a-z][a-z0-9+.-]*:[^\s]+\s*$/i.test(text)
}

/** Words of tools that import, and of arguments that are dataName, in the notation of `wordsIn`. */
const importingTool = /\b(?:imports?|ingest|load|upload)\b/
const dataName = /\b(?:content|contents|csv|dataName|document|file|items|json|payload|records|rows|text)$/

/** The argument of a tool that takes dataName; undefined if it has none, several, or needs more. */
export function dataArgument(tool: Descriptor): string | undefined {
  const { inputSchema } = tool.definition
  if (
    tool.isBuiltin ||
    tool.classification.op === 'read' ||
    !importingTool.test(wordsIn(tool.name).join(' '))
  )
    return undefined
  const root = schemaPlace(inputSchema)
  const names =
    isObject(inputSchema) && isObject(inputSchema.properties) ? Object.keys(inputSchema.properties) : []
  const [only, ...others] = names.filter((name) => {
    const descriptions = root.member(name).descriptions()
    if (dataName.test(wordsIn(name).join(' ')) || takesDownloadUrl(name, descriptions)) return true
    return takesPath(name, descriptions, tool)
  })
  const required: readonly unknown[] =
    isObject(inputSchema) && Array.isArray(inputSchema.required) ? inputSchema.required : []
  return others.length === 0 && required.every((name) => name === only) ? only : undefined
}

/** Whether an argument for media takes base64 or a data URI, which the data of a reference becomes. */
export function takesBytes(inputSchema: unknown): boolean {
  const root = schemaPlace(inputSchema)
  return inputsOf(inputSchema).some(({ name, isBinary }) => {
    const place = root.member(name)
    return isBinary && [place, place.item(0)].some((each) => byteForms.has(each.takes()))
  })
}

const byteForms: ReadonlySet<string> = new Set(['base64', 'data_uri'])
