/** Detects changes of what a server exposes, and records a version for each. */
import { createHash } from 'node:crypto'
import { world } from '../../core/world.ts'
import {
  type Contract,
  contractChanges,
  type KeptChange,
  type PromptContract,
  type ToolContract,
} from '../../core/contract.ts'
import type { EntryDefinition } from '../../core/descriptor.ts'
import { errorCodes } from '../../core/error.ts'
import { canonical, isObject, isSame } from '../../core/json/json.ts'
import { background } from '../../core/log.ts'
import type { ServerDescription, ToolDescription } from '../../descriptions/model/description.ts'
import { Contracts } from '../../records/contracts.ts'
import type { Services } from '../feature.ts'
import { publish } from '../offers.ts'
import { type List, lists } from '../tool-lists.ts'
import { contractSchema } from '../settings/admit.ts'

type Deps = Pick<Services, 'log' | 'store' | 'servers' | 'descriptions' | 'features' | 'gateway'>

/** The contracts of all servers as this gateway exposes them. */
export interface ContractWatcher {
  /** Checks every server, and from then on each that changed. */
  start(): void
  /** The contract version of a server, once it is known. */
  version(upstream: string): string | undefined
  /** Checks whether a server's lists changed. */
  check(upstream: string): void
}

/** A contract that differs from the previous one. */
export interface ContractChangeEvent {
  readonly upstream: string
  readonly before: string
  readonly after: string
  /** The lists that changed. */
  readonly lists: ReadonlySet<List>
}

/** How many changes a log line names. */
const MAX_LOGGED_CHANGES = 20

/** Compares what each server offers with the recorded contract, and records changes. */
export function createContractWatcher(
  deps: Deps,
  onChange: (change: ContractChangeEvent) => void,
): ContractWatcher {
  const contracts = new Contracts(deps.store)
  const known = new Map<string, { readonly contract: Contract; readonly version: string }>()
  const running = new Map<string, Promise<void>>()

  const recordCurrent = async (upstream: string): Promise<void> => {
    // The listener that renews descriptions is notified in the same turn.
    await Promise.resolve()
    const description = await deps.descriptions.of(upstream)
    if (!description.isUp || deps.gateway.closing.aborted) return
    const contract = exposedContract(description, {
      entrances: deps.servers.entrances(upstream),
      isGuarded: deps.gateway.isGuarded,
    })
    const last = known.get(upstream)
    if (last && contractChanges(last.contract, contract).length === 0) return
    const { version, changed } = await contracts.record(upstream, contract, world.now())
    known.set(upstream, { contract, version })
    // Of the gateways that share a store, only one records a change.
    if (changed) {
      const { before, changes } = changed
      logChange(deps, upstream, { before, after: version, changes })
      // Not the changes themselves: they name tools that some callers may not see.
      publish(deps, upstream, { name: 'contract_changed', data: { before, after: version } })
    }
    if (last)
      onChange({ upstream, before: last.version, after: version, lists: listsOf(last.contract, contract) })
  }

  /** Checks of one server run one after the other. */
  const enqueue = (upstream: string): void => {
    const before = running.get(upstream) ?? Promise.resolve()
    const next = before.then(() => recordCurrent(upstream))
    running.set(
      upstream,
      next.catch(() => undefined),
    )
    background(
      next.catch((error: unknown) => {
        // A store that is closed or unavailable is reported separately.
        if (!deps.gateway.closing.aborted) throw error
      }),
      deps.log,
    )
  }

  const isWatched = (upstream: string): boolean => deps.features.isOn(NAME, upstream)
  return {
    start: () => {
      deps.servers.records().onChange((upstream) => {
        if (isWatched(upstream)) enqueue(upstream)
      })
      for (const upstream of deps.servers.names()) if (isWatched(upstream)) enqueue(upstream)
    },
    version: (upstream) => known.get(upstream)?.version,
    check: (upstream) => {
      const found = deps.servers.records().of(upstream)
      if (found instanceof Promise) background(found, deps.log)
      if (!known.has(upstream) && !running.has(upstream)) enqueue(upstream)
    },
  }
}

/** The name of the feature in the configuration. */
const { name: NAME } = contractSchema

interface LoggedChange {
  readonly before: string
  readonly after: string
  readonly changes: readonly KeptChange[]
}

function logChange({ log }: Deps, upstream: string, { before, after, changes }: LoggedChange): void {
  const named = (each: KeptChange): string => `${each.subject} ${each.text}`.slice(0, 200)
  log.info('contract.changed', {
    upstream,
    before,
    after,
    count: changes.length,
    changes: changes.slice(0, MAX_LOGGED_CHANGES).map(named),
  })
  const early = changes.filter(({ isEarly }) => isEarly)
  if (early.length > 0)
    log.warn('contract.removed_early', {
      upstream,
      removed: early.slice(0, MAX_LOGGED_CHANGES).map(({ subject }) => subject),
    })
}

/** The lists that differ. */
function listsOf(before: Contract, after: Contract): ReadonlySet<List> {
  const partsOf = ({ tools, prompts, resources, templates }: Contract) => {
    return { tools, prompts, resources: [resources, templates] }
  }
  const [was, is] = [partsOf(before), partsOf(after)]
  return new Set(lists.filter((list) => !isSame(was[list], is[list])))
}

/** How many resources are part of a contract: a server may list as many as it has files. */
const MAX_RESOURCES = 1000

/** The contract of a server, from its description. */
function exposedContract(
  { tools, prompts, resources, templates }: ServerDescription,
  front: Pick<Contract, 'entrances' | 'isGuarded'>,
): Contract {
  return {
    ...front,
    errorCodes: errorCodes.toSorted(),
    tools: byKey(tools.map((tool) => [tool.name, toolContract(tool)])),
    prompts: byKey(prompts.map((each) => [text(each.name), promptContract(each)])),
    resources: byKey(resources.slice(0, MAX_RESOURCES).map((each) => [text(each.uri), text(each.mimeType)])),
    templates: byKey(templates.map((each) => [text(each.uriTemplate), text(each.mimeType)])),
  }
}

function toolContract({ definition, facts, words }: ToolDescription): ToolContract {
  const { inputSchema, outputSchema, annotations, title, description } = definition
  const { title: hint, ...hints } = isObject(annotations) ? annotations : {}
  return {
    input: inputSchema ?? {},
    ...(outputSchema !== undefined && { output: outputSchema }),
    scopes: facts.scopes ?? [],
    returns: words.returns ?? [],
    hints,
    ...(words.deprecated !== undefined && { deprecated: words.deprecated }),
    wording: shortHash([title, hint, description]),
  }
}

function promptContract({ arguments: wanted, title, description }: EntryDefinition): PromptContract {
  const all = Array.isArray(wanted) ? wanted.filter(isObject) : []
  return {
    arguments: byKey(all.map((each) => [text(each.name), each.required === true])),
    wording: shortHash([title, description, all.map((each) => [each.name, each.title, each.description])]),
  }
}

/** Keys are names from servers: `Object.fromEntries` makes each an own property, even `__proto__`. */
function byKey<Value>(entries: readonly (readonly [string, Value])[]): Readonly<Record<string, Value>> {
  return Object.fromEntries(entries)
}

function shortHash(value: unknown): string {
  return createHash('sha256').update(canonical(value)).digest('hex').slice(0, 12)
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : ''
}
