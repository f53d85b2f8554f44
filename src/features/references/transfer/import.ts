/**
 * The tool `import_from_ref`, and `POST /import`: data is given to a tool as one of its arguments. The tool is named, or
 * chosen by a format that the configuration assigns to it. Data of a server that is not here is downloaded first, from the
 * URL that a caller names, and kept as data of the caller.
 *
 * Invariant: only hosts of `allow_hosts` are reached, over https and at addresses of the internet; redirects are refused.
 * The URL is a credential: it occurs in no error, log or record.
 */
import type { Finding } from '../../../core/findings.ts'
import { NS } from '../../../core/identity.ts'
import { createHash, type Hash } from 'node:crypto'
import { bareHost } from '../../../core/address.ts'
import { callOnBehalf } from '../../own-calls.ts'
import type { Call, Handler, Outcome } from '../../../core/call.ts'
import type { Descriptor } from '../../../core/descriptor.ts'
import { asGatewayError, GatewayError, invalidParam, isCancelled } from '../../../core/error.ts'
import { asObject, isObject, isSame } from '../../../core/json/json.ts'
import { Payload } from '../../../core/payload.ts'
import { anonymous } from '../../../core/principal.ts'
import { acceptsMember } from '../../../core/schema/argument-mismatches.ts'
import { within } from '../../../core/time/waiting.ts'
import { ERROR_KEY } from '../../../protocol/meta-keys.ts'
import { UPLOADS } from '../../../records/plain-name.ts'
import type { Reference, References } from '../../../records/references.ts'
import { answered, asToolWithResult, optionalText } from '../../builtin-tool.ts'
import { type DialFailure, MAX_URL_LENGTH, type OpenedResponse, type Opener } from '../../dialer.ts'
import type { Services } from '../../feature.ts'
import { referenceUri } from '../kept-data.ts'
import { readableReference, type ReferenceAccess } from '../read.ts'
import { dataArgument } from '../resolve.ts'
import { parseReference, SCHEME } from '../selection.ts'
import type { ImportSettings, ImportTarget } from '../../settings/authorize.ts'
import { findTool, innerArguments, innerCall, type InnerTool, type ToolWithRoute } from './export.ts'
import { nameIn, typedFile } from './sent-file.ts'

interface ImportContext extends ReferenceAccess {
  readonly tools: ImportTools
  /** Downloads data from a foreign URL, and keeps it for the caller. */
  download(call: Call, data: ForeignData): Promise<Reference>
  readonly deps: ImportDeps
}

type ImportDeps = Pick<Services, 'invoker' | 'servers'>

/** The tool, and the path over HTTP. */
export function importing(options: ImportContext): ToolWithRoute {
  const run: Handler = (call) => importReference(call, options)
  return {
    tool: asToolWithResult(definition, run),
    route: {
      verb: 'POST',
      path: '/import',
      handle: async (call) => {
        const outcome = await run(call)
        if (outcome.kind !== 'result') return outcome
        const { structuredContent, content } = outcome.result.fields
        return answered({ ...(isObject(structuredContent) && structuredContent), content })
      },
    },
  }
}

