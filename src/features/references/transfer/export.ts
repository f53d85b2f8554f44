/**
 * Results as references on request: the tool `export_result_ref`, and `POST /export`. Either makes a call of a tool for
 * its caller and keeps the result whatever its size, or keeps the result of an operation that has ended.
 */
import { tasksExtension } from '../../../core/revisions.ts'
import type { Call, Outcome } from '../../../core/call.ts'
import type { Descriptor } from '../../../core/descriptor.ts'
import { asGatewayError, GatewayError, invalidParam } from '../../../core/error.ts'
import { isObject } from '../../../core/json/json.ts'
import { Payload } from '../../../core/payload.ts'
import { world } from '../../../core/world.ts'
import { NOT_KEPT_KEY, REFERENCE_KEY, REFERENCES_KEY } from '../../../protocol/meta-keys.ts'
import { isEnded, OperationIds, type OperationRecord, Operations } from '../../../records/operations.ts'
import { type Reference, unknownReference } from '../../../records/references.ts'
import { collected } from '../../../store/blobs/blobs.ts'
import { asToolWithResult, optionalText } from '../../builtin-tool.ts'
import type { BuiltinRoute, BuiltinTool, Services } from '../../feature.ts'
import {
  AS_REFERENCE,
  describedFor,
  type Keeping,
  REFERENCE_ID,
  withFacts,
  withReason,
  withReferences,
} from '../keep.ts'
import { blocksOf, PREVIEWED_BYTES, referenceUri } from '../kept-data.ts'
import type { ReferenceAccess } from '../read.ts'

interface ExportContext extends ReferenceAccess {
  /** How results of a server are kept; undefined if they are not. */
  keepingOf(upstream: string): Keeping | undefined
  readonly deps: Pick<Services, 'invoker' | 'servers' | 'store' | 'identity' | 'log' | 'metrics'>
}

/** What the gateway does itself, as a tool and at a path over HTTP. */
export interface ToolWithRoute {
  readonly tool: BuiltinTool
  readonly route: BuiltinRoute
}

/** Exports as a tool and over HTTP. */
export function exporting(options: ExportContext): ToolWithRoute {
  const exporter = new Exporter(options)
  return {
    tool: asToolWithResult(definition, async (call) => forModel(await exporter.run(call))),
    route: { verb: 'POST', path: '/export', handle: async (call) => forProgram(await exporter.run(call)) },
  }
}

const definition = {
  name: 'export_result_ref',
  title: 'Keep a result',
  description:
    'Calls a tool and keeps its result in the gateway, whatever its size: returns a reference (ref://…), which works as an argument of any tool. With operation_id, the result of an earlier call is kept.',
  inputSchema: {
    type: 'object',
    properties: {
      tool: { type: 'string', description: 'The tool to call, by its name in this list of tools.' },
      arguments: { type: 'object', description: 'The arguments of the tool.' },
      operation_id: {
        type: 'string',
        maxLength: 200,
        description: 'In place of a tool: the operation whose result is kept. It must have ended.',
      },
      ref_id: {
        type: 'string',
        description: 'An id of your choice: 1 to 64 letters, digits, _, - and .',
      },
    },
    additionalProperties: false,
  },
  outputSchema: {
    type: 'object',
    properties: {
      ref_id: { type: 'string' },
      origin_server: { type: 'string' },
      mime_type: { type: 'string' },
      size_bytes: { type: 'integer' },
      expires_at: { type: 'string' },
      checksum: {
        type: 'object',
        properties: { algorithm: { type: 'string' }, value: { type: 'string' } },
        required: ['algorithm', 'value'],
      },
      not_kept: { type: 'object', description: 'Why the result was not kept. The result is returned.' },
      result: { description: 'The structured content of a result that was not kept.' },
    },
  },
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true },
} as const

/** The outcome with the facts of the data as structured content, without the URL, which is a credential. */
function forModel(outcome: Outcome): Outcome {
  if (outcome.kind !== 'result' || outcome.result.member('isError') === true) return outcome
  const { result } = outcome
  const facts = factsOf(result).with({ access_url: undefined })
  return { kind: 'result', result: result.with({ structuredContent: facts }) }
}

/** The facts alone, with the content if not all of it was kept; the result of a call that failed as it is. */
function forProgram(outcome: Outcome): Outcome {
  if (outcome.kind !== 'result' || outcome.result.member('isError') === true) return outcome
  const { result } = outcome
  const isWhole = isKept(result) && result.meta(NOT_KEPT_KEY) === undefined
  const content = isWhole ? undefined : result.at('content')
  return {
    kind: 'result',
    result: factsOf(result).with({ content, references: result.meta(REFERENCES_KEY) }),
  }
}

function isKept(result: Payload): boolean {
  return isObject(result.meta(REFERENCE_KEY))
}

