/** The first page of the console: what was called, newest first, with a search, and plots of rates and durations. */
import type { CallEnd, LoggedCall } from '../../core/logged-call.ts'
import type { CallLog, FoundCalls } from '../../records/call-log.ts'
import { readQuery } from '../../records/call-query.ts'
import type { Pause, PauseState } from '../../records/pause.ts'
import { type CallRates, type CallSums, MINUTE_MS, seriesOf } from '../../records/call-rates.ts'
import { asGatewayError, GatewayError } from '../../core/error.ts'
import { countText } from '../../core/text/words.ts'
import type { ConsoleAnswer, ConsolePage, ConsoleRequest } from './console.ts'
import { textField } from './page-entry.ts'
import { hasRole, type PageUser } from './page-users.ts'
import { agoHtml, displayWord, html, type Html, timeHtml } from './html.ts'
import { type NeedsKinds, needsCount } from './needs-page.ts'
import { durationText, latencyPlot, longest, ratePlot, summaryOf } from './plot.ts'

/** What the pages about calls need of the gateway. */
export interface CallLogs {
  /** The log of calls; undefined where calls are not logged. */
  calls(): CallLog | undefined
  /** How many calls there were; undefined where calls are not logged. */
  rates(): CallRates | undefined
}

/** What an owner has to know first. */
export interface Overview {
  /** What needs the reader; undefined if that is not known. */
  readonly needs: NeedsKinds | undefined
  readonly servers: readonly ServerState[]
  /** The pause of writes; undefined if writes are not paused, `off` if they cannot be. */
  readonly pause: PauseState | undefined | 'off'
}

interface ServerState {
  readonly name: string
  readonly state: 'ready' | 'starting' | 'unavailable'
  /** Why it is unavailable. */
  readonly problem?: string | undefined
}

export interface TimelineOptions extends CallLogs {
  overview(user: PageUser): Promise<Overview>
  /** Pauses and resumes writes for all gateways of the store; both are audited. */
  pause(): Pick<Pause, 'pause' | 'resume'>
}

/** How many calls are on one page. */
const PAGE_CALLS = 100

const HOUR_MS = 60 * MINUTE_MS
/** The times that plots show, by name, and how many bars they have. */
const ranges = {
  '1h': { label: 'Last hour', length: HOUR_MS, parts: 60, part: 'a minute' },
  '24h': { label: 'Last 24 hours', length: 24 * HOUR_MS, parts: 96, part: 'in 15 minutes' },
  '7d': { label: 'Last 7 days', length: 7 * 24 * HOUR_MS, parts: 168, part: 'an hour' },
} as const
type Range = keyof typeof ranges

/** `/console`. */
export function timelinePage(options: TimelineOptions): ConsolePage {
  return {
    path: '/console',
    title: 'Timeline',
    place: 'Timeline',
    roles: ['viewer'],
    topics: ['calls', 'overview'],
    width: 'wide',
    answer: (request) => answer(request, options),
    actions: {
      pause: {
        role: 'operator',
        done: 'Writes are paused. All gateways of the store know it. What runs finishes, and undo still works.',
        run: async ({ user }, fields) => {
          const reason = textField(fields, 'reason')
          await options.pause().pause({ by: user.by, via: user.via, ...(reason !== undefined && { reason }) })
          return undefined
        },
      },
      resume: {
        role: 'operator',
        done: 'Writes are allowed again.',
        run: async ({ user }) => {
          await options.pause().resume({ by: user.by, via: user.via })
          return undefined
        },
      },
    },
  }
}

/** What is read of the log of calls. */
interface Logged {
  readonly found: FoundCalls
  readonly series: readonly CallSums[]
}

interface Timeline {
  readonly overview: Overview
  readonly query: string
  /** What is wrong with the query. */
  readonly problem?: string
  readonly range: Range
  /** Undefined while the store does not respond. */
  readonly logged: Logged | undefined
  /** Whether it begins with older calls than the newest. */
  readonly isLater: boolean
}

