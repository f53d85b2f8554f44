/** The data that assertions check, read from the server once. */
import { classify } from '../core/judgement/classify.ts'
import { surroundingsOf } from '../core/judgement/surroundings.ts'
import type { Handler } from '../core/call.ts'
import type { Classification } from '../core/descriptor.ts'
import { asObject, isObject } from '../core/json/json.ts'
import type { Fields } from '../core/payload.ts'
import type { UpstreamSettings } from '../core/settings.ts'
import { metaKeys } from '../protocol/meta-keys.ts'
import {
  type ServerAnswer,
  createSender,
  type List,
  listMethods,
  type ListMethod,
  readList,
  fetchPrompt,
  type Fetched,
  type Reading,
  readResources,
} from './asking.ts'

/** A tool of the server, with its classification. */
export interface AuditedTool {
  readonly name: string
  readonly definition: Fields
  readonly classification: Classification
}

/** All data of an audit, collected in advance. */
export interface Subject extends AuditContext {
  readonly upstream: string
  readonly capabilities: Fields
  readonly serverInfo: Fields
  readonly lists: ReadonlyMap<ListMethod, List>
  readonly tools: readonly AuditedTool[]
  readonly prompts: readonly Fields[]
  readonly resources: readonly Fields[]
  readonly templates: readonly Fields[]
  /** The contents of some resources. */
  readonly readings: readonly Reading[]
  /** A fetched prompt without required arguments. */
  readonly prompt?: Fetched
  /** The response to an unknown method. */
  readonly unknownMethod: ServerAnswer
  /** The response to `tasks/list`, if declared. */
  readonly taskList?: ServerAnswer
}

/** The settings of the server and the gateway. */
interface AuditContext {
  readonly settings: UpstreamSettings
  readonly revision: string
  /** Whether callers must authenticate. */
  readonly isProtected: boolean
  /** The features of the gateway that apply to its tools, with their settings. */
  readonly guards: ReadonlyMap<string, unknown>
}

/** Reads all data of an audit from a server. Read-only: no tool is called. @throws if the server is unavailable */
export async function gather(handle: Handler, context: AuditContext): Promise<Subject> {
  const { settings } = context
  const send = createSender(handle, settings)
  const discovered = await send('server/discover')
  if (discovered.error) throw discovered.error
  const { capabilities, serverInfo, _meta: meta } = discovered.result.fields
  const own = asObject(capabilities)
  const info = isObject(meta) ? meta[metaKeys.serverInfo] : serverInfo
  const lists = new Map<ListMethod, List>()
  for (const name of listMethods) lists.set(name, await readList(send, name))
  const entriesOf = (name: ListMethod): readonly Fields[] => lists.get(name)?.items.filter(isObject) ?? []
  const tools = entriesOf('tools/list')
  const around = surroundingsOf(tools)
  const resources = entriesOf('resources/list')
  const prompts = entriesOf('prompts/list')
  const prompt = await fetchPrompt(send, prompts)
  const { tasks } = own
  const listsTasks = isObject(tasks) && tasks.list !== undefined
  return {
    ...context,
    upstream: settings.name,
    capabilities: own,
    serverInfo: asObject(info),
    lists,
    tools: tools.map((definition) => ({
      name: String(definition.name),
      definition,
      classification: classify(definition, settings, around),
    })),
    prompts,
    resources,
    templates: entriesOf('resources/templates/list'),
    readings: await readResources(send, resources),
    ...(prompt && { prompt }),
    unknownMethod: await send(UNKNOWN_METHOD),
    ...(listsTasks && { taskList: await send('tasks/list') }),
  }
}

/** A method that no server implements. */
const UNKNOWN_METHOD = 'dev.gatehouse/no-such-method'

// The type of assertions, and functions for their results.

/** The level of a rule: `forbidden` is MUST NOT, `may` is optional. */
export type Level = 'must' | 'should' | 'forbidden' | 'may'

/** The status of a rule; `repaired` if only the gateway satisfies it. */
export type Status = 'pass' | 'repaired' | 'fail' | 'not applicable'

/** The result of a check, with evidence. */
export interface RuleResult {
  readonly status: Status
  readonly evidence: readonly string[]
  /** Only the owner of the server can judge the rule. */
  readonly isOwnerOnly?: true
}

/** One rule of the profile. */
export interface Assertion {
  /** Its number: `C` and three digits. */
  readonly id: string
  readonly level: Level
  readonly text: string
  /** How to fix a violation. */
  readonly fix?: string
  check(subject: Subject): RuleResult
}

/** The rule is satisfied. */
export function pass(...evidence: string[]): RuleResult {
  return { status: 'pass', evidence }
}

/** The rule is broken and not repaired. */
export function fail(...evidence: string[]): RuleResult {
  return { status: 'fail', evidence }
}

/** The gateway satisfies the rule, independent of the server. */
export function repaired(...evidence: string[]): RuleResult {
  return { status: 'repaired', evidence }
}

/** The rule concerns something that the server does not have, or that cannot be observed. */
export function notApplicable(...evidence: string[]): RuleResult {
  return { status: 'not applicable', evidence }
}

/** Only the owner of the server can judge the rule. */
export function ownerOnly(what: string): RuleResult {
  return { status: 'not applicable', evidence: [`only its owner knows: ${what}`], isOwnerOnly: true }
}

/** Fails if there are problems, else passes. */
export function unless(problems: readonly string[], otherwise: string): RuleResult {
  return problems.length > 0 ? fail(...problems) : pass(otherwise)
}

/** A rule about several items; `none` is the reason if there are none. */
export function each<Item>(
  items: readonly Item[],
  none: string,
  problemsOf: (item: Item) => readonly string[],
): RuleResult {
  if (items.length === 0) return notApplicable(none)
  return unless(items.flatMap(problemsOf), `${items.length} checked`)
}
