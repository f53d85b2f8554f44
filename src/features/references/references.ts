/**
 * The feature `references`: large results stay in the gateway, and clients get references to them, which work as
 * arguments of tools of all servers. It has two places in the chain: `references` resolves arguments before anything
 * reads them, and `largeResults` keeps results as the features next to the server left them.
 */
import type { Call, Middleware } from '../../core/call.ts'
import { asGatewayError } from '../../core/error.ts'
import { isLongerThan } from '../../core/json/shorten.ts'
import { background } from '../../core/log.ts'
import { Payload } from '../../core/payload.ts'
import { MAX_MESSAGE } from '../../core/spool.ts'
import type { Principal } from '../../core/principal.ts'
import { durationSchema, sizeSchema } from '../../core/time/units.ts'
import { NOT_KEPT_KEY, NS, withoutFlag } from '../../protocol/meta-keys.ts'
import { type Reference, type ReferenceLimits, References, UPLOADS } from '../../records/references.ts'
import { StoreSpool } from '../../records/spool.ts'
import { Uploads } from '../../records/uploads.ts'
import type { Feature, Services, SettingsOf } from '../feature.ts'
import { CallUrls } from './call-urls.ts'
import { dataRoute } from './data.ts'
import { checkFileArguments, filesMiddleware } from './file-schemas.ts'
import { fileMethods } from './file-transfer.ts'
import { exchanging, type ImportSettings } from './exchange.ts'
import type { ReferenceFiles } from './files.ts'
import { FileFolders } from './folders.ts'
import { MAX_PARTS, withFacts, withReferences } from './keep.ts'
import { loggedUse } from './logged.ts'
import { readReferenceTool, referenceResource } from './reading.ts'
import { requestUploadTool } from './request-upload.ts'
import { resolveReferences } from './resolve.ts'
import { type Unspooled, wholeAgain, withoutSpooled } from './spooled.ts'
import { canOpenFiles } from './takes-path.ts'
import { UploadService } from './uploads.ts'
import { DataUrls } from './urls.ts'

/** The settings of references. Sizes are in bytes, times in milliseconds. */
interface Settings extends ImportSettings {
  readonly over: number
  readonly ttl: number
  readonly argument: number
  readonly total: number
  readonly folder?: string
  readonly urls: boolean
  readonly url_ttl: number
  readonly upload: number
  readonly file_hosts: readonly string[]
}

// Where references are on for single servers only.
const DEFAULT_TOTAL_BYTES = 4 * 1024 * 1024 * 1024
const DEFAULT_UPLOAD_BYTES = 100 * 1024 * 1024
const DEFAULT_TTL_MS = 900_000
/** How often what has expired is deleted, in milliseconds. */
const SWEEP_INTERVAL_MS = 60_000
/** The `_meta` key of a request whose result is kept whatever its size, and of the id that it gets. */
const AS_REFERENCE = `${NS}/as_reference`
const REFERENCE_ID = `${NS}/ref_id`

const common = {
  name: 'references',
  place: 'features',
  isLeftToGateway: true,
  schema: {
    type: 'object',
    default: 'off',
    description:
      'Whether large results are kept in the gateway. Clients get references to them, which they can read in parts and send as arguments of tools.',
    properties: {
      over: {
        ...sizeSchema,
        default: '64KB',
        description: 'The size from which a result is kept. Callers can have smaller ones kept too.',
      },
      ttl: { ...durationSchema, default: '15m', description: 'How long data is kept.' },
      argument: {
        ...sizeSchema,
        default: '64MB',
        description: 'The maximum size of the data that the references in the arguments of a call stand for.',
      },
      total: {
        ...sizeSchema,
        default: '4GB',
        'x-gateway': true,
        description:
          'The maximum size of all kept data, for all servers. One caller may use a quarter of it, if callers are authenticated.',
      },
      folder: {
        type: 'string',
        pattern: '^(?:/|[A-Za-z]:[\\\\/])',
        errorMessage: 'must be an absolute path',
        description:
          'Where data is put as files, for servers on this machine whose tools take a path: a folder that only the gateway writes to. By default one among the temporary files. Set it to a folder in which the servers may read.',
      },
      imports: {
        type: 'object',
        'x-gateway': true,
        additionalProperties: {
          type: 'object',
          additionalProperties: false,
          properties: {
            tool: { type: 'string', minLength: 1, description: 'The tool, by its name at `/mcp`.' },
            argument: { type: 'string', minLength: 1, description: 'Its argument that gets the data.' },
          },
          required: ['tool', 'argument'],
        },
        description:
          'The tools to which `import_from_ref` gives data, by the `target_format` that a caller names.',
      },
      allow_hosts: {
        type: 'array',
        items: { type: 'string', pattern: '^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$' },
        'x-gateway': true,
        description:
          'The hosts from which `import_from_ref` may download data of servers that are not behind the gateway, over https. None by default.',
      },
      urls: {
        type: 'boolean',
        default: false,
        'x-gateway': true,
        description:
          'Whether clients get a URL with each reference, at which whoever has it can read the data for a short time.',
      },
      url_ttl: {
        ...durationSchema,
        default: '5m',
        'x-gateway': true,
        description: 'How long such a URL works.',
      },
      upload: {
        ...sizeSchema,
        default: '100MB',
        'x-gateway': true,
        description: 'The maximum size of a file that callers or people send.',
      },
      file_hosts: {
        type: 'array',
        items: { type: 'string', pattern: '^[a-z0-9.-]+$', errorMessage: 'must be a host name' },
        default: [],
        description:
          'Hosts, besides that of the server, at which a server with the draft extension `files` may have clients transfer files.',
      },
    },
  },
} as const

