/** What `inspect` found about a tool, as texts: for `gatehouse explain`, and for the page of its server. */
import type { UpstreamSettings } from '../core/settings.ts'
import { oneLine } from '../core/text/escape.ts'
import { withoutSecrets } from '../core/text/redact.ts'
import { durationText } from '../core/time/units.ts'
import type { UndoSettings } from '../core/undo/expression.ts'
import type { Inspected } from './inspect.ts'

type Confirmation = Inspected['confirmation']
type Undoing = Inspected['undoing']

/** Whether a call is confirmed, and by whom. */
export function confirmationText({ when, unless, isOutOfBand, fallback = 'page' }: Confirmation): string {
  if (when === 'never') return 'none'
  if (unless)
    return 'not asked: can be undone exactly (features.confirm.exact_undo); asked if the state before a call cannot be kept'
  const whom = isOutOfBand
    ? 'approval by other people, out of band'
    : `by the user of the client, inline; ${fallbackText[fallback]} if the client cannot ask`
  if (when === 'always') return whom
  return when === 'by_arguments'
    ? `${whom}, for calls whose arguments require it`
    : `${whom}, in transactions only`
}

const fallbackText: Readonly<Record<NonNullable<Confirmation['fallback']>, string>> = {
  page: 'on a page of the gateway',
  two_step: 'with a token, with which the host repeats the call',
  deny: 'the call is denied',
}

/** How a call is undone. */
export function undoText({ from, how, isProved }: Undoing): string {
  if (how === 'unneeded') return 'nothing to undo'
  if (from === 'nowhere') return 'none'
  if (from === 'configuration')
    return how === 'impossible' ? 'not possible as configured' : `${degrees[how]}, as configured`
  if (how === 'unsure')
    return 'not configured; the proposal from the tool list is uncertain (see gatehouse plan)'
  if (from === 'derivation')
    return isProved
      ? `${degrees[how]}, as proved (see features.undo.proved)`
      : `${degrees[how]}, derived from schemas (features.transactions.auto_undo is on)`
  return `not configured; ${degrees[how]} ${isProved ? 'as proved' : 'according to schemas'} (see gatehouse plan)`
}

const degrees: Readonly<Record<Undoing['how'], string>> = {
  exact: 'exactly',
  approximate: 'approximately',
  unsure: 'uncertain',
  impossible: 'not at all',
  unneeded: 'nothing to undo',
}

/** The undo rule, one line for each part. */
export function undoExpressions(undo: string | UndoSettings | undefined): string[] {
  if (undo === undefined) return []
  if (typeof undo === 'string') return [undo]
  const { absent, snapshot, restore, call } = undo
  return Object.entries({ absent, snapshot, call, restore }).flatMap(([key, text]) =>
    text === undefined ? [] : [`${key}: ${text}`],
  )
}

/** What becomes of a call that takes long. */
export function longCallsText(longCalls: Inspected['longCalls']): string {
  if (!longCalls) return 'end with their request (features.progress is off)'
  const { taskAfter, keep, answerWithin } = longCalls
  const when = taskAfter === 0 ? 'at once' : `after ${durationText(taskAfter)}`
  const others =
    answerWithin === undefined ? '' : `; other clients are answered after ${durationText(answerWithin)}`
  return `become tasks ${when} for clients that support tasks${others}; an outcome is kept for ${durationText(keep)}`
}

/** The event of a success. */
export function eventText({ type, receivers }: NonNullable<Inspected['event']>): string {
  const whom =
    receivers === 'own' ? 'its caller receives it' : 'all callers with the right to the call receive it'
  return `a success is ${type}; ${whom} (features.events.writes)`
}

/** How the pages of a result are collected. */
export function pagesText({ arguments: names, when }: NonNullable<Inspected['pages']>): string {
  const scope = when === 'always' ? 'collected for every caller' : 'collected on request'
  return `${scope} (by ${names.map(oneLine).join(', ')}), if a result says that there are more`
}

/** How a server is reached, without secrets. */
export function reachText({ reach, transport }: UpstreamSettings): string {
  if (reach.kind === 'command') return `a child process: ${shownWords([reach.command, ...reach.args])}`
  return `${withoutSecrets(reach.url)} (${transport === 'auto' ? 'transport detected' : `transport ${transport}, as configured`})`
}

/** A command line with recognizable secrets masked, since references to secrets are already expanded. */
function shownWords(words: readonly string[]): string {
  const line = withoutSecrets(words.join(' '))
  return line.replace(/(--?[\w-]*(?:token|secret|passw(?:or)?d|key|credentials?)\s+)[^\s-]\S*/gi, '$1***')
}
