/** Notices changes of what a server exposes, and records a version for each. */
import { createHash } from 'node:crypto'
import {
  type Contract,
  contractChanges,
  type KeptChange,
  type PromptContract,
  type ToolContract,
} from '../../core/contract.ts'
import type { EntryDefinition } from '../../core/descriptor.ts'
import { errorCodes } from '../../core/error.ts'
import { canonical, isObject } from '../../core/json/json.ts'
import { background } from '../../core/log.ts'
import type { ServerDescription, ToolDescription } from '../../descriptions/model/description.ts'
import { Contracts } from '../../records/contracts.ts'
import type { Services } from '../feature.ts'
import { type List, lists } from '../list-changes.ts'

type Deps = Pick<Services, 'log' | 'store' | 'servers' | 'descriptions' | 'features' | 'gateway'>

/** The contracts of all servers as this gateway shows them. */
export interface ContractWatcher {
  /** Looks at every server, and from then on at each that changed. */
  start(): void
  /** The version of what a server offers, once it is known. */
  version(upstream: string): string | undefined
  /** Looks whether a server lists something else than before. */
  look(upstream: string): void
}

/** A contract that is another than the one before. */
export interface Moved {
  readonly upstream: string
  readonly before: string
  readonly after: string
  /** The lists of which something changed. */
  readonly lists: ReadonlySet<List>
}

/** How many changes a line of the log names. */
const MAX_LOGGED_CHANGES = 20

/** Compares what each server offers with what is kept of it, and keeps what changed. */
export function createContractWatcher(deps: Deps, onMove: (moved: Moved) => void): ContractWatcher {
  const contracts = new Contracts(deps.store)
  const known = new Map<string, { readonly contract: Contract; readonly version: string }>()
  const taking = new Map<string, Promise<void>>()

  const take = async (upstream: string): Promise<void> => {
    // Who draws descriptions hears of the change in this very moment too.
    await Promise.resolve()
    const description = await deps.descriptions.of(upstream)
    if (!description.isUp || deps.gateway.closing.aborted) return
    const contract = exposedContract(description, {
      entrances: deps.servers.entrances(upstream),
      isGuarded: deps.gateway.isGuarded,
    })
    const last = known.get(upstream)
    if (last && contractChanges(last.contract, contract).length === 0) return
    const { version, changed } = await contracts.record(upstream, contract, Date.now())
    known.set(upstream, { contract, version })
    if (changed) tell(deps, upstream, { before: changed.before, after: version, changes: changed.changes })
    if (last)
      onMove({ upstream, before: last.version, after: version, lists: listsOf(last.contract, contract) })
  }

  /** One look at a time for each server, each after the one before. */
  const enqueue = (upstream: string): void => {
    const before = taking.get(upstream) ?? Promise.resolve()
    const taken = before.then(() => take(upstream))
    taking.set(
      upstream,
      taken.catch(() => undefined),
    )
    background(
      taken.catch((error: unknown) => {
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
    look: (upstream) => {
      const found = deps.servers.records().of(upstream)
      if (found instanceof Promise) background(found, deps.log)
      if (!known.has(upstream) && !taking.has(upstream)) enqueue(upstream)
    },
  }
}

/** What the feature is called in the configuration. */
export const NAME = 'contract'

interface Told {
  readonly before: string
  readonly after: string
  readonly changes: readonly KeptChange[]
}

function tell({ log }: Deps, upstream: string, { before, after, changes }: Told): void {
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

/** The lists in which something is another than before. */
function listsOf(before: Contract, after: Contract): ReadonlySet<List> {
  const partsOf = ({ tools, prompts, resources, templates }: Contract) => {
    return { tools, prompts, resources: [resources, templates] }
  }
  const [was, is] = [partsOf(before), partsOf(after)]
  return new Set(lists.filter((list) => canonical(was[list]) !== canonical(is[list])))
}

/** How many resources are looked at: a server may list as many as it has files. */
const RESOURCES = 1000

/** What callers of a server rely on, of what is known of it. */
function exposedContract(
  { tools, prompts, resources, templates }: ServerDescription,
  front: Pick<Contract, 'entrances' | 'isGuarded'>,
): Contract {
  return {
    ...front,
    errorCodes: errorCodes.toSorted(),
    tools: byKey(tools.map((tool) => [tool.name, toolContract(tool)])),
    prompts: byKey(prompts.map((each) => [text(each.name), promptContract(each)])),
    resources: byKey(resources.slice(0, RESOURCES).map((each) => [text(each.uri), text(each.mimeType)])),
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
    wording: hashed([title, hint, description]),
  }
}

function promptContract({ arguments: wanted, title, description }: EntryDefinition): PromptContract {
  const all = Array.isArray(wanted) ? wanted.filter(isObject) : []
  return {
    arguments: byKey(all.map((each) => [text(each.name), each.required === true])),
    wording: hashed([title, description, all.map((each) => [each.name, each.title, each.description])]),
  }
}

/** Names are those of servers: none of them may be more than a name. */
function byKey<Value>(entries: readonly (readonly [string, Value])[]): Readonly<Record<string, Value>> {
  return Object.fromEntries(entries)
}

function hashed(value: unknown): string {
  return createHash('sha256').update(canonical(value)).digest('hex').slice(0, 12)
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : ''
}
