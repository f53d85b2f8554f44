/**
 * The story of one call: how it ended and why, which features it passed, whose time it took, what it was called with and
 * what came back where that is kept, its transaction and its undo, and commands that repeat it.
 */
import { GatewayError } from '../../core/error.ts'
import { isObject, readJson } from '../../core/json/json.ts'
import type { LoggedCall, Span } from '../../core/logged-call.ts'
import { latestModern } from '../../core/revisions.ts'
import { shellWord } from '../../core/text/command-line.ts'
import type { CallContent } from '../../records/call-log.ts'
import type { ConsoleAnswer, ConsolePage, ConsoleRequest } from './console.ts'
import { displayJson, displayWord, html, type Html, linesHtml, timeHtml } from './html.ts'
import { type Bar, durationText, waterfall } from './plot.ts'
import { bytesText, endHtml, subjectHtml, type CallLogs } from './timeline.ts'

/** A feature that a call passed, that ended it, or that it did not reach. */
export interface Gate {
  readonly feature: string
  /** What it is for: a sentence. */
  readonly about: string
  readonly outcome: 'passed' | 'ended' | 'not_reached'
  readonly reasons: readonly string[]
}

/** What became of the action of a call. */
export interface ActionState {
  /** How it can be undone, or why it cannot; or that it is undone: a sentence. */
  readonly text: string
  /** Whether a rewind to right before it would undo it. */
  readonly canRewind: boolean
}

/** A call of a tool that can be made again. */
interface ToolCall {
  readonly tool: string
  /** Undefined if they are not kept. */
  readonly arguments: Readonly<Record<string, unknown>> | undefined
  readonly isError: boolean
}

export interface CallStoryOptions extends CallLogs {
  /** The gates of a call, by the present configuration. */
  gates(call: LoggedCall): Promise<readonly Gate[]>
  /** What became of an action; undefined if it is not known any more. */
  action(key: string): Promise<ActionState | undefined>
  /** The URL of the endpoint of a server. */
  endpoint(server: string): string
  /** The text of a test file that makes the call of a tool. */
  test(call: ToolCall): Promise<string>
}

/** `/console/calls/:id`. */
export function callPage(options: CallStoryOptions): ConsolePage {
  return {
    path: '/console/calls/:id',
    title: 'Call',
    roles: ['viewer'],
    width: 'wide',
    answer: (request) => answer(request, options),
  }
}

interface Story {
  readonly call: LoggedCall
  readonly content: CallContent
  readonly gates: readonly Gate[]
  readonly action?: ActionState | undefined
  /** Texts that make the call again, with their labels. */
  readonly copies: readonly (readonly [label: string, text: string])[]
}

async function answer({ params, root }: ConsoleRequest, options: CallStoryOptions): Promise<ConsoleAnswer> {
  const log = options.calls()
  const call = await log?.find(params['id'] ?? '')
  if (!log || !call)
    throw new GatewayError('RESOURCE_NOT_FOUND', 'This call is not in the log of calls: it may be too old.')
  const { action: key } = call
  const [content, gates, action] = await Promise.all([
    log.contentOf(call.id),
    options.gates(call),
    key === undefined ? undefined : options.action(key),
  ])
  const story: Story = { call, content, gates, action, copies: await copiesOf(call, content, options) }
  return {
    content: () => storyHtml(story, root),
    json: () => ({ ...call, content, gates, undo: action?.text }),
  }
}

function storyHtml(story: Story, root: string): Html {
  const { call, gates } = story
  const { at, ms, end, code, reason, who, client, method, op, in: sent, out, trace } = call
  const rows: readonly (readonly [string, Html | undefined])[] = [
    ['Ended', html`${endHtml(end)}${code !== undefined && html` <code>${code}</code>`}`],
    ['Reason', reason === undefined ? undefined : html`${reason}`],
    ['At', timeHtml(at)],
    ['Took', html`${durationText(ms)}`],
    ['Caller', displayWord(who)],
    ['Client', client === undefined ? undefined : html`${displayWord(client)}, by its own account`],
    ['Method', html`<code>${method}</code>`],
    ['Kind', op === undefined ? undefined : html`${op}`],
    ['Size', html`${bytesText(sent)} in${out !== undefined && html`, ${bytesText(out)} out`}`],
    ['Request id', html`<code>${displayWord(call.id)}</code>`],
    ['Trace', trace === undefined ? undefined : html`<code>${displayWord(trace)}</code>`],
  ]
  return html`<nav aria-label="Breadcrumb"><a href="${root}console">Timeline</a></nav>
    <h1>${subjectHtml(call)}</h1>
    <dl>${rows.map(([name, value]) => value && html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>
    ${timeOfHtml(call)}
    ${gatesHtml(gates)}
    ${contentHtml(story.content)}
    ${relatedHtml(story, root)}
    ${copiesHtml(story)}`
}

/** The gateway, the server and people, each with its parts of the time. */
function timeOfHtml({ ms, spans }: LoggedCall): Html {
  const parts = (Array.isArray(spans) ? spans : []).filter(isSpan)
  const bars: Bar[] = [
    { kind: 'gateway', start: 0, ms },
    ...parts.map(([kind, start, length]) => ({ kind, start, ms: length })),
  ]
  const sum = (kind: Bar['kind']): number =>
    parts.reduce((total, [each, , length]) => total + (each === kind ? length : 0), 0)
  const [server, people] = [sum('server'), sum('people')]
  const own = Math.max(0, ms - server - people)
  const text = `The gateway took ${durationText(own)}, the server ${durationText(server)}, people ${durationText(people)}.`
  return html`<section aria-labelledby="time"><h2 id="time">Whose time</h2>
    <figure class="waterfall">${waterfall(bars, ms, text)}<figcaption><span class="key gateway">gateway</span> <span class="key server">server</span> <span class="key people">people</span></figcaption></figure>
    <p>${text}</p></section>`
}

