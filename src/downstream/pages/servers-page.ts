/** `/console/servers`: the servers with their state, and a page for each with its tools, its contract and what can be done. */
import type { CallRates } from '../../records/call-rates.ts'
import { serverPlots } from './timeline.ts'
import type { ContractHistory, KeptChange } from '../../core/contract.ts'
import { type Risk, riskWords } from '../../core/descriptor.ts'
import { GatewayError } from '../../core/error.ts'
import { countText } from '../../core/text/words.ts'
import { ifAnswered, isoTime } from '../../core/time/waiting.ts'
import type { ConsoleAnswer, ConsolePage, ConsoleRequest } from './console.ts'
import { agoHtml, displayWord, html, type Html, linesHtml, spanText, timeHtml } from './html.ts'
import { type FormFields, textField } from './page-entry.ts'
import { hasRole, type PageUser } from './page-users.ts'

/** What is shown of servers, and done with them. Everything throws RESOURCE_NOT_FOUND for a server that is not configured. */
export interface ServersSource {
  list(): readonly ServerSummary[]
  /** The details of a server, as far as they can be read in time. */
  details(name: string, user: PageUser): Promise<ServerDetails>
  /** Ends all connections to a server, and opens a new one. */
  restart(name: string): Promise<void>
  drain(name: string, isDrained: boolean): void
  /** Cancels a running operation. @throws CONFLICT, RESOURCE_NOT_FOUND */
  cancel(key: string): Promise<void>
  /** Examines a server step by step. */
  examine(name: string, user: PageUser): Promise<readonly ExaminedStep[]>
  /** How many calls each server had, and how long they took; undefined where calls are not logged. */
  rates(): CallRates | undefined
  /** The gateways that share the store and serve clients over HTTP; undefined if the store does not say so in time. */
  gateways(): Promise<readonly ServingGateway[] | undefined>
}

/** A gateway, as it tells the others about itself. */
export interface ServingGateway {
  readonly id: string
  readonly isThis: boolean
  readonly host: string
  readonly pid: number
  readonly version: string
  readonly state: 'serving' | 'draining'
  /** When it started, in milliseconds since 1970. */
  readonly since: number
}

/** A server in the list. Times are milliseconds since 1970. */
export interface ServerSummary {
  readonly name: string
  readonly state: 'ready' | 'starting' | 'unavailable'
  /** Since when it is so; undefined before the first attempt. */
  readonly since?: number | undefined
  readonly isDrained: boolean
  readonly problem?: string | undefined
  readonly transport: string
  readonly revision?: string | undefined
  /** The revision on separate connections for older clients. */
  readonly olderRevision?: string | undefined
  readonly connections: number
  readonly processes: readonly number[]
  /** The gateway that runs it, if that is another one, as `gatehouse fleet list` names it. */
  readonly placedIn?: string | undefined
  readonly inFlight: number
  /** The last lines of its standard error, without secrets. */
  readonly lastLines: readonly string[]
  /** Why calls are refused, because it failed; undefined if they are not. */
  readonly breaker?: { readonly failures: number; readonly waitMs: number } | undefined
  readonly findings: readonly string[]
}

/** A server on its own page. */
export interface ServerDetails extends ServerSummary {
  /** The address or the command, without secrets. */
  readonly reach: string
  readonly isolation: string
  /** The calls that the page user has left, in words. */
  readonly limits: readonly string[]
  /** Its tools; why they cannot be listed. */
  readonly tools: readonly ToolFacts[] | { readonly problem: string }
  /** Why they may not be those of now. */
  readonly toolsNote?: string | undefined
  readonly operations: readonly RunningOperation[]
  readonly contract?: ContractHistory | undefined
}

/** A tool, and how it is judged. */
export interface ToolFacts {
  readonly name: string
  readonly title?: string | undefined
  readonly description?: string | undefined
  readonly risk: Risk
  /** Why it is judged so. */
  readonly evidence: readonly string[]
  /** How it is confirmed, undone and so on. */
  readonly facts: readonly (readonly [label: string, text: string])[]
  /** Whether a person is asked before a call: always, or if the call cannot be undone. */
  readonly asks?: 'always' | 'unless_undoable' | undefined
  /** How it differs from what was accepted, and whether it is held for that. */
  readonly unaccepted?: { readonly change: 'new' | 'changed'; readonly isHeld: boolean } | undefined
}

