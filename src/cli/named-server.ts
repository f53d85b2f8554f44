/**
 * Parses the arguments of commands about one server: its name in a configuration, a URL, or a command line.
 */
import type { Settings, UpstreamSettings } from '../core/settings.ts'
import { readOptions, readSource, serverNamed, type Source, UsageError } from './options.ts'

/** The configuration a command looks into, the server it is to look at where one is named, and other words. */
interface Named {
  readonly source: Source
  readonly server?: UpstreamSettings
  readonly words: readonly string[]
  /** Print for programs. */
  readonly isJson: boolean
  /** Write into the configuration file. */
  readonly isWriting: boolean
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
    const source = readSource({ config: options.config, envFile: options.envFile })
    return {
      source,
      words: rest,
      isJson: options.json,
      isWriting: options.write,
      ...(first !== undefined && { server: serverNamed(first, source.settings) }),
    }
  }
  const command = args.slice(separator + 1)
  if (separator !== -1 && command.length === 0) throw new UsageError('name a command behind --')
  const source = readSource({
    config: options.config,
    envFile: options.envFile,
    words: isUrl ? [first] : command,
  })
  const [server] = source.settings.upstreams
  return {
    source,
    words: isUrl ? rest : options.words,
    isJson: options.json,
    isWriting: options.write,
    ...(server && { server }),
  }
}

/** Settings for a gateway that only looks: it leaves no traces, and takes up nothing others left. */
export function looking(settings: Settings, upstreams: readonly UpstreamSettings[]): Settings {
  return { ...settings, upstreams, store: { kind: 'memory' }, observe: { metrics: false } }
}
