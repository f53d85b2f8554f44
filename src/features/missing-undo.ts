/**
 * The refusal of a step that could not be undone. It leads on within the transaction: what the operator of the gateway
 * has to do comes first, and the call outside of the transaction, which nothing would undo, comes last.
 */
import { GatewayError } from '../core/error.ts'

/** A tool of a server. */
interface At {
  readonly upstream: string
  readonly tool: string
}

/** The refusal: the call was not made, and its transaction goes on. `way` says what makes the step possible. */
export function noUndo({ upstream, tool }: At, why: string, way: string): GatewayError {
  const rest = `The call was not made, and the transaction is still open: other steps can go on, and this one can come again.`
  const last = `Outside of the transaction, without transaction_id, the call would run, but a rollback would not undo it.`
  return new GatewayError('COMPENSATION_UNAVAILABLE', `${tool} cannot be a step of a transaction: ${why}.`, {
    reason: 'no_compensation',
    suggestion: `${way} ${rest} ${last}`,
    details: {
      server: upstream,
      tool,
      setting: settingOf({ upstream, tool }),
      command: `gatehouse plan ${upstream}`,
    },
    isUnsent: true,
    isUserActionable: true,
  })
}

/** What to do where nothing says how a tool is undone. */
export function howToConfigure(at: At): string {
  return `The operator of the gateway can say how: "gatehouse plan ${at.upstream}" prints what its tools suggest, which goes to ${settingOf(at)} in the configuration; "features.transactions.uncompensable: allow" lets such steps run without an undo.`
}

/** What to do where it is said that there is no undo. */
export function howToPivot({ upstream, tool }: At): string {
  return `The operator of the gateway can mark it as a step after which there is no way back, with ${memberOf(upstream, tool)}.pivot: true.`
}

function settingOf({ upstream, tool }: At): string {
  return `${memberOf(upstream, tool)}.undo`
}

function memberOf(upstream: string, tool: string): string {
  return `upstreams.${upstream}.tools.${/^[\w-]+$/.test(tool) ? tool : JSON.stringify(tool)}`
}