/** An operation that runs on the server. */
export interface RunningOperation {
  readonly key: string
  readonly name: string
  readonly tool: string
  readonly caller: string
  readonly startedAt: number
  readonly state: string
  readonly message?: string | undefined
}

/** A step of an examination. */
export interface ExaminedStep {
  readonly step: string
  readonly state: 'ok' | 'failed' | 'skipped'
  readonly note: string
  readonly fix?: string
  readonly duration_ms?: number
}

/** A text that differs once a server is in another state. */
export function serversVersion(servers: readonly ServerSummary[]): string {
  return JSON.stringify(servers)
}

/** The pages. */
export function serversPages(source: ServersSource): readonly ConsolePage[] {
  const roles = ['viewer'] as const
  const topics = ['servers']
  const list: ConsolePage = {
    path: '/console/servers',
    title: 'Servers',
    place: 'Servers',
    roles,
    topics,
    answer: async (request) => {
      const servers = source.list()
      const gateways = (await source.gateways()) ?? []
      return {
        content: () => html`${listContent(servers, request)}
${gateways.length > 1 && gatewaysHtml(gateways, request)}`,
        json: () => ({ servers: servers.map(summaryView), gateways: gateways.map(gatewayView) }),
      }
    },
  }
  const nameOf = ({ params }: ConsoleRequest): string => params['name'] ?? ''
  const order = (kind: 'restart' | 'drain' | 'undrain' | 'doctor') => (request: ConsoleRequest) => ({
    order: kind,
    upstream: nameOf(request),
  })
  const one: ConsolePage = {
    path: '/console/servers/:name',
    title: 'Server',
    roles,
    topics,
    answer: (request) => answered(source, request),
    actions: {
      restart: {
        role: 'operator',
        done: 'Its connections were ended, and a new one is opened.',
        order: order('restart'),
        run: async (request) => {
          await source.restart(nameOf(request))
          return undefined
        },
      },
      drain: {
        role: 'operator',
        done: 'It takes no calls any more. Calls in progress finish.',
        order: order('drain'),
        run: async (request) => {
          source.drain(nameOf(request), true)
          return undefined
        },
      },
      undrain: {
        role: 'operator',
        done: 'It takes calls again.',
        order: order('undrain'),
        run: async (request) => {
          source.drain(nameOf(request), false)
          return undefined
        },
      },
      cancel: {
        role: 'operator',
        done: 'The operation is cancelled. What the server had done until then stays done.',
        order: (_, fields) => ({ order: 'cancel', operation: textField(fields, 'operation') ?? '' }),
        run: async (_, fields) => {
          await source.cancel(keyOf(fields))
          return undefined
        },
      },
      doctor: {
        role: 'operator',
        order: order('doctor'),
        run: async (request) =>
          answered(source, request, await source.examine(nameOf(request), request.user)),
      },
    },
  }
  return [list, one]
}

function keyOf(fields: FormFields): string {
  const key = textField(fields, 'key')
  if (key !== undefined) return key
  throw new GatewayError('INVALID_INPUT', 'key is required.', { field: 'key' })
}

/** The worst first, so that a sick server is seen at once. */
const urgency: Readonly<Record<ServerSummary['state'], number>> = { unavailable: 0, starting: 1, ready: 2 }

function listContent(servers: readonly ServerSummary[], { root, now }: ConsoleRequest): Html {
  const ready = servers.filter(({ state }) => state === 'ready').length
  const sorted = servers.toSorted((one, other) => urgency[one.state] - urgency[other.state])
  return html`<h1>Servers</h1>
<div id="servers" data-live="servers">
<p class="lead">${countText(servers.length, 'server')}, ${ready === servers.length ? (ready === 1 ? 'ready' : 'all ready') : `${ready} ready`}</p>
<ul class="items">${sorted.map((server) => html`<li class="item">${summaryItem(server, { root, now })}</li>`)}</ul>
</div>`
}