/** Resolves references in arguments, and reads them. */
export const references: Feature<Settings | false> = {
  ...common,
  create: (settings, deps) => {
    const kept = new References(deps.store, limitsOf(settings()))
    const options = {
      references: kept,
      mayRead: (reference: Pick<Reference, 'server' | 'id'>, call: Call) => mayRead(reference, call, deps),
    }
    const folders = new FileFolders(settings, deps)
    const urls = new DataUrls(deps)
    const common = settings()
    const uploads = new UploadService({
      references: kept,
      uploads: new Uploads(deps.store),
      deps,
      max: common ? common.upload : DEFAULT_UPLOAD_BYTES,
      ttl: common ? common.ttl : DEFAULT_TTL_MS,
      ...urlsOf(urls, common),
    })
    const exchange = exchanging({
      ...options,
      keepingOf: keeper(settings, { references: kept, urls }),
      requestOf: (id) => ({ [AS_REFERENCE]: true, ...(id !== undefined && { [REFERENCE_ID]: id }) }),
      settings: common || {},
      ttl: common ? common.ttl : DEFAULT_TTL_MS,
      deps,
    })
    let timer: NodeJS.Timeout | undefined
    return {
      byteRoutes: [dataRoute({ ...options, urls, log: deps.log }), ...uploads.routes],
      middleware: ({ method, upstream, isBuiltin }) => {
        const own = settings(upstream)
        if (method !== 'tools/call' || isBuiltin || own === false) return undefined
        const server = canOpenFiles(deps.servers.settings(upstream ?? ''))
        const { metrics } = deps
        return resolving(
          { ...options, max: own.argument, server },
          { folder: folders.at(own.folder), urls, metrics },
        )
      },
      methods: fileMethods({
        ...options,
        uploads,
        urls,
        urlTtl: common && common.urls ? common.url_ttl : undefined,
        hosts: (upstream) => hostsOf(settings(upstream)),
        deps,
      }),
      responseMiddleware: (method) => filesMiddleware(method, (upstream) => settings(upstream) !== false),
      resources: () => [referenceResource({ ...options, max: MAX_READ_BYTES })],
      tools: [
        readReferenceTool({ ...options, max: MAX_READ_BYTES }),
        requestUploadTool(uploads),
        ...exchange.tools,
      ],
      routes: exchange.routes,
      start: async () => {
        const sweep = (): void => {
          background(
            kept.sweep().then((expired) => deps.metrics.referenced('expired', expired)),
            deps.log,
          )
          for (const folder of folders.all()) background(folder.sweep(), deps.log)
        }
        sweep()
        timer = setInterval(sweep, SWEEP_INTERVAL_MS)
        timer.unref()
      },
      problems: async () => [...(await folders.problems()), ...(await exchange.problems())],
      close: async () => clearInterval(timer),
    }
  },
}

/** The largest content of `resources/read`, in bytes. */
const MAX_READ_BYTES = 7 * 1024 * 1024

/** How long a string of a result is that is kept while it arrives, in bytes. */
const SPOOLED_BYTES = 1024 * 1024

/** Keeps large results. */
export const largeResults: Feature<Settings | false> = {
  ...common,
  create: (settings, deps) => {
    const limits = limitsOf(settings())
    const keepingOf = keeper(settings, {
      references: new References(deps.store, limits),
      urls: new DataUrls(deps),
    })
    const { capacity = Number.POSITIVE_INFINITY } = deps.store.blobs
    const spool = StoreSpool.of(deps.store.blobs, {
      over: SPOOLED_BYTES,
      total: Math.min(limits.total, capacity),
      restored: MAX_MESSAGE,
    })
    return {
      middleware: ({ method, upstream, isBuiltin }) => {
        if (method !== 'tools/call' || isBuiltin || upstream === undefined) return undefined
        const options = keepingOf(upstream)
        return options && keeping({ ...options, spool }, upstream, deps)
      },
    }
  },
}

/** What makes a URL for each reference, if that is on. */
function urlsOf(
  urls: DataUrls,
  settings: Settings | false,
): { urlOf?(principal: Principal, reference: Reference): string | undefined } {
  if (!settings || !settings.urls) return {}
  return { urlOf: (principal, reference) => urls.of(principal, reference, { ttl: settings.url_ttl }) }
}

function hostsOf(settings: Settings | false): readonly string[] {
  return settings === false ? [] : settings.file_hosts
}

type Keeping = Omit<Parameters<typeof withReferences>[2], 'isRequested' | 'id'>

