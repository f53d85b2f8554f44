import type { UpstreamSettings } from '../core/settings.ts'
import type { Settings } from '../core/settings.ts'
import {
  type Options,
  readOptions,
  readSource,
  serverNamed,
  type Source,
  UsageError,
  warn,
} from './options.ts'

/** The configuration a command looks into, the server it is to look at where one is named, and other words. */
export interface Named {
  readonly options: Options
  readonly source: Source
  readonly server?: UpstreamSettings
  readonly words: readonly string[]
}

/** Reads, with `isOne` of one server that has to be named, `[SERVER] [WORD…]` of a configuration, or `URL [WORD…]`, or `[WORD…] -- COMMAND…`. @throws UsageError */
export function readNamed(
  args: readonly string[],
  allowed: readonly string[],
  { isOne = false }: { readonly isOne?: boolean } = {},
): Named {
  const separator = args.indexOf('--')
  const options = readOptions(separator === -1 ? args : args.slice(0, separator), allowed)
  const [first, ...rest] = options.words
  const isUrl = first !== undefined && /^https?:/i.test(first)
  if (separator === -1 && !isUrl) {
    if (first === undefined && isOne) throw new UsageError('name a server of the configuration')
    const source = readSource({ ...options, words: [] }, warn)
    return {
      options,
      source,
      words: rest,
      ...(first !== undefined && { server: serverNamed(first, source.settings) }),
    }
  }
  const command = args.slice(separator + 1)
  if (separator !== -1 && command.length === 0) throw new UsageError('name a command behind --')
  const source = readSource({ ...options, words: isUrl ? [first] : command }, warn)
  const [server] = source.settings.upstreams
  return { options, source, words: isUrl ? rest : options.words, ...(server && { server }) }
}

/** Settings for a gateway that only looks: it leaves no traces, and takes up nothing others left. */
export function looking(settings: Settings, upstreams: readonly UpstreamSettings[]): Settings {
  return { ...settings, upstreams, store: { kind: 'memory' }, observe: { metrics: false } }
}