function gatewaysHtml(gateways: readonly ServingGateway[], { now }: ConsoleRequest): Html {
  const item = ({ host, pid, version, state, since, isThis }: ServingGateway): Html =>
    html`<li class="item"><h3 class="title">${displayWord(host)} <span class="state ${state === 'serving' ? 'ready' : 'starting'}">${state}</span></h3>
<p class="facts"><span>process ${String(pid)}</span><span>version ${version}</span><span>for ${spanText(now - since)}</span>${isThis && html`<span>this one</span>`}</p></li>`
  return html`<h2>Gateways</h2>
<p class="lead">${countText(gateways.length, 'gateway')} with this store. What is above is of the one that answered.</p>
<ul class="items">${gateways.map(item)}</ul>`
}

function gatewayView({ id, isThis, host, pid, version, state, since }: ServingGateway): object {
  return { id, this: isThis, host, pid, version, state, since: isoTime(since) }
}

function summaryItem(server: ServerSummary, { root, now }: Pick<ConsoleRequest, 'root' | 'now'>): Html {
  const { name, problem, lastLines } = server
  return html`<h2 class="title"><a href="${root}console/servers/${encodeURIComponent(name)}">${displayWord(name)}</a> ${stateHtml(server)}</h2>
${problem !== undefined && html`<p>${problem}</p>`}
${problem !== undefined && lastLines.length > 0 && linesHtml(lastLines.join('\n'), `What ${name} wrote last`)}
<p class="facts">${summaryFacts(server, now).map((fact) => html`<span>${fact}</span>`)}</p>`
}

function stateHtml({ state, isDrained, breaker }: ServerSummary): Html {
  return html`<span class="state ${state}">${state}</span>
${isDrained && html` <span class="mark reversible">drained: takes no calls</span>`}
${breaker && html` <span class="mark destructive">calls paused after ${countText(breaker.failures, 'failure')}</span>`}`
}

function summaryFacts(server: ServerSummary, now: number): readonly Html[] {
  const { since, transport, revision, connections, processes, inFlight, findings } = server
  const facts = [
    since !== undefined && html`for ${spanText(now - since)}`,
    html`${transport}${revision !== undefined && `, MCP ${revision}`}`,
    connections > 0 && html`${countText(connections, 'connection')}`,
    processes.length > 0 && html`process ${processes.join(', ')}`,
    inFlight > 0 && html`${countText(inFlight, 'call')} in progress`,
    findings.length > 0 && html`${countText(findings.length, 'finding')}`,
  ]
  return facts.filter((fact) => fact !== false)
}

/** How long the store has to say how many calls there were, in milliseconds. */
const PLOTS_TIMEOUT_MS = 1500

async function answered(
  source: ServersSource,
  request: ConsoleRequest,
  steps?: readonly ExaminedStep[],
): Promise<ConsoleAnswer> {
  const name = request.params['name'] ?? ''
  const rates = source.rates()
  const [details, plots] = await Promise.all([
    source.details(name, request.user),
    // They are left out while the store does not respond.
    rates && ifAnswered(serverPlots(rates, name, request.now), PLOTS_TIMEOUT_MS),
  ])
  return {
    title: name,
    content: () => detailsContent(details, request, { steps, plots }),
    json: () => ({ ...detailsView(details), ...(steps && { steps }) }),
  }
}

interface Extras {
  readonly steps: readonly ExaminedStep[] | undefined
  readonly plots: Html | undefined
}

function detailsContent(details: ServerDetails, request: ConsoleRequest, { steps, plots }: Extras): Html {
  const { name, problem, lastLines, findings, contract } = details
  return html`<p class="back"><a href="${request.root}console/servers">All servers</a></p>
<div id="state" data-live="servers">
<h1>${displayWord(name)} ${stateHtml(details)}</h1>
${problem !== undefined && html`<p class="notice">${problem}</p>`}
${hasRole(request.user, 'operator') && actions(details, request)}
${factsOf(details, request)}
${lastLines.length > 0 && html`<h2>What it wrote last</h2>${linesHtml(lastLines.join('\n'), 'Standard error')}`}
${operationsHtml(details, request)}
</div>
${steps && stepsHtml(steps)}
${plots}
${findings.length > 0 && html`<h2>Findings in what it lists</h2><ul class="notes">${findings.map((each) => html`<li>${each}</li>`)}</ul>`}
${toolsHtml(details, request)}
${contract && contractHtml(contract)}`
}

