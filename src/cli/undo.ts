/**
 * `gatehouse undo`: lists the actions since a time, newest first, with what somebody else changed since, and undoes them. A gateway
 * reads the present states and makes the compensating calls.
 */
import { messageOf } from '../core/error.ts'
import { displayCall } from '../core/masked-arguments.ts'
import type { Settings } from '../core/settings.ts'
import { oneLine } from '../core/text/escape.ts'
import { Actions } from '../records/actions.ts'
import {
  choose,
  type Chosen,
  chosenView,
  hasLeftState,
  isToBeUndone,
  plannedActions,
  withPresent,
} from '../records/rewind-plan.ts'
import {
  newRewind,
  orderSteps,
  partsOfRewind,
  progressOf,
  type Rewind,
  Rewinds,
  type UndoneAction,
} from '../records/rewinds.ts'
import { confirmed } from './ask.ts'
import { type Given, UsageError } from './command.ts'
import type { commands } from './commands.ts'
import { readWhole, unknownServer, userName, withStore } from './config-file.ts'
import { type GatewayWork, withGatewayWork } from './gateway-work.ts'
import { type Io, print } from './io.ts'
import { countText } from '../core/text/words.ts'
import { type Output, timeText } from './output.ts'
import { descriptionOf, requireTransactions, stateText, transactionsIn } from './tx.ts'

type UndoOptions = Given<typeof commands.undo>

/** How long to wait for a running gateway to begin, in milliseconds; gateways poll several times a second. */
const TAKEOVER_MS = 3000

/** `gatehouse undo --since WHEN`: lists actions and how each can be undone, newest first, and then undoes them. */
export async function undo(given: UndoOptions, io: Io): Promise<Output> {
  const { since, until, session, upstream, force } = given
  if (since > Date.now()) throw new UsageError('--since is in the future')
  if (until !== undefined && until < since) throw new UsageError('--until is before --since')
  const settings = await readWhole(given, io)
  const servers = settings.upstreams.map(({ name }) => name)
  if (upstream !== undefined && !servers.includes(upstream)) throw unknownServer(upstream, servers)
  return withStore(settings, io, (store) =>
    withGatewayWork({ ...given, settings, io }, async (work) => {
      const repository = transactionsIn(store, settings)
      const rewinds = new Rewinds(store)
      const found = await new Actions(store).list({
        since,
        ...(until !== undefined && { until }),
        ...(session !== undefined && { session }),
        ...(upstream !== undefined && { upstream }),
      })
      const transactions = (await repository.list()).map(({ transaction }) => transaction)
      const chosen = await withPresentStates(choose(found, transactions), { settings, rewinds, work })
      const text = listing(chosen, given)
      if (given.dryRun || !chosen.some((each) => isToBeUndone(each, true)))
        return { json: views(chosen), text }
      if (!given.json) print(text, io)
      requireTransactions(settings)
      const order = { by: userName(), via: 'command_line', force } as const
      const rewind = { ...newRewind({ status: 'undoing', plan: plannedActions(chosen), order }), order }
      if (!(await isConfirmed(rewind, given, io))) return 1
      const audit = await work.audit()
      for (const step of orderSteps(rewind)) audit?.ordered(step)
      const { actions } = await carriedOut(rewind, { rewinds, repository, work })
      const ended = actions.filter(({ outcome }) => outcome !== 'cannot')
      return {
        json: views(chosen, ended),
        text: [...ended.map(undoneText), ...forceAdvice(ended)].join('\n'),
        code: ended.every(({ outcome }) => outcome === 'undone') ? 0 : 1,
      }
    }),
  )
}

async function isConfirmed(rewind: Rewind, { yes }: UndoOptions, io: Io): Promise<boolean> {
  const count = partsOfRewind(rewind).reduce((sum, { actions }) => sum + actions.length, 0)
  if (yes || count === 0) return true
  const question = `Undo ${count === 1 ? 'this action' : `these ${count} actions`}?`
  return confirmed(question, 'add --yes to undo the actions, or --dry-run to only list them', io)
}

interface Asking {
  readonly rewinds: Rewinds
  readonly work: GatewayWork
}

/** Has a gateway read what somebody else changed since. */
async function withPresentStates(
  chosen: readonly Chosen[],
  { settings, rewinds, work }: Asking & { readonly settings: Settings },
): Promise<readonly Chosen[]> {
  const isOff = settings.features['transactions'] === undefined
  if (isOff || !chosen.some(hasLeftState)) return chosen
  const unread = (why: string): readonly Chosen[] =>
    withPresent(chosen, new Map(chosen.map(({ action }) => [action.key, { unread: why }])))
  const rewind = newRewind({ status: 'reading', plan: plannedActions(chosen) })
  try {
    await rewinds.put(rewind)
    const found = await work.done(
      () => rewinds.find(rewind.id),
      TAKEOVER_MS,
      (each) => (each?.status !== 'reading' ? 'done' : each.runner === undefined ? 'requested' : 0),
    )
    if (found?.status !== 'planned') return unread('no gateway read it')
    const known = new Map(found.plan.map(({ key, present }) => [key, present]))
    return chosen.map((each) => {
      const present = known.get(each.action.key)
      return { ...each, ...(present && { present }) }
    })
  } catch (error) {
    return unread(messageOf(error))
  }
}