async function answer(
  request: ConsoleRequest,
  { calls, rates, overview }: TimelineOptions,
): Promise<ConsoleAnswer> {
  const { query: given, now, user } = request
  const log = calls()
  if (!log) return offAnswer
  const query = given.get('q') ?? ''
  const before = given.get('before') ?? undefined
  const chosen = given.get('range') ?? ''
  const range: Range = Object.hasOwn(ranges, chosen) ? (chosen as Range) : '1h'
  const read = readQuery(query, now)
  const isWrong = 'problem' in read
  const reading = Promise.all([
    isWrong ? none : log.search(read, PAGE_CALLS, before),
    seriesFor(rates(), range, now),
  ]).then(([found, series]): Logged => ({ found, series }), silenceOfStore)
  const [logged, state] = await Promise.all([reading, overview(user)])
  const isSilent = logged instanceof GatewayError
  const timeline: Timeline = {
    overview: state,
    query,
    ...(isWrong && { problem: read.problem }),
    range,
    logged: isSilent ? undefined : logged,
    isLater: before !== undefined,
  }
  return {
    content: () => timelineHtml(timeline, request),
    json: () => {
      if (isWrong) throw new GatewayError('INVALID_INPUT', read.problem, { field: 'q' })
      if (isSilent) throw logged
      const { found } = logged
      return {
        calls: found.calls.map(({ call }) => call),
        ...(found.next !== undefined && { next: found.next }),
      }
    },
    status: isWrong ? 400 : 200,
  }
}

const none: FoundCalls = { calls: [] }

/** The error of a store that does not respond. @throws any other error */
function silenceOfStore(error: unknown): GatewayError {
  const known = asGatewayError(error)
  if (known.code === 'SERVER_UNAVAILABLE') return known
  throw known
}

/** The sums of the parts of a range that ends now; `server` counts the calls of one server. */
async function seriesFor(
  rates: CallRates | undefined,
  range: Range,
  now: number,
  server?: string,
): Promise<readonly CallSums[]> {
  const { length, parts } = ranges[range]
  const part = length / parts
  const until = now - (now % part) + part
  const from = until - length
  return seriesOf((await rates?.since(from)) ?? [], { from, until, parts, server })
}

const offAnswer: ConsoleAnswer = {
  content: () => html`<h1>Timeline</h1>
    <p>Calls are not logged. To see them here, remove <code>calls: off</code> under <code>observe</code> in the configuration.</p>`,
  json: () => ({ calls: [] }),
}

function timelineHtml(timeline: Timeline, request: ConsoleRequest): Html {
  const { root, now } = request
  const { query, problem, logged, isLater } = timeline
  const next = logged?.found.next
  return html`<div class="timeline"><h1>Timeline</h1>
    ${!isLater && html`${overviewHtml(timeline, request)}${logged && plotsHtml(timeline, logged.series, root)}`}
    <form class="search" role="search" method="get" action="${root}console">
      <label for="q">Find calls</label>
      <input id="q" name="q" type="search" maxlength="500" autocomplete="off" autocapitalize="none" spellcheck="false" value="${query}" aria-describedby="q-help"${problem !== undefined && html` aria-invalid="true"`} />
      <button>Find</button>
    </form>
    ${problem !== undefined && html`<p class="notice" role="alert">${problem}</p>`}
    <p id="q-help" class="size">
      Words, and <code>tool:</code> <code>server:</code> <code>user:</code> <code>status:</code> (ok, failed, denied, asked)
      <code>since:1h</code> <code>duration&gt;500ms</code>.
      ${(['status:failed', 'status:denied', 'kind:write', 'duration>1s'] as const).map((each) => html`<a href="${root}console?q=${encodeURIComponent(each)}">${each}</a> `)}
      ${query !== '' && html`<a href="${root}console">Show all</a>`}
    </p>
    ${logged ? callsHtml(timeline, logged.found, { root, now }) : html`<p class="notice">Calls cannot be shown now: the store does not respond.</p>`}
    ${
      next !== undefined &&
      html`<p><a class="button" rel="next" href="${root}console?${new URLSearchParams({ q: query, before: next }).toString()}">Older calls</a></p>`
    }</div>`
}

