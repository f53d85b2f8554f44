/**
 * The refusal of a step that could not be undone. Its suggestion starts with the fix for the operator of the gateway, then
 * says how the transaction can continue, and ends with the call outside of the transaction, which nothing would undo.
 */
import { GatewayError } from '../core/error.ts'

/** A tool of a server. */
interface ToolReference {
  readonly upstream: string
  readonly tool: string
}

/** The refusal of a step that could not be undone: the call was not made, and its transaction continues. `fix` comes first in the suggestion. */
export function noUndo({ upstream, tool }: ToolReference, cause: string, fix: string): GatewayError {
  const rest = `The call was not made, and the transaction is still open: other steps can continue, and this one can be repeated.`
  const last = `Outside of the transaction, without transaction_id, the call would run, but a rollback would not undo it.`
  return new GatewayError(
    'COMPENSATION_UNAVAILABLE',
    `${tool} cannot be a step of a transaction: ${cause}.`,
    {
      reason: 'no_compensation',
      suggestion: `${fix} ${rest} ${last}`,
      details: {
        server: upstream,
        tool,
        setting: settingOf({ upstream, tool }),
        command: `gatehouse plan ${upstream}`,
      },
      isUnsent: true,
      isUserActionable: true,
    },
  )
}

/** How to configure the compensation of a tool without one. */
export function howToConfigure(at: ToolReference): string {
  return `The operator of the gateway can configure it: "gatehouse plan ${at.upstream}" prints a proposal for ${settingOf(at)} in the configuration; "features.transactions.uncompensable: allow" lets such steps run without an undo.`
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
