/**
 * The section of the page for people that names the calls which wait for a person. It says who calls, which tool and
 * for how long, and links to the page where the call is decided. Arguments never stand here: that page shows them, to
 * those who may decide.
 */
import { escapeHtml as escape } from '../../core/web.ts'
import { counted } from './servers.ts'

/** A call that waits for the approval of a person. */
export interface WaitingCall {
  /** The id of its approval. */
  readonly id: string
  readonly tool: string
  readonly upstream: string
  /** Who made the call. */
  readonly caller: string
  /** For how long it waits, in milliseconds. */
  readonly age: number
  /** How long people have still to decide, in milliseconds. */
  readonly left: number
}

/** How many calls are listed; the others are on the page of approvals. */
const MAX_LISTED_CALLS = 10

/** The section as HTML, nothing where no call waits; `calls` is undefined where the store cannot be read. */
export function waitingCalls(calls: readonly WaitingCall[] | undefined): string {
  if (calls === undefined) return section('<p>They cannot be read now: the store does not answer.</p>', '')
  if (calls.length === 0) return ''
  const rows = calls.slice(0, MAX_LISTED_CALLS).map(
    ({ id, tool, upstream, caller, age, left }) =>
      `<li><a href="confirm/${encodeURIComponent(id)}"><bdi>${escape(tool)}</bdi> on <bdi>${escape(upstream)}</bdi></a>
<p>Called by <bdi>${escape(caller)}</bdi> ${duration(age)} ago; expires in ${duration(left)}.</p></li>`,
  )
  const others = calls.length - rows.length
  const more = others > 0 ? `<p><a href="confirm">${counted(others, 'call')} more</a></p>` : ''
  return section(`<ul>${rows.join('')}</ul>${more}`, ` (${calls.length})`)
}

function section(html: string, count: string): string {
  return `<section class="waiting" aria-labelledby="waiting"><h2 id="waiting">Calls that wait for approval${count}</h2>
${html}</section>`
}

function duration(milliseconds: number): string {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000))
  if (seconds < 120) return counted(seconds, 'second')
  const minutes = Math.floor(seconds / 60)
  return minutes < 120 ? counted(minutes, 'minute') : counted(Math.floor(minutes / 60), 'hour')
}