/** The facts of the data, and why some was not kept; of a result that was not kept at all, its structured content too. */
function factsOf(result: Payload): Payload {
  const reason = result.meta(NOT_KEPT_KEY)
  if (isKept(result)) return Payload.of(result.meta(REFERENCE_KEY)).with({ not_kept: reason })
  // The tool did its work.
  const facts = Payload.of({ not_kept: reason ?? {} })
  return facts.with({ result: result.at('structuredContent') })
}

/** Keeps the results of calls and operations. */
class Exporter {
  readonly #options: ExportContext
  readonly #operations: Operations
  readonly #ids: OperationIds

  constructor(options: ExportContext) {
    const { store, identity } = options.deps
    this.#options = options
    this.#operations = new Operations(store, world.now)
    this.#ids = new OperationIds(identity.seal, identity.membership.id)
  }

  async run(call: Call): Promise<Outcome> {
    const tool = optionalText(call, 'tool')
    const operation = optionalText(call, 'operation_id')
    const id = optionalText(call, 'ref_id')
    if ((tool === undefined) === (operation === undefined))
      throw invalidParam('tool', 'or operation_id must be given, and not both')
    if (tool !== undefined) return this.#exportCall(call, tool, id)
    if (id !== undefined) await this.#options.references.mustBeFree(call.principal, id)
    return this.#exportOperation(call, operation ?? '', id)
  }

  /** Makes a call, and keeps its result. */
  async #exportCall(call: Call, tool: string, id: string | undefined): Promise<Outcome> {
    const { servers, invoker } = this.#options.deps
    const named = { upstream: call.target.upstream, name: tool }
    const requested = { [AS_REFERENCE]: true, ...(id !== undefined && { [REFERENCE_ID]: id }) }
    const inner = innerCall(call, named, innerArguments(call), requested)
    const found = await findTool(call, named, servers)
    if (found?.isBuiltin) throw invalidParam('tool', 'is a tool of the gateway, whose results are not kept')
    const keeping = found && (await this.#mustBeKept(found.upstream, call))
    const outcome = await invoker.call(inner)
    if (!keeping || outcome.kind !== 'result' || outcome.result.member('isError') === true) return outcome
    const { result } = outcome
    if (isKept(result) || isObject(result.meta(NOT_KEPT_KEY))) return outcome
    // The call took effect: from here on nothing fails.
    const kept = await this.#whole(result, found, call, { ...keeping, id }).catch((error: unknown) =>
      withReason(result, asGatewayError(error), found, this.#options.deps),
    )
    return { kind: 'result', result: kept }
  }

  /** @throws UNSUPPORTED_OPERATION, PERMISSION_DENIED */
  async #mustBeKept(upstream: string, call: Call): Promise<Keeping> {
    const keeping = this.#options.keepingOf(upstream)
    if (!keeping)
      throw new GatewayError('UNSUPPORTED_OPERATION', `Results of ${upstream} are not kept.`, {
        isResult: true,
        suggestion: `Call the tool itself, or turn references on for ${upstream}.`,
      })
    if (await this.#options.mayRead({ server: upstream, id: '' }, call)) return keeping
    throw new GatewayError(
      'PERMISSION_DENIED',
      `You may not read resources of ${upstream}, so its results cannot be kept for you.`,
      { suggestion: 'Call the tool itself.' },
    )
  }

