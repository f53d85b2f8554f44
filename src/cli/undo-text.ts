import { oneLine } from '../core/one-line.ts'
import { displayCall } from '../core/shown-call.ts'
import { timeText } from './time-text.ts'
import type { Chosen } from './undo-choice.ts'

/** What became of something that was to be undone. */
export interface Undone {
  readonly chosen: Chosen
  /** Why it was not; absent where it was. */
  readonly error?: string
}

/** Something that was done, for people. */
export function chosenText({ deed, how, why }: Chosen): string {
  const { startedAt, principal, upstream, tool, way } = deed
  const call = displayCall(tool, deed.arguments)
  const back = way.kind === 'exact' || way.kind === 'approximate' ? `: ${way.description}` : ''
  const said = how === 'not at all' ? `: ${why}` : `${back}${why === undefined ? '' : ` (${why})`}`
  const lines = [`${timeText(startedAt)}  ${principal.id}  ${upstream}  ${call}`, `    ${how}${said}`]
  return lines.map(oneLine).join('\n')
}

/** How many of them can be undone how well, in one sentence. */
export function countText(chosen: readonly Chosen[]): string {
  const count = (how: Chosen['how']): number => chosen.filter((each) => each.how === how).length
  return `Of ${chosen.length}, ${count('exactly')} can be undone exactly, ${count('approximately')} approximately, ${count('not at all')} not at all.`
}

/** What became of it, for people. */
export function undoneText({ chosen: { deed }, error }: Undone): string {
  const { startedAt, upstream, tool } = deed
  const what = `${timeText(startedAt)}  ${upstream}  ${tool}`
  return oneLine(error === undefined ? `undone      ${what}` : `not undone  ${what}: ${error}`)
}

/** The same for programs. */
export function chosenView({ deed, how, why }: Chosen): Readonly<Record<string, unknown>> {
  const { key, startedAt, principal, session, upstream, tool, transaction, status, way } = deed
  const isThere = way.kind === 'exact' || way.kind === 'approximate'
  return {
    key,
    at: new Date(startedAt).toISOString(),
    principal: principal.id,
    ...(session !== undefined && { session }),
    upstream,
    tool,
    arguments: deed.arguments,
    ...(transaction !== undefined && { transaction }),
    status,
    undo: how.replaceAll(' ', '_'),
    ...(why !== undefined && { reason: why }),
    ...(isThere && how !== 'not at all' && { call: { tool: way.tool, arguments: way.arguments } }),
  }
}