function isSpan(value: unknown): value is Span {
  return Array.isArray(value) && typeof value[1] === 'number' && typeof value[2] === 'number'
}

const outcomes: Readonly<Record<Gate['outcome'], string>> = {
  passed: 'passed',
  ended: 'ended the call',
  not_reached: 'not reached',
}

function gatesHtml(gates: readonly Gate[]): Html | false {
  if (gates.length === 0) return false
  const rows = gates.map(
    ({ feature, about, outcome, reasons }) => html`<li class="gate ${outcome}">
        <span class="name">${feature.replaceAll('_', ' ')}</span> <span class="outcome">${outcomes[outcome]}</span>
        <span class="about">${about}</span>
        ${reasons.map((reason) => html`<span class="reason">${reason}</span>`)}
      </li>`,
  )
  return html`<section aria-labelledby="gates"><h2 id="gates">What it passed</h2>
    <p class="size">From the outermost to the server. What the call did is recorded; the rest is from the present configuration.</p>
    <ol class="gates">${rows}</ol></section>`
}

function contentHtml({ arguments: given, result }: CallContent): Html {
  if (given === undefined && result === undefined)
    return html`<section aria-labelledby="content-title"><h2 id="content-title">Arguments and result</h2>
      <p class="about">They are not kept. To keep them for a day, with secrets masked, set <code>observe.calls.keep</code> to <code>arguments</code> or <code>results</code> in the configuration.</p></section>`
  return html`<section aria-labelledby="content-title"><h2 id="content-title">Arguments and result</h2>
    ${given !== undefined && html`<h3>Arguments</h3>${displayJson(pretty(given), 'Arguments')}`}
    ${result !== undefined && html`<h3>Result</h3>${displayJson(pretty(result), 'Result')}`}</section>`
}

/** JSON with line breaks; a text that was cut is no JSON, and stays as it is. */
function pretty(text: string): string {
  const value = readJson(text)
  return value === undefined ? text : JSON.stringify(value, null, 2)
}

function relatedHtml({ call, action }: Story, root: string): Html | false {
  const facts = isObject(call.facts) ? call.facts : {}
  const { transaction, approval } = facts
  const rows = [
    typeof transaction === 'string' &&
      html`<dt>Transaction</dt><dd><a href="${root}console?q=${encodeURIComponent(`"${transaction}"`)}">${displayWord(transaction)}</a></dd>`,
    typeof approval === 'string' &&
      html`<dt>Approval</dt><dd><a href="${root}confirm/${encodeURIComponent(approval)}">${displayWord(approval)}</a></dd>`,
    call.action !== undefined &&
      html`<dt>Undo</dt><dd>${action?.text ?? 'The gateway does not know the action any more.'}${action?.canRewind && html` <a href="${root}console/rewind?from=${encodeURIComponent(call.action)}">Undo it and what came after</a>`}</dd>`,
  ].filter((row) => row !== false)
  return (
    rows.length > 0 &&
    html`<section aria-labelledby="related"><h2 id="related">What belongs to it</h2><dl>${rows}</dl></section>`
  )
}

function copiesHtml({ content, copies }: Story): Html | false {
  if (copies.length === 0) return false
  return html`<section aria-labelledby="again"><h2 id="again">Make it again</h2>
    ${content.arguments === undefined && html`<p class="about">Its arguments are not kept: fill them in.</p>`}
    ${copies.map(([label, text]) => html`<details><summary>Copy as ${label}</summary>${linesHtml(text, `As ${label}`)}</details>`)}</section>`
}

/** A request, a command and a test that make a call of a tool again. */
async function copiesOf(
  { method, name, server, end }: LoggedCall,
  content: CallContent,
  { endpoint, test }: CallStoryOptions,
): Promise<Story['copies']> {
  if (method !== 'tools/call' || name === undefined || server === undefined) return []
  const value = content.arguments === undefined ? undefined : readJson(content.arguments)
  const known = isObject(value) ? value : undefined
  const given = known ?? {}
  const isError = end !== 'ok'
  return [
    ['curl', curlOf(endpoint(server), { name, arguments: given })],
    ['gatehouse call', `gatehouse call ${[server, name, JSON.stringify(given)].map(shellWord).join(' ')}`],
    ['test', await test({ tool: name, arguments: known, isError })],
  ]
}

/** A request of the stateless revision, which needs no handshake. */
function curlOf(url: string, params: { readonly name: string; readonly arguments: object }): string {
  const meta = {
    'io.modelcontextprotocol/protocolVersion': latestModern.name,
    'io.modelcontextprotocol/clientCapabilities': {},
  }
  const body = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { ...params, _meta: meta } }
  const headers = [
    'content-type: application/json',
    'accept: application/json, text/event-stream',
    `mcp-protocol-version: ${latestModern.name}`,
    'mcp-method: tools/call',
    `mcp-name: ${params.name}`,
  ]
  const options = headers.flatMap((header) => ['-H', header])
  return ['curl', url, ...options, '--data', JSON.stringify(body)].map(shellWord).join(' ')
}