const definition = {
  name: 'import_from_ref',
  title: 'Import kept data',
  description:
    'Gives data behind a reference (ref://…) to a tool, as the argument that you name. In place of the tool, target_format can name a format that the gateway knows a tool for; without both, it goes to the tool that imports by default. The checksum is verified.',
  inputSchema: {
    type: 'object',
    properties: {
      ref_id: {
        type: 'string',
        description: 'The reference, such as ref://ref_1 or ref://ref_1?rows=1-100.',
      },
      origin_server: { type: 'string', description: 'The server that has the data.' },
      access_url: {
        type: 'string',
        description: 'Where the data is downloaded from, if its server is not one of this gateway.',
      },
      checksum: {
        type: ['object', 'string'],
        description: 'The checksum of downloaded data: {algorithm, value}.',
        properties: { algorithm: { enum: ['sha256', 'md5'] }, value: { type: 'string' } },
      },
      target_format: { type: 'string', description: 'A format, such as spreadsheet, in place of a tool.' },
      tool: { type: 'string', description: 'The tool to call, by its name in this list of tools.' },
      argument: { type: 'string', description: 'The argument of the tool that gets the data.' },
      arguments: { type: 'object', description: 'The other arguments of the tool.' },
    },
    required: ['ref_id'],
    additionalProperties: false,
  },
  outputSchema: {
    type: 'object',
    properties: {
      status: { enum: ['imported', 'pending', 'failed'] },
      ref_id: { type: 'string' },
      imported_resource_id: { type: 'string' },
      rows_imported: { type: 'integer' },
      checksum_verified: { type: 'boolean' },
      operation_id: { type: 'string' },
      error: { type: 'object' },
      result: { type: 'object', description: 'The structured content of the result of the tool.' },
    },
    required: ['status', 'ref_id', 'checksum_verified'],
  },
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true },
} as const

/** A tool at the address of a call, and its argument that gets the data. */
interface FoundTarget {
  readonly tool: InnerTool
  readonly argument: string
}

