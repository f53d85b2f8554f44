/** The servers as the console shows them, and what operators do with them. */
import type { CallRates } from '../../records/call-rates.ts'
import type { CallJournal } from '../call-journal.ts'
import type { Descriptor } from '../../core/descriptor.ts'
import { GatewayError } from '../../core/error.ts'
import { ifAnswered, isoTime, within } from '../../core/time/waiting.ts'
import { world } from '../../core/world.ts'
import type { PageUser } from '../../downstream/pages/page-users.ts'
import type {
  ExaminedStep,
  RunningOperation,
  ServerDetails,
  ServersSource,
  ServerSummary,
  ServingGateway,
  ToolFacts,
} from '../../downstream/pages/servers-page.ts'
import type { Fleet } from '../../durable/members.ts'
import type { Observing } from '../../observability/observing.ts'
import { circuits, remainingQuota } from '../../features/offers.ts'
import { Contracts } from '../../records/contracts.ts'
import { cancelledOperation, isEnded, operationName, Operations } from '../../records/operations.ts'
import { ownCall } from '../../protocol/lift.ts'
import type { Upstream } from '../../upstream/upstream.ts'
import { type Examined, doctorSteps } from '../doctor.ts'
import { confirmationText, longCallsText, reachText, undoText } from '../explained.ts'
import { stateOf, transportOf } from '../front-page.ts'
import { inspect } from '../inspect.ts'
import type { Runtime } from '../runtime.ts'
import type { ConsoleGateway } from './needs.ts'
import type { ToolLists } from './tool-lists.ts'

/** How long the store has to answer, in milliseconds. */
const STORE_TIMEOUT_MS = 1500
/** How long a page waits for a server that restarts, in milliseconds: the restart continues by itself. */
const RESTART_WAIT_MS = 3000

/** What the servers of the console need of the gateway. */
interface ServersParts extends Pick<ConsoleGateway, 'runtime' | 'store'> {
  readonly observing: Pick<Observing, 'redactor'>
  readonly toolLists: ToolLists
  /** The gateway whose servers are examined, with calls of a page user. */
  examined(user: PageUser): Examined
  /** The environment variables of the gateway. */
  readonly env: Readonly<Record<string, string | undefined>>
  readonly journal: Pick<CallJournal, 'rates'>
  /** The gateways that share the store. */
  readonly fleet: Pick<Fleet, 'id' | 'list'>
}

/** The servers of the present configuration. */
export class ConsoleServers implements ServersSource {
  readonly #gateway: ServersParts

  constructor(gateway: ServersParts) {
    this.#gateway = gateway
  }

  rates(): CallRates | undefined {
    return this.#gateway.journal.rates
  }

  async gateways(): Promise<readonly ServingGateway[] | undefined> {
    const { fleet } = this.#gateway
    const members = await ifAnswered(fleet.list(), STORE_TIMEOUT_MS)
    return members?.map((member) => ({ ...member, isThis: member.id === fleet.id }))
  }

  list(): readonly ServerSummary[] {
    const runtime = this.#gateway.runtime()
    return [...runtime.upstreams.values()].map((upstream) => summaryOf(upstream, runtime))
  }