  /** A result without a part that can be kept, such as one with links alone: it is kept as JSON. */
  async #whole(
    result: Payload,
    { upstream, name }: Pick<Descriptor, 'upstream' | 'name'>,
    call: Call,
    keeping: ChosenKeeping,
  ): Promise<Payload> {
    const target = { method: 'tools/call', upstream, name }
    const content = Payload.of({ content: [] }).with({ structuredContent: result.with({ _meta: undefined }) })
    const context = { ...call, target, tool: undefined }
    const found = await withReferences(content, context, { ...keeping, isRequested: true })
    this.#options.deps.metrics.referenced('kept', found.kept.length)
    return withFacts(found, call)
  }

  /** Keeps the result of an operation. What is unknown here, or unknown to the caller, is refused when it is resumed. */
  async #exportOperation(call: Call, operation: string, id: string | undefined): Promise<Outcome> {
    const { invoker, servers, metrics } = this.#options.deps
    const { upstream } = call.target
    const key = this.#ids.keyOf(call.principal, operation)
    const record = key === undefined ? undefined : (await this.#operations.find(key))?.record
    const isHere = record && (upstream === undefined || upstream === record.upstream)
    if (isHere && !isEnded(record)) throw notEnded(record, operation)
    const outcome = await invoker.call({
      ...call,
      method: 'operation/resume',
      params: Payload.of({ operation_id: operation }),
      target: { method: 'operation/resume', isBuiltin: true, ...(upstream !== undefined && { upstream }) },
      logFields: new Map(),
    })
    if (!record || outcome.kind !== 'result' || outcome.result.member('isError') === true) return outcome
    const keeping = await this.#mustBeKept(record.upstream, call)
    const kept = outcome.result.meta(REFERENCE_KEY)
    if (isObject(kept)) {
      const reference = await this.#options.references.find(call.principal, String(kept.ref_id))
      if (!reference) throw unknownReference()
      if (id === undefined || id === reference.id) return outcome
      return this.#copied(outcome.result, reference, call, { ...keeping, id })
    }
    const target = { method: 'tools/call', upstream: record.upstream, name: record.tool }
    const tool = await servers.tool({ ...call, method: target.method, target })
    // The data is of the call that returned it.
    const returning = { ...call, requestId: record.requestId }
    const chosen = { ...keeping, id }
    const context = { ...returning, target, tool }
    const found = await withReferences(outcome.result, context, { ...chosen, isRequested: true })
    if (found.kept.length === 0)
      return { kind: 'result', result: await this.#whole(found.result, target, returning, chosen) }
    metrics.referenced('kept', found.kept.length)
    return { kind: 'result', result: withFacts(found, call).withMeta({ [NOT_KEPT_KEY]: undefined }) }
  }

  /** The result with a reference of the caller's choice to the same data, in place of the first one. */
  async #copied(result: Payload, reference: Reference, call: Call, keeping: ChosenKeeping): Promise<Outcome> {
    const { references, deps } = this.#options
    const { server, tool, requestId, name, type } = reference
    const origin = {
      server,
      ...(tool !== undefined && { tool }),
      ...(requestId !== undefined && { requestId }),
    }
    const facts = { ...origin, name, type, id: keeping.id, ttl: keeping.ttl }
    const copy = await references.add(call.principal, facts, await references.open(reference))
    deps.metrics.referenced('kept')
    const described = describedFor(call, copy, keeping)
    const beginning = await collected(await references.open(copy, { start: 0, end: PREVIEWED_BYTES }))
    const given = result.with({
      content: withBlocks(result.at('content')?.items ?? [], reference, blocksOf(described, beginning)),
    })
    const all = result.meta(REFERENCES_KEY)
    const others = Array.isArray(all) ? { [REFERENCES_KEY]: [described.data, ...all.slice(1)] } : {}
    return { kind: 'result', result: given.withMeta({ [REFERENCE_KEY]: described.data, ...others }) }
  }
}

/** How the result is kept, and the id that the caller chose for it. */
type ChosenKeeping = Keeping & { readonly id: string | undefined }

/** Content blocks with others in place of the link to a reference and of its preview, the block after it. */
function withBlocks(
  content: readonly Payload[],
  reference: Reference,
  blocks: readonly unknown[],
): readonly unknown[] {
  const link = content.findIndex(
    ({ fields: { type, uri } }) => type === 'resource_link' && uri === referenceUri(reference),
  )
  const [at, count] = link < 0 ? [0, 0] : [link, 2]
  return [...content.slice(0, at), ...blocks, ...content.slice(at + count)]
}

function notEnded({ state }: OperationRecord, operation: string): GatewayError {
  return new GatewayError('CONFLICT', `The operation has not ended: it is ${state.replace('_', ' ')}.`, {
    category: 'transient',
    field: 'operation_id',
    reason: 'unfinished',
    suggestion: `Call resume_operation with operation_id "${operation}" to wait for it, then export it again.`,
  })
}

/** A tool to call, by its name at an address: of one server, or of all if `upstream` is absent. */
export interface InnerTool {
  readonly upstream?: string | undefined
  readonly name: string
}

/**
 * A call of a tool in the course of another call. Its outcome is that of the outer one: input requests reach the client,
 * which repeats the outer call, and so the inner one. It is never a task, since the outer call has to see its result.
 */
export function innerCall(
  call: Call,
  { upstream, name }: InnerTool,
  args: Payload,
  meta: Readonly<Record<string, unknown>> = {},
): Call {
  const target = { method: 'tools/call', name, ...(upstream !== undefined && { upstream }) }
  const all = { ...call.meta, ...meta }
  return {
    ...call,
    method: target.method,
    params: Payload.of({ name, _meta: all }).with({ arguments: args }),
    target,
    meta: all,
    client: withoutTasks(call.client),
    // The log line of the outer call names its own target.
    logFields: new Map(),
  }
}

/** The descriptor of a tool to call; undefined if it is unknown, or if listing fails, which the call of it reports. */
export async function findTool(
  call: Call,
  tool: InnerTool,
  servers: Pick<Services['servers'], 'tool'>,
): Promise<Descriptor | undefined> {
  try {
    return await servers.tool(innerCall(call, tool, Payload.of({})))
  } catch {
    return undefined
  }
}

function withoutTasks(client: Call['client']): Call['client'] {
  const { extensions, ...capabilities } = client.capabilities
  if (!isObject(extensions) || extensions[tasksExtension] === undefined) return client
  const { [tasksExtension]: _tasks, ...others } = extensions
  return { ...client, capabilities: { ...capabilities, extensions: others } }
}

/** The arguments for a tool, in the arguments of the tool that calls it. @throws INVALID_INPUT */
export function innerArguments({ params }: Call): Payload {
  const given = params.at('arguments') ?? Payload.of({})
  if (!isObject(given.value)) throw invalidParam('arguments', 'must be an object')
  return given
}
