/**
 * The feature `references`: large results stay in the gateway, and clients get references to them, which work as
 * arguments of tools of all servers. It has two places in the chain: here arguments are resolved before anything reads
 * them, and `largeResults` of `keep.ts` keeps results as the features next to the server left them.
 */
import { type Timer, world } from '../../core/world.ts'
import type { Middleware, Target } from '../../core/call.ts'
import { usesReferencesSlot, mayRefer } from '../../core/used-reference.ts'
import { background } from '../../core/log.ts'
import { shareOf } from '../../core/principal.ts'
import { keepUsed, type Reference, References } from '../../records/references.ts'
import { Uploads } from '../../records/uploads.ts'
import { createDialer } from '../dialer.ts'
import type { BuiltinTool, Feature, Services } from '../feature.ts'
import { toolFacts } from '../offers.ts'
import { CallUrls, dataRoute, DataUrls } from './transfer/urls.ts'
import { checkFileArguments, fileMethods, filesMiddleware } from './transfer/file-extension.ts'
import { exporting } from './transfer/export.ts'
import { download, importing, ImportTools } from './transfer/import.ts'
import { fileFolders, type ReferenceFiles } from './transfer/files.ts'
import { loggedUse } from './kept-data.ts'
import { mayRead, readReferenceTool, type ReferenceAccess, referenceResource } from './read.ts'
import { requestUploadTool, UploadService } from './transfer/uploads.ts'
import { canOpenFiles, resolveReferences, takesBytes } from './resolve.ts'
import { keeper, urlsOf } from './keep.ts'
import { gatewayWide, type ReferenceSettings, referencesSchema } from '../settings/authorize.ts'

/** How often what has expired is deleted, in milliseconds. */
const SWEEP_INTERVAL_MS = 60_000
/** Resolves references in arguments, and reads them. */
export const references: Feature<ReferenceSettings | false> = {
  ...referencesSchema,
  create: (settings, deps) => {
    const kept = new References(deps.store, gatewayWide(settings()))
    const access: ReferenceAccess = {
      references: kept,
      mayRead: (reference, call) => mayRead(reference, call, deps),
    }
    const folders = fileFolders(settings, deps)
    const urls = new DataUrls(deps)
    const common = settings()
    const { upload, ttl, total } = gatewayWide(common)
    const uploads = new UploadService({
      references: kept,
      uploads: new Uploads(deps.store),
      deps,
      max: upload,
      ttl,
      ...urlsOf(urls, common),
    })
    const { imports: formats = {}, allow_hosts: allowHosts = [] } = common || {}
    const byDefault = (upstream?: string): ReferenceSettings['import'] => (settings(upstream) || {}).import
    const importTools = new ImportTools({ formats, byDefault }, deps)
    const opener = createDialer({ allow: [], proxies: deps.gateway.proxies })
    const exports = exporting({ ...access, keepingOf: keeper(settings, { references: kept, urls }), deps })
    const imports = importing({
      ...access,
      deps,
      tools: importTools,
      download: (call, data) => download(call, data, { references: kept, opener, allowHosts, ttl }),
    })
    const share = Math.floor(shareOf({}, total))
    /** How references in the arguments of calls of a target are resolved; undefined if they are not. */
    const resolutionOf = ({ upstream, isBuiltin }: Target): Resolving | undefined => {
      const own = settings(upstream)
      if (isBuiltin || own === false) return undefined
      return { ...access, max: own.argument, server: canOpenFiles(deps.servers.settings(upstream ?? '')) }
    }
    let timer: Timer | undefined
    return {
      calls: {
        middleware: (target) => {
          const options = target.method === 'tools/call' ? resolutionOf(target) : undefined
          const { folder } = settings(target.upstream) || {}
          return options && resolving(options, folders.at(folder), urls, deps)
        },
        // The data is read; no file and no URL is made of it.
        dryRun: (target) => {
          const options = resolutionOf(target)
          return options && tryReferences(options, urls)
        },
      },
      responseMiddleware: (method) => filesMiddleware(method, (upstream) => settings(upstream) !== false),
      builtins: {
        methods: {
          ...fileMethods({
            ...access,
            uploads,
            urls,
            urlTtl: common && common.urls ? common.url_ttl : undefined,
            hosts: (upstream) => (settings(upstream) || {}).file_hosts ?? [],
            deps,
          }),
          'reference/export': exports.route.handle,
          'reference/import': imports.route.handle,
        },
        resources: () => [referenceResource(access)],
        tools: [readReferenceTool(access), requestUploadTool(uploads), exports.tool, imports.tool].map(
          (tool) => listedWith(tool, settings),
        ),
      },
      http: {
        byteRoutes: [dataRoute({ ...access, urls, log: deps.log }), ...uploads.routes],
        routes: [exports.route, imports.route],
      },
      offers: [
        toolFacts.offer(({ upstream, definition }) => {
          const own = settings(upstream)
          const { url } = uploads
          if (own === false || url === undefined || !takesBytes(definition.inputSchema)) return {}
          return { upload: { url, max: Math.min(uploads.max, own.argument, share) } }
        }),
      ],
      start: async () => {
        const sweep = (): void => {
          background(
            kept.sweep().then((deleted) => deps.metrics.referenced('deleted', deleted)),
            deps.log,
          )
          for (const folder of folders.all()) background(folder.sweep(), deps.log)
        }
        sweep()
        timer = world.setInterval(sweep, SWEEP_INTERVAL_MS)
        timer.unref()
      },
      problems: async () => [...folders.problems(), ...(await importTools.problems())],
      close: async () => world.clearInterval(timer),
    }
  },
}

