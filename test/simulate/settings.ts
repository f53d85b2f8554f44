/** The settings of simulated gateways: the simulated servers, a shared store, and the features of a configuration. */
import { createHash } from 'node:crypto'
import type { Settings } from '../../src/core/settings.ts'
import { ROUND, ROUNDED } from './odd-numbers.ts'

/** The configuration of the simulated servers. Their commands are never run. */
export const simulatedConfig = `
version: 1
store: redis://simulated
observe: { metrics: off }
upstreams:
  shop:
    command: simulated
    revision: '2026-07-28'
    isolation: shared
    deny: &deny
      '*': { order: '${ROUNDED}' }
      '*_*': { order: '${ROUND}' }
    tools: &tools
      charge_card: { confirm: never }
      book_room: { confirm: never, undo: 'cancel_booking(id=$.result.id, order=$.args.order)' }
      cancel_booking: { confirm: never }
      create_ticket: { confirm: never, verify: 'list_tickets(order=$.args.order) -> $.result.items[0]' }
      set_label: { confirm: never }
      delete_customer: { confirm: 'Delete the customer of {order}?', approval: out_of_band }
  hotel:
    command: simulated
    revision: '2025-11-25'
    isolation: shared
    deny: *deny
    tools: *tools
features:
  transactions: { uncompensable: allow }
`

/** The port at which the gateways of a fleet serve clients, and the hosts on which they are. */
export const FLEET_PORT = 8080

const SALT = 'simulated'

/** The token of a caller of a fleet. */
export function tokenOf(principal: string): string {
  return `token-of-${principal.replaceAll(':', '-')}`
}

/** What the gateways of a fleet have besides: callers with tokens, and a tool that its caller confirms. */
export function fleetConfig(principals: readonly string[]): string {
  const tokens = principals.map((principal) => {
    const digest = createHash('sha256')
      .update(`${SALT}${tokenOf(principal)}`)
      .digest('hex')
    return `{ hash: 'sha256:${SALT}:${digest}', id: '${principal}' }`
  })
  return `${simulatedConfig.replace('tools: &tools\n', `tools: &tools\n      close_account: { confirm: 'Close the account of {order}?' }\n`)}
limits: { rate: off }
listen: { port: ${FLEET_PORT} }
auth: { opaque: { tokens: [${tokens.join(', ')}] } }
`
}

/** Settings with the simulated servers and store, and otherwise those of a configuration. */
export function simulatedSettings(simulated: Settings, given: Settings = simulated): Settings {
  const { upstreams, store, observe, listen, auth } = simulated
  return { ...given, upstreams, store, observe, listen, auth, names: [], events: new Map() }
}
