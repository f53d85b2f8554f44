/**
 * What the owner of a gateway sees and does, as the gateway has it: the same for the pages of the console and for the tools at
 * `/operator/mcp`. Commands, which have no gateway, use the records below it.
 */
import type { OrderStep } from '../core/audit-step.ts'
import type { Target } from '../core/call.ts'
import type { LoggedCall } from '../core/logged-call.ts'
import type { Settings } from '../core/settings.ts'
import { ifAnswered, pause as wait } from '../core/time/waiting.ts'
import { world } from '../core/world.ts'
import type { Deciding } from '../downstream/pages/approvals.ts'
import type { Gate } from '../downstream/pages/call-story.ts'
import type { ServersSource } from '../downstream/pages/servers-page.ts'
import type { Rewinding } from '../features/offers.ts'
import type { Observing } from '../observability/observing.ts'
import { Approvals, stepOf } from '../records/approvals.ts'
import type { CallLog } from '../records/call-log.ts'
import type { CallRates } from '../records/call-rates.ts'
import { Pause, type PauseState, PROPAGATION_MS } from '../records/pause.ts'
import type { Store } from '../store/store.ts'
import { gatesOf } from './console/gates.ts'
import type { Inspected } from './inspect.ts'

/** How long a server has to list its tools, in milliseconds. */
const LIST_TIMEOUT_MS = 1000

/** What an owner sees and does. Whether somebody may do it is for those who offer it. */
export interface Owner extends Deciding {
  /** The log of calls, and how many there were; undefined where calls are not logged. */
  calls(): CallLog | undefined
  rates(): CallRates | undefined
  /** What the features of a logged call decided, and why. */
  gates(call: LoggedCall): Promise<readonly Gate[]>
  readonly servers: ServersSource
  /** Pauses and resumes writes; both are audited, and resolve once all gateways of the store know it. */
  pause(): Pick<Pause, 'pause' | 'resume'>
  /** The pause of writes; undefined if writes are not paused, `off` if they cannot be. */
  paused(): PauseState | undefined | 'off'
  /** Has an order audited that is not audited where it is carried out. */
  onOrdered(step: OrderStep): void
  /** Plans and carries out rewinds, which are audited; undefined where undoing is off. */
  rewinding(): Rewinding | undefined
}

/** The parts of a gateway that its owner sees. */
interface OwnedGateway {
  readonly settings: Settings
  readonly rewinding: Rewinding | undefined
  /** The features of a target, outermost first. */
  chain(target: Target): readonly { readonly feature: string }[]
  /** What is known of a tool. @throws what listing throws */
  inspect(upstream: string, tool: string): Promise<Inspected | undefined>
}

interface OwnerOptions {
  readonly gateway: OwnedGateway
  readonly journal: { readonly calls: CallLog | undefined; readonly rates: CallRates | undefined }
  readonly servers: ServersSource
  readonly observing: Pick<Observing, 'decided' | 'ordered'>
  store(): Store
  paused(): PauseState | undefined | 'off'
  pauseFor(server: string): PauseState | undefined
  /** Whether other gateways serve with the same store. @throws SERVER_UNAVAILABLE */
  hasOthers(): Promise<boolean>
}

/** The owner's view of a gateway. */
export function createOwner(options: OwnerOptions): Owner {
  const { gateway, journal, servers, observing, store, paused, pauseFor, hasOthers } = options
  const approvals = (): Approvals => new Approvals(store(), world.now)
  return {
    ...deciding(approvals, observing.decided),
    calls: () => journal.calls,
    rates: () => journal.rates,
    gates: (call) => gatesFor(call, gateway),
    servers,
    onOrdered: observing.ordered,
    pause: () => {
      const pauses = new Pause(store(), observing.ordered)
      const known = async <Result>(changed: Result): Promise<Result> => {
        if (await hasOthers().catch(() => true)) await wait(PROPAGATION_MS)
        return changed
      }
      return {
        pause: async (order) => known(await pauses.pause(order)),
        resume: async (by) => known(await pauses.resume(by)),
      }
    },
    paused,
    pauseFor,
    rewinding: () => gateway.rewinding,
  }
}

/** Decides on calls that wait, and has each decision audited. */
export function deciding(
  approvals: () => Approvals,
  onDecided: Observing['decided'],
): Omit<Deciding, 'pauseFor'> {
  return {
    approvals,
    decide: async (id, decision) => {
      const decided = await approvals().decide(id, decision)
      onDecided(stepOf(decided, decision))
      return decided
    },
  }
}

async function gatesFor(call: LoggedCall, gateway: OwnedGateway): Promise<readonly Gate[]> {
  const { server, method, name } = call
  if (server === undefined || !hasServer(gateway.settings, server)) return []
  const chain = gateway.chain({ upstream: server, method, ...(name !== undefined && { name }) })
  const isTool = method === 'tools/call' && name !== undefined
  const inspected = isTool ? await ifAnswered(gateway.inspect(server, name), LIST_TIMEOUT_MS) : undefined
  return gatesOf(call, chain, inspected)
}

function hasServer({ upstreams }: Settings, server: string): boolean {
  return upstreams.some(({ name }) => name === server)
}
