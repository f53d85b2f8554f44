/**
 * The tool `import_from_ref`, and `POST /import`: data is given to a tool as one of its arguments. The tool is named, or
 * chosen by a format that the configuration assigns to it. Data of a server that is not here is downloaded first.
 */
import type { Call, Handler, Outcome } from '../../core/call.ts'
import { asGatewayError, GatewayError, invalidParam, isCancelled } from '../../core/error.ts'
import { isObject } from '../../core/json/json.ts'
import { Payload } from '../../core/payload.ts'
import { ERROR_KEY, NS } from '../../protocol/meta-keys.ts'
import { type Reference, type References, unknownReference } from '../../records/references.ts'
import { answered, asToolWithResult } from '../builtin-tool.ts'
import type { BuiltinRoute, BuiltinTool, Services } from '../feature.ts'
import { checksumOf, type ForeignData } from './foreign.ts'
import type { ImportTools } from './import-tools.ts'
import { findTool, type InnerTool, innerArguments, innerCall, optionalText } from './inner-call.ts'
import { readableReference } from './may-read.ts'
import { uriOf } from './preview.ts'
import { parseReference, SCHEME } from './selection.ts'

interface Options {
  readonly references: References
  readonly tools: ImportTools
  mayRead(reference: Reference, call: Call): Promise<boolean>
  /** Downloads data from a foreign URL, and keeps it for the caller. */
  download(call: Call, data: ForeignData): Promise<Reference>
  readonly deps: Pick<Services, 'invoker' | 'servers' | 'gateway'>
}

/** The tool, and the path over HTTP. */
export function importing(options: Options): { readonly tool: BuiltinTool; readonly route: BuiltinRoute } {
  const run: Handler = (call) => importReference(call, options)
  return {
    tool: { ...asToolWithResult(definition, run), isListed: () => true },
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

/** What is imported: the text of the reference, and where it goes; nowhere if it is only downloaded. */
interface ImportRequest {
  readonly uri: string
  readonly foreign: ForeignData | undefined
  readonly target: { readonly tool: InnerTool; readonly args: Payload; readonly argument: string } | undefined
}

/** @throws what is wrong with the arguments; failures of the import are results */
async function importReference(call: Call, options: Options): Promise<Outcome> {
  const request = await importRequestOf(call, options)
  let progress: Progress = { ref_id: request.uri, checksum_verified: false }
  try {
    const reference = request.foreign
      ? await downloaded(call, request.foreign, options)
      : await known(request.uri, call, options)
    await verify(reference, options)
    // What is downloaded has an id of its own; the part is that of the caller.
    const uri = request.foreign ? request.uri.replace(/^ref:\/\/[^?#]*/, uriOf(reference)) : request.uri
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
async function downloaded(call: Call, foreign: ForeignData, options: Options): Promise<Reference> {
  const id = call.requestState[STATE_KEY]
  const earlier = typeof id === 'string' ? await options.references.find(call.principal, id) : undefined
  return earlier ?? options.download(call, foreign)
}

interface Progress {
  readonly ref_id: string
  readonly checksum_verified: boolean
}

/** @throws INVALID_INPUT */
async function importRequestOf(call: Call, options: Options): Promise<ImportRequest> {
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
  const { tool, argument } = found
  const args = innerArguments(call)
  if (args.fields[argument] !== undefined)
    throw invalidParam(`arguments.${argument}`, 'cannot be given, since it gets the data')
  return { uri, foreign, target: { tool, args, argument } }
}

/** The tool for a format, the one that the caller names, or the one by default; undefined without any. @throws INVALID_INPUT */
async function targetOf(
  call: Call,
  { format, name }: { readonly format: string | undefined; readonly name: string | undefined },
  options: Options,
): ReturnType<ImportTools['byDefault']> {
  if (format !== undefined) return options.tools.forFormat(call, format)
  if (name !== undefined) return named(call, name, options)
  // An argument without its tool is no request for another tool.
  return call.params.fields.argument === undefined ? options.tools.byDefault(call) : undefined
}

/** The tool that a caller names. @throws INVALID_INPUT */
async function named(
  call: Call,
  name: string,
  { deps }: Options,
): Promise<{ readonly tool: InnerTool; readonly argument: string }> {
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
  { references, deps }: Options,
): Promise<ForeignData | undefined> {
  const origin = optionalText(call, 'origin_server')
  const url = optionalText(call, 'access_url')
  const written = parseReference(uri)
  const reference = written && (await references.find(call.principal, written.id))
  const isHere = origin === undefined || deps.servers.names().includes(origin) || origin === reference?.server
  if (!isHere && url === undefined)
    throw invalidParam(
      'origin_server',
      'is not a server of this gateway: access_url must say where the data is',
    )
  if (!isHere && url !== undefined) return { url, checksum: checksumOf(call.params.fields.checksum) }
  if (origin !== undefined && reference && reference.server !== origin)
    throw invalidParam(
      'origin_server',
      `is not the server that the data came from, which is ${reference.server}`,
    )
  return undefined
}

/** @throws RESOURCE_NOT_FOUND */
async function known(uri: string, call: Call, options: Options): Promise<Reference> {
  const written = parseReference(uri)
  if (!written) throw unknownReference()
  return readableReference(call, written.id, options)
}

/** Reads all of the data, whatever part of it is imported. @throws CONFLICT */
async function verify(reference: Reference, { references }: Options): Promise<void> {
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

/** A call that goes on after its answer is pending; its id gets the result. */
function statusOf(result: Payload): Readonly<Record<string, unknown>> {
  if (result.member('isError') !== true) return { status: 'imported' }
  const error = result.meta(ERROR_KEY)
  const details = isObject(error) && isObject(error.details) ? error.details : {}
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
  const fields = isObject(structured) ? structured : {}
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