/** How results of each server are kept; undefined for those whose results are not. */
function keeper(
  settings: SettingsOf<Settings | false>,
  { references: kept, urls }: { readonly references: References; readonly urls: DataUrls },
): (upstream: string) => Keeping | undefined {
  const withUrls = urlsOf(urls, settings())
  return (upstream) => {
    const own = settings(upstream)
    if (own === false) return undefined
    return { references: kept, over: own.over, ttl: own.ttl, ...withUrls }
  }
}

function limitsOf(settings: Settings | false): ReferenceLimits {
  return { total: settings ? settings.total : DEFAULT_TOTAL_BYTES }
}

function resolving(
  options: Omit<Parameters<typeof resolveReferences>[1], 'files' | 'urls'>,
  {
    folder,
    urls,
    metrics,
  }: {
    readonly folder: ReferenceFiles
    readonly urls: DataUrls
    readonly metrics: Services['metrics']
  },
): Middleware {
  return (next) => async (call) => {
    // The gateway writes no references: what looks like one is data, which undoing a call restores as it was.
    if (call.internal) return next(call)
    checkFileArguments(call)
    const files = folder.begin(call)
    try {
      const callUrls = new CallUrls(call, urls)
      const resolved = await resolveReferences(call, { ...options, files, urls: callUrls }).catch(
        (error: unknown) => {
          metrics.referenced('refused')
          throw error
        },
      )
      if (!resolved) return await next(call)
      metrics.referenced('used', resolved.used.length)
      resolved.call.logFields.set('references_used', resolved.used.map(loggedUse))
      return callUrls.after(await files.after(await next(resolved.call)))
    } catch (error) {
      await files.remove()
      throw error
    }
  }
}

/** Once the server has answered, nothing fails: a result that cannot be kept is passed on. */
function keeping(
  options: Keeping & { readonly spool: StoreSpool },
  upstream: string,
  deps: Pick<Services, 'invoker' | 'servers' | 'log' | 'metrics'>,
): Middleware {
  const { references: kept, spool, over } = options
  return (next) => async (given) => {
    const { spool: _spool, ...call } = given
    if (call.isPage || call.internal) return next(call)
    const isRequested = call.meta[AS_REFERENCE] === true
    const id = call.meta[REFERENCE_ID]
    if (typeof id === 'string') await kept.mustBeFree(call.principal, id)
    const outcome = await next({ ...withoutFlag(withoutFlag(call, AS_REFERENCE), REFERENCE_ID), spool })
    if (outcome.kind !== 'result') return outcome
    const { text } = outcome.result
    const isSpooled = spool.isIn(text)
    if (!isSpooled && !isRequested && !isLongerThan(text, over)) return outcome
    if (!(await mayRead({ server: upstream, id: '' }, call, deps)))
      return isSpooled ? { ...outcome, result: await wholeAgain(outcome.result, spool) } : outcome
    const chosen = typeof id === 'string' ? { ...options, id } : options
    const parts = await keepParts(outcome.result, call, { ...chosen, isRequested, isSpooled })
    if (parts.kept.length > 0) deps.metrics.referenced('kept', parts.kept.length)
    const result = withFacts(parts, call)
    if (!parts.problem) return { kind: 'result', result }
    const { code, message } = parts.problem
    deps.metrics.referenced('not_kept')
    deps.log.warn('references.not_kept', { upstream, tool: call.target.name, reason: message })
    return { kind: 'result', result: result.withMeta({ [NOT_KEPT_KEY]: { code, message } }) }
  }
}

interface KeepingOne extends Keeping {
  readonly spool: StoreSpool
  readonly id?: string
  readonly isRequested: boolean
  readonly isSpooled: boolean
}

/** Keeps what arrived before the result, then other large parts of it. Never throws for want of room. */
async function keepParts(given: Payload, call: Call, options: KeepingOne): Promise<Unspooled> {
  const first: Unspooled = options.isSpooled
    ? await withoutSpooled(given, call, options)
    : { result: given, kept: [] }
  const { result, kept, problem } = first
  const isRequested = options.isRequested && kept.length === 0
  const isDone = !isRequested && !isLongerThan(result.text, options.over)
  if (problem || isDone || result.member('isError') === true) return first
  try {
    const id = kept.length === 0 ? options.id : undefined
    const most = MAX_PARTS - kept.length
    const rest = await withReferences(result, call, { ...options, id, isRequested, most })
    return { result: rest.result, kept: [...kept, ...rest.kept] }
  } catch (error) {
    return { ...first, problem: asGatewayError(error) }
  }
}

/** Whether a caller may read resources of the server that data came from, now; false if that is not known. */
async function mayRead(
  { server, id }: Pick<Reference, 'server' | 'id'>,
  call: Call,
  { invoker, servers }: Pick<Services, 'invoker' | 'servers'>,
): Promise<boolean> {
  if (server === UPLOADS) return true
  if (!servers.names().includes(server)) return false
  const target = { upstream: server, method: 'resources/read', name: `ref://${id}` }
  const { inputResponses: _responses, ...rest } = call
  return invoker.isPermitted({ ...rest, method: target.method, target, params: call.params })
}