/** @throws what is wrong with the arguments; failures of the import are results */
async function importReference(call: Call, options: ImportContext): Promise<Outcome> {
  const request = await importRequestOf(call, options)
  let progress: Progress = { ref_id: request.uri, checksum_verified: false }
  try {
    const reference = request.foreign
      ? await downloaded(call, request.foreign, options)
      : await readableReference(call, parseReference(request.uri)?.id ?? '', options)
    await verify(reference, options)
    // What is downloaded has an id of its own; the part is that of the caller.
    const uri = request.foreign
      ? request.uri.replace(/^ref:\/\/[^?#]*/, referenceUri(reference))
      : request.uri
    progress = { ref_id: uri, checksum_verified: true }
    if (!request.target) return ended({ status: 'imported', ...progress, imported_resource_id: uri })
    const { tool, args, argument } = request.target
    const outcome = await options.deps.invoker.call(innerCall(call, tool, args.with({ [argument]: uri })))
    if (outcome.kind === 'result') return reported(outcome.result, progress)
    if (!request.foreign) return outcome
    return { ...outcome, requestState: { ...outcome.requestState, [STATE_KEY]: reference.id } }
  } catch (thrown) {
    // The client that cancelled it gets no result.
    if (isCancelled(call.signal)) throw thrown
    const error = asGatewayError(thrown)
    if (error.code === 'SERVER_ERROR') throw thrown
    const { data, extra } = error
    const text = extra.suggestion === undefined ? error.message : `${error.message} ${extra.suggestion}`
    return ended({ status: 'failed', ...progress, error: { ...data, requestId: call.requestId } }, text)
  }
}

/** The key in the request state of the id that the downloaded data has. */
const STATE_KEY = 'import'

/** Foreign data: that of an earlier round of the call if it is still there, so that all rounds are about the same data. */
async function downloaded(call: Call, foreign: ForeignData, options: ImportContext): Promise<Reference> {
  const id = call.requestState[STATE_KEY]
  const earlier = typeof id === 'string' ? await options.references.find(call.principal, id) : undefined
  return earlier ?? options.download(call, foreign)
}

interface Progress {
  readonly ref_id: string
  readonly checksum_verified: boolean
}

/** The text of the reference, and the target of the data; none if it is only downloaded. @throws INVALID_INPUT */
async function importRequestOf(call: Call, options: ImportContext) {
  const given = optionalText(call, 'ref_id')
  if (given === undefined) throw invalidParam('ref_id', 'must be a reference such as ref://ref_1')
  const uri = given.startsWith(SCHEME) ? given : `${SCHEME}${given}`
  const foreign = await foreignOf(call, uri, options)
  const format = optionalText(call, 'target_format')
  const name = optionalText(call, 'tool')
  if (format !== undefined && name !== undefined)
    throw invalidParam('target_format', 'names a tool, so tool cannot be given too')
  const found = await targetOf(call, { format, name }, options)
  if (!found && foreign) return { uri, foreign, target: undefined }
  if (!found) throw await options.tools.undecided(call)
  const args = innerArguments(call)
  if (args.fields[found.argument] !== undefined)
    throw invalidParam(`arguments.${found.argument}`, 'cannot be given, since it gets the data')
  return { uri, foreign, target: { ...found, args } }
}

/** The tool for a format, the one that the caller names, or the one by default; undefined without any. @throws INVALID_INPUT */
async function targetOf(
  call: Call,
  { format, name }: { readonly format: string | undefined; readonly name: string | undefined },
  options: ImportContext,
): Promise<FoundTarget | undefined> {
  if (format !== undefined) return options.tools.forFormat(call, format)
  if (name !== undefined) return named(call, name, options)
  // An argument without its tool is no request for another tool.
  return call.params.fields.argument === undefined ? options.tools.byDefault(call) : undefined
}

/** The tool that a caller names. @throws INVALID_INPUT */
async function named(call: Call, name: string, { deps }: ImportContext): Promise<FoundTarget> {
  const argument = optionalText(call, 'argument')
  if (argument === undefined)
    throw invalidParam('argument', 'must name the argument of the tool that gets the data')
  const tool = { upstream: call.target.upstream, name }
  if ((await findTool(call, tool, deps.servers))?.isBuiltin)
    throw invalidParam('tool', 'is a tool of the gateway, which imports nothing')
  return { tool, argument }
}

/** The foreign data that a caller names. @throws INVALID_INPUT if the server that it names does not have the data */
async function foreignOf(
  call: Call,
  uri: string,
  { references, deps }: ImportContext,
): Promise<ForeignData | undefined> {
  const origin = optionalText(call, 'origin_server')
  const url = optionalText(call, 'access_url')
  const written = parseReference(uri)
  const reference = written && (await references.find(call.principal, written.id))
  const isHere = origin === undefined || deps.servers.names().includes(origin) || origin === reference?.server
  if (!isHere && url !== undefined) return { url, checksum: checksumOf(call.params.fields.checksum) }
  if (!isHere)
    throw invalidParam(
      'origin_server',
      'is not a server of this gateway: access_url must say where the data is',
    )
  if (origin === undefined || !reference || reference.server === origin) return undefined
  throw invalidParam(
    'origin_server',
    `is not the server that the data came from, which is ${reference.server}`,
  )
}

/** Reads all of the data, whatever part of it is imported. @throws CONFLICT */
async function verify(reference: Reference, { references }: ImportContext): Promise<void> {
  const bytes = (await references.open(reference))[Symbol.asyncIterator]()
  while (!(await bytes.next()).done);
}

/** The result of the tool, with what became of the import. */
function reported(result: Payload, progress: Progress): Outcome {
  const structured = result.at('structuredContent')
  const rest = structured && isObject(structured.value) ? { result: structured } : {}
  const status = statusOf(result)
  const facts = Payload.of({ ...status, ...progress, ...importedBy(result) })
  const own = Payload.of({ type: 'text', text: facts.text })
  const content = [own, ...(result.at('content')?.items ?? [])].map(({ text }) => text)
  return {
    kind: 'result',
    result: result.with({
      content: Payload.text(`[${content.join(',')}]`),
      structuredContent: facts.with(rest),
      isError: status.status === 'failed' ? true : undefined,
    }),
  }
}

/** A call that continues after its answer is pending; its id gets the result. */
function statusOf(result: Payload): Readonly<Record<string, unknown>> {
  if (result.member('isError') !== true) return { status: 'imported' }
  const error = result.meta(ERROR_KEY)
  const details = asObject(asObject(error).details)
  const operation = result.meta(`${NS}/operation_id`)
  if (typeof operation === 'string' && details.operation_id === operation)
    return { status: 'pending', operation_id: operation }
  return {
    status: 'failed',
    error: isObject(error) ? error : new GatewayError('SERVER_ERROR', 'The tool failed.').data,
  }
}

/** What the tool says of the import, in the names of the result. */
function importedBy(result: Payload): Readonly<Record<string, unknown>> {
  const structured = result.member('structuredContent')
  const fields = asObject(structured)
  const { rows_imported: rows = fields.rowsImported } = fields
  const { imported_resource_id: id = fields.importedResourceId ?? linkIn(result) } = fields
  return {
    ...(typeof id === 'string' && { imported_resource_id: id }),
    ...(Number.isSafeInteger(rows) && { rows_imported: rows }),
  }
}

/** The URI of the resource that a result links to. */
function linkIn(result: Payload): string | undefined {
  const content = result.member('content')
  const blocks: readonly unknown[] = Array.isArray(content) ? content : []
  const links = blocks.flatMap((block) =>
    isObject(block) && block.type === 'resource_link' ? [block.uri] : [],
  )
  return links.find((uri): uri is string => typeof uri === 'string' && !uri.startsWith(SCHEME))
}

function ended(facts: Readonly<Record<string, unknown>>, text = JSON.stringify(facts)): Outcome {
  const isFailed = facts.status === 'failed'
  return answered({
    content: [{ type: 'text', text }],
    structuredContent: facts,
    ...(isFailed && { isError: true, _meta: { [ERROR_KEY]: facts.error } }),
  })
}

/** How long servers may take to list their tools, in milliseconds. */
const LISTING_TIMEOUT_MS = 10_000
/** How many tools or formats a suggestion names. */
const MAX_NAMED = 10

/** What the configuration says of imports. */
interface Configured {
  /** The tools for formats. */
  readonly formats: NonNullable<ImportSettings['imports']>
  /** The tool of a server by default, by its own name; without a server, the one in the settings for all of them. */
  byDefault(upstream?: string): ImportTarget | undefined
}

/** Finds tools for imports. */
export class ImportTools {
  readonly #configured: Configured
  readonly #deps: ImportDeps

  constructor(configured: Configured, deps: ImportDeps) {
    this.#configured = configured
    this.#deps = deps
  }

  /**
   * The tool that imports by default at the address of a call: the configured one, or else the one that takes data.
   * Undefined if there is none, or more than one. At the address of several servers no server may offer itself for data
   * of the others.
   */
  async byDefault(call: Call): Promise<FoundTarget | undefined> {
    const defaults = await this.#defaults(call)
    const isChosen = call.target.upstream !== undefined
    const [only, ...others] = defaults.length > 0 || !isChosen ? defaults : await this.#guesses(call)
    return others.length === 0 ? only : undefined
  }

  /** The error for an import without a tool: which ones there are. */
  async undecided(call: Call): Promise<GatewayError> {
    const defaults = await this.#defaults(call)
    const formats = Object.keys(this.#configured.formats)
    const choices = defaults.length > 0 ? defaults : await this.#guesses(call)
    const named = ({ tool, argument }: FoundTarget): string =>
      JSON.stringify({ tool: tool.name, argument }).slice(1, -1)
    const suggestions = [
      ...(choices.length > 0 ? [`Send one of ${choices.slice(0, MAX_NAMED).map(named).join(', or ')}.`] : []),
      ...(formats.length > 0 ? [`Send target_format: ${formats.slice(0, MAX_NAMED).join(' or ')}.`] : []),
    ]
    const { message, extra } = invalidParam('tool', 'or target_format must say where the data goes')
    return new GatewayError('INVALID_INPUT', message, {
      ...extra,
      isResult: true,
      suggestion: suggestions.length > 0 ? suggestions.join(' ') : 'Name a tool and its argument.',
    })
  }

  /** The tools by default of the servers at the address of a call, without those that their servers do not list. */
  async #defaults(call: Call): Promise<readonly FoundTarget[]> {
    const found = await Promise.all(
      this.#serversAt(call).map(async (name) => {
        const target = this.#configured.byDefault(name)
        if (!target) return []
        const listed = await this.#listed(name)
        // A server that cannot be asked now says so when it is called.
        const isThere = !listed || listed.some((tool) => tool.name === target.tool)
        return isThere ? [this.#targetAt(call, name, target)] : []
      }),
    )
    return found.flat()
  }

  /** The tools that take data to import, by what their servers list. */
  async #guesses(call: Call): Promise<readonly FoundTarget[]> {
    const found = await Promise.all(
      this.#serversAt(call).map(async (name) =>
        ((await this.#listed(name)) ?? []).flatMap((tool) => {
          const argument = dataArgument(tool)
          return argument === undefined ? [] : [this.#targetAt(call, name, { tool: tool.name, argument })]
        }),
      ),
    )
    return found.flat()
  }

  #serversAt({ target: { upstream } }: Call): readonly string[] {
    return upstream === undefined ? this.#deps.servers.names() : [upstream]
  }

  #listed(upstream: string): Promise<readonly Descriptor[] | undefined> {
    const listing = this.#deps.servers.tools(upstream).catch(() => undefined)
    return within(listing, LISTING_TIMEOUT_MS, undefined)
  }

  #targetAt({ target: { upstream } }: Call, server: string, { tool, argument }: ImportTarget): FoundTarget {
    const name = this.#deps.servers.exposedName(server, tool, upstream === undefined)
    return { tool: { upstream, name }, argument }
  }

  /** The tool for a format, at the address of a call. @throws INVALID_INPUT, UNSUPPORTED_OPERATION */
  async forFormat(call: Call, format: string): Promise<FoundTarget> {
    const target = Object.hasOwn(this.#configured.formats, format)
      ? this.#configured.formats[format]
      : undefined
    if (!target) throw unknownFormat(format, Object.keys(this.#configured.formats))
    const { tool: name, argument } = target
    const { upstream } = call.target
    const found = await findTool(call, { name }, this.#deps.servers)
    if (upstream === undefined || !found) return { tool: { upstream, name }, argument }
    if (found.upstream !== upstream)
      throw new GatewayError('UNSUPPORTED_OPERATION', `The tool for ${format} belongs to another server.`, {
        isResult: true,
        field: 'target_format',
        suggestion: 'Import it at the address of all servers.',
      })
    return { tool: { upstream, name: this.#deps.servers.exposedName(upstream, found.name, false) }, argument }
  }

  /** The tools and arguments in the settings that servers do not list. Servers that cannot be reached are skipped. */
  async problems(): Promise<readonly Finding[]> {
    const call = callOnBehalf(anonymous, undefined)
    const ofFormats = Object.entries(this.#configured.formats).map(async ([format, target]) => {
      const unlisted = `no server lists a tool ${target.tool}: write its name at /mcp`
      const problem = await this.#problemOf(call, { name: target.tool }, { target, unlisted })
      return problem && at(['features', 'references', 'imports', format], problem)
    })
    return [...(await Promise.all(ofFormats)), ...(await this.#problemsOfDefaults(call))].filter(
      (each) => each !== undefined,
    )
  }

  /** Not every server has to have the tool in the settings for all of them, but at least one. */
  async #problemsOfDefaults(call: Call): Promise<readonly (Finding | undefined)[]> {
    const common = this.#configured.byDefault()
    const found = await Promise.all(
      this.#deps.servers.names().map(async (upstream) => {
        const target = this.#configured.byDefault(upstream)
        if (!target) return []
        const unlisted = `${upstream} lists no tool ${target.tool}: write its own name`
        const problem = await this.#problemOf(call, { upstream, name: target.tool }, { target, unlisted })
        return [{ upstream, problem, isCommon: isSame(target, common) }]
      }),
    )
    const own = found.flat().filter(({ isCommon }) => !isCommon)
    const shared = found.flat().filter(({ isCommon }) => isCommon)
    const path = ['features', 'references', 'import']
    const [first] = shared.every(({ problem }) => problem) ? shared : []
    return [
      first?.problem && at(path, first.problem),
      ...own.map(({ upstream, problem }) => problem && at(['upstreams', upstream, ...path], problem)),
    ]
  }

  #problemOf(call: Call, tool: InnerTool, checked: CheckedTarget): Promise<Problem | undefined> {
    return within(this.#compare(call, tool, checked), LISTING_TIMEOUT_MS, undefined)
  }

  async #compare(
    call: Call,
    tool: InnerTool,
    { target: { argument }, unlisted: message }: CheckedTarget,
  ): Promise<Problem | undefined> {
    const unlisted = { key: 'tool', message } as const
    try {
      const found = await this.#deps.servers.tool(innerCall(call, tool, Payload.of({})))
      if (!found || found.isUnlisted || found.isBuiltin) return unlisted
      const schema = found.definition.inputSchema
      if (!isObject(schema) || acceptsMember(schema, argument)) return undefined
      return { key: 'argument', message: `${tool.name} has no argument ${argument}` }
    } catch (error) {
      return error instanceof GatewayError && error.code === 'UNKNOWN_TOOL' ? unlisted : undefined
    }
  }
}

/** A tool in the settings, and the problem of one that is not listed. */
interface CheckedTarget {
  readonly target: ImportTarget
  readonly unlisted: string
}

/** What is wrong with a tool in the settings. */
interface Problem {
  readonly key: 'tool' | 'argument'
  readonly message: string
}

function at(path: readonly string[], { key, message }: Problem): Finding {
  return { path: [...path, key], message }
}

function unknownFormat(format: string, known: readonly string[]): GatewayError {
  const { message, extra } = invalidParam(
    'target_format',
    `${JSON.stringify(format.slice(0, 60))} is not known`,
  )
  const suggestion =
    known.length === 0
      ? 'Name a tool and its argument; no formats are configured.'
      : `Use ${known.join(' or ')}, or name a tool and its argument.`
  return new GatewayError('INVALID_INPUT', message, { ...extra, isResult: true, suggestion })
}

/** How long a download may take, in milliseconds. */
const DOWNLOAD_TIMEOUT_MS = 600_000

interface DownloadContext {
  readonly references: References
  readonly opener: Opener
  readonly allowHosts: readonly string[]
  /** How long the data is kept, in milliseconds. */
  readonly ttl: number
}

/** Foreign data, as a caller describes it. */
export interface ForeignData {
  readonly url: string
  readonly checksum?: Checksum | undefined
}

/** The digest of data in hex. */
interface Checksum {
  readonly algorithm: 'sha256' | 'md5'
  readonly value: string
}

/**
 * Downloads data, and keeps it for the caller.
 * @throws PERMISSION_DENIED, UPSTREAM_ERROR, SERVER_UNAVAILABLE, CONFLICT if its checksum differs, QUOTA_EXHAUSTED
 */
export async function download(
  { principal, signal }: Call,
  { url: text, checksum }: ForeignData,
  { references, opener, allowHosts, ttl }: DownloadContext,
): Promise<Reference> {
  const url = allowedUrl(text, allowHosts)
  const response = await opener.open({
    url: url.href,
    headers: { accept: '*/*', 'accept-encoding': 'identity' },
    timeoutMs: DOWNLOAD_TIMEOUT_MS,
    signal,
  })
  if (response.kind === 'failed') throw failed(url.hostname, response.reason)
  try {
    const declared = contentOf(response, url.hostname)
    const bytes = checked(response.body, { host: url.hostname, checksum })
    const name = nameOf(url, response)
    const file = await typedFile(bytes, { type: declared, name })
    return await references.add(principal, { server: UPLOADS, name, type: file.type, ttl }, file.bytes)
  } finally {
    response.close()
  }
}

/** @throws INVALID_INPUT, PERMISSION_DENIED */
function allowedUrl(text: string, allowHosts: readonly string[]): URL {
  if (!URL.canParse(text)) throw invalidParam('access_url', 'must be a URL')
  if (text.length > MAX_URL_LENGTH)
    throw invalidParam('access_url', `must have at most ${MAX_URL_LENGTH} characters`)
  const url = new URL(text)
  const host = bareHost(url.hostname)
  if (url.protocol !== 'https:' || url.username !== '' || url.password !== '')
    throw invalidParam('access_url', 'must be an https URL without a user')
  if (allowHosts.some((allowed) => bareHost(allowed) === host)) return url
  throw new GatewayError('PERMISSION_DENIED', 'The gateway does not download data from this host.', {
    field: 'access_url',
    reason: 'host',
    suggestion: 'Ask the operator of the gateway to add the host to features.references.allow_hosts.',
  })
}

/** The media type that a response declares. @throws UPSTREAM_ERROR if it is not the data */
function contentOf({ status, headers }: OpenedResponse, host: string): string | undefined {
  const encoding = headers['content-encoding']
  if (status >= 300 && status < 400) throw refused(host, 'with a redirect, which is not followed')
  if (status !== 200) throw refused(host, `with status ${status}`)
  if (encoding !== undefined && encoding !== 'identity') throw refused(host, 'with encoded data')
  const type = headers['content-type']
  return typeof type === 'string' ? type : undefined
}

/** The same bytes; fails at their end if their checksum is another one. */
async function* checked(
  bytes: AsyncIterable<Uint8Array>,
  { host, checksum }: { readonly host: string; readonly checksum: Checksum | undefined },
): AsyncGenerator<Uint8Array> {
  const hash: Hash | undefined = checksum && createHash(checksum.algorithm)
  try {
    for await (const chunk of bytes) {
      hash?.update(chunk)
      yield chunk
    }
  } catch {
    throw failed(host, 'connection')
  }
  if (hash && hash.digest('hex') !== checksum?.value)
    throw new GatewayError('CONFLICT', 'The downloaded data has another checksum than the given one.', {
      field: 'checksum',
      reason: 'checksum',
      suggestion: 'Request the reference again from the server that has the data.',
    })
}

/** The checksum among the arguments: `{algorithm, value}`, or the hex of a SHA-256. @throws INVALID_INPUT */
export function checksumOf(value: unknown): Checksum | undefined {
  if (value === undefined) return undefined
  const { algorithm, value: digest } = isObject(value) ? value : { algorithm: 'sha256', value }
  const hex = typeof digest === 'string' ? digest.toLowerCase() : ''
  if (algorithm === 'sha256' && /^[0-9a-f]{64}$/.test(hex)) return { algorithm, value: hex }
  if (algorithm === 'md5' && /^[0-9a-f]{32}$/.test(hex)) return { algorithm, value: hex }
  throw invalidParam('checksum', 'must be {algorithm, value} with the algorithm sha256 or md5, in hex')
}

/** What people call the data: as its server says, or the end of the path if that can only be the name of a file. */
function nameOf({ pathname }: URL, { headers }: OpenedResponse): string {
  const disposition = headers['content-disposition']
  const declared = typeof disposition === 'string' ? nameIn(disposition) : undefined
  const last = pathname.split('/').at(-1) ?? ''
  return declared || (FILE_NAME.test(last) ? last : 'download')
}

/** The path of a URL may be a secret: what could be one is no name. */
const FILE_NAME = /^[\w-]{1,20}\.[A-Za-z]{1,5}$/

function refused(host: string, how: string): GatewayError {
  return new GatewayError('UPSTREAM_ERROR', `${host} answered ${how}, so the data was not imported.`, {
    suggestion: 'Request the reference again from the server that has the data.',
  })
}

function failed(host: string, reason: DialFailure): GatewayError {
  if (reason === 'aborted') return new GatewayError('CANCELLED', 'The download was cancelled.')
  if (reason === 'url' || reason === 'address')
    return new GatewayError('PERMISSION_DENIED', `${host} is not at an address of the internet.`, {
      field: 'access_url',
      reason: 'address',
    })
  return new GatewayError('SERVER_UNAVAILABLE', `The data could not be downloaded from ${host}: ${reason}.`, {
    suggestion: 'Try again later, or request the reference again.',
  })
}
