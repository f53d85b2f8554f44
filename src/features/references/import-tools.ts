/** The tools that data is given to, and those that the configuration names for formats. */
import type { Call } from '../../core/call.ts'
import { GatewayError, invalidParam } from '../../core/error.ts'
import type { Finding } from '../../core/finding.ts'
import { isObject } from '../../core/json/json.ts'
import { Payload } from '../../core/payload.ts'
import { anonymous } from '../../core/principal.ts'
import { acceptsMember } from '../../core/schema/argument-mismatches.ts'
import { within } from '../../core/time/waiting.ts'
import type { Services } from '../feature.ts'
import { findTool, type InnerTool, innerCall } from './inner-call.ts'
import type { ImportTarget, ImportTargets } from './settings.ts'

/** How long servers may take to list their tools for a check, in milliseconds. */
const LISTING_TIMEOUT_MS = 10_000

/** Finds tools for imports. */
export class ImportTools {
  readonly #targets: ImportTargets
  readonly #deps: Pick<Services, 'invoker' | 'servers'>

  constructor(targets: ImportTargets, deps: Pick<Services, 'invoker' | 'servers'>) {
    this.#targets = targets
    this.#deps = deps
  }

  /** The tool for a format, at the address of a call. @throws INVALID_INPUT, UNSUPPORTED_OPERATION */
  async forFormat(
    call: Call,
    format: string,
  ): Promise<{ readonly tool: InnerTool; readonly argument: string }> {
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

  /** The tools and arguments in the settings that no server lists. Servers that cannot be reached are skipped. */
  async problems(): Promise<readonly Finding[]> {
    const call = this.#deps.invoker.onBehalf(anonymous, undefined)
    const found = await Promise.all(
      Object.entries(this.#targets).map(async ([format, target]): Promise<readonly Finding[]> => {
        const path = ['features', 'references', 'imports', format]
        const problem = await within(this.#problemOf(call, target), LISTING_TIMEOUT_MS, undefined)
        return problem ? [{ path: [...path, problem.key], message: problem.message }] : []
      }),
    )
    return found.flat()
  }

  async #problemOf(
    call: Call,
    { tool, argument }: ImportTarget,
  ): Promise<{ readonly key: 'tool' | 'argument'; readonly message: string } | undefined> {
    const unlisted = {
      key: 'tool',
      message: `no server lists a tool ${tool}: write its name at /mcp`,
    } as const
    try {
      const found = await this.#deps.servers.tool(innerCall(call, { name: tool }, Payload.of({})))
      if (!found || found.isUnlisted || found.isBuiltin) return unlisted
      const schema = found.definition.inputSchema
      if (!isObject(schema) || acceptsMember(schema, argument)) return undefined
      return { key: 'argument', message: `${tool} has no argument ${argument}` }
    } catch (error) {
      return error instanceof GatewayError && error.code === 'UNKNOWN_TOOL' ? unlisted : undefined
    }
  }
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