/** What happened last, what needs the reader, which server is not well, and how to stop it. */
function overviewHtml({ overview, logged, query }: Timeline, request: ConsoleRequest): Html {
  const { root, now } = request
  const { needs, servers, pause } = overview
  const ill = servers.filter(({ state }) => state !== 'ready')
  const count = needsCount(needs)
  const waiting =
    count === undefined
      ? html`It is not known: the store does not respond.`
      : count === 0
        ? html`Nothing waits for you.`
        : html`<a href="${root}console/needs"><strong>${count}</strong> ${count === 1 ? 'thing waits' : 'things wait'} for you</a>`
  return html`<div class="cards" id="overview" data-live="overview needs">
      ${query === '' && logged && lastHtml(logged.found, root, now)}
      <section class="card${needs !== undefined && needs.length > 0 && ' asks'}" aria-labelledby="card-needs"><h2 id="card-needs">Needs you</h2><p>${waiting}</p>
        ${needs !== undefined && needs.length > 0 && html`<ul>${needs.map(([kind, length]) => html`<li>${countText(length, kind)}</li>`)}</ul>`}</section>
      <section class="card${ill.length > 0 && ' ill'}" aria-labelledby="card-servers"><h2 id="card-servers">Servers</h2>
        <p><a href="${root}console/servers">${servers.length - ill.length} of ${servers.length} ready</a></p>
        ${ill.length > 0 && html`<ul>${ill.map((server) => serverHtml(server, root))}</ul>`}</section>
      ${pause !== 'off' && pauseHtml(pause, request)}
    </div>`
}

/** The newest calls, in a few words. */
function lastHtml({ calls }: FoundCalls, root: string, now: number): Html {
  const rows = calls.slice(0, 3).map(({ call }) => {
    const { id, end } = call
    return html`<li><a href="${root}console/calls/${encodeURIComponent(id)}">${subjectHtml(call)}</a> ${endHtml(end)}</li>`
  })
  const [newest] = calls
  return html`<section class="card" aria-labelledby="card-last"><h2 id="card-last">Happened last</h2>
      <div id="last" data-live="calls">${newest ? html`<p class="ago">${agoHtml(newest.call.at, now)}</p><ul>${rows}</ul>` : html`<p>No calls yet.</p>`}</div></section>`
}

/** Whether writes are paused, and for an operator the button that changes it. */
function pauseHtml(pause: PauseState | undefined, { user, tokenField, root, now }: ConsoleRequest): Html {
  const form = (action: string, content: Html): Html | false =>
    hasRole(user, 'operator') &&
    html`<form method="post" action="${root}console">${tokenField}<input type="hidden" name="action" value="${action}" />${content}</form>`
  if (!pause)
    return html`<section class="card" aria-labelledby="card-writes"><h2 id="card-writes">Writes</h2><p>Allowed.</p>
      ${form('pause', html`<label for="pause-reason">Reason (optional)</label><div class="inline"><input id="pause-reason" name="reason" maxlength="500" autocomplete="off" /><button class="stop">Pause writes</button></div>`)}</section>`
  const { by, since, until, reason } = pause
  return html`<section class="card stopped" aria-labelledby="card-writes"><h2 id="card-writes">Writes</h2>
    <p><strong>Paused</strong> by ${displayWord(by)}, ${agoHtml(since, now)}${until !== undefined && html`, until ${timeHtml(until)}`}.${reason !== undefined && html` ${displayWord(reason)}`}</p>
    <p class="about">Every call that is not known to read is refused.</p>
    ${form('resume', html`<button>Resume writes</button>`)}</section>`
}

function serverHtml({ name, state, problem }: ServerState, root: string): Html {
  return html`<li><a href="${root}console/servers/${encodeURIComponent(name)}">${displayWord(name)}</a> <span class="state ${state}">${state}</span>${problem !== undefined && html`<span class="about">${problem}</span>`}</li>`
}

