/** Which rule holds for a tool: from its settings, its risk, its price, or its place in a transaction. */
import type { Call } from '../../core/call.ts'
import { type Descriptor, type Risk, riskRanks, type Cost } from '../../core/descriptor.ts'
import { isObject } from '../../core/json/json.ts'
import type { Remember, StopAsking } from '../../core/remember.ts'
import { type UpstreamSettings, settingOf } from '../../core/settings.ts'
import { yamlKey } from '../../core/text/escape.ts'

/** What the configuration says of asking people. Durations are milliseconds. */
export interface Settings {
  readonly level: 'destructive' | 'reversible' | 'all' | 'none'
  readonly unannotated: 'confirm' | 'derive'
  readonly fallback: 'page' | 'two_step' | 'deny'
  readonly ttl: number
  readonly approval_ttl: number
  readonly wait: number
  readonly remember: false | Remember
  readonly rollbacks: boolean
  readonly accept_bare_flag: boolean
  readonly model_may_confirm: boolean
  readonly compat: boolean
}

/** What the configuration says of asking about one tool. */
export interface Rule {
  /** The least rank of risk that is asked about. */
  readonly from: number
  /** There is no way back after it: steps of transactions are asked about. */
  readonly isPivot: boolean
  /** A tool whose server does not say that it does not destroy is taken to do so. */
  readonly isLiteral: boolean
  readonly template?: string
  /** What the call costs, in words, where that is why people are asked. */
  readonly price?: string
  /** The argument whose value is typed. */
  readonly typed?: string
  /** Others approve it. */
  readonly isOutOfBand: boolean
  readonly needed: number
  readonly approvers: readonly string[]
  /** For which calls an agreement holds, where it holds for more than one, or may. */
  readonly remember?: Remember
  /** What to write to be asked no more, where it is the gateway's own judgement that asks. */
  readonly stop?: StopAsking
}

const levels = { all: 0, reversible: 1, destructive: 2, none: 3 } as const

/** The rule for a tool; undefined where the configuration alone excludes a confirmation. */
export function ruleOf(name: string, server: UpstreamSettings, settings: Settings): Rule | undefined {
  const { tools } = server
  const asked = settingOf(tools, name, 'confirm')?.value
  const risk = settingOf(tools, name, 'risk')?.value
  const typed = settingOf(tools, name, 'typeToConfirm')?.value
  const approval = settingOf(tools, name, 'approval')?.value
  const needed = settingOf(tools, name, 'approvals')?.value
  const approvers = settingOf(tools, name, 'approvers')?.value
  const ownRemember = settingOf(tools, name, 'remember')?.value
  const cost = settingOf(tools, name, 'cost')?.value
  const isCostly = cost?.category === 'requires_approval'
  const isPivot = settingOf(tools, name, 'pivot')?.value === true
  const isOutOfBand = approval ? approval === 'out_of_band' : (needed ?? approvers) !== undefined
  // Who says how a person is asked means that one is, but not about what only reads.
  const isMeant = isOutOfBand || typed !== undefined
  const least = isMeant ? Math.min(levels.reversible, levels[settings.level]) : levels[settings.level]
  const from = isCostly ? levels.all : asked === undefined ? least : isNo(asked) ? levels.none : levels.all
  const isKnown = risk !== undefined && riskRanks[risk] < from
  if ((from === levels.none || isKnown) && !isPivot) return undefined
  // What the configuration names to be asked about is asked about each time, unless it says otherwise of that tool.
  const isNamed = isMeant || isCostly || asked !== undefined
  const isOffered = !isNamed || (ownRemember !== undefined && !isMeant && !isCostly)
  const remember = rememberOf(ownRemember ?? settings.remember, isOffered)
  return {
    from,
    isPivot,
    isLiteral: settings.unannotated === 'confirm' && risk === undefined,
    ...(typeof asked === 'string' && !isNo(asked) && { template: asked }),
    ...(isCostly && { price: priceOf(cost) }),
    ...(typed !== undefined && { typed }),
    isOutOfBand,
    needed: needed ?? 1,
    approvers: approvers ?? [],
    ...(remember && { remember }),
    ...(!isNamed && !isPivot && { stop: stopOf(name, server) }),
  }
}

/** The setting by which people are asked about a tool no more: the nearest place that is there, and what goes there. */
function stopOf(tool: string, { name, tools }: UpstreamSettings): StopAsking {
  const under = `upstreams.${name}`
  const setting = 'confirm: never'
  if (Object.hasOwn(tools, tool)) return { under: `${under}.tools.${yamlKey(tool)}`, write: setting }
  const write = `${yamlKey(tool)}: { ${setting} }`
  if (Object.keys(tools).length > 0) return { under: `${under}.tools`, write }
  return { under, write: `tools: { ${write} }` }
}

function rememberOf(remember: false | Remember, isOffered: boolean): Remember | undefined {
  return remember === false || (remember.offer === true && !isOffered) ? undefined : remember
}

/** What the person who is asked about a call may choose: that the answer holds for calls of this tool that follow. */
export function offerOf(
  { remember }: Rule,
  { classification }: Descriptor,
  call: Call,
): Remember | undefined {
  const { step, client, principal } = call
  if (!remember?.offer || remember.max < 2) return undefined
  // Each program is another one.
  if (classification.op === 'execute') return undefined
  // A step of a transaction is looked at by itself.
  if (step !== undefined) return undefined
  // One answer would hold for every caller of the gateway.
  return principal.isEverybody && client.session === undefined ? undefined : remember
}

function priceOf({ units, label }: Cost): string {
  const named = label ?? (units === 1 ? 'unit' : 'units')
  return units === undefined ? (label ?? 'something') : `${units} ${named}`
}

function isNo(asked: boolean | string): boolean {
  return asked === false || asked === 'never'
}

/** Whether the tool need not be looked up: no call is confirmed, whatever it does. */
export function isNeverAsked({ from }: Rule, call: Pick<Call, 'step'>): boolean {
  return from === levels.none && call.step === undefined
}

/** Whether a person is asked about a call of a tool; without the call, whether one could be. */
export function isAsked(rule: Rule, entry: Descriptor, call?: Pick<Call, 'step'>): boolean {
  return riskRanks[riskOf(rule, entry)] >= rule.from || (rule.isPivot && call?.step !== undefined)
}

/** The risk of a tool, in words for people. */
export function riskOf({ isLiteral }: Rule, { classification, definition }: Descriptor): Risk {
  if (!isLiteral || classification.risk === 'destructive') return classification.risk
  const hints = isObject(definition.annotations) ? definition.annotations : {}
  // A missing `destructiveHint` means that a tool may destroy, unless it only reads (2025-03-26 server/tools).
  const isSaid = typeof hints.destructiveHint === 'boolean' || hints.readOnlyHint === true
  return isSaid ? classification.risk : 'destructive'
}