/** A tool that lists have if it works here and the settings do not leave it out. */
function listedWith(
  tool: BuiltinTool,
  settings: (upstream?: string) => ReferenceSettings | false,
): BuiltinTool {
  const isListed = (upstream?: string): boolean | undefined => {
    const own = settings(upstream)
    if (tool.isListed?.(upstream) === false) return false
    return own === false || own.listed ? true : undefined
  }
  return { ...tool, isListed }
}

type Resolving = Omit<Parameters<typeof resolveReferences>[1], 'files' | 'urls'>

function resolving(
  options: Resolving,
  folder: ReferenceFiles,
  urls: DataUrls,
  { metrics, store, log }: Pick<Services, 'metrics' | 'store' | 'log'>,
): Middleware {
  return (next) => async (call) => {
    // The gateway writes no references: what looks like one is data, which undoing a call restores as it was.
    if (call.internal) return next(call)
    checkFileArguments(call)
    const given = call.params.at('arguments')
    if (!given || !mayRefer(given.text)) return next(call)
    const files = folder.begin(call)
    try {
      const callUrls = new CallUrls(call, urls, options.references)
      const resolved = await resolveReferences(call, { ...options, files, urls: callUrls }).catch(
        (error: unknown) => {
          metrics.referenced('refused')
          throw error
        },
      )
      if (!resolved) return await next(call)
      metrics.referenced('used', resolved.used.length)
      resolved.call.logFields.set('references_used', resolved.used.map(loggedUse))
      usesReferencesSlot.of(call)?.(resolved.used.map(({ id }) => id))
      const outcome = await next(resolved.call)
      // The call is made again with the same references: to answer input requests, or to continue.
      if (outcome.kind !== 'result')
        await keepUsed(store, resolved.call, world.now() + ROUND_MS).catch((error: unknown) =>
          log.warn('references.not_extended', { request_id: call.requestId, reason: String(error) }),
        )
      return callUrls.after(await files.after(outcome))
    } catch (error) {
      await files.remove()
      throw error
    }
  }
}

/** Resolves references for a dry run: in place of files and URLs, which are made for a call, are the names of the data. */
function tryReferences(options: Resolving, { areHosted }: DataUrls): Middleware {
  const files = { write: async ({ name }: { readonly name: string }) => `<file of ${name}>` }
  const urls = { areHosted, of: async ({ name }: Reference) => (areHosted ? `<URL of ${name}>` : undefined) }
  return (next) => async (call) => {
    checkFileArguments(call)
    const resolved = await resolveReferences(call, { ...options, files, urls })
    return next(resolved?.call ?? call)
  }
}

/** How long the next round of a call may take, in milliseconds. */
const ROUND_MS = 3_600_000
