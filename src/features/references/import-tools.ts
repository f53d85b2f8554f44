/** The tools that data is given to: those that the configuration names for formats, and those of servers by default. */
import type { Call } from '../../core/call.ts'
import type { Descriptor } from '../../core/descriptor.ts'
import { GatewayError, invalidParam } from '../../core/error.ts'
import type { Finding } from '../../core/finding.ts'
import { isObject, isSame } from '../../core/json/json.ts'
import { Payload } from '../../core/payload.ts'
import { anonymous } from '../../core/principal.ts'
import { acceptsMember } from '../../core/schema/argument-mismatches.ts'
import { within } from '../../core/time/waiting.ts'
import type { Services } from '../feature.ts'
import { findTool, type InnerTool, innerCall } from './inner-call.ts'
import type { ImportTarget, ImportTargets } from './settings.ts'
import { dataArgument } from './takes-data.ts'

/** How long servers may take to list their tools, in milliseconds. */
const LISTING_TIMEOUT_MS = 10_000
/** How many tools or formats a suggestion names. */
const MAX_NAMED = 10

/** A tool at the address of a call, and its argument that gets the data. */
interface FoundTarget {
  readonly tool: InnerTool
  readonly argument: string
}

/** What the configuration says of imports. */
interface Configured {
  /** The tools for formats. */
  readonly formats: ImportTargets
  /** The tool of a server by default, by its own name; without a server, the one in the settings for all of them. */
  byDefault(upstream?: string): ImportTarget | undefined
}

type Deps = Pick<Services, 'invoker' | 'servers'>

/** Finds tools for imports. */
export class ImportTools {
  readonly #targets: ImportTargets
  readonly #configured: Configured
  readonly #deps: Deps

  constructor(configured: Configured, deps: Deps) {
    this.#targets = configured.formats
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
    const formats = Object.keys(this.#targets)
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
    const target = Object.hasOwn(this.#targets, format) ? this.#targets[format] : undefined
    if (!target) throw unknownFormat(format, Object.keys(this.#targets))
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
    const call = this.#deps.invoker.onBehalf(anonymous, undefined)
    const ofFormats = Object.entries(this.#targets).map(async ([format, target]) => {
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

/** A tool in the settings, and what is said of one that is not listed. */
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