/** Has a gateway undo what is to be undone, and waits for the end. */
async function carriedOut(
  rewind: Rewind,
  { rewinds, repository, work }: Asking & { readonly repository: ReturnType<typeof transactionsIn> },
) {
  const progress = async (of: Rewind) => progressOf(of, (key) => repository.find(key))
  if (partsOfRewind(rewind).length === 0) return progress({ ...rewind, status: 'ended' })
  await rewinds.put(rewind)
  return work.done(
    async () => progress((await rewinds.find(rewind.id)) ?? { ...rewind, status: 'ended' }),
    TAKEOVER_MS,
    ({ rewind: { status, runner }, actions }) => {
      if (status === 'ended') return 'done'
      const waiting = actions.filter(({ outcome }) => outcome === 'waiting')
      return runner === undefined ? 'requested' : waiting.length
    },
  )
}

/** What to do about actions that were not undone because something else changed the state since. */
function forceAdvice(ended: readonly UndoneAction[]): string[] {
  if (!ended.some(({ difference }) => difference)) return []
  return ['To undo them anyway, which overwrites those changes, repeat the command with --force.']
}

function listing(chosen: readonly Chosen[], given: UndoOptions): string {
  if (chosen.length === 0) return 'No actions to undo in that time.'
  const lines = chosen.map((each) => chosenText(each, given.force))
  return [...lines, '', sumText(chosen, given.force), ...planAdvice(chosen, given)].join('\n')
}

/** The command for each server that shows how to undo the tools of actions that have no undo. */
export function planAdvice(
  chosen: readonly Chosen[],
  { config }: Pick<UndoOptions, 'config'>,
): readonly string[] {
  const without = chosen.filter(({ how, action: { way } }) => {
    return how === 'not at all' && way.kind === 'none' && way.isUnconfigured === true
  })
  const option = config === undefined ? '' : ` --config ${config}`
  return [...Map.groupBy(without, ({ action }) => action.upstream)].map(([upstream, each]) => {
    const tools = [...new Set(each.map(({ action }) => action.tool))].join(', ')
    return oneLine(
      `${upstream}: gatehouse plan ${upstream}${option} shows whether other tools undo ${tools}. With --write, it adds what is certain, for later calls.`,
    )
  })
}

function views(chosen: readonly Chosen[], ended: readonly UndoneAction[] = []): object {
  const ends = new Map(ended.map((each) => [each.action.key, each]))
  const deeds = chosen.map((each) => {
    const view = chosenView(each)
    const end = ends.get(view.key)
    if (!end) return view
    const { outcome, error, state, difference = view.difference } = end
    return { ...view, undone: outcome === 'undone', state, error, difference }
  })
  return { deeds }
}

/** An action of the plan as text. */
export function chosenText({ action, how, why, present }: Chosen, isForced = false): string {
  const { startedAt, principal, upstream, tool, way } = action
  const call = displayCall(tool, action.arguments, action)
  const back = way.kind === 'exact' || way.kind === 'approximate' ? `: ${descriptionOf(way, action)}` : ''
  const caveats = [
    why,
    present?.kind === 'unknown'
      ? `cannot tell whether something else changed it since: ${present.why}`
      : undefined,
  ]
  const detail =
    how === 'not at all'
      ? `: ${why}`
      : `${back}${caveats.flatMap((each) => (each === undefined ? [] : ` (${each})`)).join('')}`
  const lines = [`${timeText(startedAt)}  ${principal.id}  ${upstream}  ${call}`, `    ${how}${detail}`]
  if (present?.kind === 'changed') {
    const what = isForced ? 'overwritten, because of --force' : 'left as it is'
    lines.push(`    ${what}: something else changed it since, as ${present.read} shows`)
    lines.push(...present.difference.map((line) => `        ${line}`))
  }
  return lines.map(oneLine).join('\n')
}

/** How many actions can be undone exactly, approximately and not at all, and how many were changed since. */
function sumText(chosen: readonly Chosen[], isForced: boolean): string {
  const count = (how: Chosen['how']): number => chosen.filter((each) => each.how === how).length
  const changed = chosen.filter(({ present }) => present?.kind === 'changed').length
  const left = isForced ? '' : ', and left as they are'
  const since =
    changed === 0 ? '' : ` ${countText(changed, 'action')} changed by something else since${left}.`
  return `Of ${chosen.length}, ${count('exactly')} can be undone exactly, ${count('approximately')} approximately, ${count('not at all')} not at all.${since}`
}

/** What became of an action as text. */
export function undoneText({ action, outcome, error, difference = [], state }: UndoneAction): string {
  const { startedAt, upstream, tool } = action
  const what = `${timeText(startedAt)}  ${upstream}  ${tool}`
  const after = state === undefined ? '' : `: ${stateText[state]}`
  const why = error ?? 'it has not finished: see gatehouse tx list'
  const line = outcome === 'undone' ? `undone      ${what}${after}` : `not undone  ${what}: ${why}`
  return [line, ...difference.map((each) => `    ${each}`)].map(oneLine).join('\n')
}
