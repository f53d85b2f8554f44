/**
 * The feature `confirm`: which calls need confirmation, how lists announce it, and what a dry
 * run says of it: no person is asked then, and no approval is used.
 */
import { world } from '../../core/world.ts'
import type { Middleware, Target, Call } from '../../core/call.ts'
import { HeldMemory } from '../../core/holdings.ts'
import { isObject } from '../../core/json/json.ts'
import { Payload } from '../../core/payload.ts'
import { type UpstreamSettings, settingOf } from '../../core/settings.ts'
import { reportedRisk, statedTool } from '../../core/stated-tool.ts'
import { CONFIRMATION_KEY, isAskedFor, withoutFlag } from '../../protocol/meta-keys.ts'
import { Approvals, isSameToken } from '../../records/approvals.ts'
import { describingTools } from '../tool-lists.ts'
import type { Feature, Services } from '../feature.ts'
import { callerValues, modelArguments, toolFacts } from '../offers.ts'
import { createApprovalCache } from './grant.ts'
import { type ConfirmContext, FLAG, TOKEN, reservedArguments, type HostConfirmation } from './context.ts'
import {
  confirmationPolicy,
  callerOnly,
  canDecide,
  noApprover,
  resolveApproval,
  isBareConfirmation,
  isRecalled,
  subjectOf,
} from './policy.ts'
import { templateOf, approvalRequestOf, type ConfirmationRequest } from './request.ts'
import { needsConfirmation, ruleOf, riskOf } from './rules.ts'
import { Waiting } from './waiting.ts'
import { type ConfirmSettings, confirmSchema } from './settings.ts'
import { type ConfirmationForecast, withFinding } from '../../core/dry-run.ts'
import { canAsk } from './elicitation.ts'

type Deps = Pick<
  Services,
  'log' | 'scope' | 'store' | 'servers' | 'descriptions' | 'identity' | 'pages' | 'features' | 'gateway'
>

/** Requires confirmation before harmful calls: by the person at the client, or by others on a page of the gateway. */
export const confirm: Feature<ConfirmSettings> = {
  ...confirmSchema,
  create: (settings, deps) => {
    const approvals = new Approvals(deps.store, world.now)
    const memory = createApprovalCache(deps.store, world.now)
    const waiting = new Waiting((id) => approvals.find(id), deps.scope.once(HeldMemory))
    const serverOf = ({ upstream, isBuiltin }: Target): UpstreamSettings | undefined =>
      isBuiltin || upstream === undefined ? undefined : deps.servers.settings(upstream)
    const contextOf = (target: Target): ConfirmContext | undefined => {
      const { upstream, method, name } = target
      const server = serverOf(target)
      if (!server || method !== 'tools/call' || name === undefined) return undefined
      const toolSettings = settings(upstream)
      const rule = ruleOf(name, server, toolSettings)
      return rule && { rule, settings: toolSettings, server, deps, approvals, memory, waiting }
    }
    return {
      calls: {
        middleware: (target) => {
          const server = serverOf(target)
          if (server && target.method === 'tools/list')
            return markTools(server, settings(target.upstream), deps)
          const context = contextOf(target)
          return context && confirmationPolicy(context)
        },
        dryRun: (target) => {
          const context = contextOf(target)
          return context && forecastConfirmation(context)
        },
      },
      offers: [
        toolFacts.offer((entry) => {
          const server = deps.servers.settings(entry.upstream)
          const rule = server && ruleOf(entry.name, server, settings(entry.upstream))
          if (!rule || !needsConfirmation(rule, entry)) return {}
          const message = templateOf(rule, entry, server)
          return { confirmation: { message, isOutOfBand: rule.isOutOfBand } }
        }),
        callerValues.offer([{ name: FLAG }, { name: TOKEN }]),
        modelArguments.offer((upstream) => reservedArguments(settings(upstream), upstream, deps)),
      ],
      close: async () => waiting.close(),
    }
  },
}

/** Marks the tools that need confirmation in lists; undefined if there can be none. */
function markTools(server: UpstreamSettings, settings: ConfirmSettings, deps: Deps): Middleware | undefined {
  const isAnyNamed = Object.values(server.tools).some(
    ({ confirm, approval, approvals, approvers, typeToConfirm, cost }) =>
      (confirm ?? approval ?? approvals ?? approvers ?? typeToConfirm) !== undefined ||
      cost?.category === 'requires_approval',
  )
  if (settings.level === 'none' && !isAnyNamed) return undefined
  const about = { server, settings, deps }
  const plain = describingTools((tool) => markTool(tool, { ...about, isInMeta: false }))
  const withMeta = describingTools((tool) => markTool(tool, { ...about, isInMeta: true }))
  return (next) => {
    const [listPlain, listWithMeta] = [plain(next), withMeta(next)]
    return (call) =>
      (isAskedFor(call, CONFIRMATION_KEY) ? listWithMeta : listPlain)(withoutFlag(call, CONFIRMATION_KEY))
  }
}