function factsOf(details: ServerDetails, { now }: ConsoleRequest): Html {
  const { since, reach, transport, revision, olderRevision, isolation, connections, processes } = details
  const { inFlight, breaker, limits, placedIn } = details
  const rows: (readonly [string, Html | string | false])[] = [
    ['Since', since !== undefined && html`${timeHtml(since)} (${spanText(now - since)})`],
    ['Reached by', html`<code>${displayWord(reach)}</code>`],
    ['Transport', transport],
    ['Revision', revision ?? 'not known: it was never reached'],
    ['Older clients', olderRevision !== undefined && `${olderRevision}, on connections of their own`],
    ['Connections', `${connections} (isolation: ${isolation})`],
    ['Process', processes.length > 0 && processes.join(', ')],
    ['Runs in', placedIn !== undefined && `the gateway ${placedIn}`],
    ['In progress', inFlight > 0 && countText(inFlight, 'call')],
    [
      'Breaker',
      breaker ? `open: calls are refused for another ${Math.ceil(breaker.waitMs / 1000)} s` : 'closed',
    ],
    ['Calls left', limits.length > 0 && limits.join('; ')],
  ]
  return html`<dl>${rows.map(([label, text]) => text !== false && html`<dt>${label}</dt><dd>${text}</dd>`)}</dl>`
}

function actions({ isDrained, name }: ServerDetails, { tokenField, root }: ConsoleRequest): Html {
  const button = (action: string, label: string): Html =>
    html`<form method="post">${tokenField}<input type="hidden" name="action" value="${action}"><button>${label}</button></form>`
  return html`<div class="acts" role="group" aria-label="Actions">
${button('doctor', 'Check it step by step')}
${button('restart', 'Restart')}
${isDrained ? button('undrain', 'Let it take calls again') : button('drain', 'Drain')}
<a class="button" href="${root}console/try?server=${encodeURIComponent(name)}">Try a tool</a>
</div>
<p class="size">Restart ends its connections and processes; calls in progress end with an unknown outcome. Drain lets calls in progress finish, and takes no others until you undo it or the gateway restarts.</p>`
}

function operationsHtml(
  { operations }: ServerDetails,
  { user, tokenField, now }: ConsoleRequest,
): Html | false {
  const rows = operations.map(({ key, name, tool, caller, startedAt, state, message }) => {
    const cancel = html`<form method="post">${tokenField}<input type="hidden" name="action" value="cancel">
<input type="hidden" name="key" value="${key}"><input type="hidden" name="operation" value="${name}"><button>Cancel</button></form>`
    return html`<li class="item"><h3><code>${displayWord(tool)}</code></h3>
<p class="facts"><span>Called by ${displayWord(caller)}</span> <span>${agoHtml(startedAt, now)}</span> <span>${state.replaceAll('_', ' ')}</span></p>
${message !== undefined && html`<p>${message}</p>`}${hasRole(user, 'operator') && html`<div class="acts">${cancel}</div>`}</li>`
  })
  return rows.length > 0 && html`<h2>Operations that run</h2><ul class="items">${rows}</ul>`
}

function stepsHtml(steps: readonly ExaminedStep[]): Html {
  const failed = steps.find(({ state }) => state === 'failed')
  const rows = steps.map(
    ({
      step,
      state,
      note,
      fix,
      duration_ms: ms,
    }) => html`<li><span class="mark ${marks[state]}">${state}</span>
<div><strong>${step}</strong> ${note}${ms !== undefined && ` (${ms} ms)`}${fix !== undefined && html`<p class="next">${fix}</p>`}</div></li>`,
  )
  return html`<section aria-labelledby="steps" class="item" role="status"><h2 id="steps">${failed ? `It fails at: ${failed.step}` : 'Every step works'}</h2>
<ol class="steps">${rows}</ol></section>`
}

