/** The tools of the owner's client that take back what was done. A principal cannot take back here what it did itself. */
import { GatewayError, invalidParam } from '../core/error.ts'
import { shorten } from '../core/json/shorten.ts'
import { isoTime, pause } from '../core/time/waiting.ts'
import { countText } from '../core/text/words.ts'
import { world } from '../core/world.ts'
import type { PageUser } from '../downstream/pages/page-users.ts'
import type { Rewinding, RewindPlan } from '../features/offers.ts'
import { type Chosen, chosenView, isToBeUndone, rewindFilter } from '../records/rewind-plan.ts'
import type { RewindProgress } from '../records/rewinds.ts'
import {
  about,
  flag,
  isCaller,
  listOf,
  objectOf,
  off,
  type OperatorTool,
  reads,
  resultOf,
  settles,
  text,
  textIn,
} from './operator-tool.ts'
import type { Owner } from './owner.ts'

/** How many actions of a plan are shown, and how much of the arguments of one, in bytes. */
const MAX_SHOWN_ACTIONS = 200
const MAX_ARGUMENTS_BYTES = 2000
/** How long a rewind is awaited, and how often it is looked at, in milliseconds. */
const REWIND_WAIT_MS = 20_000
const REWIND_POLL_INTERVAL_MS = 250

const planSchema = resultOf({
  plan: about(text, 'What rewind takes.'),
  summary: text,
  actions: listOf({ type: 'object' }),
})

/** Plan, and carry out. */
export function rewindTools(owner: Owner): readonly OperatorTool[] {
  return [
    {
      definition: {
        name: 'plan_rewind',
        title: 'Plan a rewind',
        description:
          'Plans to undo what was done since a point in time: what can be undone, in which order, what cannot and why, and what somebody else changed since. Nothing is undone before rewind.',
        inputSchema: objectOf({
          since: about(text, 'A duration such as 10m or 2h ago, or a time such as 2026-11-21T10:00Z.'),
          from: about(text, 'In place of it: the id of the first call that is undone.'),
          server: about(text, 'Only what was done on this server.'),
        }),
        outputSchema: planSchema,
        annotations: { ...reads, openWorldHint: true },
      },
      roles: ['operator'],
      run: async ({ since, from, server }, user) => {
        const chosen = { since: textIn(since), from: textIn(from), upstream: textIn(server) }
        const filter = rewindFilter(chosen, world.now())
        if (!filter) throw invalidParam('since', 'must be a duration such as 10m, or a time')
        return planView(await requiredRewinding(owner).plan(filter), user)
      },
    },
    {
      definition: {
        name: 'rewind',
        title: 'Carry out a rewind',
        description:
          'Undoes exactly what a plan of plan_rewind shows. If the plan has changed meanwhile, nothing is done, and the new plan is returned. Called again with the same plan, it shows how far that has got.',
        inputSchema: objectOf(
          {
            plan: about(text, 'The id of the plan.'),
            force: about(
              flag,
              'Whether to undo also what somebody else changed since, which overwrites that.',
            ),
          },
          ['plan'],
        ),
        outputSchema: resultOf({
          plan: text,
          status: text,
          summary: text,
          actions: listOf({ type: 'object' }),
        }),
        annotations: settles,
      },
      roles: ['operator'],
      run: async ({ plan, force }, user) => rewind(owner, { id: String(plan), force: force === true }, user),
    },
  ]
}

/** @throws UNSUPPORTED_OPERATION */
function requiredRewinding(owner: Owner): Rewinding {
  const found = owner.rewinding()
  if (found) return found
  throw off('Undoing is off: see `transactions` and `undo` in the configuration.')
}

/** @throws PERMISSION_DENIED for a plan with actions of the same principal, and what `Rewinding.carryOut` throws */
async function rewind(
  owner: Owner,
  { id, force }: { readonly id: string; readonly force: boolean },
  user: PageUser,
): Promise<object> {
  const rewinding = requiredRewinding(owner)
  const planned = await rewinding.progress(id)
  if (!planned) throw new GatewayError('RESOURCE_NOT_FOUND', 'There is no such plan any more.')
  const own = planned.rewind.plan.filter(
    (each) => isToBeUndone(each, force) && isCaller(user, each.principal.id),
  ).length
  if (own > 0 && planned.rewind.status === 'planned')
    throw new GatewayError(
      'PERMISSION_DENIED',
      `The plan undoes ${countText(own, 'call')} that you made yourself: somebody else has to undo them.`,
      { suggestion: 'Plan a rewind of a server or a time without calls of your own.' },
    )
  const begun = await rewinding.carryOut(id, { by: user.by, via: user.via, ...(force && { force }) })
  if ('plan' in begun) {
    const differences = begun.changes.map(({ text: difference }) => difference)
    return { ...planView(begun.plan, user), status: 'changed', changes: differences }
  }
  const until = world.monotonic() + REWIND_WAIT_MS
  for (;;) {
    const progress = (await rewinding.progress(id)) ?? planned
    if (progress.rewind.status === 'ended' || world.monotonic() > until) return progressView(progress)
    await pause(REWIND_POLL_INTERVAL_MS)
  }
}

function planView({ id, actions }: RewindPlan, user: PageUser): object {
  const undone = actions.filter((each) => isToBeUndone(each))
  const own = undone.filter(({ action }) => isCaller(user, action.principal.id)).length
  const cannot = actions.filter(({ how }) => how === 'not at all').length
  const changed = actions.filter(({ present }) => present?.kind === 'changed').length
  const summary = [
    `${undone.length} of ${countText(actions.length, 'action')} will be undone, in this order.`,
    cannot > 0 && `${cannot} cannot be undone.`,
    changed > 0 && `${changed} would overwrite what somebody else changed since, and stay as they are.`,
    own > 0 && `${own} are of calls that you made yourself: somebody else has to undo them.`,
  ]
  return {
    plan: id,
    summary: summary.filter((each) => each !== false).join(' '),
    actions: shownActions(actions),
    ...(actions.length > MAX_SHOWN_ACTIONS && { is_cut: true }),
  }
}

function shownActions(actions: readonly Chosen[]): readonly object[] {
  const short = (given: unknown): unknown => shorten(given, MAX_ARGUMENTS_BYTES, true) ?? '…'
  return actions.slice(0, MAX_SHOWN_ACTIONS).map((each) => {
    const { arguments: given, call, ...rest } = chosenView(each)
    return {
      ...rest,
      arguments: short(given),
      ...(call && { call: { ...call, arguments: short(call.arguments) } }),
    }
  })
}

function progressView({ rewind: { id, status }, actions }: RewindProgress): object {
  const undone = actions.filter(({ outcome }) => outcome === 'undone').length
  return {
    plan: id,
    status,
    summary: `${undone} of ${countText(actions.length, 'action')} undone. ${status === 'ended' ? 'The rewind has ended.' : 'The rewind is running.'}`,
    actions: actions.slice(0, MAX_SHOWN_ACTIONS).map(({ action, ...end }) => ({
      server: action.upstream,
      tool: action.tool,
      at: isoTime(action.startedAt),
      ...end,
    })),
  }
}