interface MarkOptions {
  /** Whether the members are also added to `_meta`. */
  readonly isInMeta: boolean
  readonly server: UpstreamSettings
  readonly settings: ConfirmSettings
  readonly deps: Deps
}

function markTool(tool: Payload, { server, settings, deps, isInMeta }: MarkOptions): Payload {
  const entry = isObject(tool.value) ? deps.servers.describe(server.name, tool.fields) : undefined
  const rule = entry && ruleOf(entry.name, server, settings)
  if (!entry || !rule || !needsConfirmation(rule, entry)) return tool
  const risk = riskOf(rule, entry)
  const hasOwnRisk = settingOf(server.tools, entry.name, 'risk') !== undefined
  const members = {
    requires_confirmation: true,
    confirmation_message: templateOf(rule, entry, server),
    risk_level: hasOwnRisk ? risk : reportedRisk(statedTool(tool.fields).risk, risk, false),
  }
  const annotations = tool.at('annotations') ?? Payload.of({})
  // A hint that the server gives is kept; the call has to be confirmed either way.
  const isUnsaid = typeof annotations.fields.destructiveHint !== 'boolean'
  const marked = tool.with({
    ...(settings.compat && members),
    ...(risk === 'destructive' && isUnsaid && { annotations: annotations.with({ destructiveHint: true }) }),
  })
  if (settings.compat && !isInMeta && !rule.isOutOfBand) return marked
  const metaMembers = rule.isOutOfBand
    ? { ...members, approval: 'out_of_band', needed: rule.needed }
    : members
  return marked.withMeta({ [CONFIRMATION_KEY]: metaMembers })
}

/** Adds to dry runs whether they would have to be confirmed. */
function forecastConfirmation(context: ConfirmContext): Middleware {
  return (next) => async (given) => {
    const { call, subject, host } = subjectOf(given, context)
    const confirmation = subject ? await forecast(subject, host, context) : { isRequired: false }
    return next(withFinding(call, { confirmation }))
  }
}

/** @throws CONFIRMATION_DECLINED if it was denied, CONFIRMATION_REQUIRED if no one can be asked */
async function forecast(
  subject: ConfirmationRequest,
  host: HostConfirmation,
  context: ConfirmContext,
): Promise<ConfirmationForecast> {
  const { rule } = context
  const about = { isRequired: true, message: subject.message, risk: subject.risk }
  const isGranted = await isAllowed(subject, host, context)
  const granted = isGranted ? ({ isGranted: true } as const) : {}
  if (rule.isOutOfBand) {
    if (!isGranted && !canDecide(context)) throw noApprover(subject)
    return { ...about, ...granted, by: 'others', via: 'page', needed: rule.needed, approvers: rule.approvers }
  }
  return {
    ...about,
    ...granted,
    by: 'user',
    via: isGranted ? wayOf(subject.call, context) : mustAsk(subject, context),
  }
}

/** How the user would be asked. @throws CONFIRMATION_REQUIRED */
function mustAsk(subject: ConfirmationRequest, context: ConfirmContext): 'form' | 'page' | 'token' {
  const way = wayOf(subject.call, context)
  if (way === 'form') return way
  if (context.settings.fallback === 'deny' || !canDecide(context)) throw noApprover(subject)
  return way
}

function wayOf(call: Call, { settings }: ConfirmContext): 'form' | 'page' | 'token' {
  if (canAsk(call, 'form')) return 'form'
  return settings.fallback === 'two_step' ? 'token' : 'page'
}

/** Whether the call has a permission already. @throws CONFIRMATION_DECLINED */
async function isAllowed(
  subject: ConfirmationRequest,
  host: HostConfirmation,
  context: ConfirmContext,
): Promise<boolean> {
  const { rule, settings, approvals, memory } = context
  const { call } = subject
  if (isRecalled(subject, rule) && (await memory.has(subject, rule))) return true
  if (!rule.isOutOfBand && canAsk(call, 'form')) return false
  if (!rule.isOutOfBand && isBareConfirmation(host, settings)) return true
  const draft = rule.isOutOfBand
    ? approvalRequestOf(subject, rule, { kind: 'out_of_band', ttl: settings.approval_ttl })
    : approvalRequestOf(subject, callerOnly, { kind: 'page', ttl: settings.ttl })
  const open = await approvals.peek(draft)
  if (open && host.token !== undefined && isSameToken(open.token, host.token)) return true
  return resolveApproval(open?.approval, call) !== undefined
}