const marks: Readonly<Record<ExaminedStep['state'], string>> = {
  ok: 'safe',
  failed: 'destructive',
  skipped: '',
}

function toolsHtml({ tools, toolsNote, name }: ServerDetails, { root }: ConsoleRequest): Html {
  if ('problem' in tools)
    return html`<h2>Tools</h2><p class="about">They cannot be listed now. ${tools.problem}</p>`
  const rows = tools.map((tool, index) =>
    toolHtml(tool, `${root}console/try?${tryQuery(name, tool.name)}`, index),
  )
  return html`<h2>Tools <span class="count">${tools.length}</span></h2>
${toolsNote !== undefined && html`<p class="notice">${toolsNote}</p>`}
${tools.length === 0 ? html`<p class="about">It lists none.</p>` : html`<ul class="tools">${rows}</ul>`}`
}

function tryQuery(server: string, tool: string): string {
  return new URLSearchParams({ server, tool }).toString()
}

function toolHtml(tool: ToolFacts, url: string, index: number): Html {
  const { name, title, description, risk, evidence, facts, asks, unaccepted } = tool
  return html`<li class="tool"><details id="tool-${index}"><summary><code class="name">${displayWord(name)}</code>${title !== undefined && html` <span class="also">${displayWord(title)}</span>`}
<span class="marks"><span class="mark ${risk}">${riskWords[risk]}</span>${asks && html` <span class="mark asked">${asks === 'always' ? 'asks first' : 'asks unless undoable'}</span>`}${
    unaccepted &&
    html` <span class="mark destructive">${unaccepted.change}${unaccepted.isHeld && ', held'}</span>`
  }</span></summary>
<div class="inside">${description !== undefined && html`<p class="description">${description}</p>`}
<h3>Why it is judged ${riskWords[risk]}</h3>
<ul class="notes">${evidence.map((each) => html`<li>${each}</li>`)}</ul>
<dl>${facts.map(([label, text]) => html`<dt>${label}</dt><dd>${text}</dd>`)}</dl>
<p><a href="${url}">Try it</a></p></div></details></li>`
}

/** How many versions of a contract are shown. */
const MAX_VERSIONS = 10

const signs: Readonly<Record<KeptChange['kind'], string>> = {
  added: '+',
  removed: '-',
  changed: '~',
  deprecated: '!',
}

function contractHtml({ versions }: ContractHistory): Html {
  const rows = versions.slice(0, MAX_VERSIONS).map(({ version, at, changes, more }) => {
    const level = changes.some((change) => change.level === 'major')
      ? html` <span class="mark destructive">may break clients</span>`
      : false
    const lines = changes.map(({ kind, subject, text }) => `${signs[kind] ?? '~'} ${subject} ${text}`)
    if (more !== undefined) lines.push(`… and ${more} more`)
    return html`<li class="item"><h3>${version}${level}</h3><p class="facts"><span>${timeHtml(at)}</span></p>
${lines.length === 0 ? html`<p class="about">The first version.</p>` : linesHtml(lines.join('\n'), `Changes of ${version}`)}</li>`
  })
  return html`<h2>Changes of its contract</h2><ul class="items">${rows}</ul>`
}

/** A server in the list, for programs. */
export function summaryView(server: ServerSummary): Readonly<Record<string, unknown>> {
  const { name, state, since, isDrained, problem, transport, revision, connections, processes } = server
  return {
    name,
    state,
    ...(since !== undefined && { since: isoTime(since) }),
    drained: isDrained,
    problem,
    transport,
    revision,
    connections,
    processes,
    in_flight: server.inFlight,
    stderr: server.lastLines,
    breaker: server.breaker && { failures: server.breaker.failures, wait_ms: server.breaker.waitMs },
    findings: server.findings,
  }
}

function detailsView(details: ServerDetails): Readonly<Record<string, unknown>> {
  const { reach, isolation, limits, tools, toolsNote, operations, contract } = details
  return {
    ...summaryView(details),
    reached_by: reach,
    isolation,
    limits,
    tools,
    tools_note: toolsNote,
    operations: operations.map(({ startedAt, ...each }) => ({ ...each, started_at: isoTime(startedAt) })),
    contract: contract?.versions,
  }
}
