/** The settings of simulated gateways: the simulated servers, a shared store, and the features of a configuration. */
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

/** Settings with the simulated servers and store, and otherwise those of a configuration. */
export function simulatedSettings(simulated: Settings, given: Settings = simulated): Settings {
  const { upstreams, store, observe } = simulated
  return { ...given, upstreams, store, observe, names: [], events: new Map() }
}
