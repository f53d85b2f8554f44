/**
 * Resolves references in the arguments of a call: a value that is exactly `ref://<id>`, or `{"$ref_id": "<id>"}`, becomes
 * the data in the form that the schema takes there. References inside of texts are left alone.
 */
import type { Call } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import { isObject } from '../../core/json/json.ts'
import { Payload } from '../../core/payload.ts'
import { type Place, placeText, type UsedReference } from '../../core/used-reference.ts'
import type { Reference, References } from '../../records/references.ts'
import type { CallUrls } from './call-urls.ts'
import type { CallFiles } from './files.ts'
import { inChosenForm, inForm, type InlineForm, type SchemaPlace, Schemas, unfit } from './forms.ts'
import { readableReference } from './may-read.ts'
import { openPart } from './open-part.ts'
import { parseReference, SCHEME, select, type Selected, textOf, type Written } from './selection.ts'
import { isPathItself, takesPath } from './takes-path.ts'
import { isUrlItself, takesDownloadUrl } from './takes-url.ts'

/** How many references the arguments of a call may have, and how deep they are looked for. */
const MAX_REFERENCES_PER_CALL = 20
const MAX_DEPTH = 32

interface Options {
  readonly references: References
  /** The largest data in the arguments of a call, in bytes. */
  readonly max: number
  /** The files of the call, and whether its server can open them. */
  readonly files: Pick<CallFiles, 'write'>
  readonly server: 'yes' | 'perhaps' | 'no'
  /** The URLs of the call. */
  readonly urls: Pick<CallUrls, 'of' | 'areHosted'>
  /** Whether the caller may still read what came from a server. */
  mayRead(reference: Reference, call: Call): Promise<boolean>
}

/** A call with the data in place of the references, and what they were; undefined if there are none. */
export interface Resolved {
  readonly call: Call
  readonly used: readonly UsedReference[]
}

/** @throws RESOURCE_NOT_FOUND, INVALID_INPUT, PAYLOAD_TOO_LARGE */
export async function resolveReferences(call: Call, options: Options): Promise<Resolved | undefined> {
  const given = call.params.at('arguments')
  if (!given) return undefined
  const resolution = new Resolution(call, options)
  const schema = call.tool?.definition.inputSchema
  const root = { place: [], schemas: new Schemas(schema).root, depth: 0 }
  const resolved = await resolution.resolve(given, root)
  if (resolution.used.length === 0) return undefined
  const { used } = resolution
  const params = call.params.with({ arguments: resolved })
  return { call: { ...call, params, references: { used, written: given } }, used }
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
  readonly #options: Options
  #size = 0

  constructor(call: Call, options: Options) {
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
    if (this.used.length >= MAX_REFERENCES_PER_CALL) throw tooMany(path)
    const reference = await readableReference(this.#call, id, { ...this.#options, field: path })
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
    this.#size += sizeOfSelected(selected)
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
    const argument = { name: argumentAt(place), descriptions: schemas.descriptions() }
    if (server === 'yes' && takesPath(argument, tool))
      return (await this.#isShort(reference, isPathItself)) ? undefined : 'path'
    const isDownloaded = urls.areHosted === true && schemas.isUri() && Object.keys(part).length === 0
    if (isDownloaded && takesDownloadUrl(argument.name, argument.descriptions))
      return (await this.#isShort(reference, isUrlItself)) ? undefined : 'url'
    return undefined
  }

  /** Whether data is a short text of some kind. */
  async #isShort(reference: Reference, isOfKind: (text: string) => boolean): Promise<boolean> {
    if (reference.size > MAX_PATH_BYTES) return false
    const limits = { max: MAX_PATH_BYTES, written: reference.id }
    const whole = await select(this.#options.references, reference, {}, limits)
    return whole.kind === 'bytes' && isOfKind(textOf(whole.bytes) ?? '')
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

function sizeOfSelected(selected: Selected): number {
  return selected.kind === 'bytes' ? selected.bytes.byteLength : Buffer.byteLength(selected.json.text)
}

/** The name of the argument at a place: that of the list, for an element. */
function argumentAt(place: Place): string {
  return place.findLast((segment) => typeof segment === 'string') ?? ''
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

function tooMany(path: string): GatewayError {
  return new GatewayError(
    'INVALID_INPUT',
    `Invalid params: there are more than ${MAX_REFERENCES_PER_CALL} references.`,
    {
      field: path,
      reason: 'reference',
      isResult: true,
    },
  )
}