function plotsHtml({ range, query }: Timeline, series: readonly CallSums[], root: string): Html {
  const links = Object.entries(ranges).map(([name, { label }]) => {
    const url = `${root}console?${new URLSearchParams({ q: query, range: name }).toString()}`
    return html`<li><a href="${url}"${name === range && html` aria-current="true"`}>${label}</a></li>`
  })
  return html`<section class="plots" aria-labelledby="rates" id="plots" data-live="calls">
      <div class="row"><h2 id="rates">${ranges[range].label}</h2><ul class="ranges" aria-label="Time of the plots">${links}</ul></div>
      ${figuresHtml(series, range)}
    </section>`
}

/** The plots of the calls of one server in the last day. */
export async function serverPlots(rates: CallRates, server: string, now: number): Promise<Html> {
  const range = '24h'
  const series = await seriesFor(rates, range, now, server)
  return html`<section aria-labelledby="rates"><h2 id="rates">${ranges[range].label}</h2>${figuresHtml(series, range)}</section>`
}

function figuresHtml(series: readonly CallSums[], range: Range): Html {
  const { label, part } = ranges[range]
  const summary = summaryOf(series)
  const most = Math.max(0, ...series.map(({ calls }) => calls))
  return html`<p>${summary}</p>
    <div class="pair">
      <figure>${ratePlot(series, `${label}: calls. ${summary}`)}<figcaption><span>Calls, at most ${most} ${part}:</span> <span class="key good">done</span> <span class="key held">denied</span> <span class="key bad">failed</span></figcaption></figure>
      <figure>${latencyPlot(series, `${label}: durations. ${summary}`)}<figcaption><span>Durations, up to ${durationText(longest(series))}:</span> <span class="key median">half of the calls</span> <span class="key tail">95 %</span></figcaption></figure>
    </div>`
}

/** Only the newest calls follow what happens: an older page stays as it is. */
function callsHtml(
  { query, isLater }: Timeline,
  found: FoundCalls,
  { root, now }: Pick<ConsoleRequest, 'root' | 'now'>,
): Html {
  const title = isLater ? 'Older calls' : query === '' ? 'Calls' : 'Calls found'
  const rows = found.calls.map(({ call }) => rowHtml(call, root, now))
  const list =
    rows.length === 0
      ? html`<p>${query === '' ? 'No calls yet. They appear here as clients make them.' : 'No call matches.'}</p>`
      : html`<ol class="calls">${rows}</ol>`
  return html`<section aria-labelledby="calls-title"><h2 id="calls-title">${title}</h2>
    <div id="calls"${!isLater && html` data-live="calls"`}>${list}</div></section>`
}

function rowHtml(call: LoggedCall, root: string, now: number): Html {
  const { id, at, ms, end, code, who, client, in: sent, out = 0 } = call
  return html`<li class="call ${end}">
      <a id="call-${id}" href="${root}console/calls/${encodeURIComponent(id)}">${subjectHtml(call)}</a>
      <span class="end">${endHtml(end)}${code !== undefined && html` <code>${code}</code>`}</span>
      <span class="who-called">${displayWord(who)}${client !== undefined && html` · ${displayWord(client)}`}</span>
      <span class="took">${durationText(ms)}</span>
      <span class="bytes">${bytesText(sent + out)}</span>
      <span class="when">${agoHtml(at, now)}</span>
    </li>`
}

/** What was called: the tool and its server, or the method. */
export function subjectHtml({ server, name, method }: LoggedCall): Html {
  const what = name === undefined ? method : method === 'tools/call' ? name : `${method} ${name}`
  return html`<code class="name">${displayWord(what)}</code>${server !== undefined && html` <span class="about">on ${displayWord(server)}</span>`}`
}

const words: Readonly<Record<CallEnd, string>> = {
  ok: 'done',
  failed: 'failed',
  denied: 'denied',
  asked: 'asked a person',
  task: 'goes on as a task',
  dry_run: 'dry run',
}

/** How a call ended, as a word with a mark. */
export function endHtml(end: CallEnd): Html {
  return html`<span class="mark end-${end}">${words[end]}</span>`
}

/** A size in bytes, in the unit that is read best. */
export function bytesText(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`
  if (bytes < 1024 ** 2) return `${Math.round(bytes / 102.4) / 10} KB`
  return `${Math.round(bytes / 1024 ** 2 / 0.1) / 10} MB`
}