  async details(name: string, user: PageUser): Promise<ServerDetails> {
    const upstream = this.#upstream(name)
    const runtime = this.#gateway.runtime()
    const { settings } = upstream
    const [tools, limits, operations, contract] = await Promise.all([
      this.#tools(name, runtime),
      limitsOf(name, user, runtime),
      ifAnswered(this.#operations(name), STORE_TIMEOUT_MS),
      ifAnswered(new Contracts(this.#gateway.store()).find(name), STORE_TIMEOUT_MS),
    ])
    return {
      ...summaryOf(upstream, runtime),
      reach: reachText(settings),
      isolation: settings.isolation,
      limits,
      ...tools,
      operations: operations ?? [],
      ...(contract && { contract }),
    }
  }

  async restart(name: string): Promise<void> {
    const upstream = this.#upstream(name)
    const { features } = this.#gateway.runtime().services
    for (const circuit of features.offered(circuits, name)) circuit(name)?.succeed()
    await within(upstream.restart(ownCall()), RESTART_WAIT_MS, undefined)
  }

  drain(name: string, isDrained: boolean): void {
    this.#upstream(name).isDrained = isDrained
  }

  async cancel(key: string): Promise<void> {
    const operations = new Operations(this.#gateway.store(), world.now)
    const known = (await operations.all()).find((each) => each.key === key)
    if (!known) throw unknownOperation()
    const after = await operations.change(key, (before) => {
      if (isEnded(before)) throw new GatewayError('CONFLICT', 'The operation has ended already.')
      return cancelledOperation(before, world.now())
    })
    if (!after) throw unknownOperation()
  }

  async examine(name: string, user: PageUser): Promise<readonly ExaminedStep[]> {
    const { settings } = this.#upstream(name)
    const steps = await doctorSteps(settings, this.#gateway.examined(user), {
      cwd: '',
      env: this.#gateway.env,
    })
    const { redactor } = this.#gateway.observing
    return steps.map(({ note, fix, ...step }) => ({
      ...step,
      note: redactor.text(note),
      ...(fix !== undefined && { fix: redactor.text(fix) }),
    }))
  }

  /** @throws RESOURCE_NOT_FOUND */
  #upstream(name: string): Upstream {
    const found = this.#gateway.runtime().upstreams.get(name)
    if (found) return found
    throw new GatewayError('RESOURCE_NOT_FOUND', 'There is no server of this name.')
  }

  async #tools(name: string, runtime: Runtime): Promise<Pick<ServerDetails, 'tools' | 'toolsNote'>> {
    const found = await this.#gateway.toolLists.of(name)
    if ('problem' in found) return { tools: found }
    const held = runtime.pinnings.of(name)
    const tools = found.tools.map((tool) => factsOf(tool, found.tools, { runtime, held }))
    return { tools, ...(found.note !== undefined && { toolsNote: found.note }) }
  }

  async #operations(name: string): Promise<readonly RunningOperation[]> {
    const all = await new Operations(this.#gateway.store(), world.now).all()
    return all
      .filter(({ record }) => record.upstream === name && !isEnded(record))
      .map(({ key, record: { tool, principal, startedAt, state, message } }) => {
        const about = { tool, caller: principal.id, startedAt, state, message }
        return { key, name: operationName(key), ...about }
      })
  }
}

function unknownOperation(): GatewayError {
  return new GatewayError('RESOURCE_NOT_FOUND', 'There is no such operation any more.')
}

function summaryOf(upstream: Upstream, runtime: Runtime): ServerSummary {
  const { name, settings, status, details, isDrained } = upstream
  const [circuit] = runtime.services.features.offered(circuits, name).flatMap((of) => of(name) ?? [])
  const waitMs = circuit?.wait() ?? 0
  return {
    name,
    state: stateOf(status),
    since: details.since,
    isDrained,
    problem: status.problem,
    transport: transportOf(settings),
    revision: status.revision,
    olderRevision: status.olderRevision,
    connections: status.connections,
    processes: details.processes,
    placedIn: status.placedIn?.split('.', 1)[0],
    inFlight: details.inFlight,
    lastLines: details.lastLines,
    ...(circuit && waitMs > 0 && { breaker: { failures: circuit.failures, waitMs } }),
    findings: runtime.findings(name),
  }
}

interface About {
  readonly runtime: Runtime
  readonly held: ReturnType<Runtime['pinnings']['of']>
}

function factsOf(entry: Descriptor, all: readonly Descriptor[], { runtime, held }: About): ToolFacts {
  const { name, classification, definition } = entry
  const { title, description } = definition
  const change = held?.unaccepted.get(name)
  const inspected = inspect(entry, all, runtime)
  const confirmation = inspected?.confirmation
  const scopes = inspected?.scopes.map((group) => group.join(' or ')).join(', ') ?? ''
  return {
    name,
    ...(typeof title === 'string' && { title }),
    ...(typeof description === 'string' && { description }),
    risk: classification.risk,
    evidence: classification.evidence,
    ...(confirmation &&
      confirmation.when !== 'never' && { asks: confirmation.unless ? 'unless_undoable' : 'always' }),
    facts: inspected
      ? [
          ['Confirmation', confirmationText(inspected.confirmation)],
          ['Because', inspected.confirmation.why.join('; ')],
          ['Undo', undoText(inspected.undoing)],
          ['Idempotent', classification.idempotent ? 'yes' : 'no'],
          ['Scopes', scopes === '' ? 'none' : scopes],
          ['Long calls', longCallsText(inspected.longCalls)],
        ]
      : [],
    ...(change && { unaccepted: { change, isHeld: held?.isHolding === true } }),
  }
}

async function limitsOf(
  name: string,
  { principal }: PageUser,
  { services }: Runtime,
): Promise<readonly string[]> {
  const own = await ifAnswered(remainingQuota(services, principal, name), STORE_TIMEOUT_MS)
  const server = services.servers.quota(name)
  return [
    ...(own ? [`${quotaText(own)} for you`] : []),
    ...(server && own?.of !== 'server' ? [`${quotaText(server)} by the account of the server`] : []),
  ]
}

function quotaText({
  remaining,
  limit,
  resetsAt,
}: {
  remaining: number
  limit?: number
  resetsAt?: number
}): string {
  const of = limit === undefined ? '' : ` of ${limit}`
  return `${remaining}${of} left${resetsAt === undefined ? '' : ` until ${isoTime(resetsAt)}`}`
}
