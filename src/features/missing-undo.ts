/**
 * The refusal of a step that could not be undone. Its suggestion starts with the fix for the operator of the gateway, then
 * says how the transaction can continue, and ends with the call outside of the transaction, which nothing would undo.
 */
import { GatewayError } from '../core/error.ts'
import { ifAnswered } from '../core/time/waiting.ts'
import type { Services } from './feature.ts'

type Deps = Pick<Services, 'servers'>

/** How long a server has to list its tools for a suggestion, in milliseconds. */
const ANSWER_TIMEOUT_MS = 2000

/** A tool of a server. */
interface ToolReference {
  readonly upstream: string
  readonly tool: string
}

/** What an operator can do about a step that could not be undone, and the command that does it, if one does. */
interface Remedy {
  readonly text: string
  readonly command?: string
}

/** The refusal of a step that could not be undone: the call was not made, and its transaction continues. `fix` comes first in the suggestion. */
export function noUndo({ upstream, tool }: ToolReference, cause: string, fix: string | Remedy): GatewayError {
  const { text, command }: Remedy = typeof fix === 'string' ? { text: fix } : fix
  const rest = `The call was not made, and the transaction is still open: other steps can continue, and this one can be repeated.`
  const last = `Outside of the transaction, without transaction_id, the call would run, but a rollback would not undo it.`
  return new GatewayError(
    'COMPENSATION_UNAVAILABLE',
    `${tool} cannot be a step of a transaction: ${cause}.`,
    {
      reason: 'no_compensation',
      suggestion: `${text} ${rest} ${last}`,
      details: {
        server: upstream,
        tool,
        setting: settingOf({ upstream, tool }),
        ...(command !== undefined && { command }),
      },
      isUnsent: true,
      isUserActionable: true,
    },
  )
}

/** How to configure the compensation of a tool without one: by a command if that is certain to propose one. */
export async function howToConfigure(at: ToolReference, deps: Deps): Promise<Remedy> {
  const command = await commandThatAdds(at, deps)
  const how =
    command === undefined
      ? `with ${settingOf(at)} in the configuration, if another tool undoes it`
      : `"${command}" adds ${settingOf(at)} to the configuration`
  const text = `The operator of the gateway can configure it: ${how}; "features.transactions.uncompensable: allow" lets such steps run without an undo.`
  return { text, ...(command !== undefined && { command }) }
}

/** The command that configures the undo of a tool; undefined if it would propose none. */
export async function commandThatAdds(
  { upstream, tool }: ToolReference,
  { servers }: Deps,
): Promise<string | undefined> {
  // A rollback does not wait for a server that does not answer.
  const isProposed = await ifAnswered(servers.isUndoProposed(upstream, tool), ANSWER_TIMEOUT_MS)
  return isProposed === true ? `gatehouse plan ${upstream} --write` : undefined
}

/** How to mark a tool as a pivot, if it is configured to have no compensation. */
export function howToPivot({ upstream, tool }: ToolReference): string {
  return `The operator of the gateway can mark it as a pivot, after which earlier steps cannot be undone, with ${memberOf(upstream, tool)}.pivot: true.`
}

function settingOf({ upstream, tool }: ToolReference): string {
  return `${memberOf(upstream, tool)}.undo`
}

function memberOf(upstream: string, tool: string): string {
  return `upstreams.${upstream}.tools.${/^[\w-]+$/.test(tool) ? tool : JSON.stringify(tool)}`
}
