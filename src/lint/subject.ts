/** What assertions look at, read from the server once. */
import { classify } from '../catalog/classify.ts'
import type { Handler } from '../core/call.ts'
import type { Classification } from '../core/descriptor.ts'
import { isObject } from '../core/json/json.ts'
import type { UpstreamSettings } from '../core/settings.ts'
import { metaKeys } from '../protocol/meta-keys.ts'
import {
  type Answer,
  type Ask,
  asker,
  type List,
  type ListMethod,
  readList,
  fetchPrompt,
  type Fetched,
  type Reading,
  readResources,
  type Json,
} from './asking.ts'

/** A tool of the server, and what kind of action it seems to be. */
export interface AuditedTool {
  readonly name: string
  readonly definition: Json
  readonly classification: Classification
}

/** Everything an audit looks at, gathered beforehand. */
export interface Subject extends House {
  readonly upstream: string
  readonly capabilities: Json
  readonly serverInfo: Json
  readonly lists: Readonly<Record<ListMethod, List>>
  readonly tools: readonly AuditedTool[]
  readonly prompts: readonly Json[]
  readonly resources: readonly Json[]
  readonly templates: readonly Json[]
  /** Some of the resources, read. */
  readonly readings: readonly Reading[]
  /** A prompt that needs no arguments, fetched. */
  readonly prompt?: Fetched
  /** What it said to a method that does not exist. */
  readonly stranger: Answer
  /** What it said to `tasks/list`, where it declares that it has it. */
  readonly taskList?: Answer
}

/** What is known of the server and of the gateway before anything is asked. */
interface House {
  readonly settings: UpstreamSettings
  readonly revision: string
  /** Callers must prove who they are. */
  readonly isProtected: boolean
  /** The features of the gateway that wrap calls of its tools, with their settings. */
  readonly guards: ReadonlyMap<string, unknown>
}

/** Asks a server for all an audit looks at. Reads only: no tool is ever called. @throws what hinders reaching it */
export async function gather(handle: Handler, house: House): Promise<Subject> {
  const { settings } = house
  const ask = asker(handle, settings)
  const discovered = await ask('server/discover')
  if (discovered.error) throw discovered.error
  const { capabilities, serverInfo, _meta: meta } = discovered.result.fields
  const own = isObject(capabilities) ? capabilities : {}
  const info = isObject(meta) ? meta[metaKeys.serverInfo] : serverInfo
  const lists = await readLists(ask)
  const resources = lists['resources/list'].items.filter(isObject)
  const prompts = lists['prompts/list'].items.filter(isObject)
  const prompt = await fetchPrompt(ask, prompts)
  const { tasks } = own
  const listsTasks = isObject(tasks) && tasks.list !== undefined
  return {
    ...house,
    upstream: settings.name,
    capabilities: own,
    serverInfo: isObject(info) ? info : {},
    lists,
    tools: lists['tools/list'].items.filter(isObject).map((definition) => ({
      name: String(definition.name),
      definition,
      classification: classify(definition, settings),
    })),
    prompts,
    resources,
    templates: lists['resources/templates/list'].items.filter(isObject),
    readings: await readResources(ask, resources),
    ...(prompt && { prompt }),
    stranger: await ask(STRANGER),
    ...(listsTasks && { taskList: await ask('tasks/list') }),
  }
}

async function readLists(ask: Ask): Promise<Subject['lists']> {
  return {
    'tools/list': await readList(ask, 'tools/list'),
    'prompts/list': await readList(ask, 'prompts/list'),
    'resources/list': await readList(ask, 'resources/list'),
    'resources/templates/list': await readList(ask, 'resources/templates/list'),
  }
}

/** A method no server has. */
const STRANGER = 'dev.gatehouse/no-such-method'

// The contract of an assertion, and help to word its verdict.

/** How much a rule binds: `forbidden` must not be, `may` is a choice. */
export type Level = 'must' | 'should' | 'forbidden' | 'may'

/** How a server stands to a rule; `repaired` where only the gateway in front of it keeps the rule. */
export type Status = 'pass' | 'repaired' | 'fail' | 'not applicable'

/** What was found, with the tools, prompts or resources it was found at. */
export interface Verdict {
  readonly status: Status
  readonly evidence: readonly string[]
  /** Nothing but the owner of the server can say whether the rule is kept. */
  readonly isOwners?: true
}

/** One rule a server is audited against. */
export interface Assertion {
  /** Its number: `C` and three digits. */
  readonly id: string
  readonly level: Level
  readonly text: string
  /** What to do where it is broken. */
  readonly fix?: string
  check(subject: Subject): Verdict
}

/** The rule is kept. */
export function pass(...evidence: string[]): Verdict {
  return { status: 'pass', evidence }
}

/** The rule is broken, and nothing repairs it. */
export function fail(...evidence: string[]): Verdict {
  return { status: 'fail', evidence }
}

/** The gateway keeps the rule, whatever the server does. */
export function repaired(...evidence: string[]): Verdict {
  return { status: 'repaired', evidence }
}

/** The rule is about something this server does not have, or that cannot be seen from here. */
export function notApplicable(...evidence: string[]): Verdict {
  return { status: 'not applicable', evidence }
}

/** Only the owner of the server knows. */
export function ownersToSay(what: string): Verdict {
  return { status: 'not applicable', evidence: [`only its owner can say: ${what}`], isOwners: true }
}

/** Broken where there are problems, else kept. */
export function unless(problems: readonly string[], otherwise: string): Verdict {
  return problems.length > 0 ? fail(...problems) : pass(otherwise)
}

/** A rule about each of several things: `none` says why there is nothing to look at. */
export function each<Item>(
  items: readonly Item[],
  none: string,
  problemsOf: (item: Item) => readonly string[],
): Verdict {
  if (items.length === 0) return notApplicable(none)
  return unless(items.flatMap(problemsOf), `${items.length} looked at`)
}
